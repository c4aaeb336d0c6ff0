r"""Proposals fitted to draws: densities that can be drawn from and are normalised.

=============  =================================================================================
``normal``     the normal with the draws' mean and covariance
``student_t``  a multivariate t, its degrees of freedom those of the highest likelihood
``mixture``    a mixture of normals, as many as BIC takes
``scaled``     a normal in coordinates without the scales that the draws show: what a funnel, or
               groups with a standard deviation of their own, become when they are non-centred
=============  =================================================================================

Which one is best is told by draws that it was not fitted to: the highest mean log density there
is the smallest Kullback–Leibler divergence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp

from ..models.density.scales import Scales, learn
from ..numerics.arrays import Array


class Fitted(Protocol):
    """A normalised density."""

    def log_prob(self, x: Array) -> Array:
        """Of every row."""

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Independent rows."""


@dataclass(frozen=True)
class Elliptical:
    """A multivariate t; with infinitely many degrees of freedom, the normal."""

    mean: Array
    root: Array
    """The lower Cholesky factor of its scale matrix"""
    degrees: float = np.inf

    def log_prob(self, x: Array) -> Array:
        d, nu = self.mean.size, self.degrees
        square = np.sum(self.whiten(x) ** 2, axis=1)
        constant = -np.log(np.diag(self.root)).sum()
        if nu == np.inf:
            return constant - 0.5 * (d * np.log(2.0 * np.pi) + square)
        constant += gammaln(0.5 * (nu + d)) - gammaln(0.5 * nu) - 0.5 * d * np.log(nu * np.pi)
        return constant - 0.5 * (nu + d) * np.log1p(square / nu)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        z = rng.standard_normal((n, self.mean.size))
        if self.degrees < np.inf:
            z /= np.sqrt(rng.chisquare(self.degrees, (n, 1)) / self.degrees)
        return self.mean + z @ self.root.T

    def whiten(self, x: Array) -> Array:
        """Rows with mean zero and the identity for their scale matrix."""
        return solve_triangular(self.root, (x - self.mean).T, lower=True).T


@dataclass(frozen=True)
class Mixed:
    """A mixture."""

    log_weights: Array
    parts: tuple[Fitted, ...]

    def log_prob(self, x: Array) -> Array:
        each = [part.log_prob(x) for part in self.parts]
        return logsumexp(self.log_weights[:, None] + each, axis=0)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        sizes = rng.multinomial(n, np.exp(self.log_weights))
        rows = [part.draw(rng, size) for part, size in zip(self.parts, sizes, strict=True)]
        return rng.permutation(np.concatenate(rows))


@dataclass(frozen=True)
class Rescaled:
    """A density of u where x = scales(u)."""

    scales: Scales
    inner: Fitted

    def log_prob(self, x: Array) -> Array:
        u = self.scales.inverse(x)
        return self.inner.log_prob(u) - self.scales.log_slope(u)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        return self.scales(self.inner.draw(rng, n))


def normal(x: Array, effective: float) -> Elliptical:
    """The normal with the mean and covariance of rows x."""
    return Elliptical(x.mean(axis=0), np.linalg.cholesky(np.atleast_2d(np.cov(x.T))))


def student_t(
    x: Array, effective: float, degrees: tuple[float, ...] = (3.0, 5.0, 10.0, 30.0)
) -> Elliptical:
    """The multivariate t of the highest likelihood, by EM for each of some degrees of freedom."""
    start = normal(x, effective)
    fits = [_t_of(x, start, one) for one in degrees]
    return max(fits, key=lambda fit: fit.log_prob(x).sum())


def _t_of(x: Array, fit: Elliptical, degrees: float, steps: int = 20) -> Elliptical:
    """Mean and scale after so many ``steps`` of EM."""
    for _ in range(steps):
        w = (degrees + fit.mean.size) / (degrees + np.sum(fit.whiten(x) ** 2, axis=1))
        mean = w @ x / w.sum()
        scale = ((x - mean).T * w) @ (x - mean) / len(x)
        fit = Elliptical(mean, np.linalg.cholesky(scale), degrees)
    return fit


def mixture(
    x: Array, effective: float, sizes: tuple[int, ...] = (2, 4, 8), most: int = 10_000,
    per_number: float = 3.0,
) -> Mixed | None:  # fmt: skip
    """The mixture of normals of the lowest BIC, fitted to ``most`` draws; none where there are not
    ``per_number`` effective ones for each number that the smallest of these ``sizes`` has."""
    from sklearn.mixture import GaussianMixture

    base, d = normal(x, effective), x.shape[1]
    z = base.whiten(x[:: -(-len(x) // most)])
    enough = effective / (per_number * (1 + d + d * (d + 1) / 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: BIC tells what a fit is worth
        fits = [GaussianMixture(k, random_state=0).fit(z) for k in sizes if k <= enough]
    if not fits:
        return None
    best = min(fits, key=lambda fit: fit.bic(z))
    parts = [
        Elliptical(base.mean + base.root @ mean, np.linalg.cholesky(base.root @ cov @ base.root.T))
        for mean, cov in zip(best.means_, best.covariances_, strict=True)
    ]
    return Mixed(np.log(best.weights_), tuple(parts))


def scaled(x: Array, effective: float) -> Rescaled | None:
    """A normal where scales are taken out; none where the draws show no scales."""
    scales = learn(x, np.full(len(x), 1.0 / len(x)))
    if scales is None:
        return None
    try:
        return Rescaled(scales, normal(scales.inverse(x), effective))
    except np.linalg.LinAlgError:  # scales that overflow
        return None


Family = Callable[[Array, float], Fitted | None]
FAMILIES: dict[str, Family] = {
    "normal": normal, "student_t": student_t, "mixture": mixture, "scaled": scaled,
}  # fmt: skip
