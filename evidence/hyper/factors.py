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
def _factor_shifted(a, diagonal, shift, out):
    """Factor of K + shift · I into ``out``, K being read below the diagonal of ``a``."""
    n = a.shape[0]
    for i0 in range(0, n, _TILE):
        for j0 in range(i0, n, _TILE):
            for j in range(j0, min(j0 + _TILE, n)):
                for i in range(i0, min(i0 + _TILE, j)):
                    out[i, j] = a[j, i]
    for i in range(n):
        out[i, i] = diagonal[i] + shift
    if factor(out, scratch()) != 0:
        return np.nan
    half = 0.0
    for i in range(n):
        half += np.log(out[i, i])
    return half


@jit
def _times(a, v, out):
    """out = L v."""
    out[:] = 0.0
    for j in range(v.size):
        vj = v[j]
        for i in range(j, v.size):
            out[i] += a[j, i] * vj


@jit
def _transposed_times(a, v, out):
    """out = Lᵀ v."""
    for j in range(v.size):
        out[j] = np.dot(a[j, j:], v[j:])


@jit
def _whiten(a, v):
    """v ← L⁻¹ v; returns |L⁻¹ v|²."""
    solve_lower(a, v, False, scratch())
    total = 0.0
    for i in range(v.size):
        total += v[i] * v[i]
    return total


@jit
def _solve(a, v):
    """v ← (L Lᵀ)⁻¹ v."""
    s = scratch()
    solve_lower(a, v, False, s)
    solve_lower(a, v, True, s)


class Factor:
    r"""K of one block at one θ, given as an array that is used up; ``ok`` if it has a factor.

    >>> factor = Factor(np.array([[4.0, 2.0], [2.0, 2.0]]))
    >>> factor.times(np.array([1.0, 1.0])).tolist()  # L = [[2, 0], [1, 1]]
    [2.0, 2.0]
    >>> shifted = factor.shifted(2.0)  # K + 2 I
    >>> shifted.solve(np.array([16.0, 10.0])).round(12).tolist()
    [2.2, 1.4]
    """

    def __init__(self, K: Array) -> None:
        self._array, self._diagonal = K, np.empty(len(K))
        self.half_logdet = _factor(K, self._diagonal)
        self.ok = not np.isnan(self.half_logdet)
        self._shifted: tuple[float, Factor] | None = None

    def shifted(self, shift: float) -> Factor:
        """K + shift · I; the last one is remembered."""
        if self._shifted is None or self._shifted[0] != shift:
            other = object.__new__(Factor)
            other._array = np.empty_like(self._array)
            other.half_logdet = _factor_shifted(self._array, self._diagonal, shift, other._array)
            other.ok = not np.isnan(other.half_logdet)
            self._shifted = shift, other
        return self._shifted[1]

    def times(self, v: Array) -> Array:
        """L v."""
        out = np.empty_like(v)
        _times(self._array, v, out)
        return out

    def transposed_times(self, v: Array) -> Array:
        """Lᵀ v."""
        out = np.empty_like(v)
        _transposed_times(self._array, v, out)
        return out

    def whiten(self, v: Array) -> Array:
        """L⁻¹ v."""
        out = v.copy()
        _whiten(self._array, out)
        return out

    def solve(self, v: Array) -> Array:
        """K⁻¹ v."""
        out = v.copy()
        _solve(self._array, out)
        return out

    def log_density(self, v: Array) -> float:
        """log N(v; 0, K) without the constant (N/2) log 2π."""
        return -0.5 * _whiten(self._array, v.copy()) - self.half_logdet
