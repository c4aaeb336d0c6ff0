r"""Latent values at new points: mixtures of Gaussians, made a block of points at a time.

With cross-covariance :math:`k_*` and prior variance :math:`k_{**}`, a Gaussian posterior
:math:`N(\mu, \Sigma)` at the data says

.. math:: x_* \sim N\bigl(m_* + k_*^T a,\ k_{**} - k_*^T R k_*\bigr), \quad
          a = K^{-1}(\mu - m), \quad R = K^{-1} - K^{-1} \Sigma K^{-1},

and a posterior draw :math:`x_s` the same with :math:`a = K^{-1}(x_s - m)`, :math:`R = K^{-1}`:
draws make a mixture whose components differ in their means only. All of this is for C latent
fields, of which a GPModel has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs

from ..approximations.classes.reference import SoftmaxReference
from ..approximations.reference import GaussianReference
from ..gaussians.base import NotPositiveDefinite
from ..messages import InputError
from ..models.classes import SoftmaxModel
from ..models.gp import GPModel
from .points import Model, Points, prior_means

Array = NDArray[np.float64]

_BUDGET = 64e6  # bytes of work space that one block of points may take
_COPIES = 6  # arrays of a block's size alive at once, in kernels and in what is computed from it


class Mixture(ABC):
    """S Gaussians of equal weight for the C latent values at each of n points."""

    n: int
    count: int
    """S."""
    work: int
    """Numbers that a point needs while it is worked on."""

    @abstractmethod
    def at(self, rows: slice) -> tuple[Array, Array]:
        """Means (C, S, b), and the covariance (b, C, C) that all S components have."""


class Stored(Mixture):
    """Means and covariances that are there already."""

    def __init__(self, mean: Array, cov: Array) -> None:
        self.mean, self.cov = mean, cov
        C, self.count, self.n = mean.shape
        self.work = C * self.count

    def at(self, rows: slice) -> tuple[Array, Array]:
        return self.mean[:, :, rows], self.cov[rows]


class Projected(Mixture):
    """Carried from the data to new points, by a (C, S, N) and k* ↦ k*ᵀRk*, (b, C, C)."""

    def __init__(
        self, points: Points, model: Model, a: Array, explained: Callable[[Array], Array]
    ) -> None:
        self.points, self.model, self.a, self.explained = points, model, a, explained
        C, self.count, N = a.shape
        self.n, self.work = points.n, C * (N + self.count)

    def at(self, rows: slice) -> tuple[Array, Array]:
        k, prior, mean = self.points.at(self.model, rows)
        cov = -self.explained(k)
        var = np.einsum("bcc->bc", cov)  # a view of the diagonals
        var += prior.T
        worst = float(np.min(var / np.where(prior > 0.0, prior, 1.0).T, initial=0.0))
        if worst < -1e-6:  # rounding may leave -1e-13
            raise InputError(
                f"a predictive variance is negative ({worst:.3g} of its prior variance): the "
                "covariances of the new points do not belong to the prior of the model"
            )
        np.maximum(var, 0.0, out=var)
        return mean[:, None] + self.a @ k.swapaxes(1, 2), cov


def blocks(
    mixtures: Sequence[Mixture], batch_size: int | None = None, work: int = 1, bar: Any = None
) -> Iterator[slice]:
    """The points a block at a time; each of them will need ``work`` numbers, too."""
    most = max(work, sum(mixture.count for mixture in mixtures), *(m.work for m in mixtures))
    size, n = batch_size or max(1, int(_BUDGET / (8 * _COPIES * most))), mixtures[0].n
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
        if bar is not None:
            bar.update(min(size, n - start))


def mixture_at(model: Model, known: Any, points: Points | None) -> Mixture:
    """What a reference of the model, or draws (S, C·N), say of the points (None: the data)."""
    means = prior_means(model)
    C, N = means.shape
    if isinstance(model, SoftmaxModel) and isinstance(known, SoftmaxReference):
        if points is None:
            diag = np.diagonal(model.covariances, axis1=1, axis2=2)
            points = Points(means, None, model.covariances, diag)
        sites = known.sites
        a = (sites.b.ravel() - sites.curvature(known.mean)).reshape(C, 1, N)
        return Projected(points, model, a, lambda k: -known.predict(k, 0.0).cov)
    if isinstance(known, GaussianReference):
        if points is None:
            return Stored(known.mean[None, None], known.var[:, None, None])
        a = (known.sites.nu - known.sites.tau * known.mean)[None, None]
        return Projected(points, model, a, partial(_field_by_field, [_explained(known)], C))
    x = known.reshape(-1, C, N).swapaxes(0, 1)
    if points is None:
        return Stored(x, np.zeros((N, C, C)))
    factors = model.chol[None] if isinstance(model, GPModel) else model.factors
    a = np.array([
        dpotrs(L, (own - m).T, lower=1)[0].T
        for L, own, m in zip(np.broadcast_to(factors, (C, N, N)), x, means, strict=True)
    ])  # fmt: skip
    explained = [lambda k, L=L: _squares(_solve(L, k)) for L in factors]
    return Projected(points, model, a, partial(_field_by_field, explained, C))


def _field_by_field(parts: Sequence[Callable[[Array], Array]], C: int, k: Array) -> Array:
    """kᵀRk, (b, C, C), of fields that know nothing of each other; k is (F, b, N)."""
    F = max(len(parts), len(k))
    each = [parts[i % len(parts)](k[i % len(k)]) for i in range(F)]
    return np.transpose(each)[:, :, None] * np.eye(C)


def _explained(reference: GaussianReference) -> Callable[[Array], Array]:
    model, tau = reference.model, reference.sites.tau
    if not tau.any():
        return lambda k: np.zeros(len(k))
    if tau.min() < 0.0:
        return _indefinite(model, tau)
    s = np.sqrt(tau)
    B = s[:, None] * model.K * s
    B.flat[:: model.n + 1] += 1.0
    L = _cholesky(B)
    return lambda k: _squares(_solve(L, k * s))


def _indefinite(model: GPModel, tau: Array) -> Callable[[Array], Array]:
    """kᵀRk for τ of any sign: |w|² - |L_M⁻¹w|², w = L_K⁻¹k, M = I + L_Kᵀ diag(τ) L_K."""
    M = model.chol.T @ (tau[:, None] * model.chol)
    M.flat[:: model.n + 1] += 1.0
    L = _cholesky(M)

    def explained(k: Array) -> Array:
        w = _solve(model.chol, k)
        return _squares(w) - _squares(_solve(L, w.T))

    return explained


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
