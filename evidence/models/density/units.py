r"""Where a density is, and how far a coordinate has to move before it changes, where nobody told.

The second difference along coordinate i of a normal density with conditional deviation s is

.. math:: \log p(x + t e_i) + \log p(x - t e_i) - 2 \log p(x) = -t^2/s^2

wherever x is, so the step at which it is one is found far from the mode, too. A density whose
units are far from one is far from the origin as well, by its logarithms if not by itself: points
around are led uphill, a coordinate after the other, by the best of steps that double.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...numerics.arrays import Array


def units(
    log_prob: Callable[[Array], Array], x: Array, *, steps: int = 24, small: float = 0.1,
    large: float = 10.0, factor: float = 100.0, narrow: float = 2.0, reach: float = 1e8,
) -> Array:  # fmt: skip
    """The unit of every coordinate at x, 1 where the density is flat.

    >>> import numpy as np
    >>> sd = np.array([1e-4, 1.0, 1e4])
    >>> found = units(lambda x: -0.5 * np.sum((x / sd) ** 2, axis=1), np.ones(3))
    >>> np.log10(found).round(3).tolist()
    [-4.0, 0.0, 4.0]

    ``steps``: steps from 1, each of 2 d evaluations, of which three do for a normal density;
    ``small``: least second difference, in nats, that is about one; ``large``: and the largest;
    ``factor``: of a step, at most; ``narrow``: ratio of a step that is too long to one that is too
    short, beside a wall; ``reach``: a coordinate that has not bent by then has no unit of its own.
    """
    d = x.size
    t, short, long = np.ones(d), np.zeros(d), np.full(d, np.inf)
    at, open_ = float(log_prob(x[None])[0]), np.ones(d, dtype=bool)
    for _ in range(steps):
        rows = t[open_, None] * np.eye(d)[open_]
        with np.errstate(all="ignore"):
            two = log_prob(np.concatenate([x + rows, x - rows])).reshape(2, -1)
            bend = np.full(d, 1.0)
            bend[open_] = np.nan_to_num(np.abs(two.sum(axis=0) - 2.0 * at), nan=np.inf)
        short = np.where(open_ & (bend < small), np.maximum(short, t), short)
        long = np.where(open_ & (bend > large), np.minimum(long, t), long)
        open_ &= ((bend < small) | (bend > large)) & (long > narrow * short) & (t < reach)
        if not open_.any():
            break
        with np.errstate(divide="ignore"):
            better = t / np.sqrt(bend).clip(1.0 / factor, factor)
        between = (short > 0.0) & np.isfinite(long)
        better = np.where(between, np.sqrt(short * np.fmin(long, 1e300)), better)
        t = np.where(open_, better, t)
    return np.where(t < reach, t, 1.0)


def place(
    log_prob: Callable[[Array], Array], x: Array, odd: float = 300.0, points: int = 4,
    sweeps: int = 2, doubled: int = 44,
) -> tuple[Array, Array]:  # fmt: skip
    """A point to look around, and the unit of every coordinate there.

    Zero, where units at x are within a factor ``odd`` of one (a hierarchy in hundredths was found
    from there, one in ten-thousandths was not); else the best of a few ``points`` after some
    ``sweeps``, whose steps are ``doubled`` so often either way.

    >>> import numpy as np
    >>> far = np.array([1e-4, -3e6])
    >>> found, unit = place(lambda x: -0.5 * np.sum((x / far - 1.0) ** 2, axis=1), np.zeros(2))
    >>> (np.abs(found / far - 1.0) < 3.0).tolist(), np.log10(unit).round().tolist()
    ([True, True], [-4.0, 6.0])
    """
    own = units(log_prob, x)
    if own.max() < odd and own.min() > 1.0 / odd:
        return np.zeros_like(x), own
    rows = x + own * np.random.default_rng(0).standard_normal((points, x.size))
    steps = np.exp2(np.arange(doubled))
    steps = np.append(0.0, np.column_stack([steps, -steps]).ravel())  # of equals the shortest
    for i in np.tile(np.arange(x.size), sweeps):
        tried = np.repeat(rows[:, None], steps.size, axis=1)
        tried[:, :, i] += own[i] * steps
        with np.errstate(all="ignore"):
            value = log_prob(tried.reshape(-1, x.size)).reshape(tried.shape[:2])
        value = np.where(value < np.inf, value, -np.inf)  # what overflows leads nowhere
        best = value.argmax(axis=1)
        rows, at = tried[np.arange(points), best], value[np.arange(points), best]
    top = rows[at.argmax()]
    return top, units(log_prob, top)
