r"""Beta and beta-binomial: shares and successes whose probability varies, with a logistic link.

With :math:`\mu = \sigma(x)`, :math:`a = \mu\varphi` and :math:`b = (1 - \mu)\varphi` both are
:math:`e^{A(a) + B(b)}` times powers of μ and 1 - μ, which have what is steep in the tails:
:math:`\Gamma(a) = \Gamma(1 + a) / a`, so that A and B have bounded derivatives.

References
----------
S. Ferrari and F. Cribari-Neto, Beta regression for modelling rates and proportions, J. Appl. Stat.
31 (2004) 799.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaln, digamma, expit, gammaln, logit

from ...numerics.jit import jit, vector_loop
from ...numerics.special import LOG_SQRT_2PI, exp, log, log1p_exp, sigmoid
from .base import Array, Likelihood, Limits
from .binomial import Trials
from .checks import Parametric, check_between, stack
from .counts import log_peak
from .pointwise import Pointwise

_FREE: Limits = {"phi": (1e-3, 1e5)}
_LARGE = 14.0  # where asymptotic series of 1/z² to these orders are good to 1e-16
_LEAST, _MOST = np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg


@vector_loop
def _stirling(z):
    """log Γ(z) - (z - ½) log z + z - ½ log 2π for z ≥ 9."""
    w = 1.0 / (z * z)
    rest = 1 / 1680 - w * (1 / 1188 - w * (691 / 360360 - w * (1 / 156)))
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * rest))) / z


@vector_loop
def _bernoulli(z):
    """log z - ψ(z) - 1 / 2z for z ≥ 9."""
    w = 1.0 / (z * z)
    rest = 1 / 240 - w * (1 / 132 - w * (691 / 32760 - w * (1 / 12)))
    return w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * rest)))


@jit
def _series(z):
    """What log z - 1/2z, 1/z + 1/2z² and -1/z² leave of the derivatives of log Γ(z), z ≥ 14."""
    r = 1.0 / z
    w = r * r
    two = r * w * (1 / 6 - w * (1 / 30 - w * (1 / 42 - w * (1 / 30 - w * (5 / 66)))))
    three = w * w * (1 / 2 - w * (1 / 6 - w * (1 / 6 - w * (3 / 10 - w * (5 / 6)))))
    return -_bernoulli(z), two, -w * r - three


@jit
def _digamma(a):
    """The derivatives of log Γ(a), three for a ≥ 1, by recurrence and asymptotic series."""
    one, two, three, z = 0.0, 0.0, 0.0, a
    while z < _LARGE:
        r = 1.0 / z
        one, two, three, z = one - r, two + r * r, three - 2.0 * r * r * r, z + 1.0
    r, rest = 1.0 / z, _series(z)
    one += math.log(z) - 0.5 * r + rest[0]
    return one, two + r + 0.5 * r * r + rest[1], three - r * r + rest[2]


@jit
def _rising(a, n):
    """log Γ(a + n) - log Γ(a) and three derivatives, for a ≥ 1 and a whole n: n log a and little
    more where a is large."""
    few = 16.0  # counts up to which log Γ(a + n) - log Γ(a) is a sum
    product, one, two, three, z = 1.0, 0.0, 0.0, 0.0, a
    if n > few:
        while z < _LARGE:
            r, s = 1.0 / z, 1.0 / (z + n)
            product, z = product * z * s, z + 1.0
            one, two, three = one + r - s, two + s * s - r * r, three + 2.0 * (r**3 - s**3)
        r, s, near, far = 1.0 / z, 1.0 / (z + n), _series(z), _series(z + n)
        value = (z + n - 0.5) * math.log1p(n / z) - n + _stirling(z + n) - _stirling(z)
        fall = -n * r * s  # s - r
        one += far[0] - near[0] + math.log1p(n / z) - 0.5 * fall
        two += far[1] - near[1] + fall * (1.0 + 0.5 * (r + s))
        three += far[2] - near[2] - fall * (r + s)
        return math.log(product) + n * math.log(z) + value, one, two, three
    for k in range(int(n)):
        r = 1.0 / (a + k)
        product *= 1.0 + k / a
        one, two, three = one + r, two - r * r, three + 2.0 * r * r * r
    return n * math.log(a) + math.log(product), one, two, three


@jit
def _chain(x, phi, powers, a, b):
    """``powers`` of μ and 1 - μ, and functions of a = μφ and b = (1 - μ)φ, as functions of x."""
    p, q = sigmoid(x), sigmoid(-x)
    v, less = p * q, q - p
    one, two, three = phi * v, phi * v * less, phi * v * (1.0 - 6.0 * v)
    d1, d2, d3 = a[1] - b[1], a[2] + b[2], a[3] - b[3]
    bend = (powers[0] + powers[1]) * v
    value = a[0] + b[0] - powers[0] * log1p_exp(-x) - powers[1] * log1p_exp(x)
    slope = powers[0] * q - powers[1] * p + one * d1
    curvature = -bend + two * d1 + one * one * d2
    return value, slope, curvature, -bend * less + three * d1 + 3.0 * one * two * d2 + one**3 * d3


@jit
def _climb(x, phi, log_odds):
    """Newton's method for ψ(a) - ψ(b) = ``log_odds``."""
    steps = 4  # of which errors are below 2e-8, for φ of .001 to 1e5 and any y
    for i in range(x.size):
        for _ in range(steps):
            a, b = phi[i] * sigmoid(x[i]), phi[i] * sigmoid(-x[i])
            f, g = _digamma(a), _digamma(b)
            x[i] -= (f[0] - g[0] - log_odds[i]) / ((f[1] + g[1]) * (a * b / phi[i]))


