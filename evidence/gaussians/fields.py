r"""Independent fields at the same data, and sites that see differences of their values only.

Curvatures of a softmax are :math:`W_n = \mathrm{diag}(\pi_n) - \pi_n\pi_n^T / s_n` with
:math:`s_n = \sum_k \pi_{kn}`. Everything comes from C + 1 factorisations of N × N matrices then
(Rasmussen and Williams 2006, section 3.5): with :math:`D_k = \mathrm{diag}(\pi_k)`,

.. math:: E_k = (K_k + D_k^{-1})^{-1},\qquad \textstyle\sum_k E_k = M M^T,\qquad
          \log|I + WK| = \sum_k \log|I + D_k K_k| + \log|MM^T| - \sum_n \log s_n

.. math:: K^{-1} - K^{-1}\Sigma K^{-1} = E - E R (MM^T)^{-1} R^T E,\qquad
          \Sigma_{kj} = \delta_{kj}(K_k - K_k E_k K_k) + K_k E_k (MM^T)^{-1} E_j K_j

with R the C identities on top of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs

from ..numerics.arrays import Array
from .base import NotPositiveDefinite
from .blocks import BlockGaussian, BlockSites
from .dense import DensePrior


class FieldsPrior(DensePrior):
    """Of all fields, flat: matrices that not everybody needs."""

    def __init__(self, fields: Sequence[DensePrior]) -> None:
        self.fields, self.mean = fields, np.concatenate([field.mean for field in fields])

    @cached_property
    def covariance(self) -> Array:  # type: ignore[override]
        return block_diag(*(field.covariance for field in self.fields))

    @cached_property
    def chol(self) -> Array:  # type: ignore[override]
        return block_diag(*(field.chol for field in self.fields))

    @property
    def variances(self) -> Array:
        return np.concatenate([field.variances for field in self.fields])

    def times(self, v: Array) -> Array:
        parts = np.split(v, len(self.fields))
        return np.concatenate([f.times(own) for f, own in zip(self.fields, parts, strict=True)])

    def with_blocks(self, sites: BlockSites) -> BlockGaussian:
        return BlockGaussian(self, sites) if sites.pi is None else ContrastGaussian(self, sites)


class ContrastGaussian(BlockGaussian):
    """q for such sites."""

    prior: FieldsPrior

    def __init__(self, prior: FieldsPrior, sites: BlockSites) -> None:
        assert sites.pi is not None
        self.prior, self.sites, none = prior, sites, np.zeros(sites.c.size)
        self.each = [f.with_sites(none, pi) for f, pi in zip(prior.fields, sites.pi, strict=True)]
        total = np.sum([q.inner for q in self.each], axis=0)
        self.M, info = dpotrf(total.T, lower=1, clean=1, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefinite("the curvatures of all fields have no Cholesky factor")

    def _times_E(self, v: Array) -> Array:
        """E_k v_k of every field, v (C, N)."""
        return np.stack([q.inner_times(own) for q, own in zip(self.each, v, strict=True)])

    @cached_property
    def dual(self) -> Array:
        b = self.sites.nu
        c = self._times_E(self.prior.times(b.ravel()).reshape(b.shape))
        shift = np.broadcast_to(dpotrs(self.M, c.sum(axis=0), lower=1)[0], b.shape)
        return (b - c + self._times_E(np.ascontiguousarray(shift))).ravel()

    @cached_property
    def mean(self) -> Array:
        return self.prior.mean + self.prior.times(self.dual)

    def log_normaliser(self, c: Array) -> float:
        assert self.sites.pi is not None
        half = sum(q.half_logdet for q in self.each) + float(np.log(np.diag(self.M)).sum())
        half -= 0.5 * float(np.log(self.sites.pi.sum(axis=0)).sum())
        rise = 0.5 * self.sites.nu.ravel() @ (self.mean - self.prior.mean)
        return float(c.sum() - half + rise)

    @cached_property
    def _couplings(self) -> Array:
        """M⁻¹ E_k K_k, (C, N, N)."""
        parts = zip(self.each, self.prior.fields, strict=True)
        return np.array([self._white(q.inner_times(f.covariance)) for q, f in parts])

    def _white(self, columns: Array) -> Array:
        return solve_triangular(self.M, columns, lower=True, check_finite=False)

    @cached_property
    def blocks(self) -> Array:
        V = self._couplings
        out = np.einsum("kin,jin->nkj", V, V, optimize=True)
        np.einsum("nkk->kn", out)[:] += [q.variances for q in self.each]
        return out

    @cached_property
    def covariance(self) -> Array:
        V = np.hstack(list(self._couplings))
        return V.T @ V + block_diag(*(q.covariance for q in self.each))

    @property
    def inner(self) -> Array:
        each = [q.inner for q in self.each]
        V = np.hstack([self._white(E) for E in each])
        return block_diag(*each) - V.T @ V
