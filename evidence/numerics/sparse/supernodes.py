"""Columns of L that share their rows, as dense panels.

A supernode is a run of columns whose rows below a dense triangle are the same. Columns whose rows
nearly agree are joined at the price of some zeros, because dense blocks are faster than their
entries one by one. What a supernode's elimination changes are columns of its ancestors: a *link*
for each ancestor that holds some of its rows as columns, with the places of the remaining rows in
the ancestor's panel.

References: T. A. Davis, Direct Methods for Sparse Linear Systems (2006), section 4; C. Ashcraft
and R. Grimes, ACM Transactions on Mathematical Software 15 (1989) 291 (joining).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Indices
from ..jit import jit, light_jit
from .ordering import tree


class Panels(NamedTuple):
    """Where L is: column-major panels of rows × columns, one after the other.

    Supernode s holds columns first[s], …, first[s + 1] - 1, numbered as they are eliminated.
    """

    first: Indices
    starts: Indices  # of its rows in ``rows``, its own columns included
    rows: Indices
    offsets: Indices  # of its panel in the flat storage
    owner: Indices  # the supernode of a column
    links: Indices  # of s: links[s] ≤ q < links[s + 1]
    target: Indices  # the ancestor
    begin: Indices  # its first column among the rows below s
    places: Indices  # of that row and all later ones in the ancestor's panel, in ``place``
    place: NDArray[np.int32]


@jit
def panel(panels, s):
    """Where a panel begins, its first column, its rows and columns, and the rows below these."""
    start, end, c = panels.starts[s], panels.starts[s + 1], panels.first[s]
    columns = panels.first[s + 1] - c
    return panels.offsets[s], c, end - start, columns, panels.rows[start + columns : end]


@jit
def ancestor(panels, s, q, r):
    """Which of the r rows below s are columns of an ancestor, from k0 to k1; the ancestor; the
    places of these and all later rows in its panel, and how many rows that has."""
    k0, a = panels.begin[q], panels.target[q]
    k1 = panels.begin[q + 1] if q + 1 < panels.links[s + 1] else r
    place = panels.place[panels.places[q] : panels.places[q] + r - k0]
    return k0, k1, a, place, panels.starts[a + 1] - panels.starts[a]


@light_jit
def join(parent, count, n_free, relax):
    """The supernode of every column, and for each its parent, columns and rows.

    Supernodes are named by their top column. A child whose rows are those of its parent's joins
    for free; another one where it is small or adds a small part of zeros. Columns before
    ``n_free`` do not join later ones.
    """
    n = parent.size
    top, into = np.arange(n), np.full(n, -1)
    for j in range(n):  # into[p]: the child that continues p downwards
        p = parent[j]
        if p != -1 and into[p] == -1 and count[j] == count[p] + 1 and (j >= n_free or p < n_free):
            into[p] = j
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
            if parent[j] != -1:
                up[j] = top[parent[j]]
                sibling[j], child[up[j]] = child[up[j]], j
    merged = np.full(n, -1)
    if relax:
        family = np.empty(n, np.int64)
        for p in range(n):
            if top[p] != p or child[p] == -1:
                continue
            m, c = 0, child[p]
            while c != -1:
                if c >= n_free or p < n_free:
                    family[m], m = c, m + 1
                c = sibling[c]
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


@light_jit
def postorder(top, up, width, n_free):
    """Supernodes, children before parents, and the columns in their order.

    Those of columns before ``n_free`` come before the others.
    """
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
                supers[m] = j
                m, depth = m + 1, depth - 1
    early = supers[:m] < n_free
    supers = np.concatenate((supers[:m][early], supers[:m][~early]))
    first = np.zeros(m + 1, np.int64)
    for s in range(m):
        number[supers[s]] = s
        first[s + 1] = first[s] + width[supers[s]]
    position, at = np.empty(n, np.int64), first.copy()
    for j in range(n):
        s = number[top[j]]
        position[at[s]] = j
        at[s] += 1
    return supers, first, position


@light_jit
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


@light_jit
def find(rows, low, high, i):
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


@light_jit
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
                            low = find(rows, low, starts[a + 1], rows[p])
                        place[size + p - k] = low - starts[a]
                q, size = q + 1, size + starts[s + 1] - k
                while k < starts[s + 1] and owner[rows[k]] == a:
                    k += 1
            links[s + 1] = q
        total = size
    return links, target, begin, places, place


def build(
    indptr: Indices, indices: Indices, order: Indices, n_free: int
) -> tuple[Panels, Indices, Indices]:
    """Panels, the order of elimination (one as good as ``order``) and its inverse."""
    parent, count = tree(indptr, indices, order)
    relax = bool(count.sum() >= 5 * order.size)  # chains and trees are better left alone
    top, up, width, height = join(parent, count, n_free, relax)
    supers, first, position = postorder(top, up, width, n_free)
    order = order[position]
    starts, rows, owner, inverse = structure(indptr, indices, order, first, height[supers])
    offsets = np.concatenate([[0], np.cumsum(np.diff(first) * np.diff(starts))])
    links = link(first, starts, rows, owner)
    return Panels(first, starts, rows, offsets, owner, *links), order, inverse
