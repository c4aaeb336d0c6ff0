"""Dense blocks inside compiled code: the routines of BLAS and LAPACK that panels need.

A block is an address and a leading dimension; matrices are column-major, triangles lower.
See :mod:`evidence.numerics.lapack` for how the routines are bound.
"""

from __future__ import annotations

from scipy.linalg import cython_blas, cython_lapack

from ..jit import jit
from ..lapack import bind

_dpotri = bind(cython_lapack, "dpotri")
_dtrsm = bind(cython_blas, "dtrsm")
_dsymm = bind(cython_blas, "dsymm")
_dgemm = bind(cython_blas, "dgemm")


@jit
def potri(n, a, lda, s):
    """(L Lᵀ)⁻¹ in the place of L."""
    flags, ints, _ = s
    ints[0], ints[1] = n, lda
    at = ints.ctypes.data
    _dpotri(flags.ctypes.data, at, a, at + 4, at + 8)


@jit
def trsm_right(transposed, m, n, a, lda, b, ldb, s):
    """B ← B A⁻¹, or B A⁻ᵀ, for a lower triangle A."""
    flags, ints, reals = s
    ints[0], ints[1], ints[2], ints[3], reals[0] = m, n, lda, ldb, 1.0
    at, f = ints.ctypes.data, flags.ctypes.data
    trans = f + (2 if transposed else 1)
    _dtrsm(f + 3, f, trans, f + 1, at, at + 4, reals.ctypes.data, a, at + 8, b, at + 12)


@jit
def minus_symm(m, n, a, lda, b, ldb, c, ldc, s):
    """C ← -A B for a symmetric A of which the lower triangle is read."""
    flags, ints, reals = s
    ints[0], ints[1], ints[2], ints[3], ints[4] = m, n, lda, ldb, ldc
    reals[0], reals[1] = -1.0, 0.0
    at, f, r = ints.ctypes.data, flags.ctypes.data, reals.ctypes.data
    _dsymm(f, f, at, at + 4, r, a, at + 8, b, at + 12, r + 8, c, at + 16)


@jit
def gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, s):
    """C ← α op(A) op(B) + β C, C being (m, n)."""
    flags, ints, reals = s
    ints[0], ints[1], ints[2], ints[3], ints[4], ints[5] = m, n, k, lda, ldb, ldc
    reals[0], reals[1] = alpha, beta
    at, f, r = ints.ctypes.data, flags.ctypes.data, reals.ctypes.data
    op_a, op_b = f + (2 if trans_a else 1), f + (2 if trans_b else 1)
    _dgemm(
        op_a, op_b, at, at + 4, at + 8, r, a, at + 12, b, at + 16, r + 8, c, at + 20
    )  # fmt: skip
