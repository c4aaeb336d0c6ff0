"""Poisson: counts with a log link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import pdtr

from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp_parts
from .base import Array, Predictive
from .checks import stack
from .counts import CountLikelihood, draw_counts, log_peak, lognormal_moments
from .pointwise import Pointwise


@vector_loop
def first_order(x, theta, step, out):
    """log p(y|x) and its slope; with a constant ``step`` the loop becomes vector instructions."""
    for i in range(x.size):
        j = np.uint64(i * step)
        y, d, constant = theta[0, j], x[i] + theta[1, j], theta[2, j]
        h, r, t = exp_parts(d, 0.0)
        e = 2.0 * (h * (r + t) + (h - 0.5 if y > 0.0 else h))  # expm1(d) or exp(d)
        gap = -t if h == 0.5 else d - e  # at h = ½, r is d and t is expm1(d) - d
        out[0, i] = y * gap + constant if y > 0.0 else -e
        out[1, i] = -y * e if y > 0.0 else -e


@jit
def minus_expm1(d, e):
    """``d - e`` of ``e = expm1(d)``; a series near zero, where the two cancel."""
    if abs(d) > 0.5:
        return d - e
    tail = 1.0
    for k in range(14, 2, -1):
        tail = 1.0 + tail * d / k
    return -0.5 * d * d * tail


@jit
def derivatives(x, theta):
    """log p(y|x) and three derivatives, at one point."""
    y, d = theta[0], x + theta[1]
    if y > 0.0:
        rate, e = y * np.exp(d), np.expm1(d)
        return y * minus_expm1(d, e) + theta[2], -y * e, -rate, -rate
    rate = np.exp(d)
    return -rate, -rate, -rate, -rate


@jit
def _bends(x, theta):
    """The second and the third derivative."""
    rate = (theta[0] if theta[0] > 0.0 else 1.0) * np.exp(x + theta[1])
    return -rate, -rate


class Rates(CountLikelihood):
    """Counts of events that happen one by one."""

    def theta(self, y: Array) -> Array:
        return stack(y, y, self.shift(y) - np.log(np.where(y > 0.0, y, 1.0)), log_peak(y))

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        return draw_counts(self.mean(x), rng)

    def cdf(self, y: Array, x: Array) -> Array:
        return pdtr(y, self.mean(x))

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        rate = self.mean(x)
        return rate, rate

    def _predictive(self, mean: Array, var: Array) -> Predictive:
        rate, spread = lognormal_moments(mean + self.shift(mean), var)
        return Predictive(rate, rate + spread)


@dataclass(frozen=True)
class Poisson(Rates):
    r"""Counts with rate :math:`\lambda = \text{exposure} \cdot e^{x + \text{offset}}`.

    With :math:`d = \log(\lambda / y)` and ``y > 0``,

    .. math:: \log p(y|x) = y\,(d - \mathrm{expm1}(d)) + C_y, \quad
              C_y = y \log y - y - \log\Gamma(y + 1),

    which keeps its digits where the rate meets a large count.

    Parameters
    ----------
    exposure : float or array (N,)
        Time, area or population behind each count, > 0.
    offset : float or array (N,)
        Known part of the log rate.

    >>> Poisson(exposure=2.0).log_prob([0.0, 0.0], [0, 3]).round(6)
    array([-2.      , -1.712318])
    """

    exposure: float | tuple[float, ...] = 1.0
    offset: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "poisson"

    kernel = Pointwise(_bends, 3, first_order)
