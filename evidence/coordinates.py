r"""Coordinates in which both the base and a mass matrix are diagonal.

.. math:: x = m + T a,\qquad T^T M T = I,\qquad T^T \Sigma^{-1} T = \mathrm{diag}(1/\gamma)

so the base N(m, Σ) becomes N(0, diag γ) and the mass (or preconditioner) M becomes the
identity. With Σ = U diag(s) Uᵀ, W = U √s and WᵀMW = V diag(γ) Vᵀ, ``T = W V γ^(-1/2)``.
Every O(N²) move is written once, for unit mass, and works for every M:

============  ==========================================================================
``identity``  M = I: T holds the eigenvectors of Σ
``diagonal``  M = diag(1/Σ_nn)
``base``      M = Σ⁻¹: whitened, γ = 1
``prior``     M = K⁻¹
``expected``  M = K⁻¹ + diag(E_base[-ℓ'']): the posterior's curvature, averaged over the base
============  ==========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from .approximations.reference import GaussianReference

Array = NDArray[np.float64]

MASSES = ("identity", "diagonal", "base", "prior", "expected")


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The map between a batch x and its coordinates a, both (M, N)."""

    mean: Array
    T: Array
    gamma: Array
    _back: tuple[Array, ...]

    @property
    def root(self) -> Array:
        """Standard deviations of the base along the coordinates."""
        return np.sqrt(self.gamma)

    def to_latent(self, a: Array) -> Array:
        """x = m + T a."""
        return self.mean + a @ self.T.T

    def from_latent(self, x: Array) -> Array:
        """a = T⁻¹ (x - m)."""
        U, scale, *V = self._back
        a = ((x - self.mean) @ U) * scale
        return (a @ V[0]) * self.root if V else a

    def slope(self, gradient: Array) -> Array:
        """Tᵀ ∇, the gradient with respect to a."""
        return gradient @ self.T


def coordinates(base: GaussianReference, mass: str) -> Coordinates:
    """Coordinates of ``base`` for one of the masses above: one eigendecomposition at most."""
    if mass not in MASSES:
        raise ValueError(f"unknown coordinates {mass!r}. Known: {', '.join(MASSES)}")
    s, U = base.eigh
    if mass == "prior" and not base.sites.tau.any():
        mass = "base"
    if mass == "identity":
        return Coordinates(base.mean, U, s, (U, np.ones_like(s)))
    W = U * np.sqrt(s)
    if mass == "base":
        return Coordinates(base.mean, W, np.ones_like(s), (U, 1.0 / np.sqrt(s)))
    if mass == "diagonal":
        scaled = W / np.sqrt(base.var)[:, None]
        inner = scaled.T @ scaled
    else:
        inner = W.T @ ((_extra(base, mass) - base.sites.tau)[:, None] * W)
        inner.flat[:: s.size + 1] += 1.0
    gamma, V = eigh(inner, driver="evd", overwrite_a=True, check_finite=False)
    if gamma[0] <= 0.0:
        raise ValueError(
            f"coordinates {mass!r} need a positive definite mass, but relative to the "
            f"{base.name} reference it has eigenvalue {gamma[0]:.3g}; use 'base'"
        )
    T = np.ascontiguousarray(W @ (V / np.sqrt(gamma)))
    return Coordinates(base.mean, T, gamma, (U, 1.0 / np.sqrt(s), np.ascontiguousarray(V)))


def _extra(base: GaussianReference, mass: str) -> Array:
    """What the mass adds to the diagonal of K⁻¹."""
    model = base.model
    lik = model.likelihood
    if mass == "prior":
        return np.zeros(model.n)
    if not lik.log_concave:
        return lik.fisher(model.y)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    sd = np.sqrt(base.var)
    return -sum(
        w * lik.derivatives(base.mean + z * sd, model.y)[2]
        for z, w in zip(nodes, weights, strict=True)
    )
