"""Sparse Cholesky factor of a symmetric positive definite matrix, by dense panels.

Supernodes are eliminated one after the other; the update L_R L_Rᵀ of each is made in one product
and subtracted from the panels of its ancestors. Tiny ones do without BLAS.

Reference: E. G. Ng and B. W. Peyton, SIAM Journal on Scientific Computing 14 (1993) 1034.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import lapack

from ..arrays import Array, Indices
from ..jit import jit, light_jit, vector_loop
from ..lapack import potrf, scratch, syrk
from ..threads import run, single_blas
from . import blas
from .selected import invert
from .supernodes import ancestor, panel
from .symbolic import Analysis
from .triangular import (
    multiply_upper,
    solve_lower,
    solve_lower_many,
    solve_upper,
    solve_upper_many,
)


@vector_loop
def _panel(x, at, rows, columns):
    """Factorise a narrow panel in place; the failing column or -1."""
    for j in range(columns):
        a = x[at + j * rows : at + (j + 1) * rows]
        d = a[j]
        if not d > 0.0:
            return j
        d = math.sqrt(d)
        a[j] = d
        d = 1.0 / d
        for i in range(j + 1, rows):
            a[i] *= d
        for k in range(j + 1, columns):
            b, f = x[at + k * rows : at + (k + 1) * rows], a[k]
            for i in range(k, rows):
                b[i] -= f * a[i]
    return -1


@vector_loop
def factorise(panels, chosen, home, x, work, s):
    """L in the place of the lower triangle, for the supernodes ``chosen``.

    Updates of a supernode go to where ``home`` says. Returns the column that is not positive
    definite, or -1.
    """
    small = 8  # columns; below, plain loops are as fast as LAPACK
    base, update = x.ctypes.data, work.ctypes.data
    for p in chosen:
        at, c, rows, columns, below = panel(panels, p)
        r = below.size
        if columns < small:
            bad = _panel(x, at, rows, columns)
        else:
            a = base + 8 * at
            bad = potrf(columns, a, rows, s) - 1
            if bad == -1 and r > 0:
                blas.trsm_right(True, r, columns, a, rows, a + 8 * columns, rows, s)
            if bad == -1 and not math.isfinite(x[at + (columns - 1) * (rows + 1)]):
                bad = columns - 1
        if bad != -1:
            return c + bad
        if r == 0:
            continue
        if columns > 1:
            syrk(r, columns, 1.0, base + 8 * (at + columns), rows, 0.0, update, r, s)
        for q in range(panels.links[p], panels.links[p + 1]):
            k0, k1, a, place, ld = ancestor(panels, p, q, r)
            for k in range(k0, k1):
                out = home[a] + place[k - k0] * ld
                if columns == 1:
                    f = x[at + 1 + k]
                    for i in range(k, r):
                        x[out + place[i - k0]] -= f * x[at + 1 + i]
                else:
                    for i in range(k, r):
                        x[out + place[i - k0]] -= work[k * r + i]
    return -1


@jit
def collect(offsets, top, home, x):
    """Add what the second half gave to the supernodes above both."""
    for p in top:
        for k in range(offsets[p + 1] - offsets[p]):
            x[offsets[p] + k] += x[home[p] + k]


@vector_loop
def square(panels, x, out, work, s):
    """Add L Lᵀ to ``out``: what :func:`factorise` takes apart."""
    base = x.ctypes.data
    for p in range(panels.offsets.size - 1):
        at, _, rows, columns, below = panel(panels, p)
        syrk(rows, columns, 1.0, base + 8 * at, rows, 0.0, work.ctypes.data, rows, s)
        for j in range(columns):
            for i in range(j, rows):
                out[at + j * rows + i] += work[j * rows + i]
        for q in range(panels.links[p], panels.links[p + 1]):
            k0, k1, a, place, ld = ancestor(panels, p, q, below.size)
            for k in range(k0, k1):
                to, row = panels.offsets[a] + place[k - k0] * ld, (columns + k) * rows + columns
                for i in range(k, below.size):
                    out[to + place[i - k0]] += work[row + i]


def _quiet(analysis: Analysis, *, large: float = 1e5) -> AbstractContextManager[None]:
    """One BLAS thread, where it would take more; a millisecond, which small matrices spare.

    ``large``: operations of a factorisation.
    """
    return single_blas() if analysis.flops > large else nullcontext()


def _side_by_side(work: Callable[[int], None], analysis: Analysis) -> None:
    """``work(0)`` and ``work(1)``, the two halves, in two threads where there are cores."""

    def share(first: int, stride: int) -> None:
        for half in range(first, 2, stride):
            work(half)

    if analysis.halves[1].size:
        with single_blas():
            run(share, 2)


@light_jit
def by_columns(panels, x, nnz):
    """L as compressed sparse columns."""
    n = panels.owner.size
    indptr = np.zeros(n + 1, np.int64)
    indices, data, at = np.empty(nnz, np.int64), np.empty(nnz), 0
    for p in range(panels.offsets.size - 1):
        start, end = panels.starts[p], panels.starts[p + 1]
        for j in range(panels.first[p + 1] - panels.first[p]):
            column = panels.offsets[p] + j * (end - start)
            for i in range(j, end - start):
                indices[at], data[at] = panels.rows[start + i], x[column + i]
                at += 1
            indptr[panels.first[p] + j + 1] = at
    return indptr, indices, data


class Factor:
    """``P[order][:, order] = L Lᵀ``, from L's numbers in the flat storage of an analysis."""

    small: ClassVar[int] = 64
    """Rows of a matrix up to which LAPACK takes it as a dense one."""

    def __init__(self, analysis: Analysis, numbers: Array) -> None:
        self.analysis = analysis
        self._x = numbers[: analysis.panels.offsets[-1]]

    @staticmethod
    def holding(analysis: Analysis, numbers: Array) -> Factor:
        """From L's numbers."""
        return (_Dense if analysis.n <= Factor.small else Factor)(analysis, numbers)

    @staticmethod
    def of(analysis: Analysis, numbers: Array) -> Factor:
        """From P's numbers, :meth:`.Analysis.assemble`, which are overwritten.

        Raises :class:`numpy.linalg.LinAlgError` where P is not positive definite.
        """
        factor = Factor.holding(analysis, numbers)
        bad = factor._factorise(numbers)
        if bad >= 0:
            where = analysis.order[bad]
            raise np.linalg.LinAlgError(f"not positive definite (found at index {where})")
        return factor

    def _factorise(self, x: Array) -> int:
        """Put L in the place of P; the column that is not positive definite, or -1."""
        analysis, panels = self.analysis, self.analysis.panels
        homes, bad = (panels.offsets, analysis.home), np.full(3, -1)

        def eliminate(part: int) -> None:
            work = np.empty(analysis.tallest**2)
            chosen, home = analysis.halves[part], homes[part == 1]
            bad[part] = factorise(panels, chosen, home, x, work, scratch())

        _side_by_side(eliminate, analysis)
        if analysis.halves[1].size:
            collect(panels.offsets, analysis.halves[2], analysis.home, x)
        with _quiet(analysis):
            eliminate(2)
        return int(bad[bad >= 0][0]) if bad.max() >= 0 else -1

    def square(self) -> Array:
        """The numbers of P, of which this is the factor."""
        panels, out = self.analysis.panels, np.zeros(self.analysis.room)
        with _quiet(self.analysis):
            square(panels, self._x, out, np.empty(np.diff(panels.starts).max() ** 2), scratch())
        return out

    @property
    def roots(self) -> Array:
        """Of the pivots, by index."""
        return np.asarray(self._x[self.analysis.diagonal])

    @cached_property
    def half_logdet(self) -> float:
        """Σ log L_kk = ½ log|P|."""
        return float(np.log(self.roots).sum())

    def half_solve(self, b: Array) -> Array:
        """L⁻¹ b[order], in the order of elimination; b is (n,) or (n, J)."""
        v = np.ascontiguousarray(np.asarray(b, float)[self.analysis.order])
        self._in_place(solve_lower, solve_lower_many, v)
        return v

    def half_solve_transposed(self, z: Array) -> Array:
        """x with x[order] = L⁻ᵀz: a draw of N(0, P⁻¹) from normals z, (n,) or (n, J)."""
        v = np.array(z, float, order="C")
        self._in_place(solve_upper, solve_upper_many, v)
        return v[self.analysis.inverse]

    def half_product(self, x: Array) -> Array:
        """Lᵀx[order], of which the sum of squares is xᵀPx; x is (n,) or (n, J)."""
        v = np.ascontiguousarray(np.asarray(x, float)[self.analysis.order])
        multiply_upper(self.analysis.panels, self._x, v.reshape(len(v), -1))
        return v

    def solve(self, b: Array) -> Array:
        """P⁻¹b; b is (n,) or (n, J)."""
        return self.half_solve_transposed(self.half_solve(b))

    def columns(self) -> tuple[Indices, Indices, Array]:
        """L as (indptr, indices, data) by columns, in the order of elimination.

        Row indices are sorted, the diagonal comes first.
        """
        return by_columns(self.analysis.panels, self._x, self.analysis.nnz)

    def selected(self) -> Array:
        """Entries of P⁻¹ on the pattern of L, where :meth:`Analysis.locate` says."""
        analysis = self.analysis
        z: Array = np.zeros(self._x.size)

        def invert_part(part: int) -> None:
            chosen = analysis.halves[part]
            work, ratio = np.empty(analysis.tallest**2), np.empty(analysis.largest)
            invert(analysis.panels, chosen, self._x, z, work, ratio, scratch())

        with _quiet(analysis):
            invert_part(2)
        _side_by_side(invert_part, analysis)
        return z

    def _in_place(self, one: Callable[..., None], many: Callable[..., None], v: Array) -> None:
        if v.ndim == 1 or v.shape[1] == 1:
            one(self.analysis.panels, self._x, v.reshape(-1), np.empty(self.analysis.tallest))
        elif v.size:
            with _quiet(self.analysis):
                work = np.empty((self.analysis.tallest, v.shape[1]))
                many(self.analysis.panels, self._x, v, work, scratch())


