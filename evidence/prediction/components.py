r"""Latent values at new points: mixtures of Gaussians, made a block of points at a time.

With cross-covariance :math:`k_*` and prior variance :math:`k_{**}`, a Gaussian posterior
:math:`N(\mu, \Sigma)` at the data says

.. math:: x_* \sim N\bigl(m_* + k_*^T a,\ k_{**} - k_*^T R k_*\bigr), \quad
          a = K^{-1}(\mu - m) = \nu - \tau \mu, \quad R = K^{-1} - K^{-1} \Sigma K^{-1},

and a posterior draw :math:`x_s` the same with :math:`a = K^{-1}(x_s - m)`, :math:`R = K^{-1}`.
Draws make a mixture whose components differ in their means only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs

from ..approximations.reference import GaussianReference
from ..gaussians.base import NotPositiveDefinite
from ..messages import InputError
from ..models.gp import GPModel

Array = NDArray[np.float64]

_BUDGET = 64e6  # bytes of work space that one block of points may take
_COPIES = 6  # arrays of a block's size alive at once, in kernels and in what is computed from it
_DIAGONAL = 256  # points at a time when a kernel has no diag


class Components(Protocol):
    """S equally weighted Gaussian components at ``n`` points."""

    @property
    def n(self) -> int: ...

    @property
    def count(self) -> int:
        """S."""

    def at(self, rows: slice) -> tuple[Array, Array]:
        """Means (S, b) and variances (S, b) or (1, b) at these points."""

    def block(self) -> int:
        """How many points at a time keep the work space small."""


@dataclass(frozen=True, eq=False)
class Stored:
    """Means (S, n) and variances (S, n) or (1, n) that are there already."""

    mean: Array
    var: Array

    @property
    def n(self) -> int:
        return self.mean.shape[1]

    @property
    def count(self) -> int:
        return self.mean.shape[0]

    def block(self) -> int:
        return block_size(self.count)

    def at(self, rows: slice) -> tuple[Array, Array]:
        return self.mean[:, rows], self.var[:, rows]


class Points(Protocol):
    """New points as the prior sees them."""

    @property
    def n(self) -> int: ...

    def at(self, rows: slice) -> tuple[Array, Array, Array]:
        """Cross-covariances (b, N), prior variances (b,) and prior means (b,)."""


@dataclass(frozen=True, eq=False)
class KernelPoints:
    """Points for a kernel: cross-covariances are computed when asked for."""

    kernel: Callable[..., Any]
    X: Array
    X_new: Array
    mean: Array

    @property
    def n(self) -> int:
        return self.X_new.shape[0]

    def at(self, rows: slice) -> tuple[Array, Array, Array]:
        X_new = self.X_new[rows]
        k = np.ascontiguousarray(self.kernel(X_new, self.X), dtype=float)
        if k.shape != (len(X_new), len(self.X)):
            raise InputError(
                f"kernel(X_new, X) has shape {k.shape}, not {(len(X_new), len(self.X))}: "
                "it must give one row per new point and one column per datum"
            )
        return k, self._diagonal(X_new), self.mean[rows]

    def _diagonal(self, X_new: Array) -> Array:
        if hasattr(self.kernel, "diag"):
            return np.asarray(self.kernel.diag(X_new), dtype=float)
        blocks = (X_new[i : i + _DIAGONAL] for i in range(0, len(X_new), _DIAGONAL))
        return np.concatenate([np.diag(self.kernel(block, block)) for block in blocks])


@dataclass(frozen=True, eq=False)
class GivenPoints:
    """Points whose covariances the caller brings."""

    K_new: Array
    k_diag: Array
    mean: Array

    @property
    def n(self) -> int:
        return self.K_new.shape[0]

    def at(self, rows: slice) -> tuple[Array, Array, Array]:
        return self.K_new[rows], self.k_diag[rows], self.mean[rows]


@dataclass(frozen=True, eq=False)
class Projected:
    """Components carried from the data to new points."""

    points: Points
    a: Array
    """(N, S), one column per component."""
    explained: Callable[[Array], Array]
    """From k (b, N) to kᵀRk (b,)."""

    @property
    def n(self) -> int:
        return self.points.n

    @property
    def count(self) -> int:
        return self.a.shape[1]

    def block(self) -> int:
        return block_size(self.a.shape[0] + self.count)

    def at(self, rows: slice) -> tuple[Array, Array]:
        k, prior, mean = self.points.at(rows)
        var = prior - self.explained(k)
        check_variances(var, prior)
        return mean + self.a.T @ k.T, np.maximum(var, 0.0)[None]


def check_variances(var: Array, prior: Array) -> None:
    """Rounding may leave a variance of -1e-13; anything more is no covariance function."""
    worst = float(np.min(var / np.where(prior > 0.0, prior, 1.0), initial=0.0))
    if worst < -1e-6:
        raise InputError(
            f"a predictive variance is negative ({worst:.3g} of its prior variance): the "
            "covariances of the new points do not belong to the prior of the model"
        )


def block_size(per_point: int) -> int:
    """Points that fit the work space when each needs arrays of ``per_point`` numbers."""
    return max(1, int(_BUDGET / (8 * _COPIES * per_point)))


def from_reference(reference: GaussianReference, points: Points) -> Projected:
    """One component: the reference itself."""
    model, (_, nu, tau) = reference.model, reference.sites
    a = (nu - tau * reference.mean)[:, None]
    if not tau.any():
        return Projected(points, a, lambda k: np.zeros(len(k)))
    if tau.min() < 0.0:
        return Projected(points, a, _indefinite(model, tau))
    s = np.sqrt(tau)
    B = s[:, None] * model.K * s
    B.flat[:: model.n + 1] += 1.0
    L = _cholesky(B)
    return Projected(points, a, lambda k: _squares(_solve(L, k * s)))


def _indefinite(model: GPModel, tau: Array) -> Callable[[Array], Array]:
    """kᵀRk for τ of any sign: |w|² - |L_M⁻¹w|², w = L_K⁻¹k, M = I + L_Kᵀ diag(τ) L_K."""
    M = model.chol.T @ (tau[:, None] * model.chol)
    M.flat[:: model.n + 1] += 1.0
    L = _cholesky(M)

    def explained(k: Array) -> Array:
        w = _solve(model.chol, k)
        return _squares(w) - _squares(_solve(L, w.T))

    return explained


class Prior(Protocol):
    """What draws at the data are carried on with: the prior's mean and factor there."""

    @property
    def mean(self) -> Array: ...

    @property
    def chol(self) -> Array: ...


def from_draws(model: Prior, x: Array, points: Points) -> Projected:
    """One component per draw of the latent values at the data, ``x`` (S, N)."""
    a, _ = dpotrs(model.chol, np.asfortranarray((x - model.mean).T), lower=1, overwrite_b=1)
    return Projected(points, a, lambda k: _squares(_solve(model.chol, k)))


def _cholesky(matrix: Array) -> Array:
    L, info = dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        raise NotPositiveDefinite("the covariance of the reference is not positive definite")
    return L


def _solve(L: Array, k: Array) -> Array:
    """L⁻¹kᵀ, shape (N, b), for k (b, N); k itself is left alone."""
    return dtrsm(1.0, L, k.T, lower=1)


def _squares(columns: Array) -> Array:
    return np.einsum("nb,nb->b", columns, columns)
