"""In which order to eliminate the indices of a sparse symmetric matrix, for little fill.

Minimum degree is SuperLU's; nested dissection is ours; chains keep their order. Indices with
very many neighbours come last: they fill anyway, and minimum degree is slow with them.

Reference: A. George and J. W. H. Liu, SIAM Review 31 (1989) 1 (minimum degree).
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array, eye_array
from scipy.sparse.linalg import spilu

from ..arrays import Indices
from ..jit import light_jit
from .dissection import dissect


def minimum_degree(indptr: Indices, indices: Indices) -> Indices:
    """Multiple minimum degree.

    An incomplete factorisation that drops everything gives SuperLU's order without its work.
    """
    n = indptr.size - 1
    if n == 0:
        return np.empty(0, np.int64)
    small = csc_array((np.full(indices.size, 1e-6 / n), indices, indptr), shape=(n, n))
    small = small + eye_array(n, format="csc")
    options = {"SymmetricMode": True, "Equil": False}
    limits = {"drop_tol": 1.0, "fill_factor": 1.0, "diag_pivot_thresh": 0.0}
    incomplete = spilu(small, permc_spec="MMD_AT_PLUS_A", options=options, **limits)
    return np.argsort(incomplete.perm_c).astype(np.int64)


@light_jit
def tree(indptr, indices, order):
    """Elimination tree and column counts of L (diagonal included), by row subtrees."""
    n = order.size
    inverse, parent, mark = np.empty(n, np.int64), np.full(n, -1), np.full(n, -1)
    count = np.ones(n, np.int64)
    for k in range(n):
        inverse[order[k]] = k
    for k in range(n):
        mark[k] = k
        for p in range(indptr[order[k]], indptr[order[k] + 1]):
            j = inverse[indices[p]]
            if j > k:
                continue
            while mark[j] != k:
                if parent[j] == -1:
                    parent[j] = k
                count[j] += 1
                mark[j] = k
                j = parent[j]
    return parent, count


def arrange(
    indptr: Indices, indices: Indices, last: Indices, method: str, *, cheap: int = 200,
    band: int = 8, long: int = 4,
) -> Indices:  # fmt: skip
    """The order of elimination; ``last`` at the end.

    ``"auto"`` leaves chains as they are and otherwise takes whichever costs less.

    ``cheap``: up to so many operations per entry of the matrix, minimum degree will do; ``band``:
    up to this distance of neighbours, a chain is eliminated from end to end; one that is not
    ``long`` times as long only if nothing costs less (four groups and what all their data see are
    a star).
    """
    n = indptr.size - 1
    ends = np.zeros(n, bool)
    ends[last] = True
    if method == "given":
        return np.concatenate([np.flatnonzero(~ends), last])
    held = last if last.size**2 <= indices.size else last[:0]  # otherwise their order matters
    degree, free = np.diff(indptr), np.ones(n, bool)
    free[held] = False
    crowded = free & (degree > max(16.0, 20.0 * degree.mean()))
    if crowded.sum() ** 2 > indices.size:  # their dense block would be larger than the matrix
        crowded = free & (degree > max(16.0, 10.0 * np.sqrt(n)))
    sparse, dense = np.flatnonzero(free & ~crowded), np.flatnonzero(crowded)
    end = np.concatenate([dense[np.argsort(degree[dense], kind="stable")], held])
    graph = restrict(indptr, indices, sparse)
    width = _bandwidth(*graph) if method == "auto" else band + 1
    orders = dict[float, Indices]()
    for name, make in (("chain", None), ("degree", minimum_degree), ("dissection", dissect)):
        if name == method or (method == "auto" and (name != "chain" or width <= band)):
            order = np.concatenate([sparse if make is None else sparse[make(*graph)], end])
            order = order[np.argsort(ends[order], kind="stable")]
            count = tree(indptr, indices, order)[1]
            work = float(np.square(count.astype(float)).sum())
            orders.setdefault(work, order)
            if method == "auto" and (work < cheap * indices.size if make else long * width <= n):
                break
    return orders[min(orders)]


def _bandwidth(indptr: Indices, indices: Indices) -> int:
    columns = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return int(np.abs(indices - columns).max(initial=0))


def restrict(indptr: Indices, indices: Indices, kept: Indices) -> tuple[Indices, Indices]:
    """The pattern among the indices ``kept`` (increasing)."""
    n = indptr.size - 1
    whole = csc_array((np.ones(indices.size, bool), indices, indptr), shape=(n, n))
    part = whole[:, kept][kept]
    return part.indptr.astype(np.int64), part.indices.astype(np.int64)