@vector_loop
def _first_order(x, theta, step, out):
    """log p(y|x) and its slope, without branches: vector instructions if ``step`` is constant.

    What a is to μ and y, b is to 1 - μ and 1 - y. Where it is small Γ(1 + a) is Γ(s) at s = a + 9,
    over (a + 1) … (a + 8) = (u + 8)(u + 14)(u + 18)(u + 20) with u = a² + 9a.
    """
    for i in range(x.size):
        out[0, i], out[1, i] = theta[4, np.uint64(i * step)], 0.0
    for side in range(2):
        sign = 1.0 - 2.0 * side
        for i in range(x.size):
            j = np.uint64(i * step)
            z, phi, log_y = sign * x[i], theta[0, j], theta[1 + side, j]
            e = exp(-abs(z))
            less = 1.0 / (1.0 + e)
            over = log(1.0 + e, e) - (z if z < 0.0 else 0.0)  # -log μ
            p, q = (less if z > 0.0 else e * less), (e * less if z > 0.0 else less)
            a = phi * p
            small, u = a < _LARGE, a * (a + 9.0)
            s = a + 9.0 if small else a
            one, two = u * (u + 22.0) + 112.0, u * (u + 38.0) + 360.0
            product = one * two if small else 1.0
            steep = (2.0 * a + 9.0) * ((2.0 * u + 22.0) * two + (2.0 * u + 38.0) * one) / product
            log_s = log(s, s - 1.0)
            psi = log_s - _bernoulli(s) + (-0.5 / s - steep if small else 0.5 / s)  # of 1 + a
            excess = a * (theta[3, j] - over - 1.0) - (s - 0.5) * log_s + s
            excess = excess + log(product, product - 1.0) if small else -0.5 * log_s
            out[0, i] += a * (log_y + over) - over + excess - _stirling(s) - LOG_SQRT_2PI
            out[1, i] += sign * (a * q * (log_y - psi) + q)
    for i in range(x.size):  # more is rounding
        top = theta[5, np.uint64(i * step)]
        out[0, i] = out[0, i] if out[0, i] < top else top


@jit
def _bends(x, t):
    """The second and the third derivative of a beta density."""
    f, g = _digamma(1.0 + t[0] * sigmoid(x)), _digamma(1.0 + t[0] * sigmoid(-x))
    A, B = (0.0, t[1] - f[0], -f[1], -f[2]), (0.0, t[2] - g[0], -g[1], -g[2])
    return _chain(x, t[0], (1.0, 1.0), A, B)[2:]


@jit
def _beta_binomial(x, t):
    """Γ(a + y) / Γ(a) is a (a + 1) … (a + y - 1)."""
    phi, y, rest, constant = t[0], t[1], t[2], t[3]
    A = _rising(1.0 + phi * sigmoid(x), max(y - 1.0, 0.0))
    B = _rising(1.0 + phi * sigmoid(-x), max(rest - 1.0, 0.0))
    f = _chain(x, phi, (min(y, 1.0), min(rest, 1.0)), A, B)
    return min(constant + f[0], 0.0), f[1], f[2], f[3]


def _fisher(self: Likelihood, y: Array) -> Array:
    """That of a mean with this variance, at the location."""
    x = self.location(y)
    mean, var = self.conditional_moments(x)
    return (mean * expit(-x)) ** 2 / var


def _draw(x: Array, phi: Array, rng: np.random.Generator) -> Array:
    """Beta numbers of mean σ(x)."""
    return rng.beta(phi * np.maximum(expit(x), _LEAST), phi * np.maximum(expit(-x), _LEAST))


