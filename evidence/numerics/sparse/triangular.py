"""Solutions with a sparse triangular factor in panels: L⁻¹v and L⁻ᵀv, for one vector or many.

Several vectors are the columns of an (n, J) array in row-major order: its rows that belong to a
supernode are one block of memory, which BLAS sees as a (J, columns) matrix.
"""

from __future__ import annotations

from ..jit import reduction, vector_loop
from . import blas
from .supernodes import panel

_SMALL = 4  # columns; below, plain loops are as fast as BLAS


@vector_loop
def solve_lower(panels, x, v, work):
    """v ← L⁻¹v."""
    for p in range(panels.offsets.size - 1):
        at, c, rows, columns, below = panel(panels, p)
        if columns == 1:
            f = v[c] / x[at]
            v[c] = f
            for i in range(below.size):
                v[below[i]] -= f * x[at + 1 + i]
            continue
        t = work[: below.size]
        t[:] = 0.0
        for j in range(columns):
            a = x[at + j * rows : at + (j + 1) * rows]
            f = v[c + j] / a[j]
            v[c + j] = f
            for i in range(j + 1, columns):
                v[c + i] -= f * a[i]
            b = a[columns:]
            for i in range(t.size):
                t[i] += f * b[i]
        for i in range(t.size):
            v[below[i]] -= t[i]


@reduction
def solve_upper(panels, x, v, work):
    """v ← L⁻ᵀv."""
    for p in range(panels.offsets.size - 2, -1, -1):
        at, c, rows, columns, below = panel(panels, p)
        t = work[: below.size]
        for i in range(t.size):
            t[i] = v[below[i]]
        for j in range(columns - 1, -1, -1):
            a = x[at + j * rows : at + (j + 1) * rows]
            b, total = a[columns:], v[c + j]
            for i in range(j + 1, columns):
                total -= a[i] * v[c + i]
            for i in range(t.size):
                total -= b[i] * t[i]
            v[c + j] = total / a[j]


@vector_loop
def multiply_upper(panels, x, v):
    """v ← Lᵀv, of shape (n, J)."""
    many = v.shape[1]
    for p in range(panels.offsets.size - 1):
        at, c, rows, columns, _ = panel(panels, p)
        for j in range(columns):
            to, d = v[c + j], x[at + j * (rows + 1)]
            for m in range(many):
                to[m] *= d
            for i in range(j + 1, rows):
                f, a = v[panels.rows[panels.starts[p] + i]], x[at + j * rows + i]
                for m in range(many):
                    to[m] += a * f[m]


@vector_loop
def solve_lower_many(panels, x, v, work, s):
    """v ← L⁻¹v, of shape (n, J); ``work`` is as many rows as the tallest panel has below."""
    many = v.shape[1]
    base, block, update = x.ctypes.data, v.ctypes.data, work.ctypes.data
    for p in range(panels.offsets.size - 1):
        at, c, rows, columns, below = panel(panels, p)
        if columns < _SMALL:
            for j in range(columns):
                f = v[c + j]
                for m in range(many):
                    f[m] /= x[at + j * (rows + 1)]
                for i in range(j + 1, rows):
                    to, a = v[panels.rows[panels.starts[p] + i]], x[at + j * rows + i]
                    for m in range(many):
                        to[m] -= a * f[m]
            continue
        here, a = block + 8 * c * many, base + 8 * at
        blas.trsm_right(True, many, columns, a, rows, here, many, s)
        if below.size == 0:
            continue
        blas.gemm(
            False, True, many, below.size, columns, 1.0, here, many, a + 8 * columns, rows,
            0.0, update, many, s,
        )  # fmt: skip
        for i in range(below.size):
            to, t = v[below[i]], work[i]
            for m in range(many):
                to[m] -= t[m]


@vector_loop
def solve_upper_many(panels, x, v, work, s):
    """v ← L⁻ᵀv, of shape (n, J)."""
    many = v.shape[1]
    base, block, update = x.ctypes.data, v.ctypes.data, work.ctypes.data
    for p in range(panels.offsets.size - 2, -1, -1):
        at, c, rows, columns, below = panel(panels, p)
        if columns < _SMALL:
            for j in range(columns - 1, -1, -1):
                to = v[c + j]
                for i in range(j + 1, rows):
                    f, a = v[panels.rows[panels.starts[p] + i]], x[at + j * rows + i]
                    for m in range(many):
                        to[m] -= a * f[m]
                for m in range(many):
                    to[m] /= x[at + j * (rows + 1)]
            continue
        for i in range(below.size):
            f, t = v[below[i]], work[i]
            for m in range(many):
                t[m] = f[m]
        here, a = block + 8 * c * many, base + 8 * at
        if below.size > 0:
            blas.gemm(
                False, False, many, columns, below.size, -1.0, update, many, a + 8 * columns,
                rows, 1.0, here, many, s,
            )  # fmt: skip
        blas.trsm_right(False, many, columns, a, rows, here, many, s)
