r"""Gaussian references for several classes: independent priors times sites that couple classes.

With W block by datum, :math:`W = D - \Pi\Pi^T / s`, D = diag(π), Π the C diagonal matrices
diag(π_k) on top of each other and s the sum of π over classes, everything comes from C + 1
factorisations of N × N matrices (Rasmussen and Williams 2006, section 3.5):

.. math:: B_k = I + \sqrt{D_k} K_k \sqrt{D_k},\qquad E_k = \sqrt{D_k} B_k^{-1} \sqrt{D_k},\qquad
          \textstyle\sum_k E_k = M M^T

.. math:: (I + WK)^{-1} = I - EK + E R (MM^T)^{-1} R^T E K,\qquad
          \log|I + WK| = \sum_k \log|B_k| + \log|MM^T| - N \log s

.. math:: \Sigma_{kj} = \delta_{kj}(K_k - K_k E_k K_k) + K_k E_k (MM^T)^{-1} E_j K_j

with R the C identities on top of each other. No matrix of size C·N is formed but ``cov``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from ...gaussians.base import NotPositiveDefinite
from ...gaussians.dense import DenseGaussian
from ...messages import InputError
from ...models.classes import SoftmaxModel
from ...models.likelihoods.softmax import SoftmaxSites
from ...numerics.arrays import Array
from ..reference import positive_eigh

#: dense matrices of this size at most: beyond it, Monte Carlo starts from the prior
LARGEST_DENSE = 4000


class CurvatureFactors(NamedTuple):
    """q of every class by itself, M, and ½ log|I + WK|."""

    classes: tuple[DenseGaussian, ...]
    M: Array
    half_logdet: float

    def times_E(self, v: Array) -> Array:
        """E_k v_k for every class; v is (C, N) or (C, N, J)."""
        return np.stack([q.inner_times(own) for q, own in zip(self.classes, v, strict=True)])

    def solve_M(self, v: Array) -> Array:
        """(M Mᵀ)⁻¹ v."""
        return dpotrs(self.M, v, lower=1)[0]


def factorise_curvature(model: SoftmaxModel, sites: SoftmaxSites) -> CurvatureFactors:
    """The factors for sites with π (C, N) that sum to s over classes: C·N³ in all."""
    zero = np.zeros(model.n_data)
    classes = tuple(
        prior.with_sites(zero, pi) for prior, pi in zip(model.field_priors, sites.pi, strict=True)
    )
    half = sum(q.half_logdet for q in classes) - 0.5 * model.n_data * np.log(sites.s)
    M, info = dpotrf(np.sum([q.inner for q in classes], axis=0).T, lower=1, clean=1, overwrite_a=1)
    if info != 0:
        raise NotPositiveDefinite("the curvatures of all classes have no Cholesky factor")
    return CurvatureFactors(classes, M, half + float(np.log(np.diag(M)).sum()))


def solve_mean(
    model: SoftmaxModel, sites: SoftmaxSites, factors: CurvatureFactors
) -> tuple[Array, Array]:
    """Mean of q and a = K⁻¹(mean - m), both flat."""
    b = (sites.b.ravel() - sites.curvature(model.mean)).reshape(sites.b.shape)
    c = factors.times_E(prior_times(model, b))
    shift = np.broadcast_to(factors.solve_M(c.sum(axis=0)), b.shape)
    a = b - c + factors.times_E(np.ascontiguousarray(shift))
    return model.mean + prior_times(model, a).ravel(), a.ravel()


def prior_times(model: SoftmaxModel, v: Array) -> Array:
    """K_k v_k for every class, v (C, N)."""
    return np.matmul(model.K, v[..., None])[..., 0]


def log_normaliser(
    model: SoftmaxModel, sites: SoftmaxSites, mu: Array, half_logdet: float
) -> float:
    """log ∫ N(x; m, K) exp(c + bᵀx - ½ xᵀWx) dx, given the mean of the integrand."""
    m, b = model.mean, sites.b.ravel()
    Wm = sites.curvature(m)
    constant = sites.c + b @ m - 0.5 * m @ Wm
    return float(constant - half_logdet + 0.5 * (b - Wm) @ (mu - m))


@dataclass(frozen=True, eq=False)
class PriorBlock:
    """One class's prior, centred: what coordinates are made of."""

    K: Array
    name: str = "prior"

    @property
    def mean(self) -> Array:
        return np.zeros(len(self.K))

    @property
    def var(self) -> Array:
        return np.diag(self.K)

    @cached_property
    def eigh(self) -> tuple[Array, Array]:
        return positive_eigh(self.K, self.name)

    def curvature(self, x: Array) -> Array:
        return np.zeros_like(x)


