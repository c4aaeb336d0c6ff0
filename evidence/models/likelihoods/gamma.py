"""Gamma: positive numbers whose spread is a share of their mean, with a log link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc

from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp_parts
from .base import Array, Limits, Predictive
from .checks import Parametric, check_positives, stack
from .counts import log_peak, lognormal_moments
from .pointwise import Pointwise

_DOUBLES = np.finfo(float)


@vector_loop
def _first_order(x, theta, step, out):
    """log p(y|x) and its slope; with a constant ``step`` the loop becomes vector instructions."""
    for i in range(x.size):
        j = np.uint64(i * step)
        d, shape = theta[0, j] - x[i], theta[1, j]
        h, r, t = exp_parts(d, 0.0)
        e = 2.0 * (h * (r + t) + (h - 0.5))  # expm1(d)
        gap = -t if h == 0.5 else d - e  # at h = ½, r is d and t is expm1(d) - d
        out[0, i] = shape * gap + theta[2, j]
        out[1, i] = shape * e


@jit
def _bends(x, theta):
    """The second and the third derivative."""
    rate = theta[1] * np.exp(theta[0] - x)
    return -rate, rate


@dataclass(frozen=True)
class Gamma(Parametric):
    r"""Positive targets with mean :math:`e^x` and variance :math:`e^{2x}/k`.

    With :math:`d = \log y - x`,

    .. math:: \log p(y|x) = k\,(d - \mathrm{expm1}(d)) + C, \quad
              C = k \log k - k - \log\Gamma(k) - \log y,

    which keeps its digits where the mean meets y. The relative spread is the same for all means:
    durations, costs, rainfall. Shape 1 is exponential; large ones are log-normal, nearly.

    Parameters
    ----------
    shape : float or array (N,)
        The shape ``k`` > 0; the coefficient of variation is :math:`1/\sqrt k`.

    >>> Gamma(shape=2.0).log_prob([0.0, 1.0], [1.0, 0.5]).round(6)
    array([-0.613706, -1.674732])
    """

    shape: float | tuple[float, ...] = 1.0

    name: ClassVar[str] = "gamma"
    poles = 0.5 * np.pi
    free: ClassVar[Limits] = {"shape": (1e-3, 1e5)}

    kernel = Pointwise(_bends, 3, _first_order)

    check = check_positives

    def theta(self, y: Array) -> Array:
        (k,) = self.parameters(y)
        return stack(y, np.log(y), k, log_peak(k) + np.log(k) - np.log(y))

    def location(self, y: Array) -> Array:
        return np.log(y)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Positive and finite: shapes far below 1 make numbers that doubles cannot hold."""
        x = np.asarray(x, float)
        (k,) = self.parameters(x)
        with np.errstate(over="ignore"):
            y = np.exp(x) * (rng.standard_gamma(k, size=x.shape) / k)
        return np.clip(y, _DOUBLES.tiny, _DOUBLES.max)

    def cdf(self, y: Array, x: Array) -> Array:
        (k,) = self.parameters(np.asarray(x))
        with np.errstate(over="ignore"):
            return gammainc(k, k * np.maximum(y, 0.0) * np.exp(-np.asarray(x, float)))

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        x = np.asarray(x, float)
        with np.errstate(over="ignore"):
            mean = np.exp(x)
            return mean, mean * (mean / self.parameters(x)[0])

    def _predictive(self, mean: Array, var: Array) -> Predictive:
        mu, spread = lognormal_moments(mean, var)
        with np.errstate(over="ignore"):
            return Predictive(mu, spread + (mu * mu + spread) / self.parameters(mean)[0])
