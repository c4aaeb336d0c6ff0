r"""Counts with zeros of their own: zero inflation and hurdles, with a log link.

With :math:`p_0(y|x)` of Poisson or negative binomial counts of mean
:math:`\mu = \text{exposure} \cdot e^{x + \text{offset}}`, inflation adds zeros to those there are,

.. math:: p(0|x) = z + (1 - z)\,p_0(0|x), \qquad p(y|x) = (1 - z)\,p_0(y|x),

and behind a hurdle no other zeros are left, :math:`p(0|x) = h` and
:math:`p(y|x) = (1 - h)\,p_0(y|x) / (1 - p_0(0|x))`: zeros say nothing of x.

References
----------
D. Lambert, Zero-inflated Poisson regression, Technometrics 34 (1992) 1.
J. Mullahy, Specification and testing of some modified count data models, J. Econometrics 33
(1986) 341.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp, exp_parts, log, sigmoid
from . import negative_binomial, poisson
from .base import Array, Likelihood, Limits, Predictive
from .checks import align, stack
from .cloglog import bends
from .counts import CountLikelihood, draw_counts
from .negative_binomial import Sized
from .pointwise import Pointwise
from .poisson import Rates

_SHARE, _SIZE = (1e-4, 1.0 - 1e-4), (1e-3, 1e5)  # where parameters are searched
_TINY = np.finfo(float).tiny


@jit
def _mixed(zero, own):
    """A zero's second and third derivative; ``zero``: log p_0(0|x) and its derivatives."""
    odds = zero[0] + own[1] - own[0]  # that a zero is one of the counts
    w = sigmoid(odds)
    v = w * sigmoid(-odds)
    if w == 0.0:  # and slopes may be infinite
        return 0.0, 0.0
    third = v * (1.0 - 2.0 * w) * zero[1] ** 3 + 3.0 * v * zero[1] * zero[2] + w * zero[3]
    return v * zero[1] ** 2 + w * zero[2], third


def _inflated(counts: Callable[..., Any], first: Callable[..., Any], rows: int) -> Pointwise:
    """The kernel where ``counts`` has ``rows`` numbers a datum, and ``first`` is a loop over it of
    first order."""

    @jit
    def curved(x, t):
        f = counts(x, t[:rows])
        return (f[2], f[3]) if t[0] > 0.0 else _mixed(f, t[2 * rows :])

    @vector_loop
    def first_order(x, theta, step, out):
        first(x, theta, step, out)
        for i in range(x.size):
            j = np.uint64(i * step)
            zero, log_z, log_rest = theta[0, j] == 0.0, theta[2 * rows, j], theta[2 * rows + 1, j]
            odds = out[0, i] + log_rest - log_z
            e = exp(-abs(odds))
            w = (1.0 if odds > 0.0 else e) / (1.0 + e)
            slope = w * out[1, i] if w > 0.0 else 0.0
            out[1, i] = slope if zero else out[1, i]
            total = log_z + log(1.0 + e, e) + (odds if odds > 0.0 else 0.0)
            out[0, i] = total if zero else out[0, i] + log_rest

    return Pointwise(curved, 2 * rows + 3, first_order)


@jit
def _truncated(f, zero):
    """Second and third derivative; ``f``: log p_0(y|x) and derivatives, ``zero``: those of
    log p_0(0|x). With u = -log p_0(0|x) the denominator 1 - exp(-u) is cloglog's, a function of
    w = log u."""
    u = -zero[0]
    if u > 700.0:
        return f[2], f[3]
    w1, w2, w3 = 1.0, 0.0, 0.0  # where u is the mean
    if u > _TINY:
        a, b, c = zero[1] / zero[0], zero[2] / zero[0], zero[3] / zero[0]
        w1, w2, w3 = a, b - a * a, c - 3.0 * a * b + 2.0 * a * a * a
    g = u / math.expm1(u) if u > _TINY else 1.0
    g2, g3 = bends(g, u)
    third = g3 * w1**3 + 3.0 * g2 * w1 * w2 + g * w3
    return f[2] - g2 * w1 * w1 - g * w2, f[3] - third


def _behind(counts: Callable[..., Any], first: Callable[..., Any], rows: int) -> Pointwise:
    """As :func:`_inflated`, of a hurdle."""

    @jit
    def curved(x, t):
        if t[0] == 0.0:
            return 0.0, 0.0
        return _truncated(counts(x, t[:rows]), counts(x, t[rows : 2 * rows]))

    @vector_loop
    def first_order(x, theta, step, out):
        """With u as in ``_truncated``: the slope of the denominator is u' / expm1(u)."""
        first(x, theta, step, out)
        first(x, theta[rows:], step, out[2:])
        for i in range(x.size):
            j = np.uint64(i * step)
            u, more, seen = -out[2, i], -out[3, i], theta[0, j] > 0.0
            tiny = u < 1e-17
            h, rest, t = exp_parts(-u, 0.0)
            event = u if tiny else -2.0 * (h * (rest + t) + (h - 0.5))  # 1 - exp(-u)
            lost = more * (1.0 - event) / event if u > _TINY else 1.0
            low = x[i] + theta[2 * rows + 2, j] if tiny else log(event, event - 1.0)
            out[0, i] = out[0, i] - low + theta[2 * rows + 1, j] if seen else theta[2 * rows, j]
            out[1, i] = out[1, i] - lost if seen else 0.0

    return Pointwise(curved, 2 * rows + 3, first_order)


