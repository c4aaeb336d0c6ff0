r"""Positive numbers by their logarithm: log-normal, Weibull, log-logistic, exponential.

:math:`\log p(y|x) = h(z) + \log k - \log y` with :math:`z = k\,(\log y - x - c)`: h is the log
density of a standard variable whose mode is zero, k a shape, c moves the median or what else is
there to where the mean is :math:`e^x`.

References
----------
J. D. Kalbfleisch and R. L. Prentice, The Statistical Analysis of Failure Time Data, 2nd edition,
Wiley 2002, chapter 2.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, gammaln, ndtr

from ...numerics.jit import jit
from ...numerics.special import LOG_SQRT_2PI
from .base import Array, Limits, Predictive
from .checks import Parametric, check_positives, stack
from .counts import lognormal_moments
from .pointwise import Pointwise
from .poisson import minus_expm1

_DOUBLES = np.finfo(float)
_SHAPE = (1e-3, 1e3)  # where it is searched


@jit
def normal(x, t):
    z, k = t[1] * (t[0] - x), t[1]
    return t[2] - 0.5 * z * z, k * z, -k * k, 0.0


@jit
def gumbel(x, t):
    z, k = t[1] * (t[0] - x), t[1]
    e, less = np.exp(z), np.expm1(z)
    return t[2] + minus_expm1(z, less), k * less, -k * k * e, k * k * k * e


@jit
def logistic(x, t):
    z, k = t[1] * (t[0] - x), t[1]
    a = math.exp(-abs(z))
    v = a / ((1.0 + a) * (1.0 + a))
    value, slope = -abs(z) - 2.0 * math.log1p(a), np.tanh(0.5 * z)
    return t[2] + value, k * slope, -2.0 * k * k * v, -2.0 * k * k * k * v * slope


class Shape(NamedTuple):
    """The parameters of a distribution of times, as formulas take them."""

    k: Array
    c: Array | float
    peak: float
    """h(0), but for what the kernel has of it."""
    log_mean: Array | float
    """log E[y|x] - x."""
    square: Array
    """var[y|x] / E[y|x]²."""


class Times(Parametric):
    """What follows from the shape and the standard variable."""

    check = check_positives

    @abstractmethod
    def shape_of(self, like: Array) -> Shape:
        """For all data."""

    @staticmethod
    @abstractmethod
    def standard(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draws of z."""

    @staticmethod
    @abstractmethod
    def below(z: Array) -> Array:
        """P(Z ≤ z)."""

    def theta(self, y: Array) -> Array:
        shape, log_y = self.shape_of(y), np.log(y)
        return stack(y, log_y - shape.c, shape.k, np.log(shape.k) + shape.peak - log_y)

    def strip(self, y: Array) -> Array:
        """With ``poles`` the half-width of a strip in which exp h is tame."""
        return np.broadcast_to(self.poles / self.shape_of(y).k, y.shape)

    def location(self, y: Array) -> Array:
        return np.log(y) - self.shape_of(y).c

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Positive and finite, as numbers of a computer are."""
        x = np.asarray(x, float)
        shape = self.shape_of(x)
        with np.errstate(over="ignore"):
            y = np.exp(x + shape.c + self.standard(rng, x.shape) / shape.k)
        return np.clip(y, _DOUBLES.tiny, _DOUBLES.max)

    def cdf(self, y: Array, x: Array) -> Array:
        shape = self.shape_of(np.asarray(x))
        with np.errstate(divide="ignore", over="ignore"):
            return self.below(shape.k * (np.log(np.maximum(y, 0.0)) - x - shape.c))

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        x = np.asarray(x, float)
        shape = self.shape_of(x)
        with np.errstate(over="ignore"):
            mean = np.exp(x + shape.log_mean)
            return mean, mean * (mean * shape.square)

    def _predictive(self, mean: Array, var: Array) -> Predictive:
        shape = self.shape_of(mean)
        mu, spread = lognormal_moments(mean + shape.log_mean, var)
        with np.errstate(over="ignore"):
            return Predictive(mu, spread + (mu * mu + spread) * shape.square)


@dataclass(frozen=True)
class LogNormal(Times):
    """Positive targets whose logarithm is normal, with mean x and standard deviation σ.

    Parameters
    ----------
    sigma : float or array (N,)
        The standard deviation σ > 0 of log y.

    >>> LogNormal(sigma=0.5).log_prob([0.0, 1.0], [1.0, 0.5]).round(6)
    array([-0.225791, -5.266139])
    """

    sigma: float | tuple[float, ...] = 1.0

    name: ClassVar[str] = "lognormal"
    free: ClassVar[Limits] = {"sigma": (1e-5, 1e5)}

    kernel = Pointwise(normal, 3)
    standard = staticmethod(lambda rng, shape: rng.standard_normal(shape))
    below = staticmethod(ndtr)

    def shape_of(self, like: Array) -> Shape:
        (s,) = self.parameters(like)
        with np.errstate(over="ignore"):
            return Shape(1.0 / s, 0.0, -LOG_SQRT_2PI, 0.5 * s * s, np.expm1(s * s))


class _Gumbel(Times):
    """Powers of exponential variables; the one parameter is the shape."""

    poles = 0.5 * np.pi

    kernel = Pointwise(gumbel, 3)

    @staticmethod
    def standard(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.log(rng.standard_exponential(shape))

    @staticmethod
    def below(z: Array) -> Array:
        return -np.expm1(-np.exp(z))

    def shape_of(self, like: Array) -> Shape:
        (k,) = self.parameters(like)
        c = -gammaln(1.0 + 1.0 / k)
        with np.errstate(over="ignore"):
            return Shape(k, c, -1.0, 0.0, np.expm1(gammaln(1.0 + 2.0 / k) + 2.0 * c))


@dataclass(frozen=True)
class Weibull(_Gumbel):
    r"""Positive targets with mean :math:`e^x` whose hazard is a power of time.

    .. math:: p(y|x) = \frac{k}{s} \Big(\frac{y}{s}\Big)^{k-1} e^{-(y/s)^k}, \quad
              s = \frac{e^x}{\Gamma(1 + 1/k)}

    Parameters
    ----------
    shape : float or array (N,)
        The shape k > 0; above 1 the hazard rises with time, below 1 it falls.

    >>> Weibull(shape=2.0).log_prob([0.0, 1.0], [1.0, 0.5]).round(6)
    array([-0.333815, -2.268137])
    """

    shape: float | tuple[float, ...] = 1.0

    name: ClassVar[str] = "weibull"
    free: ClassVar[Limits] = {"shape": _SHAPE}


@dataclass(frozen=True)
class Exponential(_Gumbel):
    """Positive targets with mean exp(x) and a constant hazard, exp(-x).

    >>> Exponential().log_prob([0.0, 1.0], [1.0, 0.5]).round(6)
    array([-1.     , -1.18394])
    """

    name: ClassVar[str] = "exponential"

    def parameters(self, like: Array) -> tuple[Array, ...]:
        return (np.ones(()),)


@dataclass(frozen=True)
class LogLogistic(Times):
    r"""Positive targets with mean :math:`e^x` whose odds of being over are a power of time.

    .. math:: P(y \le t|x) = \frac{(t/s)^k}{1 + (t/s)^k}, \quad
              s = e^x\, \frac{\sin(\pi/k)}{\pi/k}

    There is a mean for shapes above 1 only, and a variance above 2.

    Parameters
    ----------
    shape : float or array (N,)
        The shape k > 1; the hazard rises first, then falls.

    >>> LogLogistic(shape=2.0).log_prob([0.0, 1.0], [1.0, 0.5]).round(6)
    array([-0.890498, -1.257194])
    """

    shape: float | tuple[float, ...] = 2.0

    name: ClassVar[str] = "log_logistic"
    free: ClassVar[Limits] = {"shape": (1.001, _SHAPE[1])}
    limits: ClassVar[Limits] = {"shape": (1.0, np.inf)}
    poles = 0.5 * np.pi  # half as far as they are, since they are double

    kernel = Pointwise(logistic, 3)
    standard = staticmethod(lambda rng, shape: rng.logistic(size=shape))
    below = staticmethod(expit)

    def shape_of(self, like: Array) -> Shape:
        (k,) = self.parameters(like)
        b = np.pi / k
        with np.errstate(invalid="ignore"):
            c = np.log(np.where(k > 1.0, np.sin(b) / b, np.nan))
            return Shape(k, c, 0.0, 0.0, np.where(k > 2.0, np.tan(b) / b - 1.0, np.inf))
