"""log of the integral of exp(f) in one to four dimensions, whatever the modes, by NumPy alone.

A grid of cells finds where f matters; cells are then halved where the rules of degrees 7 and 5 of
Genz and Malik (J. Comput. Appl. Math. 6 (1980) 295) differ, along the axis of the largest fourth
difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter

Array = np.ndarray
LogDensity = Callable[[Array], Array]

_FAR = 40.0  # logs below the largest that count for nothing, whatever the volume
_SHARE = 0.8  # of all of the error, in the cells that are halved at a time
_CHUNK = 4096  # points that f is asked for at a time
_NEAR, _OUT, _CORNER = np.sqrt([9.0 / 70.0, 0.9, 9.0 / 19.0])


class Found(NamedTuple):
    """log of an integral, its relative error as the rules see it, and how many points it took."""

    value: float
    error: float
    points: int


class Cells(NamedTuple):
    """Middles and half widths (C, d); integrals, errors, and along which axis to halve."""

    middle: Array
    half: Array
    value: Array
    error: Array
    axis: Array

    def where(self, some: Array) -> Cells:
        return Cells(*(part[some] for part in self))


def rule(d: int) -> tuple[Array, Array, Array]:
    """Nodes in (-1, 1)^d, the middle first; weights of degrees 7 and 5 of a mean over the cell.

    >>> nodes, seven, five = rule(2)
    >>> len(nodes), round(float(seven @ nodes[:, 0] ** 6), 12), round(float(five.sum()), 12)
    (17, 0.142857142857, 1.0)
    """
    unit, signs = np.eye(d), (1.0, -1.0)
    axes = [s * r * e for e in unit for r in (_NEAR, _OUT) for s in signs]
    pairs = [
        _OUT * (s * unit[i] + t * unit[j])
        for i, j in itertools.combinations(range(d), 2)
        for s, t in itertools.product(signs, signs)
    ]
    corners = [_CORNER * np.array(s) for s in itertools.product(signs, repeat=d)]
    out7, out5 = 1820.0 - 400.0 * d, (265.0 - 100.0 * d) / 1458.0
    seven = [12824.0 - 9120.0 * d + 400.0 * d**2, *[2940.0, 2940.0, out7, out7] * d]
    seven += [200.0] * len(pairs) + [6859.0 / 2**d] * len(corners)
    five = [(729.0 - 950.0 * d + 50.0 * d**2) / 729.0, *[245.0 / 486.0] * 2, out5, out5]
    five += five[1:5] * (d - 1) + [25.0 / 729.0] * len(pairs) + [0.0] * len(corners)
    nodes = np.array([np.zeros(d), *axes, *pairs, *corners])
    return nodes, np.array(seven) / 19683.0, np.array(five)


def log_integral(
    f: LogDensity, edges: Sequence[Array], slack: float, tolerance: float, budget: int
) -> Found:
    """Of exp(f) over a box, cut at ``edges`` of every axis to begin with.

    Cells whose middle and neighbours are all more than ``slack`` below the best middle are left
    out: say as much as f may change within a cell. It ends where the error is below the
    ``tolerance``, relative, or with the ``budget`` of points.
    """
    middles = np.stack(np.meshgrid(*[0.5 * (e[1:] + e[:-1]) for e in edges], indexing="ij"), -1)
    halves = np.stack(np.meshgrid(*[0.5 * np.diff(e) for e in edges], indexing="ij"), -1)
    d = len(edges)
    seen = _asked(f, middles.reshape(-1, d)).reshape(middles.shape[:-1])
    keep = maximum_filter(seen, 3, mode="nearest") > seen.max() - slack - _FAR
    log_top = float(seen.max())
    cells, log_top = _measured(f, middles[keep], halves[keep], log_top)
    points = seen.size + len(cells.value) * len(rule(d)[0])
    while (error := cells.error.sum()) > tolerance * cells.value.sum() and points < budget:
        order = np.argsort(-cells.error)
        most = int(np.searchsorted(np.cumsum(cells.error[order]), _SHARE * error)) + 1
        old = cells.where(order[:most])
        half, step = old.half.copy(), np.zeros_like(old.half)
        rows = np.arange(most), old.axis
        half[rows] *= 0.5
        step[rows] = half[rows]
        made = np.concatenate([old.middle - step, old.middle + step])
        new, top = _measured(f, made, np.concatenate([half, half]), log_top)
        scale, log_top = np.exp(log_top - top), top
        rest = cells.where(order[most:])
        rest = rest._replace(value=rest.value * scale, error=rest.error * scale)
        cells = Cells(*map(np.concatenate, zip(rest, new, strict=True)))
        points += 2 * most * len(rule(d)[0])
    total = cells.value.sum()
    return Found(log_top + float(np.log(total)), float(cells.error.sum() / total), points)


def _measured(f: LogDensity, middle: Array, half: Array, log_top: float) -> tuple[Cells, float]:
    """Cells by both rules in units of exp(top), which rises to the largest f that is met."""
    nodes, seven, five = rule(middle.shape[1])
    values = _asked(f, (middle[:, None] + half[:, None] * nodes).reshape(-1, middle.shape[1]))
    values = values.reshape(-1, len(nodes))
    log_top = max(log_top, float(values.max()))
    p = np.exp(values - log_top)
    volume = np.prod(2.0 * half, axis=1)
    middle_p = p[:, :1, None]
    along = p[:, 1 : 1 + 4 * middle.shape[1]].reshape(len(p), -1, 4)
    near, out = (along[..., i] + along[..., i + 1] - 2.0 * middle_p[..., 0] for i in (0, 2))
    # where differences are alike the longest axis is halved
    bend = np.abs(near - out / 7.0) + 1e-12 * p.max(axis=1, keepdims=True) * half
    value, error = volume * (p @ seven), volume * np.abs(p @ (seven - five))
    return Cells(middle, half, value, error, np.argmax(bend, axis=1)), log_top


def _asked(f: LogDensity, x: Array) -> Array:
    with np.errstate(all="ignore"):
        values = np.concatenate([f(x[i : i + _CHUNK]) for i in range(0, len(x), _CHUNK)])
    return np.where(np.isnan(values), -np.inf, values)
