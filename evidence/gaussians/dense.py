r"""The contract for a covariance matrix: everything from one Cholesky factor of I + S K S.

With τ ≥ 0, :math:`S = \mathrm{diag}(\sqrt\tau)` and :math:`L L^T = I + S K S`:

.. math:: R = S L^{-T} L^{-1} S,\qquad \tfrac12\log|I + K T| = \sum\log\mathrm{diag}\,L,\qquad
          \tau_n \Sigma_{nn} = 1 - \sum_k (L^{-1})^2_{kn}.

With P = (L Lᵀ)⁻¹ also :math:`R = S P S` and :math:`Σ = S^{-1} (I - P) S^{-1}`.
A negative τ has no such S; then :math:`M = I + L_K^T T L_K = L_M L_M^T` is factorised instead,
which is positive definite exactly when Σ is, and :math:`Σ = F F^T` with :math:`F = L_K L_M^{-T}`.
Nothing inverts K. A factorisation costs N³/3, variances N³/3 more.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsymm, dsymv, dtrmm, dtrsm
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from ..numerics import triangles
from ..numerics.arrays import Array, Indices
from .base import Conditionals, Gaussian, NotPositiveDefinite, Prior, Response
from .blocks import combined, spread


class DensePrior(Prior):
    """x ~ N(m, K) with K a matrix and L_K its lower Cholesky factor."""

    covariance: Array
    chol: Array

    def __init__(self, mean: Array, K: Array, chol: Array) -> None:
        self.mean, self.covariance, self.chol = mean, K, chol

    @property
    def variances(self) -> Array:
        return np.diag(self.covariance)

    @property
    def logdet(self) -> float:
        """log|K|."""
        return 2.0 * float(np.log(np.diag(self.chol)).sum())

    def with_sites(self, nu: Array, tau: Array, reuse: Gaussian | None = None) -> DenseGaussian:
        if tau.min(initial=0.0) < 0.0:
            return SignedGaussian(self, nu, tau)
        return PositiveGaussian(self, nu, tau, getattr(reuse, "memory", None))

    def turned(self, R: Array) -> TurnedPrior:
        return TurnedPrior(self, R)

    def times(self, v: Array) -> Array:
        return dsymv(1.0, self.covariance.T, v)

    def solve(self, v: Array) -> Array:
        return dpotrs(self.chol, v, lower=1)[0]

    def log_density(self, x: Array) -> Array:
        white = solve_triangular(self.chol, (x - self.mean).T, lower=True)
        constant = self.logdet + self.mean.size * np.log(2 * np.pi)
        return -0.5 * (np.sum(white**2, axis=0) + constant)

    def draw(self, rng: np.random.Generator) -> Array:
        return self.mean + self.chol @ rng.standard_normal(self.mean.size)

    def whiten(self, columns: Array) -> Array:
        """L_K⁻¹ of columns."""
        return dtrsm(1.0, self.chol, columns, lower=1)

    def explained(self, cross: Array) -> Array:
        return _squares(self.whiten(cross.T))


class TurnedPrior(DensePrior):
    """The prior of other combinations of the values of every datum, as far as they are from their
    means; its root is no triangle."""

    def __init__(self, origin: DensePrior, R: Array) -> None:
        self.origin, self.R = origin, R
        self.back: Array = np.asarray(np.linalg.inv(R).swapaxes(1, 2), float)  # x = back z
        P, N, size = R.shape[1], len(R), origin.mean.size
        self.mean = np.zeros(R.shape[2] * N)
        half = np.einsum("nap,anj->pnj", R, origin.covariance.reshape(P, N, size))
        half = half.reshape(size, P, N)
        K = np.einsum("iam,map->ipm", half, R, optimize=True).reshape(size, size)
        self.covariance = 0.5 * (K + K.T)

    @cached_property
    def chol(self) -> Array:  # type: ignore[override]
        return combined(self.R, self.origin.chol)

    @property
    def logdet(self) -> float:
        return self.origin.logdet + 2.0 * float(np.linalg.slogdet(self.R)[1].sum())

    def solve(self, v: Array) -> Array:
        return combined(self.back, self.origin.solve(spread(self.back, v)))

    def log_density(self, x: Array) -> Array:
        jacobian = float(np.linalg.slogdet(self.R)[1].sum())
        return self.origin.log_density(self.origin.mean + spread(self.back, x.T).T) - jacobian

    def whiten(self, columns: Array) -> Array:
        return self.origin.whiten(np.asfortranarray(spread(self.back, columns)))


class DenseGaussian(Gaussian):
    """What both signs of τ share."""

    prior: DensePrior

    def pair_sums(self, kappa: Array) -> Array:
        out, per_sd = np.zeros(len(kappa)), 1.0 / np.sqrt(self.variances)
        for some, on in triangles.rows(self.tau.size):
            rho = np.triu(self.covariance[some, on] * per_sd[on] * per_sd[some, None], 1)
            power = rho * rho
            for l in range(3, len(kappa)):
                power *= rho
                out[l] += kappa[l, some] @ (power @ kappa[l, on])
        return out

    def conditionals(self, order: Indices) -> DenseConditionals:
        covariance = self.covariance[np.ix_(order, order)]
        return DenseConditionals(order, self.mean[order], covariance)

    @property
    @abstractmethod
    def inner(self) -> Array:
        """R as a matrix."""


class PositiveGaussian(DenseGaussian):
    """q for τ ≥ 0."""

    def __init__(
        self, prior: DensePrior, nu: Array, tau: Array, memory: _Memory | None = None
    ) -> None:
        self.prior, self.nu, self.tau = prior, nu, tau
        self._s = np.sqrt(tau)
        self._L: Array | None = None
        self._variances: Array | None = None
        self._couplings: Array | None = None
        if not tau.any():
            return
        self.memory = _Memory(tau.size) if memory is None else memory
        triangles.scaled_gram(prior.covariance, self._s, self.memory.factor)
        if triangles.factor(self.memory.factor) != 0:
            raise NotPositiveDefinite("I + S K S has no Cholesky factor")
        self._L = self.memory.factor.T

    @cached_property
    def dual(self) -> Array:
        b = self.nu - self.tau * self.prior.mean
        a = b - self.inner_times(self.prior.times(b))
        # a is what is left of b where sites are strong: refine it once
        rest = b - a - self.tau * self.prior.times(a)
        return a + (rest - self.inner_times(self.prior.times(rest)))

    @cached_property
    def mean(self) -> Array:
        return self.prior.mean + self.prior.times(self.dual)

    @cached_property
    def half_logdet(self) -> float:
        return 0.0 if self._L is None else float(np.log(np.diag(self._L)).sum())

    @property
    def variances(self) -> Array:
        if self._L is None:
            return self.prior.variances.copy()
        with self.memory.lock:
            return self._invert()

    def _invert(self) -> Array:
        """The variances; L⁻¹ is left in the memory by whoever asks first."""
        if self._variances is None:
            self._variances = self._make_variances()
        return self._variances

    def _make_variances(self, *, small: float = 1e-5) -> Array:
        """``small``: below this τΣ the cheap formula for the variance has lost too many digits."""
        inverse = self.memory.inverse
        triangles.copy_triangle(self.memory.factor, inverse)
        triangles.invert_factor(inverse)
        reduced = 1.0 - triangles.column_squares(inverse)
        var = np.empty_like(self.tau)
        ok = reduced > small
        var[ok] = reduced[ok] / self.tau[ok]
        few = np.flatnonzero(~ok)
        if few.size:
            columns = np.asfortranarray(self._s[:, None] * self.prior.covariance[:, few])
            columns = dtrmm(1.0, inverse.T, columns, lower=1, overwrite_b=1)
            var[few] = self.prior.variances[few] - _squares(columns)
        return var

    def response(self, error: float) -> DenseResponse | None:
        return None if self._L is None else DenseResponse(self, error)

    @cached_property
    def covariance(self) -> Array:
        """Σ, shape (N, N)."""
        threshold = 1e-3  # τK above which entries of Σ keep their digits in S⁻¹ (I - P) S⁻¹
        K, s = self.prior.covariance, self._s
        if self._L is None:
            return K
        strong = self.tau * self.prior.variances > threshold
        per_s = np.divide(1.0, s, out=np.zeros_like(s), where=strong)
        full = self.couplings * -per_s
        full *= per_s[:, None]
        weak = np.flatnonzero(~strong)
        if weak.size:  # K - K S P S K
            inner = dpotrs(self._L, s[:, None] * K[:, weak], lower=1)[0]
            columns = K[:, weak] - dsymm(1.0, K.T, s[:, None] * inner, lower=1)
            full[:, weak] = columns
            full[weak] = columns.T
        full.flat[:: s.size + 1] = self.variances
        triangles.mirror(full)
        return full

    @property
    def couplings(self) -> Array:
        """P = (I + S K S)⁻¹ without its diagonal 1 - τ Σ_nn, the upper triangle; N³/3 more."""
        with self.memory.lock:
            if self._couplings is None:
                self._invert()
                self._couplings = self.memory.inverse
                triangles.square_factor(self._couplings)
                self._couplings.flat[:: self.tau.size + 1] = 0.0
            return self._couplings

    @property
    def inner(self) -> Array:
        if self._L is None:
            return np.zeros_like(self.prior.covariance)
        inverse = np.ascontiguousarray(dpotri(self._L, lower=1)[0].T)
        triangles.mirror(inverse)
        inverse *= self._s[:, None]
        inverse *= self._s
        return inverse

    def inner_times(self, v: Array) -> Array:
        if self._L is None:
            return np.zeros_like(v)
        s = self._s if v.ndim == 1 else self._s[:, None]
        return s * dpotrs(self._L, s * v, lower=1)[0]

    def explained(self, cross: Array) -> Array:
        if self._L is None:
            return np.zeros(len(cross))
        return _squares(dtrsm(1.0, self._L, (cross * self._s).T, lower=1))


class _Memory:
    """Two matrices that one fit after the other may use; threads may ask for them at once."""

    def __init__(self, n: int) -> None:
        self.n, self.lock = n, RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=RLock())

    @cached_property
    def factor(self) -> Array:
        return np.empty((self.n, self.n))

    @cached_property
    def inverse(self) -> Array:
        return np.zeros((self.n, self.n))


class DenseResponse(Response):
    r"""From :math:`Σ = S^{-1} (I - P) S^{-1}`, P by its ``couplings``.

    The mean is found by conjugate gradients, preconditioned by Σ, from where the last call ended.
    The diagonal of Σ is known better than from P, and sites of no precision are left alone.
    """

    def __init__(self, q: PositiveGaussian, error: float) -> None:
        self._error = error
        self._mean, self._variances, self._inner = q.mean, q.variances, q.couplings
        # P below its diagonal, its squares above (column-major)
        triangles.mirror_squares(self._inner)
        self._per_s = np.divide(1.0, q._s, out=np.zeros_like(q._s), where=q._s > 0.0)
        self._shift, self._dual = np.zeros((2, q.tau.size))  # δ = μ' - μ and Σ⁻¹ δ

    def __call__(self, d_nu: Array, d_tau: Array) -> tuple[Array, Array]:
        least_gain = 0.05  # relative precision that a change of sites leaves at least
        v, per_var = self._variances, self._per_s**2
        others = per_var * dsymv(1.0, self._inner.T, per_var * d_tau, lower=0)
        variances = v / np.maximum(1.0 + v * d_tau + others / v, least_gain)
        self._solve(d_nu - d_tau * self._mean, d_tau)
        return self._mean + self._shift, variances

    def _times(self, v: Array) -> Array:
        """Σ v."""
        per_s = self._per_s
        return self._variances * v - per_s * dsymv(1.0, self._inner.T, per_s * v, lower=1)

    def _solve(self, right: Array, d_tau: Array, products: int = 30) -> None:
        """(Σ⁻¹ + dT) δ = right, by so many ``products`` with Σ at most."""
        rest, last = right - self._dual - d_tau * self._shift, np.inf
        step, step_dual = np.zeros((2, rest.size))
        for _ in range(products):
            away = self._times(rest)
            size = float(rest @ away)
            if size <= self._error**2:  # which no mean is off by more, in standard deviations
                break
            step, step_dual = away + size / last * step, rest + size / last * step_dual
            image = step_dual + d_tau * step
            length = size / (step @ image)
            self._shift, self._dual = self._shift + length * step, self._dual + length * step_dual
            rest, last = rest - length * image, size


class SignedGaussian(DenseGaussian):
    """q for τ of any sign, as far as there is one."""

    def __init__(self, prior: DensePrior, nu: Array, tau: Array) -> None:
        self.prior, self.nu, self.tau = prior, nu, tau
        M = prior.chol.T @ (tau[:, None] * prior.chol)
        M.flat[:: tau.size + 1] += 1.0
        self._inner, info = dpotrf(M, lower=1, clean=1, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefinite("I + L_Kᵀ diag(τ) L_K has no Cholesky factor")
        root = solve_triangular(self._inner, prior.chol.T, lower=True, check_finite=False)
        self._root = np.ascontiguousarray(root.T)

    @cached_property
    def mean(self) -> Array:
        F, b = self._root, self.nu - self.tau * self.prior.mean
        return self.prior.mean + F @ (F.T @ b)

    @property
    def dual(self) -> Array:
        return self.nu - self.tau * self.mean

    @property
    def half_logdet(self) -> float:
        return float(np.log(np.diag(self._inner)).sum())

    @cached_property
    def variances(self) -> Array:
        return np.einsum("nk,nk->n", self._root, self._root)

    @cached_property
    def covariance(self) -> Array:
        """Σ, shape (N, N)."""
        return self._root @ self._root.T

    @property
    def inner(self) -> Array:
        # R = T - T Σ T
        R = -(self.tau[:, None] * self.covariance * self.tau)
        R.flat[:: self.tau.size + 1] += self.tau
        return R

    def inner_times(self, v: Array) -> Array:
        tau = self.tau if v.ndim == 1 else self.tau[:, None]
        F = self._root
        return tau * (v - F @ (F.T @ (tau * v)))

    def explained(self, cross: Array) -> Array:
        w = self.prior.whiten(cross.T)
        return _squares(w) - _squares(dtrsm(1.0, self._inner, w, lower=1))


class DenseConditionals(Conditionals):
    """x = μ + L ε with L as a matrix, factorised when it is first needed."""

    def __init__(self, order: Indices, mean: Array, covariance: Array) -> None:
        self.order, self.mean, self._covariance = order, mean, covariance

    def __getstate__(self) -> dict[str, Any]:
        return {"order": self.order, "mean": self.mean, "factor": self.factor}

    @cached_property
    def factor(self) -> Array:
        """L, shape (N, N)."""
        U, info = dpotrf(self._covariance.T, lower=0, clean=1)
        if info != 0:
            raise NotPositiveDefinite("the covariance is numerically singular")
        return np.asarray(U.T, float)

    @property
    def sd(self) -> Array:
        return self.factor.diagonal()

    def means(self, block: slice, eps: Array, values: Array) -> None:
        before = slice(block.start)
        np.matmul(self.factor[block, before], eps[before], out=values[block])
        values[block] += self.mean[block, None]

    def inner(self, block: slice) -> Array:
        return np.ascontiguousarray(self.factor[block, block])

    def times(self, v: Array) -> Array:
        return self.factor @ (self.factor.T @ v)

    def colour(self, eps: Array) -> Array:
        return self.factor @ eps

    def less(self, shift: Array, onto: Array, drop: Array) -> DenseConditionals:
        before = vars(self).get("_covariance")  # not in a copy that travelled
        covariance = self.factor @ self.factor.T if before is None else before.copy()
        covariance -= (onto * drop) @ onto.T
        return DenseConditionals(self.order, self.mean + shift, covariance)

    def widened(self, scale: Array, noise: Array, shift: Array) -> DenseConditionals:
        scaled = self._covariance * scale
        scaled *= scale[:, None]
        scaled.flat[:: scale.size + 1] += noise
        return DenseConditionals(self.order, scale * self.mean + shift, scaled)


def _squares(columns: Array) -> Array:
    return np.einsum("nb,nb->b", columns, columns)
