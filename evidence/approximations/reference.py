r"""Gaussian references: a Gaussian prior times Gaussian sites.

With sites :math:`t_n(x) = \exp(c_n + \nu_n x - \tau_n x^2/2)` the reference is
:math:`q(x) = N(\mu, \Sigma) \propto N(x; m, K) \prod_n t_n(x_n)`, with
:math:`\Sigma^{-1} = K^{-1} + \mathrm{diag}(\tau)` and normaliser

.. math:: \log Z_q = \sum_n c'_n - \tfrac12 \log|I + K\,\mathrm{diag}(\tau)|
          + \tfrac12 b^T(\mu - m),\quad b = \nu - \tau m,\ c' = c + \nu m - \tau m^2/2.

The prior, Laplace's method and expectation propagation are three choices of sites.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve_triangular
from scipy.linalg.blas import dsymv, dsyrk, dtrmm, dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from ..models.covariance import CovarianceError
from ..models.gp import GPModel
from ..numerics.jit import jit

Array = NDArray[np.float64]

_SMALL = 1e-5  # below this τΣ the cheap formula for the variance has lost too many digits


class Sites(NamedTuple):
    """Parameters of the N site functions exp(c + ν x - τ x²/2)."""

    c: Array
    nu: Array
    tau: Array


class NotPositiveDefinite(ArithmeticError):
    """K⁻¹ + diag(τ) is not positive definite (only negative τ can do this)."""


@jit
def _scaled_gram(K, s, out):
    """``out = I + diag(s) K diag(s)``, lower triangle in Fortran order (upper in C order)."""
    n = s.size
    for i in range(n):
        for j in range(i, n):
            out[i, j] = s[i] * s[j] * K[i, j]
        out[i, i] += 1.0


@jit
def _lower_column_squares(rows, out):
    """Column sums of squares of a lower factor given by its transpose's rows."""
    for i in range(out.size):
        total = 0.0
        for j in range(i, out.size):
            total += rows[i, j] * rows[i, j]
        out[i] = total


