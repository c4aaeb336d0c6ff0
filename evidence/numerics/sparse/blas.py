"""Dense blocks inside compiled code: the routines of BLAS and LAPACK that panels need.

A block is an address and a leading dimension; matrices are column-major, triangles lower.
See :mod:`evidence.numerics.lapack` for how the routines are bound.
"""

from __future__ import annotations

from scipy.linalg import cython_blas, cython_lapack

from ..jit import jit
from ..lapack import bind, passed

_dpotri = bind(cython_lapack, "dpotri")
_dtrsm = bind(cython_blas, "dtrsm")
_dsymm = bind(cython_blas, "dsymm")
_dgemm = bind(cython_blas, "dgemm")


@jit
def potri(n, a, lda, s):
    """(L Lᵀ)⁻¹ in the place of L."""
    f, at, _ = passed(s, (n, lda))
    _dpotri(f, at, a, at + 4, at + 8)


@jit
def trsm_right(transposed, m, n, a, lda, b, ldb, s):
    """B ← B A⁻¹, or B A⁻ᵀ, for a lower triangle A."""
    f, at, r = passed(s, (m, n, lda, ldb), 1.0)
    trans = f + (2 if transposed else 1)
    _dtrsm(f + 3, f, trans, f + 1, at, at + 4, r, a, at + 8, b, at + 12)


@jit
def minus_symm(m, n, a, lda, b, ldb, c, ldc, s):
    """C ← -A B for a symmetric A of which the lower triangle is read."""
    f, at, r = passed(s, (m, n, lda, ldb, ldc), -1.0)
    _dsymm(f, f, at, at + 4, r, a, at + 8, b, at + 12, r + 8, c, at + 16)


@jit
def gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, s):
    """C ← α op(A) op(B) + β C, C being (m, n)."""
    f, at, r = passed(s, (m, n, k, lda, ldb, ldc), alpha, beta)
    op_a, op_b = f + (2 if trans_a else 1), f + (2 if trans_b else 1)
    _dgemm(
        op_a, op_b, at, at + 4, at + 8, r, a, at + 12, b, at + 16, r + 8, c, at + 20
    )  # fmt: skip
