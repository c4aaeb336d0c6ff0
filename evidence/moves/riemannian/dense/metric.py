"""Metrics of a batch, from matrices A: A itself by Cholesky, or its SoftAbs by eigenvalues."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....numerics import threads
from ....numerics.eigen import LARGEST, decompose
from ...base import Array
from .small_matrices import factorise, plain_solve, soft_solve, softabs, spectral


class Soft(NamedTuple):
    """SoftAbs metrics: eigenvectors, eigenvalues of A and of G, and dφ/dλ."""

    Q: Array
    lam: Array
    phi: Array
    slope: Array
    bad: NDArray[np.bool_]

    def solve(self, p: Array) -> Array:
        """G⁻¹p."""
        out = np.empty_like(self.phi)
        soft_solve(self.Q, self.phi, np.require(p, None, ("C", "W")), out)  # of one type
        return out

    def half_logdet(self) -> Array:
        return 0.5 * np.log(self.phi).sum(axis=1)

    def log_slope(self) -> Array:
        """W, with which ∇log|G| = ∇⟨W, A⟩."""
        W = np.empty_like(self.Q)
        spectral(self.Q, self.slope / self.phi, W)
        return W

    def momentum(self, z: Array) -> Array:
        """N(0, G) from standard normals."""
        return _times(self.Q, np.sqrt(self.phi) * z)


class Plain(NamedTuple):
    """G = A by Cholesky: L, and L⁻¹."""

    L: Array
    inverse: Array
    bad: NDArray[np.bool_]

    def solve(self, p: Array) -> Array:
        """G⁻¹p."""
        out = np.empty_like(p)
        plain_solve(self.inverse, p, out)
        return out

    def half_logdet(self) -> Array:
        return np.log(np.einsum("mii->mi", self.L)).sum(axis=1)

    def log_slope(self) -> Array:
        """W, with which ∇log|G| = ∇⟨W, A⟩."""
        return np.matmul(np.swapaxes(self.inverse, 1, 2), self.inverse)

    def momentum(self, z: Array) -> Array:
        """N(0, G) from standard normals."""
        return _times(self.L, z)


def _times(A: Array, v: Array) -> Array:
    return np.matmul(A, v[:, :, None])[:, :, 0]


def plain(A: Array) -> Plain:
    """Cholesky factors of a batch, and their inverses."""
    L, inverse = np.ascontiguousarray(A), np.zeros_like(A)
    bad = np.zeros(len(A), dtype=np.bool_)
    factorise(L, inverse, bad)
    return Plain(L, inverse, bad)


def soft(A: Array, alpha: float, largest: int = LARGEST, worth: int = 1_000_000) -> Soft:
    """SoftAbs of a batch.

    Up to ``largest`` dimensions by own code, in threads where M d³ is ``worth`` it.
    """
    m, n = A.shape[:2]
    lam, phi, slope = np.empty((m, n)), np.empty((m, n)), np.empty((m, n))
    if n <= largest:
        Q, bad = np.empty((m, n, n)), np.empty(m, dtype=np.bool_)
        if m * n**3 < worth:
            decompose(A, Q, lam, bad, 0, 1)
        else:
            threads.run(lambda first, stride: decompose(A, Q, lam, bad, first, stride), m)
    else:
        bad = np.logical_not(np.isfinite(A).all(axis=(1, 2)))
        lam, Q = np.linalg.eigh(np.where(bad[:, None, None], np.eye(n), A))
    softabs(lam, alpha, phi, slope)
    return Soft(Q, lam, phi, slope, bad)