class _Dense(Factor):
    """The same of a small matrix, where calls cost more than zeros: nothing is compiled."""

    @cached_property
    def _lower(self) -> Array:
        """L."""
        return self._unpacked(self._x)

    def _unpacked(self, numbers: Array) -> Array:
        out = np.zeros(self.analysis.n**2)
        out[self.analysis.dense] = numbers
        return out.reshape(self.analysis.n, -1).T

    def _packed(self, matrix: Array) -> Array:
        """Of a lower triangle."""
        return np.asarray(np.tril(matrix).T.ravel()[self.analysis.dense])

    def _factorise(self, x: Array) -> int:
        self._lower, bad = lapack.dpotrf(self._unpacked(self._x), lower=1)
        self._x = self._packed(self._lower)
        return int(bad) - 1 if bad or np.isfinite(self._x).all() else self.analysis.n - 1

    def square(self) -> Array:
        return self._packed(self._lower @ self._lower.T)

    def half_solve(self, b: Array) -> Array:
        v = np.asarray(b, float)[self.analysis.order]
        return np.ascontiguousarray(lapack.dtrtrs(self._lower, v, lower=1)[0])

    def half_solve_transposed(self, z: Array) -> Array:
        v = lapack.dtrtrs(self._lower, z, lower=1, trans=1)[0]
        return np.ascontiguousarray(v[self.analysis.inverse])

    def half_product(self, x: Array) -> Array:
        return np.asarray(self._lower.T @ np.asarray(x, float)[self.analysis.order])

    def selected(self) -> Array:
        return self._packed(lapack.dpotri(self._lower, lower=1)[0])
