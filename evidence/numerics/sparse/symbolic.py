"""What the pattern of a sparse matrix alone decides: order, pattern of L, where every number goes.

L is kept by supernodes, runs of columns that share their rows below a dense triangle, each a dense
column-major panel of *rows × columns*. Columns whose patterns nearly agree are joined at the price
of some zeros, because dense blocks are faster than their entries one by one.

The update of a supernode goes to ancestors that hold its rows as columns: a *link* for each,
with the places of the remaining rows in the ancestor's panel.

References: T. A. Davis, Direct Methods for Sparse Linear Systems (2006), section 4; C. Ashcraft
and R. Grimes, ACM Transactions on Mathematical Software 15 (1989) 291 (joining supernodes).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Indices
from ..jit import jit
from .ordering import arrange, tree

_SERIAL = 5e6  # operations below which one core does it all
_MANY = 200  # subtrees that are given to one core or the other


class Panels(NamedTuple):
    """Where L is. Supernode s holds columns first[s], …, first[s + 1] - 1."""

    first: Indices
    starts: Indices  # of its rows in ``rows``, its own columns included
    rows: Indices
    offsets: Indices  # of its panel in the flat storage
    owner: Indices  # the supernode of a column
    links: Indices  # of s: links[s] ≤ q < links[s + 1]
    target: Indices  # the ancestor
    begin: Indices  # its first column among the rows below s
    places: Indices  # of that row and all later ones in the ancestor's panel, in ``place``
    place: Any  # int32


@jit
def join(parent, count, n_free, relax):
    """The supernode of every column, and for each its parent, columns and rows.

    Supernodes are named by their top column. A child whose rows are those of its parent's joins
    for free; another one where it is small or adds a small part of zeros.
    """
    n = parent.size
    top, into = np.arange(n), np.full(n, -1)
    for j in range(n):  # into[p]: the child that continues p downwards
        p = parent[j]
        if p != -1 and p != n_free and into[p] == -1 and count[j] == count[p] + 1:
            into[p] = j
    for j in range(n - 1, n_free, -1):
        into[j] = j - 1
    for p in range(n - 1, -1, -1):
        if into[p] != -1:
            top[into[p]] = top[p]
    width, height, zeros = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n)
    up, child, sibling = np.full(n, -1), np.full(n, -1), np.full(n, -1)
    for j in range(n):
        width[top[j]] += 1
    for j in range(n - 1, -1, -1):
        if top[j] == j:
            height[j] = count[j] + width[j] - 1
            up[j] = top[parent[j]] if parent[j] != -1 else (n - 1 if n_free < n else -1)
            if up[j] == j:
                up[j] = -1
            if up[j] != -1:
                sibling[j], child[up[j]] = child[up[j]], j
    merged = np.full(n, -1)
    if relax:
        family = np.empty(n, np.int64)
        for p in range(n):
            if top[p] != p or child[p] == -1:
                continue
            m, c = 0, child[p]
            while c != -1:
                family[m], c, m = c, sibling[c], m + 1
            ranked = np.argsort(width[family[:m]] - height[family[:m]], kind="mergesort")
            for k in ranked:
                c = family[k]
                columns = width[c] + width[p]
                below = height[c] - width[c]
                lost = zeros[c] + zeros[p] + width[c] * (height[p] - below)
                rows = width[c] + height[p]
                share = lost / (columns * rows - columns * (columns - 1) / 2.0)
                if (
                    lost == 0.0
                    or (columns <= 4 and share < 0.6)
                    or (columns <= 16 and share < 0.4)
                    or (columns <= 48 and share < 0.12)
                    or share < 0.05
                ):
                    merged[c], zeros[p] = p, lost
                    width[p], height[p] = columns, rows
    for j in range(n - 1, -1, -1):
        if merged[j] != -1 and merged[merged[j]] != -1:
            merged[j] = merged[merged[j]]
    for j in range(n):
        if merged[top[j]] != -1:
            top[j] = merged[top[j]]
    for j in range(n):
        if up[j] != -1:
            up[j] = top[up[j]]
    return top, up, width, height


@jit
def postorder(top, up, width):
    """Supernodes, children before parents, and the columns in their order."""
    n = top.size
    child, sibling, stack = np.full(n, -1), np.full(n, -1), np.empty(n, np.int64)
    number, supers, m = np.full(n, -1), np.empty(n, np.int64), 0
    for j in range(n - 1, -1, -1):
        if top[j] == j and up[j] != -1:
            sibling[j], child[up[j]] = child[up[j]], j
    for root in range(n):
        if top[root] != root or up[root] != -1:
            continue
        stack[0], depth = root, 1
        while depth > 0:
            j = stack[depth - 1]
            if child[j] != -1:
                stack[depth] = child[j]
                child[j] = sibling[child[j]]
                depth += 1
            else:
                supers[m], number[j] = j, m
                m, depth = m + 1, depth - 1
    first = np.zeros(m + 1, np.int64)
    for s in range(m):
        first[s + 1] = first[s] + width[supers[s]]
    position, at = np.empty(n, np.int64), first.copy()
    for j in range(n):
        s = number[top[j]]
        position[at[s]] = j
        at[s] += 1
    return supers[:m].copy(), first, position


@jit
def structure(indptr, indices, order, first, heights):
    """The rows of every supernode, its own columns first, sorted."""
    n, m = order.size, heights.size
    inverse, owner = np.empty(n, np.int64), np.empty(n, np.int64)
    starts = np.zeros(m + 1, np.int64)
    for s in range(m):
        starts[s + 1] = starts[s] + heights[s]
        for k in range(first[s], first[s + 1]):
            inverse[order[k]], owner[k] = k, s
    rows, mark = np.empty(starts[m], np.int64), np.full(n, -1)
    child, sibling = np.full(m, -1), np.full(m, -1)
    for s in range(m):
        at, last = starts[s], first[s + 1]
        for k in range(first[s], last):
            rows[at] = k
            at += 1
        for k in range(first[s], last):
            for p in range(indptr[order[k]], indptr[order[k] + 1]):
                i = inverse[indices[p]]
                if i >= last and mark[i] != s:
                    mark[i], rows[at] = s, i
                    at += 1
        c = child[s]
        while c != -1:
            for p in range(starts[c] + first[c + 1] - first[c], starts[c + 1]):
                i = rows[p]
                if i >= last and mark[i] != s:
                    mark[i], rows[at] = s, i
                    at += 1
            c = sibling[c]
        below = starts[s] + last - first[s]
        if at - below > 1:
            rows[below:at].sort()
        if at > below:
            p = owner[rows[below]]
            sibling[s], child[p] = child[p], s
    return starts, rows, owner, inverse


@jit
def _find(rows, low, high, i):
    """Where ``i`` is in sorted ``rows[low:high]``; -1 where it is not."""
    while low < high:
        middle = (low + high) // 2
        if rows[middle] < i:
            low = middle + 1
        elif rows[middle] > i:
            high = middle
        else:
            return middle
    return -1


@jit
def link(first, starts, rows, owner):
    """Links of every supernode with the ancestors that its update goes to."""
    m = starts.size - 1
    links, total = np.zeros(m + 1, np.int64), 0
    for fill in range(2):  # count, then write
        target, begin = np.empty(links[m], np.int64), np.empty(links[m], np.int64)
        places, place = np.empty(links[m], np.int64), np.empty(total, np.int32)
        q, size = 0, 0
        for s in range(m):
            below = starts[s] + first[s + 1] - first[s]
            k = below
            while k < starts[s + 1]:
                a = owner[rows[k]]
                if fill == 1:
                    target[q], begin[q], places[q] = a, k - below, size
                    low, end = starts[a], first[a + 1]
                    for p in range(k, starts[s + 1]):
                        if rows[p] < end:
                            low = starts[a] + rows[p] - first[a]
                        else:
                            low = _find(rows, low, starts[a + 1], rows[p])
                        place[size + p - k] = low - starts[a]
                q, size = q + 1, size + starts[s + 1] - k
                while k < starts[s + 1] and owner[rows[k]] == a:
                    k += 1
            links[s + 1] = q
        total = size
    return links, target, begin, places, place


@jit
def _position(panels, i, j):
    """Of entry (i, j), i ≥ j in elimination order, in the flat storage; -1 where there is none."""
    s = panels.owner[j]
    low, high = panels.starts[s], panels.starts[s + 1]
    at = (i - panels.first[s]) if i < panels.first[s + 1] else (
        _find(panels.rows, low, high, i) - low
    )  # fmt: skip
    return panels.offsets[s] + (j - panels.first[s]) * (high - low) + at if at >= 0 else -1


@jit
def positions(panels, inverse, rows, cols):
    """Of entries (rows, cols) in original indices."""
    out = np.empty(rows.size, np.int64)
    for k in range(rows.size):
        i, j = inverse[rows[k]], inverse[cols[k]]
        out[k] = _position(panels, max(i, j), min(i, j))
    return out


@jit
def destinations(panels, inverse, indptr, indices):
    """Of all entries of a symmetric matrix: -1 for those of the triangle that L does not need,
    -2 for those outside the pattern of L."""
    out = np.full(indices.size, -1)
    for col in range(indptr.size - 1):
        j = inverse[col]
        for p in range(indptr[col], indptr[col + 1]):
            i = inverse[indices[p]]
            if i >= j:
                at = _position(panels, i, j)
                out[p] = at if at >= 0 else -2
    return out


@jit
def climb(first, starts, rows, owner):
    """The parent of every supernode (-1: none) and the operations of its subtree, itself included.

    The constant stands for what any supernode costs.
    """
    m = starts.size - 1
    parent, work = np.full(m, -1), np.zeros(m)
    for s in range(m):
        columns, height = first[s + 1] - first[s], starts[s + 1] - starts[s]
        work[s] += 1000.0 + float(columns) * height * height
        if height > columns:
            parent[s] = owner[rows[starts[s] + columns]]
            work[parent[s]] += work[s]
    return parent, work


def halve(parent: Indices, work: Array) -> list[Indices]:
    """Supernodes of two sets of subtrees that share nothing, and of what is above both.

    From the roots down, the largest subtree loses its root, as long as two cores gain.
    """
    children = np.argsort(parent, kind="stable")
    begin = np.searchsorted(parent[children], np.arange(-1, parent.size + 1))
    roots = list(children[: begin[1]])
    least, above = 0.9 * work[roots].sum(), 0.0
    chosen: tuple[list[Any], list[Any]] = ([], [])
    if least < _SERIAL:
        roots = []
    for _ in range(_MANY):
        if not 0 < len(roots) <= _MANY:
            break
        roots.sort(key=lambda s: -work[s])
        loads = [0.0, 0.0]
        halves: tuple[list[Any], list[Any]] = ([], [])
        for s in roots:
            h = int(loads[1] < loads[0])
            loads[h] += work[s]
            halves[h].append(s)
        if above + max(loads) < least:
            least, chosen = above + max(loads), halves
        root = roots.pop(0)
        below = children[begin[root + 1] : begin[root + 2]]
        above += work[root] - work[below].sum()
        roots.extend(below)
    side = np.full(parent.size, 2)
    for h in range(2):
        side[np.array(chosen[h], np.int64)] = h
    inherit(parent, side)
    return [np.flatnonzero(side == h) for h in range(3)]


@jit
def inherit(parent, side):
    """Give the side of a subtree's root to all that is below it."""
    for s in range(parent.size - 1, -1, -1):
        if parent[s] != -1 and side[parent[s]] != 2:
            side[s] = side[parent[s]]