@dataclass(frozen=True)
class Beta(Parametric):
    r"""Shares between 0 and 1 with mean :math:`\mu = \sigma(x)` and variance μ(1 - μ)/(1 + φ).

    .. math:: p(y|x) = \frac{y^{\mu\varphi - 1} (1 - y)^{(1 - \mu)\varphi - 1}}
              {B(\mu\varphi, (1 - \mu)\varphi)}

    Parameters
    ----------
    phi : float or array (N,)
        The precision φ > 0.

    >>> Beta(phi=2.0).log_prob([0.5, 1.0], [0.4, 0.5]).round(6)
    array([-0.200001, -0.379892])
    """

    phi: float | tuple[float, ...] = 1.0

    name: ClassVar[str] = "beta"
    free = _FREE
    log_concave: ClassVar[bool] = False
    unimodal: ClassVar[bool] = True

    kernel = Pointwise(_bends, 6, _first_order)

    check = check_between

    def theta(self, y: Array) -> Array:
        (phi,) = self.parameters(y)
        log_y, log_rest = np.log(y), np.log1p(-y)
        log_phi = np.log(phi)
        constant = log_phi - log_peak(phi) - log_y - log_rest
        # the highest density where φ is large: from 1e12 on rounding is 1e-4 nats or more
        top = 0.5 * (log_phi - log_y - log_rest) - LOG_SQRT_2PI
        return stack(y, phi, log_y, log_rest, log_phi, constant, np.where(phi > 1e12, top, np.inf))

    def location(self, y: Array) -> Array:
        """Where ψ(a) - ψ(b) = logit y; the start is right where b is, of which a's ψ follows."""
        (phi,), least = self.parameters(y), np.minimum(y, 1.0 - y)
        log_odds, b = logit(least), phi * (1.0 - (phi * least + 0.5) / (phi + 1.0))
        psi = log_odds + digamma(b)
        with np.errstate(over="ignore", divide="ignore"):
            a = np.where(psi > -2.22, np.exp(psi) + 0.5, -1.0 / (psi + np.euler_gamma))
        start = np.broadcast_arrays(np.minimum(np.log(a / b), 0.0), phi, log_odds)
        x, *given = (np.array(part).ravel() for part in start)
        _climb(x, *given)
        return x.reshape(y.shape) * np.where(y < 0.5, 1.0, -1.0)

    fisher = _fisher

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        x = np.asarray(x, float)
        return np.clip(_draw(x, self.parameters(x)[0], rng), _LEAST, _MOST)

    def cdf(self, y: Array, x: Array) -> Array:
        (phi,) = self.parameters(np.asarray(x))
        return betainc(phi * expit(x), phi * expit(-x), np.clip(y, 0.0, 1.0))

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        p = expit(x)
        return p, p * expit(-x) / (1.0 + self.parameters(p)[0])


@dataclass(frozen=True)
class BetaBinomial(Trials):
    r"""y successes among n trials whose probability is a beta number of mean σ(x).

    .. math:: p(y|x) = \binom{n}{y} \frac{B(y + a, n - y + b)}{B(a, b)}, \quad
              a = \varphi\sigma(x), \quad b = \varphi\sigma(-x)

    Parameters
    ----------
    n : int or array (N,)
        Trials behind each datum, 1, 2, …
    phi : float or array (N,)
        The precision φ > 0; for large values it is :class:`.Binomial`.

    >>> BetaBinomial(n=2, phi=2.0).log_prob([0.0, 0.0], [0, 1]).round(6)
    array([-1.098612, -1.098612])
    """

    n: float | tuple[float, ...] = 1.0
    phi: float | tuple[float, ...] = 1.0

    name: ClassVar[str] = "beta_binomial"
    free = _FREE
    log_concave: ClassVar[bool] = False
    unimodal: ClassVar[bool] = True

    kernel = Pointwise(_beta_binomial, 4)

    def theta(self, y: Array) -> Array:
        """Of μ and 1 - μ there is a power each where there are successes and failures."""
        n, phi = self.parameters(y)
        phi = np.minimum(phi, 1e90)  # it is binomial long before; φ³ must not overflow
        ways = -np.log1p(n) - betaln(n - y + 1.0, y + 1.0)
        powers = (y > 0.0) * np.log(phi) + (y < n) * np.log(phi)
        return stack(y, phi, y, n - y, ways + betaln(phi, n) - gammaln(n) + powers)

    fisher = _fisher

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        x = np.asarray(x, float)
        n, phi = self.parameters(x)
        return rng.binomial(np.asarray(n, np.int64), _draw(x, phi, rng)).astype(float)

    def cdf(self, y: Array, x: Array) -> Array:
        """The sum of as many probabilities."""
        y, x = np.broadcast_arrays(np.floor(y), x)
        n, phi = self.parameters(y)
        p, rest = phi * np.maximum(expit(x), _LEAST), phi * np.maximum(expit(-x), _LEAST)
        term, total = betaln(p, rest + n) - betaln(p, rest), np.full(y.shape, -np.inf)
        for k in range(int(np.max(np.minimum(y, n), initial=-1.0)) + 1):
            total = np.where(k <= y, np.logaddexp(total, term), total)
            left = np.maximum(n - k, 0.0)
            with np.errstate(divide="ignore"):
                ratio = left * (p + k) / ((k + 1.0) * (rest + np.maximum(left - 1.0, 0.0)))
                term = term + np.log(ratio)
        return np.where(y < n, np.minimum(np.exp(total), 1.0), 1.0)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        x = np.asarray(x, float)
        n, phi = self.parameters(x)
        mean = n * expit(x)
        return mean, mean * expit(-x) * (phi + n) / (phi + 1.0)