class _Zeros(CountLikelihood):
    """What follows from a share of zeros, and from counts without these."""

    source: ClassVar[type[CountLikelihood]]
    share: ClassVar[str]
    log_concave: ClassVar[bool] = False
    unimodal: ClassVar[bool] = True
    limits: ClassVar[Limits] = {**CountLikelihood.limits, "zi": (0.0, 1.0), "hu": (0.0, 1.0)}

    def of_zeros(self, like: Array) -> Array:
        """The share, as an array that broadcasts with the last axis of ``like``."""
        return align(self.share, getattr(self, self.share), like)

    def theta(self, y: Array) -> Array:
        z = self.of_zeros(y)
        own = stack(y, np.log(z), np.log1p(-z), self.shift(y))
        zero = np.broadcast_to(0.0, y.shape)
        return np.concatenate([*(self.source.theta(self, count) for count in (y, zero)), own])

    def fisher(self, y: Array) -> Array:
        """That of a count without zeros of their own, at its location."""
        mean, var = self.source.conditional_moments(self, self.location(y))
        return mean * (mean / var)

    def _draw(self, x: ArrayLike, rng: np.random.Generator, counts: Callable[..., Array]) -> Array:
        zero = rng.random(np.shape(x)) < self.of_zeros(np.asarray(x, float))
        return np.where(zero, 0.0, counts(x, rng))


class _Inflated(_Zeros):
    share = "zi"

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        return self._draw(x, rng, partial(self.source.simulate, self))

    def cdf(self, y: Array, x: Array) -> Array:
        z = self.of_zeros(np.asarray(x))
        return np.where(y < 0.0, 0.0, z + (1.0 - z) * self.source.cdf(self, np.maximum(y, 0.0), x))

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        return self._thinned(*self.source.conditional_moments(self, x))

    def _predictive(self, mean: Array, var: Array) -> Predictive:
        return Predictive(*self._thinned(*self.source._predictive(self, mean, var)))

    def _thinned(self, mean: Array, var: Array) -> tuple[Array, Array]:
        z = self.of_zeros(mean)
        with np.errstate(over="ignore"):
            return (1.0 - z) * mean, (1.0 - z) * (var + mean * (z * mean))


