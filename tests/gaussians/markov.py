"""A throwaway implementation of the contract: a Markov chain, by its tridiagonal precision.

It never forms a matrix of N × N numbers, so that whoever works with it needs the contract only.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded

import evidence as ev
from evidence.gaussians.base import Conditionals, Gaussian, NotPositiveDefinite, Prior


class Chain:
    """A tridiagonal precision factorised: P = L Lᵀ with L lower bidiagonal."""

    def __init__(self, diagonal, beside):
        self.bands = np.zeros((2, diagonal.size))
        self.bands[0], self.bands[1, :-1] = diagonal, beside
        try:
            self.L = cholesky_banded(self.bands, lower=True)
        except np.linalg.LinAlgError:
            raise NotPositiveDefinite("a pivot is not positive") from None

    @property
    def half_logdet(self):
        return np.log(self.L[0]).sum()

    def solve(self, v):
        return cho_solve_banded((self.L, True), v)

    def times(self, v):
        out = (self.bands[0] * v.T).T
        out[:-1] += (self.bands[1, :-1] * v[1:].T).T
        out[1:] += (self.bands[1, :-1] * v[:-1].T).T
        return out

    @cached_property
    def pull(self):
        """x_k - μ_k given the next one, in units of that one's."""
        return -self.L[1, :-1] / self.L[0, :-1]

    @cached_property
    def variances(self):
        """The diagonal of P⁻¹ by Takahashi's recursion."""
        out = 1.0 / self.L[0] ** 2
        for k in range(out.size - 2, -1, -1):
            out[k] += self.pull[k] ** 2 * out[k + 1]
        return out


class MarkovPrior(Prior):
    def __init__(self, mean, diagonal, beside):
        self.mean, self.chain = mean, Chain(diagonal, beside)

    @property
    def variances(self):
        return self.chain.variances

    def with_sites(self, nu, tau, reuse=None):
        return MarkovGaussian(self, nu, tau)

    def times(self, v):
        return self.chain.solve(v)

    def solve(self, v):
        return self.chain.times(v)

    def log_density(self, x):
        away = (x - self.mean).T
        square = np.sum(away * self.chain.times(away), axis=0)
        return self.chain.half_logdet - 0.5 * (square + self.mean.size * np.log(2 * np.pi))

    def draw(self, rng):
        return self.mean + coloured(self.chain, rng.standard_normal((self.mean.size, 1)))[:, 0]

    def explained(self, cross):
        return np.einsum("bn,bn->b", cross, self.chain.times(cross.T).T)


class MarkovGaussian(Gaussian):
    def __init__(self, prior, nu, tau):
        self.prior, self.nu, self.tau = prior, nu, tau
        bands = prior.chain.bands
        self.chain = Chain(bands[0] + tau, bands[1, :-1])

    @cached_property
    def mean(self):
        return self.prior.mean + self.chain.solve(self.nu - self.tau * self.prior.mean)

    @property
    def dual(self):
        return self.nu - self.tau * self.mean

    @property
    def variances(self):
        return self.chain.variances

    @property
    def half_logdet(self):
        return self.chain.half_logdet - self.prior.chain.half_logdet

    def solve(self, v):
        return self.chain.solve(v)

    def inner_times(self, v):
        tau = self.tau if v.ndim == 1 else self.tau[:, None]
        return tau * (v - self.chain.solve(tau * v))

    def explained(self, cross):
        return np.einsum("bn,bn->b", cross, self.inner_times(cross.T).T)

    def pair_sums(self, kappa):
        """Correlations of a chain are products of those of neighbours."""
        v, pull = self.variances, self.chain.pull
        neighbours = pull * np.sqrt(v[1:] / v[:-1])
        out = np.zeros(len(kappa))
        for l in range(3, len(kappa)):
            reached = 0.0
            for n in range(v.size - 2, -1, -1):
                reached = neighbours[n] ** l * (kappa[l, n + 1] + reached)
                out[l] += kappa[l, n] * reached
        return out

    def conditionals(self, order):
        return MarkovConditionals(self.mean, self.chain)


class MarkovConditionals(Conditionals):
    """From the last value to the first: each needs the one after it only."""

    def __init__(self, mean, chain):
        self.order = np.arange(mean.size)[::-1]
        self.mean, self.chain = mean[::-1], chain

    @property
    def sd(self):
        return 1.0 / self.chain.L[0, ::-1]

    def means(self, block, eps, values):
        away = np.zeros((block.stop - block.start, values.shape[1]))
        if block.start:
            last = values[block.start - 1] - self.mean[block.start - 1]
            pulls = self.chain.pull[::-1][block.start - 1 : block.stop - 1]
            away = np.cumprod(pulls)[:, None] * last
        values[block] = self.mean[block, None] + away

    def inner(self, block):
        size = block.stop - block.start
        step = np.eye(size)
        for i in range(1, size):
            step[i, i - 1] = -self.chain.pull[::-1][block.start + i - 1]
        return np.linalg.inv(step) * self.sd[block]

    def times(self, v):
        return self.chain.solve(v[::-1])[::-1]

    def colour(self, eps):
        return coloured(self.chain, eps[::-1])[::-1]


def coloured(chain, z):
    """x with precision P: the last value first."""
    x = z / chain.L[0][:, None]
    for k in range(len(x) - 2, -1, -1):
        x[k] += chain.pull[k] * x[k + 1]
    return x


def autoregression(n, coefficient, variance):
    """Bands of the precision of a stationary AR(1)."""
    noise = variance * (1.0 - coefficient**2)
    diagonal = np.full(n, (1.0 + coefficient**2) / noise)
    diagonal[[0, -1]] = 1.0 / noise
    return diagonal, np.full(n - 1, -coefficient / noise)


class MarkovModel(ev.GPModel):
    """A GPModel whose covariance is never there: touching K or chol is an AttributeError."""

    def __init__(self, bands, y, **words):
        self._bands = bands
        super().__init__(None, y, K=np.eye(len(y)), **words)

    def _set_prior(self, K):
        self.jitter = 0.0

    @property
    def prior(self):
        return MarkovPrior(self.mean, *self._bands)
