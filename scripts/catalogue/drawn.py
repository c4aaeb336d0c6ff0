"""Posteriors for bridge.py, with exact log Z, and exact draws from them.

A draw is a function of standard normal numbers; where these are an autoregression, so are the
draws, with every one of them distributed exactly. The turtles are drawn by Gibbs sampling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.linalg import cho_factor, cho_solve
from scipy.signal import lfilter
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr, ndtri

from .hard import SCHOOLS
from .problem import LOG_2PI

Array = np.ndarray


@dataclass
class Problem:
    """Draws from k normals, the log density of rows, log Z."""

    k: int
    draw: Callable[[Array], Array]
    log_density: Callable[[Array], Array]
    logz: float
    bounds: Any = None
    gibbs: Callable[..., Array] | None = None
    """(how many, draws, rng) → chains, where draws are no function of normals"""


def chains(rng: np.random.Generator, shape: tuple[int, int, int], rho: float) -> Array:
    """Stationary autoregressions of standard normal numbers, (chains, draws, k)."""
    steps = rng.standard_normal(shape)
    steps[:, 1:] *= np.sqrt(1.0 - rho**2)
    return lfilter([1.0], [1.0, -rho], steps, axis=1)


def gaussian(d: int) -> Problem:
    """Correlated, condition number 100."""
    sd = np.geomspace(1.0, 0.1, d)
    turn = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]
    return Problem(
        d,
        lambda z: (z * sd) @ turn,
        lambda x: -0.5 * np.sum((x @ turn.T / sd) ** 2, axis=1),
        0.5 * d * LOG_2PI + np.log(sd).sum(),
    )


def bounded() -> Problem:
    """A gamma, a beta between -1 and 3, a half-normal."""
    shape, a, b = 0.7, 2.0, 0.5

    def draw(z: Array) -> Array:
        u = ndtr(z)
        rate, part = stats.gamma.ppf(u[..., 0], shape), stats.beta.ppf(u[..., 1], a, b)
        part = np.clip(part, 1e-15, 1.0 - 1e-15)
        return np.stack([rate, 4.0 * part - 1.0, np.abs(z[..., 2])], axis=-1)

    def log_density(x: Array) -> Array:
        part = (x[:, 1] + 1.0) / 4.0
        beta = (a - 1) * np.log(part) + (b - 1) * np.log1p(-part)
        return (shape - 1) * np.log(x[:, 0]) - x[:, 0] + beta - 0.5 * x[:, 2] ** 2

    exact = gammaln(shape) + gammaln(a) + gammaln(b) - gammaln(a + b) + np.log(4.0)
    limits = [(0, None), (-1, 3), (0, None)]
    return Problem(3, draw, log_density, exact + 0.5 * np.log(np.pi / 2.0), limits)


def banana(bend: float = 1.0) -> Problem:
    def draw(z: Array) -> Array:
        return np.stack([z[..., 0], z[..., 1] + bend * (z[..., 0] ** 2 - 1.0)], axis=-1)

    def log_density(x: Array) -> Array:
        return -0.5 * (x[:, 0] ** 2 + (x[:, 1] - bend * (x[:, 0] ** 2 - 1.0)) ** 2)

    return Problem(2, draw, log_density, LOG_2PI)


def student(d: int = 5, nu: float = 3.0) -> Problem:
    def draw(z: Array) -> Array:
        square = stats.chi2.ppf(ndtr(z[..., :1]), nu)
        return z[..., 1:] / np.sqrt(square / nu)

    exact = 0.5 * d * np.log(nu * np.pi) + gammaln(nu / 2) - gammaln((nu + d) / 2)
    return Problem(
        d + 1, draw, lambda x: -0.5 * (nu + d) * np.log1p(np.sum(x * x, axis=1) / nu), exact
    )


def skewed(d: int = 4, shape: float = 2.0) -> Problem:
    """log of gamma numbers, on the real line."""
    return Problem(
        d,
        lambda z: np.log(stats.gamma.ppf(ndtr(z), shape)),
        lambda x: np.sum(shape * x - np.exp(x), axis=1),
        d * gammaln(shape),
    )


def bimodal(d: int = 3, gap: float = 3.0) -> Problem:
    """Two normals of standard deviations 1 and ½, a third of the draws in the second."""

    def draw(z: Array) -> Array:
        second = z[..., :1] > ndtri(2.0 / 3.0)
        return np.where(second, gap + 0.5 * z[..., 1:], z[..., 1:] - gap)

    def log_density(x: Array) -> Array:
        one = np.log(2 / 3) - 0.5 * np.sum((x + gap) ** 2, axis=1)
        two = np.log(1 / 3) - 0.5 * np.sum((x - gap) ** 2, axis=1) * 4.0 + d * np.log(2.0)
        return np.logaddexp(one, two)

    return Problem(d + 1, draw, log_density, 0.5 * d * LOG_2PI)


def groups(y: Array, sigma: Array, scale: float, centred: bool) -> Problem:
    """y ~ N(θ, σ²), θ ~ N(μ, τ²), μ ~ N(0, scale²), τ half-Cauchy(scale): quadrature over τ."""
    log_tau = np.linspace(-14.0, 8.0, 20_001) + np.log(scale)
    tau = np.exp(log_tau)[:, None]
    w = 1.0 / (sigma**2 + tau**2)
    precision = w.sum(axis=1) + scale**-2
    mean = (w * y).sum(axis=1) / precision
    log_p = 0.5 * np.sum(np.log(w) - w * y**2 - LOG_2PI, axis=1) + 0.5 * mean**2 * precision
    log_p -= 0.5 * np.log(precision) + np.log(scale)
    log_p += (
        np.log(2.0 / np.pi / scale) - np.log1p(np.exp(2 * (log_tau - np.log(scale)))) + log_tau
    )
    step = log_tau[1] - log_tau[0]
    logz = logsumexp(log_p) + np.log(step)
    cdf = np.cumsum(np.exp(log_p - logz)) * step
    keep = np.r_[True, np.diff(cdf) > 0.0]
    cdf, grid = cdf[keep] / cdf[-1], log_tau[keep] + 0.5 * step

    def draw(z: Array) -> Array:
        t = np.exp(np.interp(ndtr(z[..., :1]), cdf, grid))
        w = 1.0 / (sigma**2 + t**2)
        precision = w.sum(axis=-1, keepdims=True) + scale**-2
        mu = (w * y).sum(axis=-1, keepdims=True) / precision + z[..., 1:2] / np.sqrt(precision)
        both = 1.0 / sigma**2 + 1.0 / t**2
        theta = (y / sigma**2 + mu / t**2) / both + z[..., 2:] / np.sqrt(both)
        return np.concatenate([mu, t, theta if centred else (theta - mu) / t], axis=-1)

    def log_density(x: Array) -> Array:
        mu, t, raw = x[:, :1], x[:, 1:2], x[:, 2:]
        theta = raw if centred else mu + t * raw
        out = stats.norm.logpdf(mu[:, 0], 0.0, scale)
        out += np.log(2.0 / np.pi / scale) - np.log1p((t[:, 0] / scale) ** 2)
        out += stats.norm.logpdf(y, theta, sigma).sum(axis=1)
        prior = stats.norm.logpdf(theta, mu, t) if centred else stats.norm.logpdf(raw)
        return out + prior.sum(axis=1)

    limits = [(None, None), (0, None)] + [(None, None)] * y.size
    return Problem(2 + y.size, draw, log_density, logz, limits)


def schools(centred: bool) -> Problem:
    return groups(*SCHOOLS, 5.0, centred)


def many_groups(G: int = 100) -> Problem:
    rng = np.random.default_rng(G)
    theta = 1.0 + 0.8 * rng.standard_normal(G)
    return groups(theta + rng.standard_normal(G), np.ones(G), 5.0, True)


def regression(which: int, n: int = 42) -> Problem:
    """Strength of timber on density (0) or on resin-adjusted density (1), both simulated:
    coefficients normal given the precision, which is gamma."""
    rng = np.random.default_rng(7)
    density = rng.normal(0.0, 4.6, n)
    y = 3000.0 + 184.0 * density + rng.normal(0.0, 300.0, n)
    X = np.column_stack([np.ones(n), (density, density + rng.normal(0.0, 1.0, n))[which]])
    prior_mean, prior = np.array([3000.0, 185.0]), np.array([0.06, 6.0])
    a0, b0 = 3.0, 2.0 * 300.0**2
    precision = np.diag(prior) + X.T @ X
    root = np.linalg.cholesky(precision)
    mean = cho_solve(cho_factor(precision), prior * prior_mean + X.T @ y)
    a = a0 + n / 2
    b = b0 + 0.5 * (y @ y + prior_mean @ (prior * prior_mean) - mean @ precision @ mean)
    logz = -0.5 * n * LOG_2PI + 0.5 * np.log(prior).sum() - np.log(np.diag(root)).sum()
    logz += a0 * np.log(b0) - a * np.log(b) + gammaln(a) - gammaln(a0)

    def draw(z: Array) -> Array:
        tau = stats.gamma.ppf(ndtr(z[..., :1]), a) / b
        flat = np.linalg.solve(root.T, z[..., 1:].reshape(-1, 2).T).T.reshape(z[..., 1:].shape)
        return np.concatenate([mean + flat / np.sqrt(tau), tau], axis=-1)

    def log_density(x: Array) -> Array:
        beta, tau = x[:, :2], x[:, 2]
        out = 0.5 * (n + 2) * (np.log(tau) - LOG_2PI) + 0.5 * np.log(prior).sum()
        out -= 0.5 * tau * np.sum((y - beta @ X.T) ** 2, axis=1)
        out -= 0.5 * tau * np.sum(prior * (beta - prior_mean) ** 2, axis=1)
        return out + a0 * np.log(b0) - gammaln(a0) + (a0 - 1) * np.log(tau) - b0 * tau

    return Problem(3, draw, log_density, logz, [(None, None)] * 2 + [(0, None)])


# -- turtles ----------------------------------------------------------------------------------

#: log Z of the probit without and with random intercepts
TURTLES = {False: -156.47859, True: -156.71973}


def turtles(intercepts: bool, folder: Path) -> Problem:
    """Survival on birth weight and clutch; coefficients N(0, 10), p(σ²) = (1 + σ²)⁻²."""
    data = np.load(folder / "turtles.npz")
    weight = data["x"]
    sign, group = 2.0 * data["y"] - 1.0, data["clutch"].astype(int)
    group = np.unique(group, return_inverse=True)[1]

    def log_density(x: Array) -> Array:
        eta = x[:, :1] + x[:, 1:2] * weight
        out = stats.norm.logpdf(x[:, :2], 0.0, np.sqrt(10.0)).sum(axis=1)
        if intercepts:
            eta = eta + x[:, 3:][:, group]
            out += stats.norm.logpdf(x[:, 3:], 0.0, np.sqrt(x[:, 2:3])).sum(axis=1)
            out -= 2.0 * np.log1p(x[:, 2])
        return out + log_ndtr(sign * eta).sum(axis=1)

    limits = [(None, None)] * 2 + [(0, None)] + [(None, None)] * (group.max() + 1)
    design = np.column_stack([np.ones_like(weight), weight])
    if intercepts:
        design = np.column_stack([design, np.eye(group.max() + 1)[group]])

    def gibbs(many: int, draws: int, rng: np.random.Generator, thin: int = 4) -> Array:
        """Albert and Chib's: utilities, then coefficients, then σ², all chains side by side."""
        gram, d = design.T @ design, design.shape[1]
        beta, variance = np.zeros((many, d)), np.full(many, 0.3)
        out = np.empty((many, draws, d + intercepts))
        for t in range(-100, draws * thin):
            eta = beta @ design.T
            tail = ndtr(sign * eta) * (1.0 - rng.random(eta.shape))
            utility = eta - sign * ndtri(tail)
            diagonal = np.full((many, d), 0.1)
            diagonal[:, 2:] = 1.0 / variance[:, None]
            precision = gram + diagonal[:, :, None] * np.eye(d)
            root = np.linalg.cholesky(precision)
            noise = np.linalg.solve(np.swapaxes(root, 1, 2), rng.standard_normal((many, d, 1)))
            beta = (np.linalg.solve(precision, (utility @ design)[..., None]) + noise)[..., 0]
            if intercepts:
                b = beta[:, 2:]
                for _ in range(3):  # inverse gamma proposals, and the prior's (1 + σ²)⁻²
                    scale = 0.5 * np.sum(b * b, axis=1)
                    new = scale / rng.standard_gamma(0.5 * b.shape[1] - 1.0, many)
                    accept = np.log(rng.random(many)) < 2.0 * (np.log1p(variance) - np.log1p(new))
                    variance = np.where(accept, new, variance)
            if t >= 0 and t % thin == 0:
                parts = [beta[:, :2], variance[:, None], beta[:, 2:]]
                out[:, t // thin] = np.concatenate(parts, axis=1) if intercepts else beta
        return out

    return Problem(
        0, lambda z: z, log_density, TURTLES[intercepts], limits if intercepts else None, gibbs
    )
