"""Densities with known log Z that break one sampler or another.

Truths are closed forms, quadrature in one or two dimensions, products of matrices along a chain of
coordinates, and, of one regression, importance sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import integrate, optimize, special, stats
from scipy.special import gammaln, logsumexp

from .problem import LOG_2PI as _LOG_2PI
from .problem import Array, Prior, Problem, normal, uniform
from .problem import log_normal as _log_normal

#: effects of coaching in eight schools, and their standard errors
SCHOOLS = (
    np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
    np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
)


def _log_integral(
    log_f: Callable[[Any], Any], low: float, high: float, near: Sequence[float] = ()
) -> float:
    """log ∫ exp(log_f), relative to the highest point of a grid."""
    grid = np.linspace(low, high, 20_001)
    top = float(np.max(log_f(grid)))
    points = [*near] or None
    return top + math.log(
        integrate.quad(
            lambda x: math.exp(float(log_f(x)) - top), low, high, points=points,
            limit=2000, epsabs=0.0, epsrel=1e-10,
        )[0]
    )  # fmt: skip


def _chain(
    log_step: Callable[[Array, Array], Array], low: float, high: float, dim: int, nodes: int,
    log_last: Callable[[Array], Array] = np.zeros_like, log_first: Callable = np.zeros_like,
) -> float:  # fmt: skip
    """log ∫ exp(log_first(x_1) + Σ log_step(x_i, x_{i+1}) + log_last(x_d)) by midpoints."""
    step = (high - low) / nodes
    x = low + step * (np.arange(nodes) + 0.5)
    kernel = np.exp(log_step(x[:, None], x[None, :])) * step
    v = np.exp(log_last(x))
    for _ in range(dim - 1):
        v = kernel @ v
    return float(np.log(np.sum(v * np.exp(log_first(x))) * step))


# -- several modes --------------------------------------------------------------------------------


def eggbox() -> Problem:
    """Eighteen modes in a square."""
    cosine = np.cos((np.arange(4000) + 0.5) / 4000.0 * 5.0 * np.pi)
    truth = logsumexp((2.0 + np.outer(cosine, cosine)) ** 5) - 2.0 * math.log(4000)

    def log_likelihood(xp: Any, t: Array) -> Array:
        return (2.0 + xp.cos(t[..., 0] / 2.0) * xp.cos(t[..., 1] / 2.0)) ** 5

    return Problem([uniform(0.0, 10.0 * math.pi)] * 2, log_likelihood, float(truth))


def rastrigin() -> Problem:
    """A hundred and twenty-one modes in a square."""

    def each(xp: Any, t: Array) -> Array:
        return -(10.0 + t * t - 10.0 * xp.cos(2.0 * math.pi * t))

    one = _log_integral(partial(each, np), -5.12, 5.12, range(-5, 6)) - math.log(10.24)
    return Problem(
        [uniform(-5.12, 5.12)] * 2, lambda xp, t: xp.sum(each(xp, t), axis=-1), 2.0 * one
    )


def shells(dim: int) -> Problem:
    """Two Gaussian shells of radius 2 and width 0.1 around ±3.5."""
    r, w = 2.0, 0.1

    def log_likelihood(xp: Any, t: Array) -> Array:
        rest = xp.sum(t[..., 1:] ** 2, axis=-1)
        near, far = (_log_normal(xp.sqrt((t[..., 0] - c) ** 2 + rest), r, w) for c in (-3.5, 3.5))
        return xp.logaddexp(near, far)

    def radial(x: Any) -> Any:
        return (dim - 1) * np.log(x) + _log_normal(x, r, w)

    sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - gammaln(0.5 * dim)
    both = math.log(2.0) + sphere + _log_integral(radial, r - 12.0 * w, r + 12.0 * w)
    return Problem([uniform(-6.0, 6.0)] * dim, log_likelihood, both - dim * math.log(12.0))


def loggamma(dim: int) -> Problem:
    """Log-gamma and normal coordinates, two modes in each of the first two (Feroz 2019)."""

    def skew(xp: Any, x: Array, at: float) -> Array:
        z = 30.0 * (x - at)
        return math.log(30.0) + z - xp.exp(z)

    def bell(xp: Any, x: Array, at: float) -> Array:
        return _log_normal(x, at, 1.0 / 30.0)

    def twice(one: Callable, xp: Any, x: Array) -> Array:
        return xp.logaddexp(one(xp, x, 1.0 / 3.0), one(xp, x, 2.0 / 3.0)) - math.log(2.0)

    parts: list[Callable[[Any, Array], Array]] = [partial(twice, skew), partial(twice, bell)]
    kinds = [skew if i <= (dim + 2) / 2 else bell for i in range(3, dim + 1)]
    parts += [lambda xp, x, kind=kind: kind(xp, x, 2.0 / 3.0) for kind in kinds]

    def log_likelihood(xp: Any, t: Array) -> Array:
        return sum(part(xp, t[..., i]) for i, part in enumerate(parts))

    truth = sum(_log_integral(partial(p, np), 0.0, 1.0, [1 / 3, 2 / 3]) for p in parts)
    return Problem([uniform(0.0, 1.0)] * dim, log_likelihood, truth)


def spheres(
    dim: int, means: Sequence[float | Sequence[float]], sds: Sequence[float],
    shares: Sequence[float], prior: Prior,
) -> Problem:  # fmt: skip
    """A mixture of normal spheres, far inside of a uniform prior or under a normal one."""
    centres = np.array([np.broadcast_to(mean, dim) for mean in means], float)

    def log_likelihood(xp: Any, t: Array) -> Array:
        parts = [
            math.log(share) + xp.sum(_log_normal(t, centre, sd), axis=-1)
            for centre, sd, share in zip(centres, sds, shares, strict=True)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = xp.logaddexp(total, part)
        return total

    if prior.kind == "uniform":
        truth = math.log(sum(shares)) - dim * math.log(prior.b - prior.a)
    else:
        each = stats.norm.logpdf(centres, prior.a, np.hypot(sds, prior.b)[:, None]).sum(axis=1)
        truth = float(logsumexp(np.log(shares) + each))
    return Problem([prior] * dim, log_likelihood, truth)


_FOUR = [[-6, -6, -6, -6, -6], [6, 6, 6, -6, -6], [-6, 6, -6, 6, 6], [6, -6, 6, 6, 0]]


def corners(dim: int) -> Problem:
    """2^d modes, one near every corner."""

    def log_likelihood(xp: Any, t: Array) -> Array:
        both = xp.logaddexp(_log_normal(t, -2.0, 0.3), _log_normal(t, 2.0, 0.3))
        return xp.sum(both - math.log(2.0), axis=-1)

    return Problem([uniform(-5.0, 5.0)] * dim, log_likelihood, -dim * math.log(10.0))


def double_well() -> Problem:
    def log_likelihood(xp: Any, t: Array) -> Array:
        return -5.0 * (t[..., 0] ** 2 - 1.0) ** 2

    def both(x: Any) -> Any:
        return -5.0 * (x * x - 1.0) ** 2 + _log_normal(x, 0.0, 1.0)

    return Problem([normal(0.0, 1.0)], log_likelihood, _log_integral(both, -6.0, 6.0, [-1, 1]))


def sinusoid() -> Problem:
    """Forty values of a wave of unknown frequency: two amplitudes are integrated out."""
    rng = np.random.default_rng(11)
    at = np.sort(rng.uniform(0.0, 20.0, 40))
    wave = 0.9 * np.cos(4.321 * at) + 0.4 * np.sin(4.321 * at)
    y, sd = wave + rng.normal(0.0, 0.7, 40), 0.7

    def log_likelihood(xp: Any, t: Array) -> Array:
        phase = t[..., 2:3] * at
        mean = t[..., :1] * xp.cos(phase) + t[..., 1:2] * xp.sin(phase)
        return xp.sum(_log_normal(y, mean, sd), axis=-1)

    frequency = 0.2 + 9.8 * (np.arange(20_000) + 0.5) / 20_000
    waves = np.stack([np.cos(frequency[:, None] * at), np.sin(frequency[:, None] * at)], -1) / sd
    precision = np.eye(2) + np.einsum("mni,mnj->mij", waves, waves)
    b = np.einsum("mni,n->mi", waves, y / sd)
    best = np.einsum("mi,mi->m", b, np.linalg.solve(precision, b[..., None])[..., 0])
    given = 0.5 * best - 0.5 * np.linalg.slogdet(precision)[1]
    constant = _log_normal(y, 0.0, sd).sum()
    truth = float(logsumexp(given) - math.log(frequency.size) + constant)
    return Problem([normal(0.0, 1.0)] * 2 + [uniform(0.2, 10.0)], log_likelihood, truth)


# -- one narrow, curved or heavy-tailed mode ------------------------------------------------------


def rosenbrock(dim: int) -> Problem:
    def step(x: Array, following: Array) -> Array:
        return -100.0 * (following - x**2) ** 2 - (1.0 - x) ** 2

    def log_likelihood(xp: Any, t: Array) -> Array:
        return xp.sum(step(t[..., :-1], t[..., 1:]), axis=-1)

    truth = _chain(step, -5.0, 5.0, dim, 3000) - dim * math.log(10.0)
    return Problem([uniform(-5.0, 5.0)] * dim, log_likelihood, truth)


def bananas(dim: int = 5) -> Problem:
    def step(x: Array, following: Array) -> Array:
        return -2.0 * (following - 0.3 * x**2) ** 2

    def log_likelihood(xp: Any, t: Array) -> Array:
        return xp.sum(step(t[..., :-1], t[..., 1:]), axis=-1) - t[..., 0] ** 2 / 8.0

    first = _chain(
        step, -10.0, 10.0, dim, 2000, log_first=lambda x: -(x**2) / 8.0
    ) - dim * math.log(20.0)
    return Problem([uniform(-10.0, 10.0)] * dim, log_likelihood, first)


def spike_and_slab(dim: int, narrow: float = 0.01, wide: float = 0.1) -> Problem:
    """A hundred times the mass in a spike, in a box (Neal)."""

    def log_likelihood(xp: Any, t: Array) -> Array:
        spike = math.log(100.0) + xp.sum(_log_normal(t, 0.0, narrow), axis=-1)
        return xp.logaddexp(spike, xp.sum(_log_normal(t, 0.0, wide), axis=-1))

    slab = dim * math.log(special.erf(0.5 / wide / math.sqrt(2.0)))
    truth = float(np.logaddexp(math.log(100.0), slab))
    return Problem([uniform(-0.5, 0.5)] * dim, log_likelihood, truth)


def phase_transition(dim: int = 10) -> Problem:
    """Two normal densities, of widths 1 and 0.1, in a box ten wide."""
    share = 9e10

    def log_likelihood(xp: Any, t: Array) -> Array:
        square = xp.sum(t * t, axis=-1)
        return xp.logaddexp(-0.5 * square, math.log(share) - 50.0 * square)

    sds = np.array([1.0, 0.1])
    inside = special.erf(5.0 / sds / math.sqrt(2.0)) * sds * math.sqrt(2.0 * math.pi)
    truth = logsumexp(dim * np.log(inside), b=[1.0, share]) - dim * math.log(10.0)
    return Problem([uniform(-5.0, 5.0)] * dim, log_likelihood, float(truth))


def correlated(dim: int, rho: float, prior: Prior) -> Problem:
    """A normal likelihood with equal correlations."""
    common, own = 1.0 + (dim - 1) * rho, 1.0 - rho
    logdet = math.log(common) + (dim - 1) * math.log(own) + dim * _LOG_2PI

    def log_likelihood(xp: Any, t: Array) -> Array:
        mean = xp.sum(t, axis=-1) ** 2 / dim
        return -0.5 * ((xp.sum(t * t, axis=-1) - mean) / own + mean / common + logdet)

    if prior.kind == "uniform":
        truth = -dim * math.log(prior.b - prior.a)
    else:
        v = prior.b**2
        truth = -0.5 * (math.log(common + v) + (dim - 1) * math.log(own + v) + dim * _LOG_2PI)
    return Problem([prior] * dim, log_likelihood, truth)


def autoregressive(dim: int, phi: float = 0.9) -> Problem:
    mean = np.random.default_rng(dim).normal(size=dim)
    cov = 0.1 * phi ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    return _normal_likelihood(mean, cov, normal(0.0, 1.0))


def at_odds(dim: int = 16) -> Problem:
    """A prior far from the data, whose coordinates nearly agree."""
    cov = 0.99 * np.ones((dim, dim)) + 0.01 * np.eye(dim)
    return _normal_likelihood(np.zeros(dim), cov, normal(15.0, 1.0))


def _normal_likelihood(mean: Array, cov: Array, prior: Prior) -> Problem:
    precision, logdet = np.linalg.inv(cov), np.linalg.slogdet(2.0 * np.pi * cov)[1]

    def log_likelihood(xp: Any, t: Array) -> Array:
        away = t - mean
        return -0.5 * (xp.sum((away @ precision) * away, axis=-1) + logdet)

    both = cov + prior.b**2 * np.eye(mean.size)
    truth = stats.multivariate_normal.logpdf(mean, np.full(mean.size, prior.a), both)
    return Problem([prior] * mean.size, log_likelihood, float(truth))


def student(dim: int, nu: float = 2.0, spread: float = 10.0) -> Problem:
    """Multivariate t under a normal prior: a scale mixture of normals, integrated over it."""
    constant = gammaln(0.5 * (nu + dim)) - gammaln(0.5 * nu) - 0.5 * dim * math.log(nu * math.pi)

    def log_likelihood(xp: Any, t: Array) -> Array:
        return constant - 0.5 * (nu + dim) * xp.log1p(xp.sum(t * t, axis=-1) / nu)

    def given(log_w: Any) -> Any:
        var = spread**2 + nu * np.exp(-log_w)
        return stats.chi2.logpdf(np.exp(log_w), nu) + log_w - 0.5 * dim * (np.log(var) + _LOG_2PI)

    truth = _log_integral(given, -30.0, 8.0, [-8, -4, 0, 2])
    return Problem([normal(0.0, spread)] * dim, log_likelihood, truth)


def funnel(dim: int, box: float = 30.0) -> Problem:
    def log_likelihood(xp: Any, t: Array) -> Array:
        v = t[..., :1]
        return xp.sum(-0.5 * t[..., 1:] ** 2 * xp.exp(-v) - 0.5 * (v + _LOG_2PI), axis=-1)

    def given(v: Any) -> Any:
        inside = special.erf(box * np.exp(-0.5 * v) / math.sqrt(2.0))
        return _log_normal(v, 0.0, 3.0) + (dim - 1) * np.log(inside)

    truth = _log_integral(given, -30.0, 30.0, [0, 4, 7]) - (dim - 1) * math.log(2.0 * box)
    prior = [normal(0.0, 3.0)] + [uniform(-box, box)] * (dim - 1)
    return Problem(prior, log_likelihood, truth)


# -- models of data -------------------------------------------------------------------------------


def counts() -> Problem:
    y = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0])
    constant = gammaln(y + 1.0).sum()

    def log_likelihood(xp: Any, t: Array) -> Array:
        return y.sum() * xp.log(t[..., 0]) - y.size * t[..., 0] - constant

    shape = 2.0 + y.sum()
    truth = gammaln(shape) - gammaln(2.0) - shape * math.log(1.0 + y.size) - constant
    return Problem([Prior("gamma", 2.0, 1.0)], log_likelihood, float(truth))


def no_successes() -> Problem:
    """None of forty, under a prior that is infinite at zero."""
    truth = special.betaln(0.5, 40.5) - special.betaln(0.5, 0.5)
    return Problem(
        [Prior("beta", 0.5, 0.5)], lambda xp, t: 40.0 * xp.log1p(-t[..., 0]), float(truth)
    )


def waiting_times() -> Problem:
    """Three rates under wide gamma priors that are infinite at zero."""
    one = gammaln(5.5) - gammaln(0.5) - 0.5 * math.log(1000.0) - 5.5 * math.log(2.001)
    return Problem(
        [Prior("gamma", 0.5, 1000.0)] * 3,
        lambda xp, t: xp.sum(5.0 * xp.log(t) - 2.0 * t, axis=-1), 3.0 * float(one),
    )  # fmt: skip


def pines() -> Problem:
    """Drawn at random in the likeness of Radiata pine."""
    rng = np.random.default_rng(7)
    x = rng.normal(27.0, 4.0, 42)
    x = x - x.mean()
    return line(x, 2990.0 + 180.0 * x + rng.normal(0.0, 310.0, 42))


def line(x: Array, y: Array) -> Problem:
    """A line through points, its coefficients in units of the noise (priors of Radiata pine's)."""
    n = y.size
    X, start = np.column_stack([np.ones(n), x]), np.array([3000.0, 185.0])
    precision, shape, rate = np.array([0.06, 6.0]), 3.0, 2.0 * 300.0**2

    def log_likelihood(xp: Any, t: Array) -> Array:
        tau = t[..., 2:3]
        mean = start[0] + t[..., :1] / xp.sqrt(precision[0] * tau)
        mean = mean + (start[1] + t[..., 1:2] / xp.sqrt(precision[1] * tau)) * x
        return xp.sum(-0.5 * tau * (y - mean) ** 2 + 0.5 * xp.log(tau) - 0.5 * _LOG_2PI, axis=-1)

    after = np.diag(precision) + X.T @ X
    mean = np.linalg.solve(after, precision * start + X.T @ y)
    square = y @ y + start @ (precision * start) - mean @ after @ mean
    more = shape + 0.5 * n
    truth = 0.5 * (np.log(precision).sum() - np.linalg.slogdet(after)[1]) - 0.5 * n * _LOG_2PI
    truth += shape * math.log(rate) - more * math.log(rate + 0.5 * square)
    truth += gammaln(more) - gammaln(shape)
    prior = [normal(0.0, 1.0)] * 2 + [Prior("gamma", shape, 1.0 / rate)]
    return Problem(prior, log_likelihood, float(truth))


def g_prior(p: int = 10, n: int = 60) -> Problem:
    """Zellner's g prior; the noise's precision is gamma(2, rate 2)."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.5)
    y = X @ np.r_[1.0, -1.0, 0.5, np.zeros(p - 3)] + rng.normal(size=n)
    XL = X @ np.linalg.cholesky(n * np.linalg.inv(X.T @ X))

    def log_likelihood(xp: Any, t: Array) -> Array:
        tau = t[..., p]
        away = y - (t[..., :p] @ XL.T) / xp.sqrt(tau)[..., None]
        return -0.5 * tau * xp.sum(away**2, axis=-1) + 0.5 * n * (xp.log(tau) - _LOG_2PI)

    cov = np.eye(n) + XL @ XL.T
    square = y @ np.linalg.solve(cov, y)
    truth = -0.5 * n * _LOG_2PI - 0.5 * np.linalg.slogdet(cov)[1] + 2.0 * math.log(2.0)
    truth += gammaln(2.0 + 0.5 * n) - gammaln(2.0)
    truth -= (2.0 + 0.5 * n) * math.log(2.0 + 0.5 * square)
    return Problem([normal(0.0, 1.0)] * p + [Prior("gamma", 2.0, 0.5)], log_likelihood, truth)


def eight_schools(spread: float = 20.0) -> Problem:
    """Effects under a normal prior, whose mean has the deviation ``spread``."""
    y, se = SCHOOLS

    def log_likelihood(xp: Any, t: Array) -> Array:
        effect = t[..., :1] + t[..., 1:2] * t[..., 2:]
        return xp.sum(_log_normal(y, effect, se), axis=-1)

    def given(log_tau: Any) -> Any:
        """Data with the mean integrated out, by the determinant of a rank-one update."""
        tau = np.exp(np.asarray(log_tau, float))[..., None]
        v = tau**2 + se**2
        one, line = np.sum(1.0 / v, axis=-1), np.sum(y / v, axis=-1)
        logdet = np.log(v).sum(axis=-1) + np.log1p(spread**2 * one)
        square = np.sum(y**2 / v, axis=-1) - line**2 / (spread**-2 + one)
        prior = math.log(2.0 / (5.0 * math.pi)) - np.log1p((tau[..., 0] / 5.0) ** 2) + log_tau
        return prior - 0.5 * (square + logdet + y.size * _LOG_2PI)

    truth = _log_integral(given, -15.0, 12.0, [0, 2, 3])
    prior = [normal(0.0, spread), Prior("half_cauchy", 0.0, 5.0)] + [normal(0.0, 1.0)] * 8
    return Problem(prior, log_likelihood, truth)


def logistic(dim: int = 13, n: int = 120, sd: float = 2.0) -> Problem:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(n, dim - 1)) @ (np.eye(dim - 1) + 0.3)
    X = np.column_stack([np.ones(n), X])
    y = np.where(rng.random(n) < special.expit(X @ rng.normal(size=dim)), 1.0, -1.0)
    return regression(X, y, sd)


def regression(X: Array, y: Array, sd: float, draws: int = 400_000) -> Problem:
    """Labels ±1, coefficients N(0, sd²); the truth by importance sampling from a t."""
    dim = X.shape[1]

    def log_likelihood(xp: Any, t: Array) -> Array:
        return -xp.sum(xp.logaddexp(0.0, -y * (t @ X.T)), axis=-1)

    def loss(b: Array) -> float:
        return float(0.5 * b @ b / sd**2 - log_likelihood(np, b))

    b = optimize.minimize(loss, np.zeros(dim), method="BFGS", options={"gtol": 1e-6}).x
    p = special.expit(X @ b)
    cov = np.linalg.inv(X.T @ (X * (p * (1.0 - p))[:, None]) + np.eye(dim) / sd**2)
    q = stats.multivariate_t(b, 1.05 * cov, df=8, seed=1)
    log_w = np.concatenate([
        log_likelihood(np, x) + _log_normal(x, 0.0, sd).sum(axis=1) - q.logpdf(x)
        for x in (q.rvs(20_000) for _ in range(draws // 20_000))
    ])  # fmt: skip
    w = np.exp(log_w - log_w.max())
    se = float(w.std() / w.mean() / math.sqrt(w.size))
    return Problem(
        [normal(0.0, sd)] * dim, log_likelihood, float(logsumexp(log_w) - math.log(draws)), se
    )


def product(n: int = 100) -> Problem:
    """n / 2 successes with probability p₁ p₂: what is known is a curve."""
    k = n // 2
    choose = gammaln(n + 1.0) - 2.0 * gammaln(k + 1.0)

    def log_likelihood(xp: Any, t: Array) -> Array:
        p = t[..., 0] * t[..., 1]
        return choose + k * xp.log(p) + (n - k) * xp.log1p(-p)

    def given(p: Any) -> Any:  # of the product of two uniform numbers
        return choose + k * np.log(p) + (n - k) * np.log1p(-p) + np.log(-np.log(p))

    truth = _log_integral(given, 1e-12, 1.0 - 1e-12, [0.5])
    return Problem([uniform(0.0, 1.0)] * 2, log_likelihood, truth)


# -- walls and plateaus ---------------------------------------------------------------------------


def box(dim: int, low: float, side: float) -> Problem:
    """A constant in a small box of the unit cube, nothing elsewhere."""

    def log_likelihood(xp: Any, t: Array) -> Array:
        inside = xp.all((t > low) & (t < low + side), axis=-1)
        return xp.where(inside, 0.0, -xp.inf)

    return Problem([uniform(0.0, 1.0)] * dim, log_likelihood, dim * math.log(side))


def half_space(dim: int = 5) -> Problem:
    """A normal likelihood that is zero where x₁ + x₂ < 0."""

    def log_likelihood(xp: Any, t: Array) -> Array:
        return xp.where(
            t[..., 0] + t[..., 1] > 0.0, -2.0 * xp.sum((t - 1.0) ** 2, axis=-1), -xp.inf
        )

    one = 0.5 * math.log(2.0 * math.pi * 0.25) + stats.norm.logpdf(1.0, 0.0, math.sqrt(1.25))
    truth = dim * one + stats.norm.logcdf(1.6 / math.sqrt(0.4))
    return Problem([normal(0.0, 1.0)] * dim, log_likelihood, float(truth))


def undefined(dim: int = 3) -> Problem:
    """NaN where a coordinate is negative."""
    one = _log_integral(
        lambda x: 2.5 * np.log(x) - x + _log_normal(x, 0.0, 2.0), 1e-12, 40.0, [1, 3]
    )
    return Problem(
        [normal(0.0, 2.0)] * dim, lambda xp, t: xp.sum(2.5 * xp.log(t) - t, axis=-1), dim * one
    )


def wedding_cake(dim: int) -> Problem:
    """Plateaus: cubes within cubes around the middle, each with 0.7 of the volume of the last."""
    log_ratio, sd = math.log(0.7), 0.2
    tiers = np.arange(500)
    level = -(0.7 ** (2.0 * tiers / dim)) / (8.0 * sd**2)
    truth = float(logsumexp(math.log(0.3) + tiers * log_ratio + level))

    def log_likelihood(xp: Any, t: Array) -> Array:
        reach = xp.max(xp.abs(2.0 * t - 1.0), axis=-1)  # of the cube through a point
        tier = xp.floor(dim * xp.log(reach) / log_ratio)
        return -(0.7 ** (2.0 * tier / dim)) / (8.0 * sd**2)

    return Problem([uniform(0.0, 1.0)] * dim, log_likelihood, truth)


def pole(alpha: float = 1e-8) -> Problem:
    """1 / |x| down to alpha: as much mass in every decade."""

    def log_likelihood(xp: Any, t: Array) -> Array:
        return -xp.log(xp.maximum(xp.abs(t[..., 0]), alpha))

    return Problem([uniform(-1.0, 1.0)], log_likelihood, math.log(1.0 - math.log(alpha)))


#: by name, made when needed; those that are cheap for all come first
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "eggbox 2": eggbox,
    "shells 2": partial(shells, 2),
    "loggamma 2": partial(loggamma, 2),
    "rastrigin 2": rastrigin,
    "four spheres 5": partial(
        spheres, 5, _FOUR, [0.2, 0.5, 1.0, 0.1], [0.4, 0.3, 0.2, 0.1], uniform(-10.0, 10.0)
    ),
    "sinusoid 3": sinusoid,
    "rosenbrock 2": partial(rosenbrock, 2),
    "rosenbrock 4": partial(rosenbrock, 4),
    "rosenbrock 10": partial(rosenbrock, 10),
    "bananas 5": bananas,
    "needle 5": partial(spheres, 5, [3.123], [1e-3], [1.0], uniform(-10.0, 10.0)),
    "hidden 3": partial(spheres, 3, [0.0, 6.0], [1.0, 0.3], [0.2, 0.8], normal(0.0, 5.0)),
    "hidden 5": partial(spheres, 5, [0.0, 4.0], [1.0, 0.5], [0.2, 0.8], normal(0.0, 5.0)),
    "double well 1": double_well,
    "pole 1": pole,
    "counts 1": counts,
    "no successes 1": no_successes,
    "waiting times 3": waiting_times,
    "pines 3": pines,
    "product 2": product,
    "box 5": partial(box, 5, 0.2, 0.3),
    "small box 2": partial(box, 2, 0.4, 0.01),
    "small box 5": partial(box, 5, 0.4, 0.1),
    "half-space 5": half_space,
    "undefined 3": undefined,
    "wedding cake 5": partial(wedding_cake, 5),
    "core and slab 5": partial(spheres, 5, [0.0, 0.0], [0.1, 1.0], [0.02, 0.98], normal(0.0, 1.0)),
    "shells 5": partial(shells, 5),
    "eight schools 10": eight_schools,
    "g prior 11": g_prior,
    "logistic 13": logistic,
    "loggamma 10": partial(loggamma, 10),
    "shells 10": partial(shells, 10),
    "student 10": partial(student, 10),
    "funnel 10": partial(funnel, 10),
    "corners 10": partial(corners, 10),
    "core and slab 10, 0.5 %": partial(
        spheres, 10, [0.0, 0.0], [0.1, 1.0], [0.005, 0.995], normal(0.0, 1.0)
    ),
    "core and slab 10, 5 %": partial(
        spheres, 10, [0.0, 0.0], [0.1, 1.0], [0.05, 0.95], normal(0.0, 1.0)
    ),
    "phase transition 10": phase_transition,
    "wedding cake 10": partial(wedding_cake, 10),
    "correlated 16": partial(correlated, 16, 0.99, uniform(-10.0, 10.0)),
    "at odds 16": at_odds,
    "spike and slab 20": partial(spike_and_slab, 20),
    "correlated 50": partial(correlated, 50, 0.99, normal(0.0, 3.0)),
    "autoregressive 100": partial(autoregressive, 100),
    "autoregressive 500": partial(autoregressive, 500),
}
