"""Nested dissection: order a graph so that what separates its halves is eliminated last.

Distances from far ends of the graph serve as coordinates, and a half ends where one of them, or
their sum or difference, gives a small separator and even halves; single vertices then move across
while that makes it smaller. On a planar graph of n vertices L has O(n log n) entries and costs
O(n^1.5) operations.

References: A. George, SIAM Journal on Numerical Analysis 10 (1973) 345;
C. M. Fiduccia and R. M. Mattheyses, Design Automation Conference 19 (1982) 175 (moves).
"""

from __future__ import annotations

import numpy as np

from ..copies import copy
from ..jit import jit

_LOW, _HIGH, _CUT = 0, 1, 2  # below the separator, above it, in it


@jit
def _search(indptr, indices, part, label, root, queue, level):
    """Breadth-first search of a part: how many are reached, and the distance of the last."""
    queue[0], level[root], part[root] = root, 0, -label
    head, tail = 0, 1
    while head < tail:
        v = queue[head]
        head += 1
        for p in range(indptr[v], indptr[v + 1]):
            w = indices[p]
            if part[w] == label:
                part[w], level[w] = -label, level[v] + 1
                queue[tail] = w
                tail += 1
    for k in range(tail):
        part[queue[k]] = label
    return tail, level[queue[tail - 1]]


@jit
def _corners(indptr, indices, part, label, root, queue, level, far):
    """Distances ``far`` (four columns) of a part from two ends of it and from two ends across.

    Returns how many vertices are reached, and the greatest distance.
    """
    reached, depth = _search(indptr, indices, part, label, root, queue, level)
    while True:  # until the ends are as far apart as can be
        for k in range(reached):
            far[queue[k], 1] = level[queue[k]]
        end = queue[reached - 1]
        _, further = _search(indptr, indices, part, label, end, queue, level)
        if further <= depth:
            break
        depth = further
    best, across = -1, end
    for k in range(reached):
        v = queue[k]
        far[v, 0] = level[v]
        if min(level[v], far[v, 1]) > best:
            best, across = min(level[v], far[v, 1]), v
    for row in range(2, 4):
        _search(indptr, indices, part, label, across, queue, level)
        across = queue[reached - 1]
        for k in range(reached):
            far[queue[k], row] = level[queue[k]]
    return reached, max(depth, level[across])


@jit
def _divide(indptr, indices, part, label, members, depth, far, side, count):
    """Halve a part by a line across one of four directions; False where no line is any good.

    Differences of the distances from two ends serve as coordinates. Vertices at or below a
    threshold with a neighbour above it are the separator; all thresholds are tried. ``count`` is
    for each coordinate of how many it is, and how many more are in the separator from there on.
    """
    count[:, : 4 * depth + 2] = 0
    for v in members:
        x, y = far[v, 0] - far[v, 1] + 2 * depth, far[v, 2] - far[v, 3]
        far[v, 0], far[v, 1], far[v, 2], far[v, 3] = x, y + 2 * depth, x + y, x - y
    for v in members:
        a, b, c, d = far[v]
        for p in range(indptr[v], indptr[v + 1]):
            w = indices[p]
            if part[w] == label:
                a, b = max(a, far[w, 0]), max(b, far[w, 1])
                c, d = max(c, far[w, 2]), max(d, far[w, 3])
        for f, most in enumerate((a, b, c, d)):
            count[f, far[v, f], 0] += 1
            count[f, far[v, f], 1] += 1
            count[f, most, 1] -= 1
    cost, direction, threshold, total = np.inf, -1, 0, members.size
    for f in range(4):
        below, cut = 0, 0
        for c in range(4 * depth + 1):
            below += count[f, c, 0]
            cut += count[f, c, 1]
            low, high = float(below - cut), float(total - below)
            if min(low, high) > 0.02 * total and cut < cost * low * high:
                cost, direction, threshold = cut / (low * high), f, c
    for v in members:
        side[v] = _HIGH if far[v, direction] > threshold else _LOW
        if side[v] == _LOW:
            for p in range(indptr[v], indptr[v + 1]):
                w = indices[p]
                if part[w] == label and far[w, direction] > threshold:
                    side[v] = _CUT
    return direction != -1


@jit
def _turn(indptr, indices, side, near, v, to):
    """Give v to another side, and tell its neighbours."""
    for p in range(indptr[v], indptr[v + 1]):
        near[side[v], indices[p]] -= 1
        near[to, indices[p]] += 1
    side[v] = to


