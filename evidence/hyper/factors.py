r"""Factorised covariances: K = L Lᵀ and, when asked for, K + (δ/2) I.

LAPACK's ``potrf`` and BLAS's ``trsv`` run without the interpreter's lock, so that chains in
threads do not wait for each other. LAPACK sees a C-contiguous array transposed: its lower factor
fills the upper triangle, and what K had below the diagonal is still there.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrmv, dtrsv
from scipy.linalg.lapack import dpotrf

from ..numerics.arrays import Array
from ..numerics.triangles import rows


class CholeskyFactor:
    r"""K = L Lᵀ of one block at one θ, given as an array that is used up; ``ok`` if L exists.

    >>> factor = CholeskyFactor(np.array([[4.0, 2.0], [2.0, 2.0]]))
    >>> factor.times(np.array([1.0, 1.0])).tolist()  # L = [[2, 0], [1, 1]]
    [2.0, 2.0]
    >>> shifted = factor.shifted(2.0)  # K + 2 I
    >>> shifted.solve(np.array([16.0, 10.0])).round(12).tolist()
    [2.2, 1.4]
    """

    def __init__(self, K: Array, whole: bool = True) -> None:
        self._whole = whole  # whether what is below the diagonal is K's
        self._diagonal = np.diag(K).copy()
        self._L, info = dpotrf(K.T, lower=1, clean=0, overwrite_a=1)
        self.half_logdet = np.nan if info else float(np.log(np.diag(self._L)).sum())
        self.ok = bool(np.isfinite(self.half_logdet))
        self._shifted: tuple[float, CholeskyFactor] | None = None

    def shifted(self, shift: float) -> CholeskyFactor:
        """K + shift · I; the last one is remembered."""
        assert self._whole
        if self._shifted is None or self._shifted[0] != shift:
            K = np.empty(self._L.shape)
            for some, on in rows(len(K)):  # from the diagonal up
                K[some, on] = self._L[some, on]
            K.flat[:: len(K) + 1] = self._diagonal + shift
            self._shifted = shift, CholeskyFactor(K, whole=False)
        return self._shifted[1]

    def times(self, v: Array) -> Array:
        """L v."""
        return dtrmv(self._L, v, lower=1)

    def transposed_times(self, v: Array) -> Array:
        """Lᵀ v."""
        return dtrmv(self._L, v, lower=1, trans=1)

    def whiten(self, v: Array) -> Array:
        """L⁻¹ v."""
        return dtrsv(self._L, v, lower=1)

    def solve(self, v: Array) -> Array:
        """K⁻¹ v."""
        return dtrsv(self._L, self.whiten(v), lower=1, trans=1)

    def log_density(self, v: Array) -> float:
        """log N(v; 0, K) without the constant (N/2) log 2π."""
        white = self.whiten(v)
        return float(-0.5 * (white @ white) - self.half_logdet)
