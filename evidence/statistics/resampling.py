r"""Resampling schemes: which particles survive.

Every scheme maps M weights to ``size`` ancestors (M of them by default), in ascending order,
such that particle i has on average :math:`\mathrm{size}\,w_i / \sum_j w_j` offspring: estimates
stay unbiased, and a weight of zero has none. They differ in the variance they add.

References
----------
R. Douc, O. Cappé and E. Moulines, Comparison of resampling schemes for particle filtering,
ISPA 2005, 64–69.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..numerics.arrays import Array, Indices

Ancestors = Indices


def systematic(weights: Array, rng: np.random.Generator, size: int | None = None) -> Ancestors:
    """Ancestors with expected counts proportional to ``weights``, from one uniform.

    Counts differ from their expectation by less than one; neighbours are as far apart as can
    be, so the order of the particles matters.

    >>> systematic(np.array([0.0, 1.0, 1.0, 2.0]), np.random.default_rng(0)).tolist()
    [1, 2, 3, 3]
    """
    m = weights.size if size is None else size
    return _locate(weights, np.arange(m) + rng.random(1), m)


def evenly(draws: Array, most: int) -> Indices:
    """Up to ``most`` of equally weighted draws (M, P): as many from every part of their longest
    axis, the first principal component of their standardised columns.

    >>> evenly(np.array([[2.0], [0.0], [3.0], [1.0], [5.0], [4.0]]), 2).tolist()
    [3, 5]
    """
    away, sd = draws - draws.mean(axis=0), draws.std(axis=0)
    away /= np.where(sd > 0.0, sd, 1.0)
    order = np.argsort(away @ np.linalg.svd(away, full_matrices=False)[2][0], kind="stable")
    parts = min(most, len(draws))
    return order[((np.arange(parts) + 0.5) * len(draws) / parts).astype(int)]


def stratified(weights: Array, rng: np.random.Generator, size: int | None = None) -> Ancestors:
    """One independent uniform in each of ``size`` strata: counts within two of expectation.

    >>> stratified(np.array([0.0, 1.0, 1.0, 2.0]), np.random.default_rng(0)).tolist()
    [1, 2, 3, 3]
    """
    m = weights.size if size is None else size
    return _locate(weights, np.arange(m) + rng.random(m), m)


def residual(weights: Array, rng: np.random.Generator, size: int | None = None) -> Ancestors:
    """⌊size w_i / Σw⌋ copies for certain, and what is missing multinomially from the fractions.

    >>> residual(np.array([0.0, 1.0, 1.0, 2.0]), np.random.default_rng(0)).tolist()
    [1, 2, 3, 3]
    """
    m = weights.size if size is None else size
    expected = weights * (m / weights.sum())
    counts = np.floor(expected).astype(np.intp)
    missing = m - int(counts.sum())
    if missing > 0:
        counts += np.bincount(multinomial(expected - counts, rng, missing), minlength=weights.size)
    return np.repeat(np.arange(weights.size), counts)[:m]


def multinomial(weights: Array, rng: np.random.Generator, size: int | None = None) -> Ancestors:
    """Independent ancestors.

    >>> multinomial(np.array([0.0, 1.0, 0.0]), np.random.default_rng(0), 2).tolist()
    [1, 1]
    """
    m = weights.size if size is None else size
    return _locate(weights, np.sort(rng.random(m)), 1)


def _locate(weights: Array, points: Array, end: int) -> Ancestors:
    """The particle in whose share of the total weight each point of (0, end) lies."""
    cumulative = np.cumsum(weights)
    points = points * (cumulative[-1] / end)
    last = np.searchsorted(cumulative, cumulative[-1])  # the last one that has a share
    return np.minimum(np.searchsorted(cumulative, points, side="right"), last)


SCHEMES: dict[str, Callable[..., Ancestors]] = {
    "systematic": systematic,
    "stratified": stratified,
    "residual": residual,
    "multinomial": multinomial,
}
