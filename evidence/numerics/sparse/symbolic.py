"""What the pattern of a sparse matrix alone decides: order, pattern of L, where every number goes.

It is decided once (:func:`analyse`) for any number of matrices with this pattern.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array

from ..arrays import Array, Indices
from ..jit import light_jit
from .halves import climb, halve
from .ordering import arrange
from .supernodes import build, find


@light_jit
def _position(panels, i, j):
    """Of entry (i, j), i ≥ j in elimination order, in the flat storage; -1 where there is none."""
    s = panels.owner[j]
    low, high = panels.starts[s], panels.starts[s + 1]
    at = (i - panels.first[s]) if i < panels.first[s + 1] else (
        find(panels.rows, low, high, i) - low
    )  # fmt: skip
    return panels.offsets[s] + (j - panels.first[s]) * (high - low) + at if at >= 0 else -1


@light_jit
def positions(panels, inverse, rows, cols):
    """Of entries (rows, cols) in original indices."""
    out = np.empty(rows.size, np.int64)
    for k in range(rows.size):
        i, j = inverse[rows[k]], inverse[cols[k]]
        out[k] = _position(panels, max(i, j), min(i, j))
    return out


@light_jit
def assemble(panels, inverse, indptr, indices, data, out):
    """Add the entries of a symmetric matrix in original indices, of the triangle that L needs.

    Whether all of them are inside the pattern of L.
    """
    inside = True
    for col in range(indptr.size - 1):
        j = inverse[col]
        for p in range(indptr[col], indptr[col + 1]):
            i = inverse[indices[p]]
            if i >= j:
                at = _position(panels, i, j)
                if at >= 0:
                    out[at] += data[p]
                else:
                    inside = False
    return inside


class Analysis:
    """The order and the pattern of L in ``P[order][:, order] = L Lᵀ``, and where its numbers are.

    ``nnz`` counts L with its diagonal and the zeros that joined columns have; ``flops`` are those
    of a factorisation (the selected inverse takes twice as many), ``memory`` the bytes of L and
    of the selected inverse together.
    """

    def __init__(self, pattern: csc_array, order: Indices, n_free: int) -> None:
        """Columns of ``order`` from ``n_free`` on stay behind the others."""
        self.n = order.size
        panels, self.order, self.inverse = build(*_compressed(pattern), order, n_free)
        self.panels = panels
        self.size = size = int(panels.offsets[-1])
        self.halves = halve(*climb(panels.first, panels.starts, panels.rows, panels.owner))
        self.home, self.room = panels.offsets[:-1].copy(), size
        if self.halves[1].size:  # it has its own copy of all that is above both
            above = np.diff(panels.offsets)[self.halves[2]]
            self.home[self.halves[2]] = size + np.cumsum(above) - above
            self.room += int(above.sum())
        width, height = np.diff(panels.first), np.diff(panels.starts)
        self.tallest = int((height - width).max(initial=0))  # rows below a panel
        self.largest = int((width * height).max(initial=0))  # numbers of a panel
        self.nnz = int((width * height - width * (width - 1) // 2).sum())
        self.flops = float((_squares(height) - _squares(height - width)).sum())
        self.memory = 16.0 * size

    @cached_property
    def dense(self) -> Indices:
        """Places in a dense matrix, column by column, of the numbers in the flat storage."""
        p, n = self.panels, self.n
        rows = np.split(p.rows, p.starts[1:-1])
        columns = np.split(n * np.arange(n), p.first[1:-1])
        each = [(i + j[:, None]).ravel() for i, j in zip(rows, columns, strict=True)]
        return np.concatenate(each)

    def locate(self, rows: ArrayLike, cols: ArrayLike) -> Indices:
        """Positions of entries (rows, cols) in the flat storage of L and of the selected inverse.

        Raises ``KeyError`` for an entry outside the pattern of L.
        """
        i, j = np.broadcast_arrays(np.asarray(rows, np.int64), np.asarray(cols, np.int64))
        at: Indices = positions(self.panels, self.inverse, i.ravel(), j.ravel())
        missing = np.flatnonzero(at < 0)
        if missing.size:
            raise KeyError((int(i.flat[missing[0]]), int(j.flat[missing[0]])))
        return at.reshape(i.shape)

    @cached_property
    def diagonal(self) -> Indices:
        """Positions of the diagonal."""
        every = np.arange(self.n)
        return self.locate(every, every)

    def assemble(self, matrix: csc_array) -> Array:
        """The lower triangle of a sparse ``matrix`` in the flat storage, zeros elsewhere.

        Behind it, room for what the second half gives to the supernodes above both.
        """
        if matrix.shape != (self.n, self.n):
            raise ValueError(f"the matrix is {matrix.shape}, the pattern has {self.n} indices")
        out = np.zeros(self.room)
        data = np.asarray(matrix.data, float)
        if not assemble(self.panels, self.inverse, *_compressed(matrix), data, out):
            raise KeyError("the matrix has entries outside the pattern that was analysed")
        return out


def _compressed(matrix: csc_array) -> tuple[Indices, Indices]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)


def _squares(m: Indices) -> Array:
    """1² + … + m²."""
    return m * (m + 1.0) * (2.0 * m + 1.0) / 6.0


def analyse(pattern: csc_array, last: ArrayLike | None = None, method: str = "auto") -> Analysis:
    """Order a sparse symmetric pattern (both triangles, by columns or by rows) and analyse it.

    Indices in ``last`` are eliminated after all others. ``method`` is
    ``"auto"``, ``"degree"`` (minimum degree), ``"dissection"`` (nested dissection) or
    ``"given"`` (as they come).
    """
    if pattern.format not in ("csc", "csr"):
        pattern = pattern.tocsc()
    entries = np.ones(pattern.nnz), pattern.indices, pattern.indptr
    graph = csc_array(entries, pattern.shape, copy=True)
    graph.sum_duplicates()
    turned = graph.T.tocsc()
    alike = np.array_equal(graph.indptr, turned.indptr)
    if not alike or not np.array_equal(graph.indices, turned.indices):
        raise ValueError("the pattern is not symmetric: both triangles are needed")
    last = np.empty(0, np.int64) if last is None else np.asarray(last, np.int64)
    order = arrange(*_compressed(graph), last, method)
    return Analysis(pattern, order, graph.shape[0] - last.size)
