r"""The evidence of a Gaussian mixed model in closed form, for many hyperparameters at once.

A predictor is :math:`\eta_c = Z_c b_c + X_c \beta` for the data of group c, where effects
:math:`b_c \sim N(0, D_\theta)` are independent between groups and β, few of them, are common:
fixed effects, and those of a smaller factor that crosses the groups. With a thin decomposition
:math:`Z_c = U_c R_c` the data speak through :math:`u_c = U_c^T (y_c - m_c)`,
:math:`W_c = U_c^T X_c` and what is perpendicular to all :math:`U_c`, none of which depends on θ:

.. math:: u_c \sim N(W_c \beta,\; C_c),\qquad C_c = R_c D_\theta R_c^T + s^2 I .

Whitened by the Cholesky factors of the C_c, and with β = L z for a standard normal z, what is
left is least squares, :math:`\min_z |\tilde u - \tilde W L z|^2 + |z|^2`, a sum of squares taken
at its solution. Nothing is subtracted anywhere, so that no ratio of noise to prior costs digits,
and a look costs groups, not data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import connected_components

from ..models.sparse import SparseModel
from ..numerics.arrays import Array, Indices
from ..numerics.jit import jit
from .parts import Parts


class Groups(NamedTuple):
    """What data say, group by group, whatever θ is. Effects come in chunks: those of one term in
    one group."""

    u: Array
    """(S,), of all groups, one after the other."""
    w: Array
    """(S, p)"""
    rows: Indices
    """Where a group's rows begin, (G + 1,)."""
    factors: Array
    """Entries of all R_c, row by row."""
    places: Indices
    """Where those of a group begin, (G + 1,)."""
    chunks: Indices
    """Where a group's chunks begin, (G + 1,)."""
    terms: Indices
    """The term of every chunk."""
    common: Indices
    """The terms of the chunks of β."""
    sizes: Indices
    """Effects in a chunk of each term."""
    roots: Indices
    """Where the root of D of each term is, among those of all terms."""
    rest: Array
    """Triangular factor of what is perpendicular to all groups, X beside y, (p + 1, p + 1)."""


@jit
def _root_times(matrix, first, root, k):
    """Columns ``first`` to ``first + k`` of a matrix times the lower triangle ``root``."""
    for i in range(matrix.shape[0]):
        for j in range(k):
            total = 0.0
            for l in range(j, k):
                total += matrix[i, first + l] * root[l * k + j]
            matrix[i, first + j] = total


@jit
def _factorise(matrix, n, least):
    """Cholesky factor in the lower triangle, and half the log determinant.

    Pivots are at least ``least``, since the matrix is a positive semidefinite one plus that.
    """
    half = 0.0
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for l in range(j):
                total -= matrix[i, l] * matrix[j, l]
            if i == j:
                matrix[i, i] = math.sqrt(max(total, least))
                half += math.log(matrix[i, i])
            else:
                matrix[i, j] = total / matrix[j, j]
    return half


@jit
def _whiten_group(groups, c, root, variance, spare, white):
    """Rows of group c times the inverse Cholesky factor of C_c; half its log determinant."""
    first, last = groups.rows[c], groups.rows[c + 1]
    r = last - first
    factor = groups.factors[groups.places[c] : groups.places[c + 1]].copy().reshape(r, -1)
    column = 0
    for chunk in range(groups.chunks[c], groups.chunks[c + 1]):
        term = groups.terms[chunk]
        k = groups.sizes[term]
        _root_times(factor, column, root[groups.roots[term] :], k)
        column += k
    for i in range(r):
        for j in range(i + 1):
            total = 0.0
            for l in range(column):
                total += factor[i, l] * factor[j, l]
            spare[i, j] = total
        spare[i, i] += variance
    half = _factorise(spare, r, variance)
    p = groups.w.shape[1]
    for i in range(r):
        for j in range(p + 1):
            total = groups.u[first + i] if j == p else groups.w[first + i, j]
            for l in range(i):
                total -= spare[i, l] * white[first + l, j]
            white[first + i, j] = total / spare[i, i]
    return half


