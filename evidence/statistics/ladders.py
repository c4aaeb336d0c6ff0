r"""Ladders: the inverse temperatures 0 = β₀ < β₁ < … < β_T = 1 a driver climbs.

Fixed shapes differ in where they are dense: :func:`geometric` and :func:`power` near 0,
:func:`sigmoid` at both ends. :func:`equal_barrier` and :func:`next_beta` place temperatures where
a pilot, or the particles, found them to be needed.

References
----------
Syed, Bouchard-Côté, Deligiannidis, Doucet (2022), Non-reversible parallel tempering: a scalable
highly parallel MCMC scheme, J. R. Stat. Soc. B 84, 321–350.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator
from scipy.special import expit

from ..execution.arguments import ISLAND, array, check_size, number
from ..messages import InputError
from ..numerics.arrays import Array
from .weights import incremental


def geometric(n: int, first: float = 1e-3) -> Array:
    """0 and then ``n`` temperatures in geometric progression from ``first`` to 1.

    >>> geometric(3, first=0.01).round(3).tolist()
    [0.0, 0.01, 0.1, 1.0]
    """
    check_size("n", n, ISLAND, least=2)
    first = number("first", first, above=0.0, below=1.0)
    ladder = np.concatenate([[0.0], np.geomspace(first, 1.0, n)])
    ladder[-1] = 1.0
    return ladder


def linear(n: int) -> Array:
    """``n`` equal steps from 0 to 1.

    >>> linear(4).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_size("n", n, ISLAND)
    return np.linspace(0.0, 1.0, n + 1)


def power(n: int, exponent: float = 4.0) -> Array:
    """``n`` steps with β = (i/n)^exponent: dense near 0 for exponents above 1.

    >>> power(4, exponent=2.0).tolist()
    [0.0, 0.0625, 0.25, 0.5625, 1.0]
    """
    ladder = linear(n) ** number("exponent", exponent, above=0.0)
    return _strict(ladder, f"power with n={n} and exponent={exponent}: use a smaller exponent")


def sigmoid(n: int, sharpness: float = 4.0) -> Array:
    r"""``n`` steps with logistic spacing, dense at both ends.

    .. math:: \beta_i = \frac{\sigma(s t_i) - \sigma(-s)}{\sigma(s) - \sigma(-s)},
              \qquad t_i = \frac{2i}{n} - 1

    >>> sigmoid(4, sharpness=4.0).round(3).tolist()
    [0.0, 0.105, 0.5, 0.895, 1.0]
    """
    value = expit(number("sharpness", sharpness, above=0.0) * (2.0 * linear(n) - 1.0))
    ladder = (value - value[0]) / (value[-1] - value[0])
    return _strict(ladder, f"sigmoid with n={n} and sharpness={sharpness}: use a smaller one")


def _strict(ladder: Array, name: str) -> Array:
    """The ladder, unless rounding has made two of its temperatures one."""
    if (np.diff(ladder) <= 0.0).any():
        raise InputError(f"temperatures coincide in {name}")
    return ladder


def equal_barrier(betas: ArrayLike, rates: ArrayLike, n: int) -> Array:
    r"""``n`` steps that share a pilot's cumulative barrier equally (Syed et al. 2022).

    .. math:: \Lambda(\beta_t) = \sum_{s<t} r_s, \qquad \Lambda(\beta'_i) = \tfrac in \Lambda(1)

    with β(Λ) interpolated by monotone cubics between the pilot's ladder ``betas``.

    Parameters
    ----------
    betas : array (T + 1,)
        The pilot's ladder, from 0 to 1.
    rates : array (T,)
        What each of its steps costs: rejection rates of swaps, or standard deviations of
        relative incremental weights. Where all are 0 the steps are equal in β.
    n : int
        Steps of the new ladder.

    Examples
    --------
    >>> equal_barrier([0.0, 0.5, 1.0], [0.6, 0.2], 4).round(3).tolist()
    [0.0, 0.069, 0.249, 0.5, 1.0]
    """
    smallest_share = 1e-3  # of the mean rate: an interval that seems free still counts a little
    ladder = check(betas)
    rates = array("rates", rates, (ladder.size - 1,))
    if (rates < 0.0).any():
        raise InputError(
            f"rates must not be negative, got {rates.min():g}; a rejection rate is the mean of "
            "1 - acceptance"
        )
    check_size("n", n, ISLAND)
    cost = np.diff(ladder) if not rates.any() else rates
    cost = np.maximum(cost, smallest_share * cost.mean())
    barrier = np.concatenate([[0.0], np.cumsum(cost)])
    new = PchipInterpolator(barrier, ladder)(np.linspace(0.0, barrier[-1], n + 1))
    new[0], new[-1] = 0.0, 1.0
    return _strict(new, f"equal_barrier with n={n}: use fewer steps")


def check(betas: ArrayLike) -> Array:
    """Validate an explicit ladder; 0 is put in front when it is missing."""
    ladder = array("betas", betas, ("n",))
    if ladder[0] > 0.0:
        ladder = np.concatenate([[0.0], ladder])
    if ladder[0] != 0.0 or ladder[-1] != 1.0 or (np.diff(ladder) <= 0.0).any():
        raise InputError(
            f"betas must increase strictly from 0 to 1, got {ladder[0]:g} … {ladder[-1]:g}"
        )
    return ladder


def next_beta(tilt: Array, beta: float, cess: float) -> float:
    """The largest next temperature whose conditional ESS is at least ``cess``.

    Particles with tilt -inf die at any step, so only the others are asked. Should no step
    satisfy them, a tiny one is taken: resampling then removes whoever stood in the way.
    """
    smallest_step = 1e-12
    tilt = tilt[np.isfinite(tilt)]
    if tilt.size == 0 or incremental(tilt, 1.0 - beta).ess >= cess:
        return 1.0
    lo, hi = 0.0, 1.0 - beta
    while hi - lo > 1e-6 * hi and hi > smallest_step:
        mid = 0.5 * (lo + hi)
        if incremental(tilt, mid).ess >= cess:
            lo = mid
        else:
            hi = mid
    return beta + hi
