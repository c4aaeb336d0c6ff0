"""Large symmetric matrices from Python: LAPACK without the interpreter's lock, and passes over a
few rows at a time, which stay in the cache.

Of a matrix only the upper triangle counts, the lower one in the column-major order of LAPACK: a
factor L, A = L Lᵀ, stands in A's place as Lᵀ. SciPy's own functions hold the lock, so that threads
that each factorise a matrix would wait for each other; compiled code (:mod:`.lapack`) takes a
second to compile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from .arrays import Array
from .lapack import address

_ROWS = 64
_UPPER = np.triu(np.ones((_ROWS, _ROWS)))
_FLAGS = {flag: ctypes.c_char(flag.encode()) for flag in "LNR"}


@cache
def _routine(module: ModuleType, name: str, n_arguments: int) -> Callable[..., None]:
    found = address(module, name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(found)


def _lapack(name: str, flags: str, at: int, n: int, size: int) -> int:
    """A routine for a block of n rows at an address, of a matrix of ``size`` rows; its info."""
    sizes = (ctypes.c_int * 3)(n, size)
    each, ints = [ctypes.addressof(_FLAGS[flag]) for flag in flags], ctypes.addressof(sizes)
    _routine(cython_lapack, name, len(flags) + 4)(*each, ints, at, ints + 4, ints + 8)
    return sizes[2]


def _multiply(side: str, rows: int, columns: int, scale: float, a: int, b: int, size: int) -> None:
    """B ← scale A B, or scale B A, with A lower triangular."""
    sizes, factor = (ctypes.c_int * 3)(rows, columns, size), ctypes.c_double(scale)
    each, ints = [ctypes.addressof(_FLAGS[flag]) for flag in side + "LNN"], ctypes.addressof(sizes)
    scale_at, ld = ctypes.addressof(factor), ints + 8
    _routine(cython_blas, "dtrmm", 11)(*each, ints, ints + 4, scale_at, a, ld, b, ld)


def factor(a: Array) -> int:
    """Cholesky factor in the place of ``a``; 0, or the row at which there is none."""
    return _lapack("dpotrf", "L", a.ctypes.data, len(a), len(a))


def invert_factor(a: Array) -> None:
    """L⁻¹ in the place of L."""
    _invert(a.ctypes.data, len(a), len(a))


def _invert(at: int, n: int, size: int, *, leaf: int = 64, item: int = 8) -> None:
    """By halves, [[A, 0], [B, C]]: below A⁻¹ stands -C⁻¹ B A⁻¹.

    ``leaf``: below this size LAPACK's own inverse is as fast; ``item``: bytes of a number.
    """
    if n <= leaf:
        _lapack("dtrtri", "LN", at, n, size)
        return
    half = n // 16 * 8
    below = at + half * item
    corner = below + half * size * item
    _invert(at, half, size)
    _invert(corner, n - half, size)
    _multiply("L", n - half, half, -1.0, corner, below, size)
    _multiply("R", n - half, half, 1.0, at, below, size)


def square_factor(a: Array) -> None:
    """Lᵀ L in the place of L: of L⁻¹, the inverse of L Lᵀ."""
    _lapack("dlauum", "L", a.ctypes.data, len(a), len(a))


def rows(n: int) -> Iterator[tuple[slice, slice]]:
    """A few rows at a time, and columns from the first of them on."""
    for start in range(0, n, _ROWS):
        yield slice(start, min(start + _ROWS, n)), slice(start, n)


def copy_triangle(a: Array, out: Array) -> None:
    """The upper triangle of ``a`` into ``out``, whose other elements are zero."""
    for some, on in rows(len(a)):
        out[some, on] = a[some, on]
        square = out[some, some]
        square *= _UPPER[: len(square), : len(square)]


def mirror(a: Array) -> None:
    """The upper triangle's elements in the lower one, too."""
    for some, on in rows(len(a)):
        square = a[some, some]
        square *= _UPPER[: len(square), : len(square)]
        square += square.T - np.diag(square.diagonal())
        a[on, some] = a[some, on].T


def mirror_squares(a: Array) -> None:
    """Squares of the upper triangle's elements in the lower one, for a diagonal of zeros."""
    for some, on in rows(len(a)):
        strip = a[some, on].T
        square = strip[: strip.shape[1]].T * _UPPER[: strip.shape[1], : strip.shape[1]]
        a[on, some] = strip * strip
        a[some, some] = square + (square * square).T


def symmetrised(a: Array) -> tuple[Array, float, float]:
    """(A + Aᵀ)/2, the largest difference of a pair, and the largest entry."""
    out, difference, largest = np.empty(a.shape), 0.0, 0.0
    for some, on in rows(len(a)):
        one, other = a[some, on], a[on, some].T
        mean = 0.5 * (one + other)
        difference = max(difference, float(np.abs(one - other).max()))
        largest = max(largest, float(np.abs(one).max()), float(np.abs(other).max()))
        out[some, on] = mean
        out[on, some] = mean.T
    return out, difference, largest


def scaled_gram(a: Array, s: Array, out: Array) -> None:
    """``out = I + diag(s) A diag(s)``, the upper triangle."""
    for some, on in rows(len(a)):
        strip = np.multiply(a[some, on], s[on], out=out[some, on])
        strip *= s[some, None]
    out.flat[:: len(a) + 1] += 1.0


def column_squares(a: Array) -> Array:
    """Column sums of squares of L, where all else is zero."""
    out = np.empty(len(a))
    for some, on in rows(len(a)):
        out[some] = np.einsum("ij,ij->i", a[some, on], a[some, on])
    return out
