"""BLAS and LAPACK inside compiled code, without the interpreter.

The routines are those that SciPy ships (:mod:`scipy.linalg.cython_blas`), bound by name to the
compiler's linker, so compiled callers can be cached on disk. All matrices are in column-major
order: a C-contiguous array A is passed as its transpose, for which "lower" means the lower
triangle in column-major order, i.e. ``A[j, i]`` with ``j ≤ i`` holds row i, column j.
A block is the address of its first element; its leading dimension is that of the whole matrix.
"""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types
from scipy.linalg import cython_blas, cython_lapack

from .jit import jit, light_jit

_ITEM = 8  # bytes of a float64


def signature(capsule: object) -> bytes:
    """Of a routine in C; all that they take are addresses."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return bytes(get_name(capsule))


def address(module: ModuleType, name: str) -> int:
    """Of a routine of ``scipy.linalg.cython_blas`` or ``cython_lapack``."""
    capsule = module.__pyx_capi__[name]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(get_pointer(capsule, signature(capsule)))


def bind(module: ModuleType, name: str) -> Any:
    """A function of addresses, as many as the routine takes."""
    found, n_arguments = address(module, name), signature(module.__pyx_capi__[name]).count(b"*")
    if numba.config.DISABLE_JIT:
        routine = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(found)
        return lambda *arguments: routine(*map(int, arguments))
    symbol = f"evidence_{name}"
    llvm.add_symbol(symbol, found)
    return types.ExternalFunction(symbol, types.void(*[types.intp] * n_arguments))


_dpotrf = bind(cython_lapack, "dpotrf")
_dtrtri = bind(cython_lapack, "dtrtri")
_dtrmm = bind(cython_blas, "dtrmm")
_dsyrk = bind(cython_blas, "dsyrk")
_dtrsv = bind(cython_blas, "dtrsv")
_dcopy = bind(cython_blas, "dcopy")
_dsymv = bind(cython_blas, "dsymv")


@light_jit
def scratch():
    """Flags, integers and reals that the Fortran interface wants by address."""
    flags = np.empty(4, np.uint8)
    flags[0], flags[1], flags[2], flags[3] = 76, 78, 84, 82  # L N T R
    return flags, np.empty(8, np.int32), np.empty(2)


@jit
def passed(s, integers, alpha=0.0, beta=0.0):
    """Where flags, integers and reals are, which are filled with these."""
    flags, ints, reals = s
    for i in range(len(integers)):
        ints[i] = integers[i]
    reals[0], reals[1] = alpha, beta
    return flags.ctypes.data, ints.ctypes.data, reals.ctypes.data


@jit
def potrf(n, a, ld, s):
    """A = L Lᵀ in place, lower triangles; returns LAPACK's info."""
    f, at, _ = passed(s, (n, ld))
    _dpotrf(f, at, a, at + 4, at + 8)
    return s[1][2]


@jit
def _trtri(n, a, ld, s):
    """Inverse of a lower triangle in place."""
    f, at, _ = passed(s, (n, ld))
    _dtrtri(f, f + 1, at, a, at + 4, at + 8)


@jit
def _trmm(side, trans, m, n, alpha, a, b, ld, s):
    """B ← α op(A) B or α B op(A), A lower triangular; ``side``, ``trans`` index the flags."""
    f, at, r = passed(s, (m, n, ld), alpha)
    _dtrmm(f + side, f, f + trans, f + 1, at, at + 4, r, a, at + 8, b, at + 8)


@jit
def syrk(n, k, alpha, a, lda, beta, c, ldc, s):
    """C ← α A Aᵀ + β C, lower triangle."""
    f, at, r = passed(s, (n, k, lda, ldc), alpha, beta)
    _dsyrk(f, f + 1, at, at + 4, r, a, at + 8, r + 8, c, at + 12)


@jit
def _copy(n, x, y, s):
    _, at, _ = passed(s, (n, 1))
    _dcopy(at, x, at + 4, y, at + 4)


@jit
def _leaf(n, a, w, ld, s):
    """L and L⁻¹ of a small block by LAPACK."""
    info = potrf(n, a, ld, s)
    if info == 0:
        for j in range(n):
            step = j * (ld + 1) * _ITEM
            _copy(n - j, a + step, w + step, s)
        _trtri(n, w, ld, s)
    return info


@jit
def factor_inverse(a, w, s):
    """Cholesky factor of ``a`` (in place) and its inverse in ``w``; 0 or LAPACK's info.

    Only lower triangles (column-major) are read and written. By halves, [[L, 0], [X, M]]:
    X = A₂₁L⁻ᵀ, M Mᵀ = A₂₂ - X Xᵀ, and below L⁻¹ stands -M⁻¹X L⁻¹; 2/3 N³ flops, nearly all
    in products of square blocks. The recursion keeps its own stack: (start, size, stage).
    """
    base = 64  # below this size LAPACK itself is as fast
    n = a.shape[0]
    stack = np.zeros((64, 3), np.int64)
    stack[0, 1], top = n, 0
    while top >= 0:
        start, size, stage = stack[top]
        h = (size // 2 + 7) // 8 * 8
        stack[top, 2] += 1
        corner = start * (n + 1) * _ITEM
        a11, w11 = a.ctypes.data + corner, w.ctypes.data + corner
        a21, w21 = a11 + h * _ITEM, w11 + h * _ITEM
        a22, w22 = a21 + h * n * _ITEM, w21 + h * n * _ITEM
        if size <= base:
            info = _leaf(size, a11, w11, n, s)
            if info != 0:
                return start + info
            top -= 1
        elif stage == 0:
            top += 1
            stack[top, 0], stack[top, 1], stack[top, 2] = start, h, 0
        elif stage == 1:
            _trmm(3, 2, size - h, h, 1.0, w11, a21, n, s)
            syrk(size - h, h, -1.0, a21, n, 1.0, a22, n, s)
            top += 1
            stack[top, 0], stack[top, 1], stack[top, 2] = start + h, size - h, 0
        else:
            for j in range(h):
                _copy(size - h, a21 + j * n * _ITEM, w21 + j * n * _ITEM, s)
            _trmm(0, 1, size - h, h, -1.0, w22, w21, n, s)
            _trmm(3, 1, size - h, h, 1.0, w11, w21, n, s)
            top -= 1
    return 0


@jit
def solve_lower(a, x, transposed, s):
    """x ← L⁻¹x, or L⁻ᵀx, in place, for a lower triangle L."""
    f, at, _ = passed(s, (a.shape[0], 1))
    trans = f + (2 if transposed else 1)
    _dtrsv(f, trans, f + 1, at, a.ctypes.data, at, x.ctypes.data, at + 4)


@jit
def symmetric_times(a, x, out, s):
    """out = A x for a symmetric A."""
    f, at, r = passed(s, (a.shape[0], 1), 1.0)
    A, v, product = a.ctypes.data, x.ctypes.data, out.ctypes.data
    _dsymv(f, at, r, A, at, v, at + 4, r + 8, product, at + 4)
