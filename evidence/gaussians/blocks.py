r"""Sites that see several values of a datum at once, as sites of one value each.

For data of P values, stacked one after the other in x, :math:`x_n = (x_{1n}, …, x_{Pn})`, a site

.. math:: t_n(x_n) = \exp(c_n + \nu_n^T d_n - \tfrac12 d_n^T W_n d_n),\qquad
          d_n = x_n - m_n,\quad W_n = R_n\,\mathrm{diag}(\tau_n)\,R_n^T,\quad R_n = S_n^{-1} U_n,

with m the prior's mean, is P sites of one value each of :math:`z_n = R_n^T d_n`, with S the
prior's standard deviations, in whose units U is orthogonal: values may have units of their own,
and what is lost in rounding counts for as much as d is, not x, which may be far from zero. A
prior that is turned (:meth:`~evidence.gaussians.base.Prior.turned`) with such sites is all there
is to it: curvatures may be negative where q exists.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..numerics.arrays import Array, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from .base import Gaussian, Prior, Root, Steps


class BlockSites(NamedTuple):
    """c (N,), ν (P, N), W (N, P, P) and m."""

    c: Array
    nu: Array
    W: Array
    at: Array
    """m (P, N), from which x is counted."""
    pi: Array | None = None
    """(P, N) where W is diag(π) - ππᵀ/Σπ."""

    @classmethod
    def none(cls, prior: Prior, P: int) -> BlockSites:
        """Sites that say nothing."""
        at = prior.mean.reshape(P, -1)
        return cls(np.zeros(at.shape[1]), np.zeros(at.shape), np.zeros((at.shape[1], P, P)), at)

    def of(self, data: Indices | slice) -> BlockSites:
        """Those of some data."""
        return BlockSites(self.c[data], self.nu[:, data], self.W[data], self.at[:, data])

    def times_W(self, x: Array) -> Array:
        """W x of rows (…, P, N)."""
        if len(self.W) == 1:
            return (x[..., 0] @ self.W[0])[..., None]
        out, P = np.empty_like(x), x.shape[-2]
        for p in range(P):
            out[..., p, :] = sum(self.W[:, p, q] * x[..., q, :] for q in range(P))
        return out

    def log(self, x: Array) -> Array:
        """log t_n of rows (…, P, N), shape (…, N)."""
        d = x - self.at
        return self.c + np.sum(d * (self.nu - 0.5 * self.times_W(d)), axis=-2)

    def slope(self, x: Array) -> Array:
        """Gradients of log t_n at such rows."""
        return self.nu - self.times_W(x - self.at)


class BlockGaussian:
    """q for such sites; arrays are of x, flat, as the prior has them."""

    def __init__(self, prior: Prior, sites: BlockSites) -> None:
        """Raises :class:`.NotPositiveDefinite` where there is no such q."""
        rounding = 1e-14  # of a curvature in one direction, relative to its largest
        self.prior, self.sites = prior, sites
        sd = units_of(prior, len(sites.nu))
        values, U = np.linalg.eigh(sd[:, :, None] * sites.W * sd[:, None, :])
        values[np.abs(values) < rounding * np.abs(values).max(axis=1, keepdims=True)] = 0.0
        self.R, self.back = U / sd[:, :, None], U * sd[:, :, None]  # x = back z
        tau = np.ascontiguousarray(values.T.ravel())
        nu = combined(self.back, sites.nu.ravel())
        self.turned: Gaussian = prior.turned(self.R).with_sites(nu, tau)

    @cached_property
    def mean(self) -> Array:
        return self.prior.mean + spread(self.back, self.turned.mean)

    @property
    def dual(self) -> Array:
        """K⁻¹(μ - m)."""
        return spread(self.R, self.turned.dual)

    @cached_property
    def blocks(self) -> Array:
        """Covariances of the values of every datum, (N, P, P)."""
        N, P = self.R.shape[:2]
        if self.prior.design is None:
            whole = self.turned.covariance.reshape(P, N, P, N)
            own = np.einsum("pnqn->npq", whole)
            return np.einsum("nap,npq,nbq->nab", self.back, own, self.back, optimize=True)
        rows, columns = np.triu_indices(P, 1)
        some = np.hstack([np.eye(P), np.eye(P)[:, rows] + np.eye(P)[:, columns]])
        turned: Any = self.turned
        sd = units_of(self.prior, P)
        each = turned.solved.variances_of(self.prior.turned(some / sd[:, :, None]))
        each, out = each.reshape(-1, N), np.empty((N, P, P))
        for p in range(P):
            out[:, p, p] = each[p]
        for k, (p, q) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True), P):
            out[:, p, q] = out[:, q, p] = 0.5 * (each[k] - each[p] - each[q])
        return sd[:, :, None] * out * sd[:, None, :]

    @property
    def variances(self) -> Array:
        return np.einsum("npp->pn", self.blocks).ravel()

    @property
    def latent(self) -> tuple[Array, Array]:
        """Mean and variances of the latent values: of x where there is no other."""
        if self.prior.design is None:
            return self.mean, self.variances
        return self.turned.latent

    def row_variances(self, A: csr_array) -> Array:
        """Variances of A u for rows of latent values."""
        return self.turned.row_variances(A)  # type: ignore[attr-defined]

    def log_normaliser(self, c: Array) -> float:
        """log ∫ prior · sites."""
        return self.turned.log_normaliser(np.concatenate([c, np.zeros(self.R[:, 1:, 0].size)]))

    @cached_property
    def covariance(self) -> Array:
        """Of x, where the prior is a matrix."""
        half = spread(self.back, self.turned.covariance)
        return spread(self.back, half.T)

    @property
    def inner(self) -> Array:
        """K⁻¹ - K⁻¹ΣK⁻¹, where the prior is a matrix."""
        turned: Any = self.turned
        return spread(self.R, spread(self.R, turned.inner).T)

    def steps(self) -> Steps:
        """Of the latent values, which the turned prior shares."""
        return self.turned.steps()

    def root(self) -> Root:
        return self.turned.root()


def units_of(prior: Prior, P: int) -> Array:
    """The prior's standard deviations of every datum's values, (N, P); 1 where there are none."""
    sd = np.sqrt(prior.variances.reshape(P, -1).T)
    return np.where(sd > 0.0, sd, 1.0)


def combined(R: Array, x: Array) -> Array:
    """R_nᵀ x_n: (P·N, …) to (J·N, …), R (N, P, J)."""
    shaped = x.reshape(R.shape[1], len(R), -1)
    out = np.einsum("npj,pnk->jnk", R, shaped)
    return np.ascontiguousarray(out).reshape(-1, *x.shape[1:])


def spread(R: Array, z: Array) -> Array:
    """R_n z_n, likewise."""
    return combined(R.swapaxes(1, 2), z)
