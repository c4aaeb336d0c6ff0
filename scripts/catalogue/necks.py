"""Normal models with two unknown scales, whose posteriors have necks, and their exact log Z.

    log τ ~ N(0, 4),  log σ ~ N(0, 4),  x ~ N(0, τ² K),  y_i ~ N(x_{j(i)}, σ²)

Where either scale shrinks to nothing the data may let it: then all of x follows, into a neck with
a tenth of the posterior or more. Given both scales y is normal, so log Z is an integral over two
numbers whatever the size of x.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import logsumexp

import evidence as ev

from .problem import LOG_2PI as _LOG_2PI

_SD = 2.0  # of the logarithms of both scales
_SOFT = np.linspace(-14.0, 14.0, 1401)  # logarithms of scales that are integrated over


class Necked(NamedTuple):
    """Data y at places of x ~ N(0, τ² K)."""

    K: np.ndarray
    place: np.ndarray
    y: np.ndarray

    @classmethod
    def simulated(
        cls, K: np.ndarray, place: np.ndarray, tau: float, sigma: float, seed: int
    ) -> Necked:
        rng = np.random.default_rng(seed)
        x = tau * np.linalg.cholesky(K) @ rng.standard_normal(len(K))
        return cls(K, place, x[place] + sigma * rng.standard_normal(place.size))

    def log_marginal(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """log p(y, log τ, log σ) with x integrated out, at all pairs."""
        values, vectors = np.linalg.eigh(self.K[np.ix_(self.place, self.place)])
        total = stats.norm.logpdf(a, 0.0, _SD)[:, None] + stats.norm.logpdf(b, 0.0, _SD)
        for value, one in zip(values.clip(0.0), (vectors.T @ self.y) ** 2, strict=True):
            var = np.exp(2.0 * a)[:, None] * value + np.exp(2.0 * b)
            total -= 0.5 * (one / var + np.log(var) + _LOG_2PI)
        return np.asarray(total)

    def logz(self) -> float:
        cell = 2.0 * math.log(_SOFT[1] - _SOFT[0])
        return float(logsumexp(self.log_marginal(_SOFT, _SOFT))) + cell

    def model(self, centred: bool = True, gradient: bool = True) -> ev.DensityModel:
        """Of (log τ, log σ, x), or not ``centred`` of (log τ, log σ, z) with x = τ chol(K) z."""
        n, root = len(self.K), np.linalg.cholesky(self.K)
        precision, half = np.linalg.inv(self.K), float(np.log(np.diag(root)).sum())

        def likelihood(b: np.ndarray, x: np.ndarray) -> tuple[Any, Any, Any]:
            """Its logarithm, and the slopes along log σ and along x."""
            away = (self.y - x[:, self.place]) * np.exp(-b)[:, None]
            square, slope = np.sum(away**2, axis=1), np.zeros_like(x)
            np.add.at(slope.T, self.place, (away * np.exp(-b)[:, None]).T)
            return -0.5 * square - self.y.size * (b + 0.5 * _LOG_2PI), square - self.y.size, slope

        def of_x(t: np.ndarray) -> tuple[Any, Any]:
            a, x = t[:, 0], t[:, 2:]
            value, noise, slope = likelihood(t[:, 1], x)
            pull = x @ precision * np.exp(-2.0 * a)[:, None]
            square = np.sum(pull * x, axis=1)
            value = value - 0.5 * square - n * (a + 0.5 * _LOG_2PI) - half
            value += stats.norm.logpdf(t[:, :2], 0.0, _SD).sum(axis=1)
            scales = np.column_stack([square - n, noise]) - t[:, :2] / _SD**2
            return value, np.column_stack([scales, slope - pull])

        def of_z(t: np.ndarray) -> tuple[Any, Any]:
            x = np.exp(t[:, :1]) * (t[:, 2:] @ root.T)
            value, noise, slope = likelihood(t[:, 1], x)
            first = np.sum(slope * x, axis=1)
            return value, np.column_stack([first, noise, np.exp(t[:, :1]) * (slope @ root)])

        both, prior = of_x, None
        if not centred:
            both = of_z
            prior = ev.GaussianPrior(np.zeros(n + 2), np.r_[_SD**2, _SD**2, np.ones(n)])
        return ev.DensityModel(
            lambda t: both(t)[0], n + 2, grad=(lambda t: both(t)[1]) if gradient else None,
            prior=prior, vectorized=True,
        )  # fmt: skip


def walk(n: int, tau: float, sigma: float, seen: float = 1.0) -> Necked:
    """A random walk of n steps, a part of which is seen."""
    steps = np.arange(1.0, n + 1.0)
    place = np.sort(np.random.default_rng(n).permutation(n)[: int(n * seen)])
    return Necked.simulated(np.minimum.outer(steps, steps), place, tau, sigma, n)


def groups(n: int, each: int, tau: float, sigma: float) -> Necked:
    """Groups with ``each`` data."""
    return Necked.simulated(np.eye(n), np.repeat(np.arange(n), each), tau, sigma, 100 + n)


PROBLEMS: dict[str, Necked] = {
    "walk 6": walk(6, 1.0, 1.0),
    "walk 10": walk(10, 0.3, 0.3),
    "walk 12, quiet": walk(12, 0.05, 0.5),
    "walk 20": walk(20, 0.1, 0.15),
    "walk 20, half seen": walk(20, 1.0, 0.1, 0.5),
    "walk 40": walk(40, 0.1, 0.1, 0.7),
    "groups 8 × 1": groups(8, 1, 1.0, 1.0),
    "groups 8 × 2, alike": groups(8, 2, 0.1, 1.0),
    "groups 15 × 2": groups(15, 2, 0.2, 0.2),
    "groups 20 × 3": groups(20, 3, 1.0, 0.3),
    "groups 30 × 1": groups(30, 1, 0.5, 0.5),
}