@dataclass(eq=False)
class SoftmaxReference:
    """q(x) = N(mean, cov), its sites, and the estimate of log Z it stands for.

    ``mean`` and ``var`` are flat, class by class.
    """

    name: str
    model: SoftmaxModel
    sites: SoftmaxSites
    mean: Array
    logz: float
    converged: bool = True
    n_sweeps: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    def identity(self) -> tuple[Array, ...]:
        """Arrays that tell this reference from others."""
        return np.array(self.sites.c), self.sites.b, self.sites.pi

    def curvature(self, x: Array) -> Array:
        """W x for columns of x, what the sites add to the prior's precision."""
        return self.sites.curvature(x)

    @cached_property
    def factors(self) -> CurvatureFactors:
        """What solves with this reference's precision."""
        return factorise_curvature(self.model, self.sites)

    @cached_property
    def prior_blocks(self) -> tuple[PriorBlock, ...]:
        """The different priors: one where classes share it."""
        return tuple(PriorBlock(K) for K in self.model.covariances)

    @cached_property
    def var(self) -> Array:
        """Diagonal of Σ, shape (C·N,)."""
        if self.name == "prior":
            return np.concatenate([np.diag(K) for K in self.model.K])
        own = [q.variances for q in self.factors.classes]
        return np.concatenate(
            [v + np.einsum("in,in->n", V, V) for v, V in zip(own, self._couplings(), strict=True)]
        )

    @cached_property
    def cov(self) -> Array:
        """Σ, shape (C·N, C·N)."""
        model, N = self.model, self.model.n_data
        if model.n > LARGEST_DENSE:
            raise InputError(
                f"the covariance of the {self.name} reference couples all {model.n_classes} x {N} "
                f"= {model.n} latent values, more than the {LARGEST_DENSE} that a dense matrix is "
                "made for; use reference='prior'"
            )
        V = np.asfortranarray(np.hstack(list(self._couplings())))
        cov = dsyrk(1.0, V, trans=1, lower=1)
        for k, q in enumerate(self.factors.classes):
            own = slice(k * N, (k + 1) * N)
            cov[own, own] += q.covariance
        cov = np.tril(cov)
        return np.ascontiguousarray(cov + np.tril(cov, -1).T)

    def _couplings(self) -> Iterator[Array]:
        """V of every class: Σ_kj = δ_kj Σ_k + V_kᵀV_j, Σ_k being that of the class by itself."""
        for q, K in zip(self.factors.classes, self.model.K, strict=True):
            EK = q.inner_times(K)
            yield solve_triangular(self.factors.M, EK, lower=True, check_finite=False)

    @cached_property
    def eigh(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors (columns, C-contiguous) of Σ."""
        return positive_eigh(self.cov, self.name)

    @property
    def dual(self) -> Array:
        """K⁻¹(mean - m), shape (C, N); sites are exact at the mode, so it is their slope there."""
        return (self.sites.b.ravel() - self.sites.curvature(self.mean)).reshape(self.sites.b.shape)

    def explained(self, cross: Array) -> Array:
        r"""k_iᵀR_ij k_j for all classes i, j, shape (B, C, C): what the sites take away.

        ``cross`` (C, B, N) holds a covariance k_i with the data for each of B new points, or
        (1, B, N) where all classes have one; R is :math:`K^{-1} - K^{-1} \Sigma K^{-1}`.
        """
        C, (_, B, N) = self.model.n_classes, cross.shape
        if self.name == "prior":
            return np.zeros((B, C, C))
        columns = np.ascontiguousarray(np.broadcast_to(cross.swapaxes(1, 2), (C, N, B)))
        E = self.factors.times_E(columns)
        V = np.array([solve_triangular(self.factors.M, e, lower=True) for e in E])
        own = np.einsum("kns,kns->sk", columns, E)[:, :, None] * np.eye(C)
        return own - np.einsum("kns,jns->skj", V, V)


def softmax_prior_reference(model: SoftmaxModel) -> SoftmaxReference:
    """The prior as reference: empty sites, log Z_q = 0."""
    return SoftmaxReference("prior", model, model.no_sites, model.mean, 0.0)
