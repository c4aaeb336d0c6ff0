r"""Factorised covariances: K = L Lᵀ and, when asked for, K + (δ/2) I.

Compiled code on C-contiguous arrays that run without the interpreter's lock, so that chains in
threads do not wait for each other. LAPACK sees a C-contiguous array transposed: its lower
factor fills the upper triangle, and what K had below the diagonal is still there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..numerics.jit import jit
from ..numerics.lapack import factor, scratch, solve_lower

Array = NDArray[np.float64]

_TILE = 32


@jit
def _factor(a, diagonal):
    """K → L in place, its diagonal kept aside; ½ log|K|, NaN if there is no factor."""
    total = 0.0
    for i in range(a.shape[0]):
        diagonal[i] = a[i, i]
        total += a[i, i]
    if not np.isfinite(total) or factor(a, scratch()) != 0:
        return np.nan
    half = 0.0
    for i in range(a.shape[0]):
        half += np.log(a[i, i])
    return half


@jit
def _unpack(a, diagonal, shift, out):
    """``out`` = K + shift · I from its diagonal up, K being read below that of ``a``."""
    n = a.shape[0]
    for i0 in range(0, n, _TILE):
        for j0 in range(i0, n, _TILE):
            for j in range(j0, min(j0 + _TILE, n)):
                for i in range(i0, min(i0 + _TILE, j)):
                    out[i, j] = a[j, i]
    for i in range(n):
        out[i, i] = diagonal[i] + shift


@jit
def _times(a, v):
    """L v."""
    out = np.zeros(v.size)
    for j in range(v.size):
        vj = v[j]
        for i in range(j, v.size):
            out[i] += a[j, i] * vj
    return out


@jit
def _transposed_times(a, v):
    """Lᵀ v."""
    out = np.empty(v.size)
    for j in range(v.size):
        out[j] = np.dot(a[j, j:], v[j:])
    return out


@jit
def _solve(a, v, both):
    """L⁻¹ v, or (L Lᵀ)⁻¹ v."""
    out, s = v.copy(), scratch()
    solve_lower(a, out, False, s)
    if both:
        solve_lower(a, out, True, s)
    return out


@jit
def _squared(a, v):
    """|L⁻¹ v|²."""
    total = 0.0
    for value in _solve(a, v, False):
        total += value * value
    return total


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
        self._array, self._diagonal = K, np.empty(len(K))
        self.half_logdet = _factor(K, self._diagonal)
        self.ok = not np.isnan(self.half_logdet)
        self._shifted: tuple[float, CholeskyFactor] | None = None

    def shifted(self, shift: float) -> CholeskyFactor:
        """K + shift · I; the last one is remembered."""
        assert self._whole
        if self._shifted is None or self._shifted[0] != shift:
            K = np.empty_like(self._array)
            _unpack(self._array, self._diagonal, shift, K)
            self._shifted = shift, CholeskyFactor(K, whole=False)
        return self._shifted[1]

    def times(self, v: Array) -> Array:
        """L v."""
        return _times(self._array, v)

    def transposed_times(self, v: Array) -> Array:
        """Lᵀ v."""
        return _transposed_times(self._array, v)

    def whiten(self, v: Array) -> Array:
        """L⁻¹ v."""
        return _solve(self._array, v, False)

    def solve(self, v: Array) -> Array:
        """K⁻¹ v."""
        return _solve(self._array, v, True)

    def log_density(self, v: Array) -> float:
        """log N(v; 0, K) without the constant (N/2) log 2π."""
        return -0.5 * _squared(self._array, v) - self.half_logdet