class _Hurdle(_Zeros):
    share = "hu"
    poles = 0.25 * np.pi  # half as far as they are, where exp(-μ) is one

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        return self._draw(x, rng, self.draw_positive)

    def cdf(self, y: Array, x: Array) -> Array:
        h, more = self.of_zeros(np.asarray(x)), 1.0 - self.source.cdf(self, np.maximum(y, 0.0), x)
        above = (1.0 - h) * more / -np.expm1(-self.hazard(np.asarray(x)))
        return np.where(y < 0.0, 0.0, 1.0 - np.minimum(above, 1.0 - h))

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        mean, var = self.source.conditional_moments(self, x)
        part = (1.0 - self.of_zeros(mean)) / -np.expm1(-self.hazard(np.asarray(x)))
        with np.errstate(over="ignore"):
            return part * mean, part * (var + mean * ((1.0 - part) * mean))

    def fisher(self, y: Array) -> Array:
        """Zeros say nothing."""
        return super().fisher(y) * (y > 0.0)

    _predictive = Likelihood._predictive

    @abstractmethod
    def hazard(self, x: ArrayLike) -> Array:
        """-log p_0(0|x), positive."""

    @abstractmethod
    def draw_positive(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Draws of p_0 that are not zero: they have a first event, and others after it."""

    def _after_first(self, hazard: Array, rng: np.random.Generator) -> Array:
        """How much of the hazard is left after the first event."""
        return np.maximum(hazard + np.log1p(rng.random(hazard.shape) * np.expm1(-hazard)), 0.0)


@dataclass(frozen=True)
class ZeroInflatedPoisson(_Inflated):
    """Poisson counts and more zeros than these have: see :mod:`.zeros`.

    Parameters
    ----------
    zi : float or array (N,)
        Share of zeros that are no counts, between 0 and 1.
    exposure : float or array (N,)
        Time, area or population behind each count, > 0.
    offset : float or array (N,)
        Known part of the log mean of the counts.

    >>> ZeroInflatedPoisson(zi=0.2).log_prob([0.0, 0.0], [0, 3]).round(6)
    array([-0.704605, -3.014903])
    """

    zi: float | tuple[float, ...] = 0.5
    exposure: float | tuple[float, ...] = 1.0
    offset: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "zero_inflated_poisson"
    source: ClassVar[type[CountLikelihood]] = Rates
    free: ClassVar[Limits] = {"zi": _SHARE}

    kernel = _inflated(poisson.derivatives, poisson.first_order, 3)


@dataclass(frozen=True)
class ZeroInflatedNegativeBinomial(_Inflated):
    r"""Overdispersed counts and more zeros than these have: see :mod:`.zeros`.

    Parameters
    ----------
    shape : float or array (N,)
        The size of the negative binomial, > 0: :math:`\text{var} = \mu + \mu^2/\text{shape}`.
    zi : float or array (N,)
        Share of zeros that are no counts, between 0 and 1.
    exposure : float or array (N,)
        Time, area or population behind each count, > 0.
    offset : float or array (N,)
        Known part of the log mean of the counts.

    >>> ZeroInflatedNegativeBinomial(shape=2.0, zi=0.2).log_prob([0.0, 0.0], [0, 3]).round(6)
    array([-0.587787, -2.943616])
    """

    shape: float | tuple[float, ...] = 1.0
    zi: float | tuple[float, ...] = 0.5
    exposure: float | tuple[float, ...] = 1.0
    offset: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "zero_inflated_negative_binomial"
    source: ClassVar[type[CountLikelihood]] = Sized
    free: ClassVar[Limits] = {"shape": _SIZE, "zi": _SHARE}

    kernel = _inflated(negative_binomial.derivatives, negative_binomial.first_order, 5)


@dataclass(frozen=True)
class HurdlePoisson(_Hurdle):
    """Zero with a probability of its own, else a positive Poisson count: see :mod:`.zeros`.

    Parameters
    ----------
    hu : float or array (N,)
        Probability of a zero, between 0 and 1.
    exposure : float or array (N,)
        Time, area or population behind each count, > 0.
    offset : float or array (N,)
        Known part of the log mean of the counts.

    >>> HurdlePoisson(hu=0.2).log_prob([0.0, 0.0], [0, 3]).round(6)
    array([-1.609438, -2.556228])
    """

    hu: float | tuple[float, ...] = 0.5
    exposure: float | tuple[float, ...] = 1.0
    offset: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "hurdle_poisson"
    source: ClassVar[type[CountLikelihood]] = Rates
    log_concave: ClassVar[bool] = True
    free: ClassVar[Limits] = {"hu": _SHARE}

    kernel = _behind(poisson.derivatives, poisson.first_order, 3)

    def hazard(self, x: ArrayLike) -> Array:
        return np.maximum(self.mean(x), _TINY)

    def draw_positive(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        return 1.0 + draw_counts(self._after_first(self.hazard(x), rng), rng)


@dataclass(frozen=True)
class HurdleNegativeBinomial(_Hurdle):
    r"""Zero with a probability of its own, else a positive overdispersed count: see :mod:`.zeros`.

    Parameters
    ----------
    shape : float or array (N,)
        The size of the negative binomial, > 0: :math:`\text{var} = \mu + \mu^2/\text{shape}`.
    hu : float or array (N,)
        Probability of a zero, between 0 and 1.
    exposure : float or array (N,)
        Time, area or population behind each count, > 0.
    offset : float or array (N,)
        Known part of the log mean of the counts.

    >>> HurdleNegativeBinomial(shape=2.0, hu=0.2).log_prob([0.0, 0.0], [0, 3]).round(6)
    array([-1.609438, -2.35583 ])
    """

    shape: float | tuple[float, ...] = 1.0
    hu: float | tuple[float, ...] = 0.5
    exposure: float | tuple[float, ...] = 1.0
    offset: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "hurdle_negative_binomial"
    source: ClassVar[type[CountLikelihood]] = Sized
    free: ClassVar[Limits] = {"shape": _SIZE, "hu": _SHARE}

    kernel = _behind(negative_binomial.derivatives, negative_binomial.first_order, 5)

    def hazard(self, x: ArrayLike) -> Array:
        mean = self.mean(x)
        r = self.parameters(mean)[0]
        return np.maximum(r * np.log1p(mean / r), _TINY)

    def draw_positive(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Events of a Poisson process, each of a logarithmic number of counts."""
        mean, hazard = self.mean(x), self.hazard(x)
        r = self.parameters(mean)[0]
        first = rng.logseries(np.minimum(mean / (r + mean), 1.0 - 1e-16))
        size = r * self._after_first(hazard, rng) / hazard
        return first + draw_counts(rng.standard_gamma(size) * (mean / r), rng)
