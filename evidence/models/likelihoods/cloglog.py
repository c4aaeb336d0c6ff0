r"""Complementary log-log: p(y = +1|x) = 1 - exp(-exp(x)), y = ±1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp, exp_parts, log
from .base import Array
from .checks import Labels
from .pointwise import Pointwise

_SURE = 800.0  # exp(-u) is zero there


@vector_loop
def _first_order(x, theta, step, out):
    """log p(y|x) and its slope; with a constant ``step`` the loop becomes vector instructions."""
    below = -40.0  # below it 1 - exp(-u) is u, to all digits
    for i in range(x.size):
        u, rare = exp(x[i]), x[i] < below
        hazard = u if u < _SURE else _SURE
        h, r, t = exp_parts(-hazard, 0.0)
        survival, event = 2.0 * (h + h * (r + t)), -2.0 * (h * (r + t) + (h - 0.5))
        event = 1.0 if rare else event
        log_event = x[i] if rare else log(event, -survival)
        slope = 1.0 if rare else hazard * survival / event
        seen = theta[0, np.uint64(i * step)] > 0.0
        out[0, i] = log_event if seen else -u
        out[1, i] = slope if seen else -u


@jit
def bends(g, u):
    """The second and third derivative of log(1 - exp(-u)) in log u; the first is g = u/(e^u-1)."""
    if u > 0.1:
        above, below = g + u - 1.0, 1.0 - g
    else:  # (u/2) coth(u/2) - 1, where the differences above would cancel
        q = u * u
        even = q * (1 / 12 - q * (1 / 720 - q * (1 / 30240 - q / 1209600)))
        above, below = 0.5 * u + even, 0.5 * u - even
    return -g * above, g * (above * above - (1.0 + above) * below)


@jit
def _bends(x, theta):
    """The second and the third derivative."""
    u = np.exp(x)
    if theta[0] < 0.0:
        return -u, -u
    u = min(u, _SURE)
    return bends(u / np.expm1(u) if u > 0.0 else 1.0, u)


def _link(x: ArrayLike) -> Array:
    """P(y = 1 | x)."""
    with np.errstate(over="ignore"):
        return -np.expm1(-np.exp(x))


@dataclass(frozen=True)
class Cloglog(Labels):
    r"""Binary labels with an asymmetric link, :math:`p(y=1|x) = 1 - \exp(-e^x)`.

    Whether a Poisson process of rate :math:`u = e^x` has an event in unit time: the link of
    survival in discrete time and of presence and absence.

    .. math:: \log p(+1|x) = \log(1 - e^{-u}), \quad \log p(-1|x) = -u

    The slope of the first is :math:`g = u/(e^u - 1)` and its curvature -g (g + u - 1). For small
    u, where g + u - 1 would lose its digits, it is a series in u.

    >>> Cloglog().log_prob([0.0, -50.0, 3.0], [1, 1, -1]).round(6)
    array([ -0.458675, -50.      , -20.085537])
    """

    name: ClassVar[str] = "cloglog"
    poles = 0.5 * np.pi

    kernel = Pointwise(_bends, 1, _first_order)

    link = staticmethod(_link)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            no, yes = np.exp(-np.exp(x)), _link(x)
        return yes - no, 4.0 * yes * no
