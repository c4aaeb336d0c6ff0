"""In which order to eliminate the indices of a sparse symmetric matrix, for little fill.

Minimum degree is SuperLU's; nested dissection is ours; chains keep their order. Indices with
very many neighbours come last: they fill anyway, and minimum degree is slow with them.

Reference: A. George and J. W. H. Liu, SIAM Review 31 (1989) 1 (minimum degree).
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import spilu

from ..arrays import Indices

_BAND = 8  # up to this distance of neighbours, a chain is eliminated from end to end


def minimum_degree(indptr: Indices, indices: Indices) -> Indices:
    """Multiple minimum degree.

    An incomplete factorisation that drops everything gives SuperLU's order without its work.
    """
    n = indptr.size - 1
    if n == 0:
        return np.empty(0, np.int64)
    columns = np.repeat(np.arange(n), np.diff(indptr))
    values = np.where(indices == columns, 1.0, 1e-6 / n)
    missing = np.setdiff1d(np.arange(n), columns[indices == columns])
    matrix = csc_matrix(
        (
            np.concatenate([values, np.ones(missing.size)]),
            (np.concatenate([indices, missing]), np.concatenate([columns, missing])),
        ),
        shape=(n, n),
    )
    incomplete = spilu(
        matrix,
        drop_tol=1.0,
        fill_factor=1.0,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True, "Equil": False},
    )
    return np.argsort(incomplete.perm_c).astype(np.int64)


def arrange(indptr: Indices, indices: Indices, last: Indices, method: str) -> Indices:
    """The order of elimination; ``last`` at the end."""
    n = indptr.size - 1
    free = np.ones(n, bool)
    free[last] = False
    if method == "given":
        return np.concatenate([np.flatnonzero(free), last])
    degree = np.diff(indptr)
    dense = free & (degree > max(16.0, 10.0 * np.sqrt(n)))
    sparse = np.flatnonzero(free & ~dense)
    dense = np.flatnonzero(dense)
    dense = dense[np.argsort(degree[dense], kind="stable")]
    sub = restrict(indptr, indices, sparse)
    if method == "auto" and _bandwidth(*sub) <= _BAND:
        best = np.arange(sparse.size)
    else:
        best = minimum_degree(*sub)
    return np.concatenate([sparse[best], dense, last])


def _bandwidth(indptr: Indices, indices: Indices) -> int:
    columns = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return int(np.abs(indices - columns).max(initial=0))


def restrict(indptr: Indices, indices: Indices, kept: Indices) -> tuple[Indices, Indices]:
    """The pattern among the indices ``kept`` (increasing)."""
    n = indptr.size - 1
    number = np.full(n, -1)
    number[kept] = np.arange(kept.size)
    columns = np.repeat(number, np.diff(indptr))
    inside = (columns >= 0) & (number[indices] >= 0)
    counts = np.bincount(columns[inside], minlength=kept.size)
    return np.concatenate([[0], np.cumsum(counts)]), number[indices[inside]]