@jit
def _refine(indptr, indices, part, label, members, side, near, cut, held, history):
    """Move vertices out of the separator while it shrinks or the halves become more even.

    A vertex that joins one half pulls its neighbours in the other half into the separator. Moves
    that do not pay are tried too, each vertex once in a pass, and undone unless they lead to a
    better separator. ``near`` counts a vertex's neighbours on each side, ``history`` has for each
    move the vertex, those it pulled, and how many.
    """
    sizes, total = np.zeros(3, np.int64), members.size
    near[:, members] = 0
    for v in members:
        sizes[side[v]] += 1
        for p in range(indptr[v], indptr[v + 1]):
            if part[indices[p]] == label:
                near[side[indices[p]], v] += 1
    budget, improved = 50 * total, True
    while improved and budget > 0:
        sizes[_CUT] = 0
        for v in members:
            if side[v] == _CUT:
                cut[sizes[_CUT]] = v
                sizes[_CUT] += 1
        start = sizes[_CUT]
        best = start + abs(sizes[0] - sizes[1]) / (4.0 * total)
        paid, moves, records = 0, 0, 0
        while moves - paid < 30 + start // 8 and budget > 0:
            budget -= sizes[_CUT]
            pick, to, gain = -1, 0, -(10**9)
            for k in range(sizes[_CUT]):
                v = cut[k]
                for h in range(2):
                    value = 2 * (1 - near[1 - h, v]) + (sizes[h] < sizes[1 - h])
                    if value > gain and held[v] != label and sizes[h] < 0.6 * total:
                        pick, to, gain = k, h, value
            if pick == -1 or records + near[1 - to, cut[pick]] + 2 > history.size:
                break
            v = cut[pick]
            budget -= indptr[v + 1] - indptr[v]
            sizes[_CUT] -= 1
            cut[pick] = cut[sizes[_CUT]]
            _turn(indptr, indices, side, near, v, to)
            held[v], history[records], pulled = label, v, 0
            for p in range(indptr[v], indptr[v + 1]):
                w = indices[p]
                if part[w] == label and side[w] == 1 - to:
                    _turn(indptr, indices, side, near, w, _CUT)
                    budget -= indptr[w + 1] - indptr[w]
                    cut[sizes[_CUT]] = w
                    sizes[_CUT] += 1
                    pulled += 1
                    history[records + pulled] = w
            sizes[to] += 1
            sizes[1 - to] -= pulled
            history[records + pulled + 1] = pulled
            records, moves = records + pulled + 2, moves + 1
            now = sizes[_CUT] + abs(sizes[0] - sizes[1]) / (4.0 * total)
            if now < best - 1e-9:
                best, paid = now, moves
        improved = paid > 0
        _undo(indptr, indices, side, near, held, history[:records], sizes, moves, paid)


@jit
def _undo(indptr, indices, side, near, held, history, sizes, moves, paid):
    """Take back all moves but the first ``paid``; all vertices may move again."""
    records = history.size
    for k in range(moves):
        pulled = history[records - 1]
        v = history[records - pulled - 2]
        held[v], to = 0, side[v]
        if moves - k > paid:
            for q in range(records - pulled - 1, records - 1):
                _turn(indptr, indices, side, near, history[q], 1 - to)
            _turn(indptr, indices, side, near, v, _CUT)
            sizes[to] -= 1
            sizes[1 - to] += pulled
        records -= pulled + 2


@jit
def dissect(indptr, indices):
    """The order: halves first, their separator last, and so on inside the halves."""
    leaf = 20  # vertices that are not divided further
    n = indptr.size - 1
    order, part, level = np.arange(n), np.ones(n, np.int64), np.zeros(n, np.int64)
    queue, cut, held = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.int64)
    side, history = np.zeros(n, np.int64), np.empty(4 * n + 100, np.int64)
    near, far = np.zeros((3, n), np.int64), np.zeros((n, 4), np.int64)
    count = np.empty((4, 4 * n + 2, 2), np.int64)
    stack, top, label = np.empty((n // leaf + 3, 2), np.int64), 0, 1
    stack[0, 0], stack[0, 1] = 0, n if n > leaf else 0
    while top >= 0:
        low, high = stack[top]
        top, label = top - 1, label + 1
        whole = order[low:high].copy()
        part[whole] = label
        if whole.size == 0:
            continue
        reached, depth = _corners(indptr, indices, part, label, whole[0], queue, level, far)
        if reached < whole.size:  # not connected: no separator
            for v in whole:
                if part[v] == label:
                    reached, _ = _search(indptr, indices, part, label, v, queue, level)
                    copy(queue[:reached], order[low:])
                    part[queue[:reached]] = 0
                    if reached > leaf:
                        top += 1
                        stack[top, 0], stack[top, 1] = low, low + reached
                    low += reached
        elif not _divide(indptr, indices, part, label, whole, depth, far, side, count):
            degree = indptr[whole + 1] - indptr[whole]
            copy(whole[np.argsort(degree, kind="mergesort")], order[low:])
        else:
            _refine(indptr, indices, part, label, whole, side, near, cut, held, history)
            for which in range(3):
                begin = low
                for v in whole:
                    if side[v] == which:
                        order[low] = v
                        low += 1
                if which < _CUT and low - begin > leaf:
                    top += 1
                    stack[top, 0], stack[top, 1] = begin, low
    return order
