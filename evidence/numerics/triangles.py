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

import numpy as np
from scipy.linalg import cython_lapack

from .arrays import Array
from .lapack import address

_ROWS = 64


@cache
def _routine(name: str, n_arguments: int) -> Callable[..., None]:
    found = address(cython_lapack, name)
    routine: Callable[..., None] = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(found)
    return routine


def _call(name: str, flags: bytes, a: Array) -> int:
    """A routine of flags, n, A, its leading dimension and info; returns info."""
    ints = np.array([len(a), len(a), 0], np.int32)
    at = ints.ctypes.data
    each = [ctypes.c_char(flag) for flag in flags]
    routine = _routine(name, len(flags) + 4)
    routine(*map(ctypes.addressof, each), at, a.ctypes.data, at + 4, at + 8)
    return int(ints[2])


def factor(a: Array) -> int:
    """Cholesky factor in the place of ``a``; 0, or the row at which there is none."""
    return _call("dpotrf", b"L", a)


def invert_factor(a: Array) -> None:
    """L⁻¹ in the place of L."""
    _call("dtrtri", b"LN", a)


def square_factor(a: Array) -> None:
    """Lᵀ L in the place of L: of L⁻¹, the inverse of L Lᵀ."""
    _call("dlauum", b"L", a)


def rows(n: int) -> Iterator[tuple[slice, slice]]:
    """A few rows at a time, and columns from the first of them on."""
    for start in range(0, n, _ROWS):
        yield slice(start, min(start + _ROWS, n)), slice(start, n)


def copy_triangle(a: Array, out: Array) -> None:
    """The upper triangle of ``a`` into ``out``, whose other elements are zero."""
    for some, on in rows(len(a)):
        out[some, on] = a[some, on]
        out[some, some] = np.triu(out[some, some])


def mirror(a: Array) -> None:
    """The upper triangle's elements in the lower one, too."""
    for some, on in rows(len(a)):
        strip = a[some, on]
        square = np.triu(strip[:, : len(strip)])
        strip[:, : len(strip)] = square + np.triu(square, 1).T
        a[on, some] = strip.T


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
