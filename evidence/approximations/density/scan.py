r"""A scan along one parameter whose likelihood has many narrow peaks: a periodogram of any model.

A few draws that few of the prior's are better than take every value of a fine grid of the
parameter in turn, in equal steps of prior probability; what a value gains over the median of the
grid is its own, whatever else the draw has. Where one of them gains most, further draws are given
that value, and climbs begin at the best.

With a grid of G values, a peak is met by two of them where it holds 2/G of the parameter's prior:
of periods between 1.25 and 10⁴ days, log-uniform, one of 3 days in data over 600 days holds
:math:`P/T / \log(10^4/1.25) = 1/1800`.

Reference: N. R. Lomb, Astrophysics and Space Science 39 (1976) 447.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ...numerics.arrays import Array
from ...statistics.resampling import systematic
from .cloud import Cloud


def scan(
    cloud: Cloud, at: int, log_w: Array, rng: np.random.Generator, n: int, most: int,
    bases: int = 8, tried: int = 48, more: int = 32,
) -> Array:  # fmt: skip
    """The best points at peaks along coordinate ``at``, of which n values are looked at, the
    highest first and no more than ``most``; ``log_w`` are weights of the cloud's points.

    So many of these as ``bases`` says take all values; at the ``tried`` best ``more`` are asked.
    """
    points, w = cloud.z[cloud.kept], np.exp(log_w - log_w.max())
    grid = ndtri((np.arange(n) + rng.random()) / n)
    gains = np.full(grid.size, -np.inf)
    for base in points[systematic(w, rng, bases)]:
        value = _at_values(cloud, np.tile(base, (grid.size, 1)), at, grid)
        some = np.isfinite(value)
        if some.any():
            gains = np.fmax(gains, value - np.median(value[some]))
    left, right = np.append(-np.inf, gains[:-1]), np.append(gains[1:], -np.inf)
    peaks = np.flatnonzero((gains >= left) & (gains > right))
    peaks = peaks[np.argsort(-gains[peaks], kind="stable")][: min(tried, 1 + n // bases)]
    if not peaks.size:
        return points[:0]
    further = np.tile(points[systematic(w, rng, more)], (peaks.size, 1))
    value = _at_values(cloud, further, at, np.repeat(grid[peaks], more))
    best = value.reshape(-1, more).argmax(axis=1) + more * np.arange(peaks.size)
    return further[best[np.argsort(-value[best], kind="stable")][:most]]


def _at_values(cloud: Cloud, points: Array, at: int, values: Array) -> Array:
    """log p of points once they have been given these values, -inf where it is not a number."""
    points[:, at] = values
    return cloud.log_p(points)