@jit
def _least_squares(white, spare, z):
    """The least sum of squares of the last column less the others times z, and of z; half the
    log determinant. A second solve takes out what the first one's rounding left."""
    n, p = white.shape[0], white.shape[1] - 1
    for i in range(p):
        for j in range(i + 1):
            total = 0.0
            for l in range(n):
                total += white[l, i] * white[l, j]
            spare[i, j] = total
        spare[i, i] += 1.0
        z[i] = 0.0
    half = _factorise(spare, p, 1.0)
    step = np.empty(p)
    for _ in range(2):
        for i in range(p):
            total = -z[i]
            for l in range(n):
                total += white[l, i] * white[l, p]
            for l in range(i):
                total -= spare[i, l] * step[l]
            step[i] = total / spare[i, i]
        for i in range(p - 1, -1, -1):
            for l in range(i + 1, p):
                step[i] -= spare[l, i] * step[l]
            step[i] /= spare[i, i]
            z[i] += step[i]
        for l in range(n):
            for i in range(p):
                white[l, p] -= white[l, i] * step[i]
    total = 0.0
    for l in range(n):
        total += white[l, p] ** 2
    for i in range(p):
        total += z[i] ** 2
    return total, half


@jit
def _log_evidences(groups, n_data, roots, noise, spare, out, scatter):
    """log Z but for a constant, for every row of ``roots`` and its standard deviation of noise,
    and the sum of squares in it."""
    n, p = groups.u.size, groups.w.shape[1]
    white, z = np.empty((n + p + 1, p + 1)), np.empty(p)
    for b in range(noise.size):
        s, half = noise[b], 0.0
        for c in range(groups.rows.size - 1):
            half += _whiten_group(groups, c, roots[b], s * s, spare, white)
        for i in range(len(groups.rest)):
            for j in range(p + 1):
                white[n + i, j] = groups.rest[i, j] / s
        column = 0
        for term in groups.common:
            k = groups.sizes[term]
            _root_times(white, column, roots[b, groups.roots[term] :], k)
            column += k
        scatter[b], common = _least_squares(white, spare, z)
        out[b] = -0.5 * scatter[b] - half - common - (n_data - n) * math.log(s)


