r"""Neighbours on a map: intrinsic conditional autoregressions, scaled, island by island.

With the weights W of neighbours (0 and 1 mostly), R = diag(W1) - W, and

.. math:: \log p(x) = \text{const} - \frac{1}{2\sigma^2} \sum_{i<j} W_{ij} (x_i - x_j)^2

does not change when a constant is added on a connected part of the graph. Each such part has its
own sum-to-zero constraint and its own scale: at σ = 1 the geometric mean of its marginal
variances, the diagonal of R⁺, is 1. A site without neighbours is N(0, σ²), without a constraint.

References: S. H. Sørbye and H. Rue, Spatial Statistics 8 (2014) 39-51; A. Freni-Sterrantino,
M. Ventrucci and H. Rue, Spatial and Spatio-temporal Epidemiology 26 (2018) 25-34.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csc_array, diags_array
from scipy.sparse.csgraph import connected_components

from ...execution.arguments import array, check_size, plain
from ...messages import InputError
from ...numerics.sparse import Factor, analyse
from .base import WIDE, Bounds
from .scaled import Scaled


def icar(
    graph: object, sigma: float = 1.0, *, n: int | None = None, sigma_bounds: Bounds = WIDE
) -> Scaled:
    """Values on a map, each near the mean of its neighbours.

    Parameters
    ----------
    graph : sparse matrix, square array, or list of pairs
        Symmetric weights of neighbours, zero for others; or edges (i, j), counted from 0.
    sigma : float
        Standard deviation of a typical value, whatever the graph.
    n : int, optional
        Sites, where edges are given and the last sites have none.
    sigma_bounds : pair of float or "fixed"
        Where it is searched for, if at all.

    Examples
    --------
    >>> field = icar([(0, 1), (1, 2), (0, 2), (3, 4)], n=6)
    >>> field, field.constraints[0].toarray().round(3).tolist()[1]
    (icar(6 sites in 3 parts, sigma=1), [0.0, 0.0, 0.0, 0.707, 0.707, 0.0])
    """
    W = adjacency(graph, n)
    n = W.shape[0]
    parts, part = connected_components(W, directed=False)
    size = np.bincount(part, minlength=parts)
    degree = W.sum(axis=0)
    alone = size[part] == 1
    ground = np.zeros(n)
    heaviest = np.lexsort((degree, part))[np.cumsum(size) - 1]  # of every part
    ground[heaviest] = np.where(alone[heaviest], 1.0, degree[heaviest])
    R = csc_array(diags_array(degree + alone) - W)
    # with one site of each part held, the inverse G is a generalised inverse of R, R⁺ = P G P
    grounded = csc_array(R + diags_array(np.where(alone, 0.0, ground)))
    analysis = analyse(grounded)
    factor = Factor.of(analysis, analysis.assemble(grounded))
    G = factor.selected()[analysis.diagonal]
    rows = factor.solve(np.ones(n))
    total = np.bincount(part, rows, parts)
    variances = G - 2.0 * rows / size[part] + (total / size**2)[part]
    logs = np.log(np.where(alone, 1.0, variances))
    scale = np.exp(np.bincount(part, logs, parts) / size)
    several = np.flatnonzero(~alone)
    column = (np.cumsum(size > 1) - 1)[part[several]]
    entries = (1.0 / np.sqrt(size[part[several]]), (several, column))
    basis = csc_array(entries, shape=(n, int((size > 1).sum())))
    text = f"{n} sites" + (f" in {parts} parts" if parts > 1 else "")
    return Scaled("icar", text, csc_array(R * scale[part][:, None]), basis, sigma, sigma_bounds)


def adjacency(graph: object, n: int | None = None) -> csc_array:
    """Symmetric weights ≥ 0 without a diagonal, from a matrix or from edges."""
    if hasattr(graph, "tocoo"):
        W = csc_array(graph).astype(float)
    elif isinstance(graph, np.ndarray) and graph.ndim == 2 and graph.shape[0] == graph.shape[1]:
        W = csc_array(array("graph", graph))
    else:
        W = _from_edges(graph, n)
    W.eliminate_zeros()
    if W.shape[0] != W.shape[1] or not W.shape[0]:
        raise InputError(f"graph must be a square matrix or a list of edges, got shape {W.shape}")
    if n is not None and n != W.shape[0]:
        raise InputError(f"n={n}, but graph has {W.shape[0]} sites")
    if not np.isfinite(W.data).all() or (W.data < 0.0).any():
        raise InputError(f"graph: weights must be positive and finite, got {W.data.min():g}")
    if W.diagonal().any():
        loop = int(np.flatnonzero(W.diagonal())[0])
        raise InputError(f"graph: site {loop} is its own neighbour; its diagonal must be zero")
    off = abs(W - W.T).tocoo()
    if off.nnz and off.data.max() > 1e-12 * W.data.max():
        i, j = (int(c[off.data.argmax()]) for c in off.coords)
        raise InputError(
            f"graph must be symmetric, got {W[i, j]:g} at ({i}, {j}) and {W[j, i]:g} at ({j}, {i})"
        )
    return W


def _from_edges(graph: object, n: int | None) -> csc_array:
    edges = plain("graph", graph)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise InputError(
            "graph must be a sparse matrix, a square array or a list of pairs of whole numbers, "
            f"got an array of shape {edges.shape} and type {edges.dtype}"
        )
    if n is None:
        n = int(edges.max()) + 1
    check_size("n", n, 4)
    if edges.min() < 0 or edges.max() >= n:
        raise InputError(f"graph: sites are 0, …, {n - 1}, got {edges.min()} to {edges.max()}")
    both = np.concatenate([edges, edges[:, ::-1]])
    W = coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n, n)).tocsc()
    W.data[:] = 1.0
    return W