class Analysis:
    """The order and the pattern of L in ``P[order][:, order] = L Lᵀ``, and where its numbers are.

    ``nnz`` counts L with its diagonal and the zeros that joined columns have; ``flops`` are those
    of a factorisation (the selected inverse takes twice as many), ``memory`` the bytes of L and
    of the selected inverse together.
    """

    def __init__(self, indptr: Indices, indices: Indices, order: Indices, n_free: int) -> None:
        n = order.size
        parent, count = tree(indptr, indices, order, n_free)
        relax = bool(count.sum() >= 5 * n)  # chains and trees are better left alone
        top, up, width, height = join(parent, count, n_free, relax)
        supers, first, position = postorder(top, up, width)
        self.order: Indices = order[position]
        starts, rows, owner, self.inverse = structure(
            indptr, indices, self.order, first, height[supers]
        )
        widths, heights = np.diff(first), np.diff(starts)
        offsets = np.concatenate([[0], np.cumsum(widths * heights)])
        self.panels = Panels(
            first, starts, rows, offsets, owner, *link(first, starts, rows, owner)
        )
        self.halves = halve(*climb(first, starts, rows, owner))
        sizes = np.diff(offsets)[self.halves[2]]
        self.home = offsets[:-1].copy()  # for the second half, which has a copy of all above it
        if self.halves[1].size:
            self.home[self.halves[2]] = offsets[-1] + np.cumsum(sizes) - sizes
        self.room = int(offsets[-1] + (sizes.sum() if self.halves[1].size else 0))
        self.n = n
        self.nnz = int((widths * heights - widths * (widths - 1) // 2).sum())
        below = (heights - widths).astype(float)
        # Σ (below + k)² over k = 1, …, width
        self.flops = float(
            (
                widths * below**2
                + below * widths * (widths + 1)
                + widths * (widths + 1) * (2 * widths + 1) / 6
            ).sum()
        )
        self.memory = 16.0 * float(offsets[-1])
        self.indptr, self.indices = indptr, indices
        self.destination: Indices = destinations(self.panels, self.inverse, indptr, indices)

    def locate(self, rows: Any, cols: Any) -> Indices:
        """Positions of entries (rows, cols) in the flat storage of L and of the selected inverse.

        Raises :class:`KeyError` for an entry outside the pattern of L.
        """
        i, j = np.broadcast_arrays(np.asarray(rows, np.int64), np.asarray(cols, np.int64))
        at: Indices = positions(self.panels, self.inverse, i.ravel(), j.ravel())
        missing = np.flatnonzero(at < 0)
        if missing.size:
            raise KeyError((int(i.flat[missing[0]]), int(j.flat[missing[0]])))
        return at.reshape(i.shape)

    def assemble(self, matrix: Any) -> Array:
        """The lower triangle of ``matrix`` in the flat storage, zeros elsewhere.

        Behind it, room for what the second half gives to the supernodes above both.
        """
        if matrix.shape != (self.n, self.n):
            raise ValueError(f"the matrix is {matrix.shape}, the pattern has {self.n} indices")
        indptr, indices = matrix.indptr, matrix.indices
        out = np.zeros(self.room)
        if np.array_equal(indptr, self.indptr) and np.array_equal(indices, self.indices):
            at = self.destination
        else:
            at = destinations(self.panels, self.inverse, indptr, indices)
            if (at == -2).any():
                raise KeyError("the matrix has entries outside the pattern that was analysed")
        scatter(at, np.asarray(matrix.data, float), out)
        return out


@jit
def scatter(at, values, out):
    for k in range(at.size):
        if at[k] >= 0:
            out[at[k]] += values[k]


def analyse(pattern: Any, last: Any = None, method: str = "auto") -> Analysis:
    """Order a sparse symmetric pattern (both triangles) and analyse it.

    Indices in ``last`` are eliminated last, in this order, as one dense block. ``method`` is
    ``"auto"``, ``"degree"`` (minimum degree), ``"dissection"`` (nested dissection) or
    ``"given"`` (as they come).
    """
    pattern = pattern.tocsc()
    if not pattern.has_canonical_format:
        pattern = pattern.copy()
        pattern.sum_duplicates()
    turned = pattern.T.tocsc()
    if not np.array_equal(turned.indptr, pattern.indptr) or not np.array_equal(
        turned.indices, pattern.indices
    ):
        raise ValueError("the pattern is not symmetric: both triangles are needed")
    indptr, indices = pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64)
    last = np.empty(0, np.int64) if last is None else np.asarray(last, np.int64)
    order = arrange(indptr, indices, last, method)
    return Analysis(indptr, indices, order, pattern.shape[0] - last.size)