class GroupedEvidence:
    """log Z(θ) of a Gaussian mixed model in closed form: call it with rows of natural values of
    what is free. ``cost`` is about how many multiplications one takes."""

    def __init__(self, model: SparseModel, parts: Parts, groups: Groups) -> None:
        self.groups, self.parts, self.n_data = groups, parts, float(model.y.size)
        noise = model.theta[1]
        per_datum = np.ndim(model.likelihood.value_of("noise_std")) == 1
        self.noise = 1.0 if per_datum else float(noise[0])
        self.constant = -0.5 * model.y.size * math.log(2.0 * math.pi)
        self.constant -= float(np.log(noise).sum()) if per_datum else 0.0

    @property
    def cost(self) -> float:
        n, p = self.groups.w.shape
        r, k = np.diff(self.groups.rows), np.diff(self.groups.places)
        return float(np.sum(r * k + r**3 / 3) + (n + p) * (p + 1) ** 2 + 20.0 * r.size)

    def __call__(self, free: Array) -> Array:
        return self.parted(free)[0]

    def at(self, free: Array) -> float:
        return float(self(free[None])[0])

    def parted(self, free: Array, numbers: int = 2**22) -> tuple[Array, Array]:
        """log Z, and the sum of squares, half of which is taken off in it; from so many numbers
        of roots at a time."""
        most = max(numbers // int(np.sum(self.parts.sizes**2)), 1)
        if len(free) > most:
            pieces = np.split(free, np.arange(most, len(free), most))
            first, second = zip(*map(self.parted, pieces), strict=True)
            return np.concatenate(first), np.concatenate(second)
        values = self.parts.values(free)
        noise = values[:, self.parts.n_kernel :]
        s = noise[:, 0].copy() if noise.size else np.full(len(free), self.noise)
        out, scatter = np.empty((2, len(free)))
        with np.errstate(all="ignore"):
            roots = [root.reshape(len(free), -1) for root in self.parts.roots(values)]
            widest = max(self.groups.w.shape[1], np.diff(self.groups.rows).max())
            given = (self.groups, self.n_data, np.hstack(roots), s, np.empty((widest, widest)))
            _log_evidences(*given, out, scatter)
        return np.where(np.isnan(out), -np.inf, out + self.constant), scatter


def grouped_evidence(model: SparseModel, parts: Parts) -> GroupedEvidence | None:
    """The closed form of a Gaussian model; None where its data make one large group."""
    order = _within(model, parts)
    return None if order is None else GroupedEvidence(model, parts, _reduced(model, parts, *order))


def _within(
    model: SparseModel, parts: Parts, *, largest: int = 64, common: int = 256
) -> tuple[Indices, Indices] | None:
    """The group of every datum, and of every latent value, -1 for common ones.

    The term of most groups comes first; others join it where that makes a look cheaper. Without
    groups all data are one.

    ``largest``: effects of one group of data, at most; ``common``: common effects, at most: dense
    matrices of these sizes are made for every θ.
    """
    terms, many = parts.terms, parts.counts
    inside, found, cost = np.zeros(terms.size, bool), None, math.inf
    grouped = many > 1 if many.max() > 1 else many == 1
    for term in sorted(np.flatnonzero(grouped), key=lambda t: -many[t]):
        trial = inside | (terms == term)
        label = _labels(model.A, trial, parts.groups)
        widths = np.bincount(label[model.y.size :][trial]).astype(float)
        new = float(np.sum(widths**3) + trial.sum() * (1.0 + np.sum(~trial)) ** 2)
        if widths.max() <= largest and new < cost:
            inside, found, cost = trial, label, new
    if found is None or np.sum(~inside) > common:
        return None
    return found[: model.y.size], np.where(inside, found[model.y.size :], -1)


def _labels(A: csr_array, inside: Array, chunk: Indices) -> Indices:
    """Which data and latent values hang together through those ``inside`` and through chunks."""
    design = csr_array(A.multiply(inside))
    design.eliminate_zeros()
    one = csr_array((np.ones(chunk.size), (chunk, np.arange(chunk.size))))
    graph = block_array([[None, design], [design.T, one.T @ one]])
    return connected_components(graph, directed=False)[1]


def _reduced(
    model: SparseModel, parts: Parts, data: Indices, latent: Indices, *, batch: int = 100_000
) -> Groups:
    """Decompositions of all groups, and of what they leave.

    ``batch``: data whose perpendicular parts are stacked before they are reduced.
    """
    noise = model.theta[1] if np.ndim(model.likelihood.value_of("noise_std")) else 1.0
    A = csr_array(model.A / np.reshape(noise, (-1, 1)))
    y = (model.y - model.prior.mean) / noise
    terms, chunk, k = parts.terms, parts.groups, parts.sizes
    common = np.flatnonzero(latent < 0)
    beside = np.column_stack([A[:, common].toarray(), y])
    rows, effects, factors, owners, left = [], [], [], [], list[Array]()
    rest = np.zeros((0, common.size + 1))
    for members, columns in _members(data, latent):
        own = beside[members]
        if columns.size:
            U, R = _thin(A[members][:, columns].toarray())
            rows.append(U.T @ own)
            own = own - U @ rows[-1]
            factors.append(R)
            effects.append(columns)
            owners.append(terms[columns][np.unique(chunk[columns], return_index=True)[1]])
        left.append(own)
        if sum(map(len, left)) > batch:
            rest, left = _triangle([rest, *left]), []
    rest = _triangle([rest, *left])
    rest = np.vstack([rest, np.zeros((common.size + 1 - len(rest), common.size + 1))])
    stacked = np.vstack(rows)
    first = np.unique(chunk[common], return_index=True)[1]
    return Groups(
        stacked[:, -1].copy(), stacked[:, :-1].copy(), _starts(map(len, rows)),
        np.concatenate([R.ravel() for R in factors]), _starts(R.size for R in factors),
        _starts(map(len, owners)), np.concatenate(owners), terms[common][first], k,
        _starts(k * k)[:-1], np.ascontiguousarray(rest),
    )  # fmt: skip


def _triangle(rows: list[Array]) -> Array:
    return np.asarray(np.linalg.qr(np.vstack(rows), mode="r"))


def _members(data: Indices, latent: Indices) -> Iterator[tuple[Indices, Indices]]:
    """Data and latent values of every group."""
    by_group = np.argsort(data, kind="stable")
    labels, first = np.unique(data[by_group], return_index=True)
    values = np.argsort(latent, kind="stable")
    begins = np.searchsorted(latent[values], labels)
    ends = np.searchsorted(latent[values], labels, side="right")
    for rows, a, b in zip(np.split(by_group, first[1:]), begins, ends, strict=True):
        yield rows, np.sort(values[a:b])


def _thin(Z: Array, *, smallest: float = 1e-13) -> tuple[Array, Array]:
    """U with orthonormal columns and R with Z = U R, of the rank of Z.

    ``smallest``: share of the largest singular value of a group's design below which one is zero.
    """
    U, values, V = np.linalg.svd(Z, full_matrices=False)
    rank = max(int(np.sum(values > smallest * values[0])), 1)
    return U[:, :rank], values[:rank, None] * V[:rank]


def _starts(lengths: object) -> Indices:
    return np.concatenate([[0], np.cumsum(list(lengths))]).astype(np.intp)  # type: ignore[call-overload]
