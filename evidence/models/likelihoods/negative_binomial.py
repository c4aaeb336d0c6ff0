"""Negative binomial: counts that vary more than Poisson counts, with a log link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import carray
from numpy.typing import ArrayLike
from scipy.special import betainc

from ...numerics.jit import jit, kernel, vector_loop
from ...numerics.special import exp_parts, log, log1p_exp, sigmoid
from .base import Array, Predictive
from .checks import stack
from .counts import CountLikelihood, draw_counts, log_peak, lognormal_moments


@jit
def _log_mix(p, q, d):
    """``log(q + p exp(d))`` for ``p + q = 1``; vanishes with ``d`` to full relative accuracy."""
    if d > 600.0:
        return d + np.log(p)
    excess = p * np.expm1(d)
    return np.log1p(excess) if excess > -0.5 else np.log(q + p * np.exp(d))


@vector_loop
def _exps(d, less_one):
    """``exp(d)`` and, if ``less_one``, ``expm1(d)``."""
    h, r, t = exp_parts(d, 0.0)
    rest = h * (r + t)
    return 2.0 * (rest + h), 2.0 * (rest + (h - 0.5 if less_one else h))


@vector_loop
def _first_order(x, theta, step, out):
    """log p(y|x) and its slope, without branches: vector instructions if ``step`` is constant.

    For ``y > 0`` as the docstring of the class has it, with expm1(±d); the formula for
    ``y = 0`` is the same with p = q = 1, exp in place of expm1 and η in place of d.
    """
    for i in range(x.size):
        j = np.uint64(i * step)
        y, r, shift, shift_y = theta[0, j], theta[1, j], theta[2, j], theta[3, j]
        constant = theta[4, j]
        seen = y > 0.0
        p, q = y / (r + y) if seen else 1.0, r / (r + y)
        d = x[i] + (shift_y if seen else shift)
        up, up_less = _exps(d, seen)
        down, down_less = _exps(-d, seen)
        rise, fall = q + p * up, p + q * down
        log_rise, log_fall = log(rise, p * up_less), log(fall, q * down_less)
        # exp(|d|) may have overflowed
        far_rise = d + log_fall if d > 600.0 else log_rise
        far_fall = log_rise - d if d < -600.0 else log_fall
        out[0, i] = (constant if seen else 0.0) - r * far_rise - y * far_fall
        right = down_less if seen else -1.0
        out[1, i] = r * p * (right if d > 0.0 else -up_less) / (fall if d > 0.0 else rise)


@kernel
def _kernel(x_, theta_, n, stride, step, order, out_):
    x, theta, out = carray(x_, n), carray(theta_, (5, stride)), carray(out_, (4, n))
    if order == 1:
        if step:
            _first_order(x, theta, 1, out)
        else:
            _first_order(x, theta, 0, out)
        return
    for i in range(n):
        y, r = theta[0, i * step], theta[1, i * step]
        p, q = y / (r + y), r / (r + y)
        eta = x[i] + theta[2, i * step]
        a, b = sigmoid(eta), sigmoid(-eta)
        if y > 0.0:
            d = x[i] + theta[3, i * step]
            constant = theta[4, i * step]
            out[0, i] = constant - r * _log_mix(p, q, d) - y * _log_mix(q, p, -d)
            if d > 0.0:
                out[1, i] = y * q * np.expm1(-d) / (p + q * np.exp(-d))
            else:
                out[1, i] = -y * q * np.expm1(d) / (q + p * np.exp(d))
        else:
            out[0, i] = -r * log1p_exp(eta)
            out[1, i] = -r * a
        curvature = (r + y) * a * b
        out[2, i] = -curvature
        out[3, i] = curvature * np.tanh(0.5 * eta)


@dataclass(frozen=True)
class NegativeBinomial(CountLikelihood):
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
    free: ClassVar[Mapping[str, tuple[float, float]]] = {"dispersion": (1e-3, 1e5)}

    kernel = staticmethod(_kernel)

    def theta(self, y: Array) -> Array:
        r, shift = self.parameters(y)[0], self.shift(y)
        peak = log_peak(r) + log_peak(y) - log_peak(r + y) - np.log1p(y / r)
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
