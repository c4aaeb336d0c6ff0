r"""How far a coordinate has to move before a density changes: its unit, where nobody told it.

The second difference along coordinate i of a normal density with conditional deviation s is

.. math:: \log p(x + t e_i) + \log p(x - t e_i) - 2 \log p(x) = -t^2/s^2

wherever x is, so the step at which it is one is found far from the mode, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...numerics.arrays import Array

_STEPS = 24  # from 1, each of 2 d evaluations; three do for a normal density
_SMALL, _LARGE = 0.1, 10.0  # second differences, in nats, that are about one
_FACTOR = 100.0  # of a step at most
_NARROW = 2.0  # ratio of a step that is too long to one that is too short, beside a wall
_REACH = 1e8  # a coordinate that has not bent by then has no unit of its own


def units(log_prob: Callable[[Array], Array], x: Array) -> Array:
    """The unit of every coordinate at x, 1 where the density is flat.

    >>> import numpy as np
    >>> sd = np.array([1e-4, 1.0, 1e4])
    >>> found = units(lambda x: -0.5 * np.sum((x / sd) ** 2, axis=1), np.ones(3))
    >>> np.log10(found).round(3).tolist()
    [-4.0, 0.0, 4.0]
    """
    d = x.size
    t, short, long = np.ones(d), np.zeros(d), np.full(d, np.inf)
    at, open_ = float(log_prob(x[None])[0]), np.ones(d, dtype=bool)
    for _ in range(_STEPS):
        rows = t[open_, None] * np.eye(d)[open_]
        with np.errstate(all="ignore"):
            two = log_prob(np.concatenate([x + rows, x - rows])).reshape(2, -1)
            bend = np.full(d, 1.0)
            bend[open_] = np.nan_to_num(np.abs(two.sum(axis=0) - 2.0 * at), nan=np.inf)
        short = np.where(open_ & (bend < _SMALL), np.maximum(short, t), short)
        long = np.where(open_ & (bend > _LARGE), np.minimum(long, t), long)
        open_ &= ((bend < _SMALL) | (bend > _LARGE)) & (long > _NARROW * short) & (t < _REACH)
        if not open_.any():
            break
        with np.errstate(divide="ignore"):
            better = t / np.sqrt(bend).clip(1.0 / _FACTOR, _FACTOR)
        between = (short > 0.0) & np.isfinite(long)
        better = np.where(between, np.sqrt(short * np.fmin(long, 1e300)), better)
        t = np.where(open_, better, t)
    return np.where(t < _REACH, t, 1.0)
