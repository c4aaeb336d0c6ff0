r"""A stand-in for EP's evidence over hyperparameters, from few evaluations and their gradients.

In coordinates z in which the posterior of θ has about unit covariance, log Z is a quadratic with
unknown coefficients plus a Gaussian process with the Matérn covariance

.. math:: a^2 (1 + t + t^2/3)\,e^{-t},\qquad t = \sqrt 5\,|z - z'|/\ell,

conditioned on values and gradients. (log Z is smoother than that; but a squared exponential,
which knows so, is two to four times too sure of itself.) The quadratic is
learnt by generalised least squares, a² and ℓ by restricted maximum likelihood (C. E. Rasmussen
and C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, sections 2.7 and 9.4).

Values far below the largest are taken to be noisy: what matters there is that they are low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, solve_triangular

from ..numerics.arrays import Array


class Known(NamedTuple):
    """Where the evidence has been computed: θ (n, P), log Z, gradients, nats below the top."""

    theta: Array
    value: Array
    gradient: Array
    depth: Array

    def upper(self, most: float) -> Known:
        """Without what is more than ``most`` nats below the top, where no quadratic reaches.

        The first places stay: they surround the optimum.
        """
        kept = self.depth < most
        kept[: 1 + self.theta.shape[1]] = True
        return Known(*(part[kept] for part in self))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """What values and gradients say of log Z elsewhere."""

    centre: Array
    root: Array
    places: Array
    length: float
    scale: float
    """a"""
    lower: Array
    """Cholesky factor of the data's covariance over a²."""
    trend: Array
    """The quadratic's values and slopes at the data, whitened by it, (n (P + 1), B)."""
    upper: Array
    """Triangular factor of the trend."""
    coefficients: Array
    weights: Array

    @classmethod
    def fit(
        cls, known: Known, centre: Array, root: Array, deep: float = 10.0, *, jitter: float = 1e-4
    ) -> Surrogate:
        """The one of largest restricted likelihood; ``deep`` are nats below the largest value at
        which there is a hundredth of noise more.

        ``jitter``: noise of a value, relative to a.
        """
        lengths = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)  # in posterior standard deviations
        z = solve_triangular(root, (known.theta - centre).T, lower=True).T
        y = np.concatenate([known.value, (known.gradient @ root).T.ravel()])
        noise = (jitter + 0.01 * (known.depth / deep) ** 4) ** 2
        noise = np.tile(noise, 1 + z.shape[1])
        basis = _basis(z, slopes=True)
        fits = []
        for length in lengths:
            cov = _covariance(z, z, length, slopes=True)
            cov.flat[:: len(cov) + 1] += noise
            try:
                lower = cho_factor(cov, lower=True)[0]
            except LinAlgError:
                continue
            white = solve_triangular(lower, np.column_stack([y, basis]), lower=True)
            trend = white[:, 1:]
            q, upper = np.linalg.qr(trend)
            rest = white[:, 0] - q @ (q.T @ white[:, 0])
            free = max(y.size - upper.shape[0], 1)
            a2 = max(float(rest @ rest) / free, 1e-12)
            score = free * np.log(a2) + 2.0 * np.log(np.diag(lower)).sum()
            score += 2.0 * np.log(np.abs(np.diag(upper))).sum()
            c = solve_triangular(upper, q.T @ white[:, 0])
            w = solve_triangular(lower, rest, lower=True, trans=1)
            fits.append((score, length, (length, np.sqrt(a2), lower, trend, upper, c, w)))
        return cls(centre, root, z, *min(fits)[2])

    def white(self, theta: Array) -> Array:
        """z of the rows of θ."""
        return solve_triangular(self.root, (theta - self.centre).T, lower=True).T

    def mean(self, theta: Array) -> Array:
        """log Z at the rows of θ."""
        z, (n, p) = self.white(theta), self.places.shape
        k, first, _ = _kernel(_squares(z, self.places), self.length)
        slopes = self.weights[n:].reshape(p, n).T
        levels = k @ self.weights[:n] - first @ np.sum(self.places * slopes, axis=1)
        return _basis(z) @ self.coefficients + levels + np.sum(z * (first @ slopes), axis=1)

    def covariance(self, theta: Array) -> Array:
        """Of log Z at some θ, given what is known."""
        z = self.white(theta)
        cross, rest = self._parts(z)
        prior = _kernel(_squares(z, z), self.length)[0]
        return self.scale**2 * (prior - cross.T @ cross + rest.T @ rest)

    def variance(self, theta: Array) -> Array:
        """Its diagonal."""
        cross, rest = self._parts(self.white(theta))
        left = 1.0 - np.sum(cross**2, axis=0) + np.sum(rest**2, axis=0)
        return self.scale**2 * np.maximum(left, 0.0)

    def _parts(self, z: Array) -> tuple[Array, Array]:
        """What data tell, and what the unknown trend adds."""
        cross = _covariance(self.places, z, self.length, slopes=False)
        cross = solve_triangular(self.lower, cross, lower=True)
        rest = (_basis(z) - cross.T @ self.trend).T
        return cross, solve_triangular(self.upper, rest, trans=1)


def _kernel(square: Array, length: float) -> tuple[Array, Array, Array]:
    """k(r), -k'(r)/r and the same of that, at r² = ``square``."""
    s = np.sqrt(5.0) / length
    t = s * np.sqrt(square)
    e = np.exp(-t)
    return (1.0 + t + t * t / 3.0) * e, s**2 / 3.0 * (1.0 + t) * e, s**4 / 3.0 * e


def _squares(z: Array, other: Array) -> Array:
    square = np.sum(z**2, axis=1)[:, None] + np.sum(other**2, axis=1) - 2.0 * z @ other.T
    return np.maximum(square, 0.0)


def _covariance(z: Array, other: Array, length: float, slopes: bool) -> Array:
    """Of values and, one coordinate after the other, slopes at ``z``, with those at ``other``.

    There without ``slopes`` only values.
    """
    (n, p), m = z.shape, len(other)
    apart = (z[:, None] - other).transpose(2, 0, 1)  # (P, n, m)
    k, first, second = _kernel(np.sum(apart**2, axis=0), length)
    values = np.concatenate([k[None], -apart * first]).reshape(n * (1 + p), m)
    if not slopes:
        return values
    out = np.empty((1 + p, n, 1 + p, m))
    out[:, :, 0] = values.reshape(1 + p, n, m)
    out[0, :, 1:] = (apart * first).transpose(1, 0, 2)
    curved = np.eye(p)[:, :, None, None] * first - apart[:, None] * apart * second
    out[1:, :, 1:] = curved.transpose(0, 2, 1, 3)
    return out.reshape(n * (1 + p), m * (1 + p))


def _basis(z: Array, slopes: bool = False) -> Array:
    """1, z and their products at places; below, one coordinate after the other, their slopes."""
    n, p = z.shape
    i, j = np.triu_indices(p)
    values = np.column_stack([np.ones(n), z, z[:, i] * z[:, j]])
    if not slopes:
        return values
    unit = np.eye(p)
    rows = [values]
    for k in range(p):
        products = unit[k, i] * z[:, j] + z[:, i] * unit[k, j]
        rows.append(np.column_stack([np.zeros(n), np.tile(unit[k], (n, 1)), products]))
    return np.concatenate(rows)
