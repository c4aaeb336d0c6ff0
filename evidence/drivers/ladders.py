r"""Ladders: the inverse temperatures 0 = β₀ < β₁ < … < β_T = 1 a driver climbs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


_SMALLEST_STEP = 1e-12


def geometric(n: int, first: float = 1e-3) -> Array:
    """0 and then ``n`` temperatures in geometric progression from ``first`` to 1.

    >>> geometric(3, first=0.01).round(3).tolist()
    [0.0, 0.01, 0.1, 1.0]
    """
    if n < 2 or not 0.0 < first < 1.0:
        raise ValueError(f"geometric needs n ≥ 2 and 0 < first < 1, got n={n}, first={first}")
    ladder = np.concatenate([[0.0], np.geomspace(first, 1.0, n)])
    ladder[-1] = 1.0
    return ladder


def linear(n: int) -> Array:
    """``n`` equal steps from 0 to 1.

    >>> linear(4).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if n < 1:
        raise ValueError(f"linear needs n ≥ 1 steps, got {n}")
    return np.linspace(0.0, 1.0, n + 1)


def check(betas: ArrayLike) -> Array:
    """Validate an explicit ladder; 0 is put in front when it is missing."""
    ladder = np.asarray(betas, dtype=float)
    if ladder.ndim != 1 or ladder.size == 0 or not np.isfinite(ladder).all():
        raise ValueError("betas must be 'adaptive' or a vector of finite numbers")
    if ladder[0] > 0.0:
        ladder = np.concatenate([[0.0], ladder])
    if ladder[0] != 0.0 or ladder[-1] != 1.0 or (np.diff(ladder) <= 0.0).any():
        raise ValueError(
            f"betas must increase strictly from 0 to 1, got {ladder[0]:g} … {ladder[-1]:g}"
        )
    return ladder


def conditional_ess(tilt: Array, step: float) -> float:
    r"""Relative conditional ESS of the weights exp(step · tilt): (mean w)² / mean w²."""
    w = np.exp(step * (tilt - tilt.max()))
    return float(w.mean() ** 2 / np.mean(w * w))


def next_beta(tilt: Array, beta: float, cess: float) -> float:
    """The largest next temperature whose conditional ESS is at least ``cess``.

    Particles with tilt -inf die at any step, so only the others are asked. Should no step
    satisfy them, a tiny one is taken: resampling then removes whoever stood in the way.
    """
    tilt = tilt[np.isfinite(tilt)]
    if tilt.size == 0 or conditional_ess(tilt, 1.0 - beta) >= cess:
        return 1.0
    lo, hi = 0.0, 1.0 - beta
    while hi - lo > 1e-6 * hi and hi > _SMALLEST_STEP:
        mid = 0.5 * (lo + hi)
        if conditional_ess(tilt, mid) >= cess:
            lo = mid
        else:
            hi = mid
    return beta + hi
