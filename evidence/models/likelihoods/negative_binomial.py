"""Negative binomial: counts that vary more than Poisson counts, with a log link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp_parts, log, log1p_exp, sigmoid
from .base import Array, Limits, Predictive
from .checks import stack
from .counts import CountLikelihood, draw_counts, log_peak, lognormal_moments, once
from .pointwise import Pointwise


@vector_loop
def first_order(x, theta, step, out):
    """log p(y|x) and its slope, without branches: vector instructions if ``step`` is constant.

    For ``y > 0``, with z = d, m = y where y ≤ r and z = -d, m = r elsewhere, and p = m / (r + y),
    it is ``C' + m z - (r + y) log(1 + p expm1(z))``; for ``y = 0`` ``-r log(1 + exp(η))``.
    """
    for i in range(x.size):
        j = np.uint64(i * step)
        y, r, shift, shift_y = theta[0, j], theta[1, j], theta[2, j], theta[3, j]
        constant, seen, sign = theta[4, j], y > 0.0, 1.0 if y <= r else -1.0
        least = y if y <= r else r
        p = least / (r + y) if seen else 1.0
        z = sign * (x[i] + (shift_y if seen else shift))
        near = z if z < 600.0 else 600.0  # farther out exp overflows, and the logarithm is linear
        h, rest, t = exp_parts(near, 0.0)
        e = 2.0 * (h * (rest + t) + (h - 0.5 if seen else h))  # expm1(z) or exp(z)
        excess = p * e
        total = log(1.0 + excess, excess) + (z - near)
        out[0, i] = (constant if seen else 0.0) + least * z - (r + y) * total
        out[1, i] = -sign * (least * (1.0 - p) if seen else r) * e / (1.0 + excess)


@jit
def _log_mix(p, q, d):
    """``log(q + p exp(d))`` for ``p + q = 1``; vanishes with ``d`` to full relative accuracy."""
    if d > 600.0:
        return d + np.log(p)
    excess = p * np.expm1(d)
    return np.log1p(excess) if excess > -0.5 else np.log(q + p * np.exp(d))


@jit
def derivatives(x, theta):
    """log p(y|x) and three derivatives, at one point."""
    y, r = theta[0], theta[1]
    p, q = y / (r + y), r / (r + y)
    eta = x + theta[2]
    a, b = sigmoid(eta), sigmoid(-eta)
    if y > 0.0:
        d = x + theta[3]
        value = theta[4] - r * _log_mix(p, q, d) - y * _log_mix(q, p, -d)
        if d > 0.0:
            slope = y * q * np.expm1(-d) / (p + q * np.exp(-d))
        else:
            slope = -y * q * np.expm1(d) / (q + p * np.exp(d))
    else:
        value, slope = -r * log1p_exp(eta), -r * a
    curvature = (r + y) * a * b
    return value, slope, -curvature, curvature * np.tanh(0.5 * eta)


@jit
def _bends(x, theta):
    """The second and the third derivative."""
    return derivatives(x, theta)[2:]


class Sized(CountLikelihood):
    """Negative binomial counts; the first parameter is their size."""

    def theta(self, y: Array) -> Array:
        r, shift, some = self.parameters(y)[0], self.shift(y), once(y)
        peak = log_peak(r) + log_peak(some) - log_peak(r + some) - np.log1p(some / r)
        return stack(y, y, r, shift - np.log(r), shift - np.log(np.where(y > 0.0, y, 1.0)), peak)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Poisson counts whose rates are gamma distributed around the mean."""
        mean = self.mean(x)
        r = self.parameters(mean)[0]
        return draw_counts(mean * rng.standard_gamma(r, size=mean.shape) / r, rng)

    def cdf(self, y: Array, x: Array) -> Array:
        mean = self.mean(x)
        r = self.parameters(mean)[0]
        return betainc(r, np.floor(y) + 1.0, r / (r + mean))

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        mean = self.mean(x)
        with np.errstate(over="ignore"):
            return mean, mean + mean * (mean / self.parameters(mean)[0])

    def _predictive(self, mean: Array, var: Array) -> Predictive:
        mu, spread = lognormal_moments(mean + self.shift(mean), var)
        with np.errstate(over="ignore"):
            square = mu * mu + spread
            return Predictive(mu, mu + spread + square / self.parameters(mean)[0])


@dataclass(frozen=True)
class NegativeBinomial(Sized):
    r"""Overdispersed counts with mean :math:`\mu = \text{exposure} \cdot e^{x + \text{offset}}`.

    The dispersion ``r`` is the *size*: ``var[y|x] = μ + μ²/r``, so small values are more
    dispersed and ``r → ∞`` is :class:`.Poisson`. With ``η = log(μ/r)``,

    .. math:: \log p(y|x) = C - r \log(1 + e^\eta) - y \log(1 + e^{-\eta}), \quad
              C = \log\frac{\Gamma(r + y)}{\Gamma(r)\,\Gamma(y + 1)}.

    For ``y > 0`` it is evaluated relative to its maximum at ``d = log(μ/y) = 0``: with
    ``p = y/(r+y)`` and ``q = 1 - p`` as ``C' - r log(q + p e^d) - y log(p + q e^-d)``.

    Parameters
    ----------
    dispersion : float or array (N,)
        The size ``r`` > 0.
    exposure : float or array (N,)
        Time, area or population behind each count, > 0.
    offset : float or array (N,)
        Known part of the log mean.

    >>> NegativeBinomial(dispersion=2.0).log_prob([0.0, 0.0], [0, 3]).round(6)
    array([-0.81093 , -2.720473])
    """

    dispersion: float | tuple[float, ...] = 1.0
    exposure: float | tuple[float, ...] = 1.0
    offset: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "negative_binomial"
    free: ClassVar[Limits] = {"dispersion": (1e-3, 1e5)}

    kernel = Pointwise(_bends, 5, first_order)


@dataclass(frozen=True)
class Geometric(Sized):
    r"""Counts with mean :math:`\mu = \text{exposure} \cdot e^{x + \text{offset}}`, one of them as
    likely to be the last as any other: the negative binomial of size 1, of variance μ + μ².

    .. math:: p(y|x) = \mu^y / (1 + \mu)^{y + 1}

    Parameters
    ----------
    exposure : float or array (N,)
        Time, area or population behind each count, > 0.
    offset : float or array (N,)
        Known part of the log mean.

    >>> Geometric().log_prob([0.0, 0.0], [0, 3]).round(6)
    array([-0.693147, -2.772589])
    """

    exposure: float | tuple[float, ...] = 1.0
    offset: float | tuple[float, ...] = 0.0

    name: ClassVar[str] = "geometric"

    kernel = Pointwise(_bends, 5, first_order)

    def parameters(self, like: Array) -> tuple[Array, ...]:
        return np.ones(()), *super().parameters(like)