class SiteSolver:
    """Mean, variances and log determinant of q for changing sites: N³/3 + N³/3 per call.

    With τ ≥ 0 everything comes from ``L = chol(I + S K S)``, ``S = diag(√τ)``, and
    ``τ_n Σ_nn = 1 - Σ_k (L⁻¹)²_kn``. A negative τ has no such S; then
    ``M = I + L_Kᵀ diag(τ) L_K`` is factorised instead (positive definite exactly when Σ is).
    """

    def __init__(self, model: GPModel) -> None:
        self.model = model
        self._work = np.empty((model.n, model.n))

    def mean(self, nu: Array, tau: Array) -> tuple[Array, Array, Array]:
        """Return μ, a = K⁻¹(μ - m) and L for τ ≥ 0."""
        K, work = self.model.K, self._work
        b = nu - tau * self.model.mean
        s = np.sqrt(tau)
        _scaled_gram(K, s, work)
        L, info = dpotrf(work.T, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefinite
        a = b - s * dpotrs(L, s * _symv(K, b), lower=1)[0]
        # a is what is left of b where sites are strong: refine it once
        rest = b - a - tau * _symv(K, a)
        a += rest - s * dpotrs(L, s * _symv(K, rest), lower=1)[0]
        return self.model.mean + _symv(K, a), a, L

    def solve(self, nu: Array, tau: Array) -> tuple[Array, Array, Array, float]:
        """Return μ, a = K⁻¹(μ - m), diag Σ and ½ log|I + K diag(τ)|."""
        if tau.min() < 0.0:
            return self._solve_indefinite(nu - tau * self.model.mean, tau)
        mu, a, L = self.mean(nu, tau)
        K, s = self.model.K, np.sqrt(tau)
        half_logdet = float(np.log(np.diag(L)).sum())
        inverse = _lower_inverse(L)
        reduced = np.empty_like(tau)
        _lower_column_squares(inverse.T, reduced)
        reduced = 1.0 - reduced
        var = np.empty_like(tau)
        ok = reduced > _SMALL
        var[ok] = reduced[ok] / tau[ok]
        few = np.flatnonzero(~ok)
        if few.size:
            columns = np.asfortranarray(s[:, None] * K[:, few])
            columns = dtrmm(1.0, inverse, columns, lower=1, overwrite_b=1)
            var[few] = np.diag(K)[few] - np.einsum("kn,kn->n", columns, columns)
        return mu, a, var, half_logdet

    def _solve_indefinite(self, b: Array, tau: Array) -> tuple[Array, Array, Array, float]:
        root = indefinite_root(self.model, tau)
        mu = self.model.mean + root.factor @ (root.factor.T @ b)
        a = b - tau * (mu - self.model.mean)
        return mu, a, np.einsum("nk,nk->n", root.factor, root.factor), root.half_logdet


def _lower_inverse(L: Array) -> Array:
    """Inverse of a lower factor in Fortran order, by halves: twice as fast as LAPACK here."""
    n = L.shape[0]
    if n <= 128:
        return dtrtri(L, lower=1)[0]
    h = n // 2
    out = np.empty_like(L, order="F")
    out[:h, :h] = _lower_inverse(L[:h, :h])
    out[h:, h:] = _lower_inverse(L[h:, h:])
    corner = dtrmm(-1.0, out[h:, h:], L[h:, :h], lower=1)
    out[h:, :h] = dtrmm(1.0, out[:h, :h], corner, side=1, lower=1, overwrite_b=1)
    return out


class Root(NamedTuple):
    """``factor @ factor.T = Σ`` and ½ log|I + K diag(τ)|."""

    factor: Array
    half_logdet: float


def indefinite_root(model: GPModel, tau: Array) -> Root:
    """Square root of Σ = (K⁻¹ + diag τ)⁻¹ for τ of any sign."""
    M = model.chol.T @ (tau[:, None] * model.chol)
    M.flat[:: model.n + 1] += 1.0
    L, info = dpotrf(M, lower=1, clean=1)
    if info != 0:
        raise NotPositiveDefinite
    factor = solve_triangular(L, model.chol.T, lower=True, check_finite=False).T
    return Root(np.ascontiguousarray(factor), float(np.log(np.diag(L)).sum()))


def _symv(K: Array, x: Array) -> Array:
    return dsymv(1.0, K.T, x)


def log_normaliser(model: GPModel, sites: Sites, mu: Array, half_logdet: float) -> float:
    """log Z_q."""
    c, nu, tau = sites
    m = model.mean
    b = nu - tau * m
    constant = np.sum(c + nu * m - 0.5 * tau * m * m)
    return float(constant - half_logdet + 0.5 * b @ (mu - m))


@dataclass(eq=False)
class GaussianReference:
    """q(x) = N(mean, cov), its sites, and the estimate of log Z it stands for."""

    name: str
    model: GPModel
    sites: Sites
    mean: Array
    var: Array
    logz: float
    converged: bool = True
    n_sweeps: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    _cov: Array | None = field(default=None, repr=False)

    def identity(self) -> tuple[Array, ...]:
        """Arrays that tell this reference from others."""
        return tuple(self.sites)

    @cached_property
    def cov(self) -> Array:
        """Σ, shape (N, N)."""
        K, tau = self.model.K, self.sites.tau
        if not tau.any():
            return K
        if tau.min() < 0.0:
            factor = indefinite_root(self.model, tau).factor
            return factor @ factor.T
        s = np.sqrt(tau)
        B = np.empty_like(K)
        _scaled_gram(K, s, B)
        L, _ = dpotrf(B.T, lower=1, clean=0, overwrite_a=1)
        V = dtrsm(1.0, L, np.asfortranarray(s[:, None] * K), lower=1, overwrite_b=1)
        cov = dsyrk(-1.0, V, beta=1.0, c=K.T.copy(order="F"), trans=1, lower=1, overwrite_c=1)
        return _mirror(cov)

    @cached_property
    def eigh(self) -> tuple[Array, Array]:
        """Eigenvalues γ and eigenvectors U (columns, C-contiguous), Σ = U diag(γ) Uᵀ."""
        return positive_eigh(self.cov, self.name)

    def curvature(self, x: Array) -> Array:
        """diag(τ) x for columns of x, what the sites add to the prior's precision."""
        return self.sites.tau[:, None] * x

    @cached_property
    def correction(self) -> Array:
        """Terms l = 3, 4, … of the second-order correction to EP (empty for others)."""
        if self.name != "ep":
            return np.zeros(0)
        from .gp.correction import second_order_terms

        return second_order_terms(self)

    @property
    def logz_corrected(self) -> float:
        """log Z with the second-order correction; equal to ``logz`` except for EP."""
        return self.logz + float(self.correction.sum())


def positive_eigh(cov: Array, name: str) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors (columns, C-contiguous) of a reference's covariance."""
    gamma, U = eigh(cov, driver="evd", check_finite=False)
    if gamma[0] <= 0.0:
        raise CovarianceError(
            f"the covariance of the {name} reference has eigenvalue {gamma[0]:.3g}; "
            "the prior is numerically singular, pass a larger jitter to the model"
        )
    return gamma, np.ascontiguousarray(U)


def _mirror(lower: Array) -> Array:
    """Full symmetric C-ordered matrix from a lower triangle in Fortran order."""
    full = np.ascontiguousarray(lower.T)
    _copy_upper_to_lower(full)
    return full


@jit
def _copy_upper_to_lower(a):
    n = a.shape[0]
    for i0 in range(0, n, 32):
        for j0 in range(i0, n, 32):
            for i in range(i0, min(i0 + 32, n)):
                for j in range(max(j0, i + 1), min(j0 + 32, n)):
                    a[j, i] = a[i, j]


def prior_reference(model: GPModel) -> GaussianReference:
    """The prior as reference: empty sites, log Z_q = 0."""
    zero = np.zeros(model.n)
    return GaussianReference(
        "prior", model, Sites(zero, zero, zero), model.mean, np.diag(model.K).copy(), 0.0
    )
