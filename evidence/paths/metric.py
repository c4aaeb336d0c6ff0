r"""The position-dependent metric :math:`G = K^{-1} + \mathrm{diag}(d)`, d ≥ 0, by one Woodbury.

With :math:`S = \mathrm{diag}(\sqrt d)` and :math:`L L^T = I + S K S`:

.. math:: G^{-1}p = Kp - K S L^{-T} L^{-1} S K p, \qquad
          \log|G| = -\log|K| + 2 \sum\log\mathrm{diag}\,L, \qquad
          \mathrm{diag}(G^{-1})\,d = 1 - \mathrm{colsum}\,(L^{-1})^2.

Nothing here inverts K or forms G.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtri

from ..models.gp import GPModel

Array = NDArray[np.float64]


class Metric:
    """G at one point: factorised once, then O(N²) per use.

    Parameters
    ----------
    d : array (N,)
        Diagonal part of G, non-negative.
    d_prime : array (N,)
        Derivative of each d_n in its own x_n.
    """

    def __init__(self, model: GPModel, d: Array, d_prime: Array) -> None:
        self.model, self.d, self.d_prime = model, d, d_prime
        self._s = np.sqrt(d)
        B = model.K * self._s * self._s[:, None]
        B.flat[:: model.n + 1] += 1.0
        self._L, info = dpotrf(B.T, lower=1, clean=1, overwrite_a=1)
        if info != 0:
            raise np.linalg.LinAlgError("I + S K S is not positive definite")

    def solve(self, p: Array) -> Array:
        """G⁻¹ p."""
        Kp = self.model.K @ p
        inner = solve_triangular(self._L, self._s * Kp, lower=True)
        inner = solve_triangular(self._L, inner, lower=True, trans=1)
        return Kp - self.model.K @ (self._s * inner)

    @cached_property
    def logdet(self) -> float:
        """log det G."""
        return 2.0 * float(np.log(np.diag(self._L)).sum()) - self.model.prior.logdet

    @cached_property
    def half_trace(self) -> Array:
        """½ tr(G⁻¹ ∂G/∂x_n) = ½ d'_n (G⁻¹)_nn, shape (N,).

        Where d_n is so small that ``1 - colsum (L⁻¹)²`` has no digits left, (G⁻¹)_nn is
        computed from its own column.
        """
        inverse, _ = dtrtri(self._L, lower=1)
        reduced = 1.0 - np.einsum("kn,kn->n", inverse, inverse)
        diagonal = np.empty_like(reduced)
        ok = reduced > 1e-6
        diagonal[ok] = reduced[ok] / self.d[ok]
        few = np.flatnonzero(~ok)
        columns = inverse @ (self._s[:, None] * self.model.K[:, few])
        diagonal[few] = np.diag(self.model.K)[few] - np.einsum("kn,kn->n", columns, columns)
        return 0.5 * self.d_prime * diagonal

    def draw(self, rng: np.random.Generator) -> Array:
        """A momentum p ~ N(0, G): S z₁ + L_K⁻ᵀ z₂."""
        z1, z2 = rng.standard_normal((2, self.d.size))
        return self._s * z1 + solve_triangular(self.model.chol, z2, lower=True, trans=1)
