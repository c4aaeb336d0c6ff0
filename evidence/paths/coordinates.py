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

A base of independent blocks, such as the prior of several classes, has coordinates block by
block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg import eigh

from ..execution.arguments import shown
from ..messages import InputError
from ..numerics.arrays import Array

KINDS = ("identity", "diagonal", "base", "prior", "expected")


class Base(Protocol):
    """What a Gaussian needs to have coordinates."""

    @property
    def name(self) -> str: ...

    @property
    def mean(self) -> Array: ...

    @property
    def var(self) -> Array: ...

    @property
    def eigh(self) -> tuple[Array, Array]: ...

    def curvature(self, x: Array) -> Array:
        """(Σ⁻¹ - K⁻¹) x for columns of x."""


@dataclass(frozen=True, eq=False)
class Frame(ABC):
    """Coordinates of one kind: the map between a batch x and its coordinates a, both (M, N)."""

    mean: Array
    gamma: Array
    """Variances of the base along the coordinates."""

    @cached_property
    def root(self) -> Array:
        """Standard deviations of the base along the coordinates."""
        return np.sqrt(self.gamma)

    @abstractmethod
    def turn(self, a: Array) -> Array:
        """T a, a step in x."""

    def to_latent(self, a: Array) -> Array:
        """x = m + T a."""
        x = self.turn(a)
        x += self.mean
        return x

    @abstractmethod
    def from_latent(self, x: Array) -> Array:
        """a = T⁻¹ (x - m)."""

    @abstractmethod
    def slope(self, gradient: Array) -> Array:
        """Tᵀ ∇, the gradient with respect to a."""


@dataclass(frozen=True, eq=False)
class Coordinates(Frame):
    """With T as a matrix."""

    T: Array
    _back: tuple[Array, ...]

    def turn(self, a: Array) -> Array:
        return a @ self.T.T

    def from_latent(self, x: Array) -> Array:
        U, scale, *V = self._back
        a = ((x - self.mean) @ U) * scale
        return (a @ V[0]) * self.root if V else a

    def slope(self, gradient: Array) -> Array:
        with np.errstate(invalid="ignore"):  # of no number there is no slope
            return gradient @ self.T


@dataclass(frozen=True, eq=False)
class BlockCoordinates(Frame):
    """Where T is block diagonal: one frame per block, or one for all of them."""

    frames: tuple[Coordinates, ...]

    def turn(self, a: Array) -> Array:
        return self._blockwise(Coordinates.turn, a)

    def from_latent(self, x: Array) -> Array:
        return self._blockwise(Coordinates.from_latent, x - self.mean)

    def slope(self, gradient: Array) -> Array:
        return self._blockwise(Coordinates.slope, gradient)

    def _blockwise(self, change: Callable[[Coordinates, Array], Array], x: Array) -> Array:
        """``change`` of every block; the frames' own means are zero."""
        size = self.frames[0].mean.size
        if len(self.frames) == 1:  # one product serves all blocks of all rows
            return change(self.frames[0], x.reshape(-1, size)).reshape(x.shape)
        out = np.empty_like(x)
        for k, frame in enumerate(self.frames):
            own = slice(k * size, (k + 1) * size)
            out[:, own] = change(frame, x[:, own])
        return out


def block_coordinates(blocks: Sequence[Base], mean: Array, kind: str) -> BlockCoordinates:
    """Coordinates of independent centred blocks; a single one stands for all of them."""
    frames = tuple(coordinates(block, kind) for block in blocks)
    gamma = np.concatenate([frame.gamma for frame in frames])
    return BlockCoordinates(mean, np.tile(gamma, mean.size // gamma.size), frames)


def coordinates(base: Base, kind: str) -> Coordinates:
    """Coordinates of ``base`` of one of the kinds above: one eigendecomposition at most."""
    if kind not in KINDS:
        raise InputError(f"unknown coordinates {shown(kind)}. Known: {', '.join(KINDS)}")
    s, U = base.eigh
    if kind == "prior" and base.name == "prior":
        kind = "base"
    if kind == "identity":
        return Coordinates(base.mean, s, U, (U, np.ones_like(s)))
    W = U * np.sqrt(s)
    if kind == "base":
        return Coordinates(base.mean, np.ones_like(s), W, (U, 1.0 / np.sqrt(s)))
    if kind == "diagonal":
        scaled = W / np.sqrt(base.var)[:, None]
        inner = scaled.T @ scaled
    else:
        change = -base.curvature(W)
        if kind == "expected":
            change += _expected(base)[:, None] * W
        inner = W.T @ change
        inner.flat[:: s.size + 1] += 1.0
    gamma, V = eigh(inner, driver="evd", overwrite_a=True, check_finite=False)
    if gamma[0] <= 0.0:
        raise InputError(
            f"coordinates {shown(kind)} need a positive definite mass, but relative to the "
            f"{base.name} reference it has eigenvalue {gamma[0]:.3g}; use 'base'"
        )
    T = np.ascontiguousarray(W @ (V / np.sqrt(gamma)))
    return Coordinates(base.mean, gamma, T, (U, 1.0 / np.sqrt(s), np.ascontiguousarray(V)))


def _expected(base: Any) -> Array:
    """E_base[-ℓ''], or the expected curvature of a likelihood that is not log-concave."""
    model = base.model
    lik = model.likelihood
    if not lik.log_concave:
        return lik.fisher(model.y)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    sd = np.sqrt(base.var)
    return -sum(
        w * lik.derivatives(base.mean + z * sd, model.y)[2]
        for z, w in zip(nodes, weights, strict=True)
    )
