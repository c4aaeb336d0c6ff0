"""Two parts of an elimination that two cores can do at the same time.

Subtrees of the elimination tree share nothing but what is above them. The division depends on
the pattern only, so that results are the same on any number of cores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, Indices
from ..jit import light_jit


@light_jit
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


def halve(parent: Indices, work: Array, *, serial: float = 1e8, many: int = 200) -> list[Indices]:
    """Supernodes of two sets of subtrees that share nothing, and of what is above both.

    From the roots down, the largest subtree loses its root, as long as two cores gain.

    ``serial``: operations below which one core does it all; ``many``: subtrees that are given to
    one core or the other.
    """
    children = np.argsort(parent, kind="stable")
    begin = np.searchsorted(parent[children], np.arange(-1, parent.size + 1))
    roots = list(children[: begin[1]])
    least, above = 0.9 * work[roots].sum(), 0.0
    chosen: tuple[list[Any], list[Any]] = ([], [])
    if least < serial:
        roots = []
    for _ in range(many):
        if not 0 < len(roots) <= many:
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


@light_jit
def inherit(parent, side):
    """Give the side of a subtree's root to all that is below it."""
    for s in range(parent.size - 1, -1, -1):
        if parent[s] != -1 and side[parent[s]] != 2:
            side[s] = side[parent[s]]
