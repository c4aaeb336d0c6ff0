r"""Metrics that are full matrices, for batches: what Riemannian moves need of any density.

.. math:: A(y) = (1-\beta)\Sigma^{-1} + \beta\,C(y)

where C is the negative Hessian of the log density or the user's own matrix, and G = A, or its
SoftAbs with eigenvalues :math:`\varphi(\lambda) = \lambda\coth(\alpha\lambda)`,
:math:`G = Q\,\varphi(\Lambda)\,Q^T`. Derivatives of G are contractions of those of A,

.. math:: \tfrac12 \nabla\log|G| = \tfrac12\nabla\langle W, A\rangle,\qquad
          \nabla (w^T G w) = \nabla\langle V, A\rangle

with W = G⁻¹ and V = wwᵀ for G = A, and for SoftAbs

.. math:: W = Q\,\mathrm{diag}(\varphi'/\varphi)\,Q^T,\qquad V = Q\,(J \circ Q^T w w^T Q)\,Q^T,
          \qquad J_{ij} = \frac{\varphi_i - \varphi_j}{\lambda_i - \lambda_j}

so no third-order tensor is ever formed. Rows are independent; those where a metric does not
exist are marked ``bad`` and their proposals rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...models.density.metrics import SoftAbs
from ...numerics.anderson import ROWS
from ...numerics.eigen import LARGEST, decompose
from ...numerics.threads import run
from .dense_kernels import (
    FLAT,
    advance,
    contract,
    divided,
    factorise,
    momentum_fixed_points,
    plain_solve,
    soft_solve,
    softabs,
    spectral,
)

Array = NDArray[np.float64]

MAX_ITERATIONS = 60
_TENSOR = 256  # rows times pairs of coordinates up to which one call for all of ∂A pays
_WORTH_A_THREAD = 1_000_000  # M d³: below, waking a thread takes as long as the work


class Soft(NamedTuple):
    """SoftAbs metrics: eigenvectors, eigenvalues of A and of G, and dφ/dλ."""

    Q: Array
    lam: Array
    phi: Array
    slope: Array
    bad: NDArray[np.bool_]

    def solve(self, p: Array) -> Array:
        """G⁻¹p."""
        out = np.empty_like(self.phi)
        soft_solve(self.Q, self.phi, p, out)
        return out

    def half_logdet(self) -> Array:
        return 0.5 * np.log(self.phi).sum(axis=1)

    def momentum(self, z: Array) -> Array:
        """N(0, G) from standard normals."""
        return _times(self.Q, np.sqrt(self.phi) * z)


class Plain(NamedTuple):
    """G = A by Cholesky: L, and L⁻¹."""

    L: Array
    inverse: Array
    bad: NDArray[np.bool_]

    def solve(self, p: Array) -> Array:
        """G⁻¹p."""
        out = np.empty_like(p)
        plain_solve(self.inverse, p, out)
        return out

    def half_logdet(self) -> Array:
        return np.log(np.einsum("mii->mi", self.L)).sum(axis=1)

    def momentum(self, z: Array) -> Array:
        """N(0, G) from standard normals."""
        return _times(self.L, z)


def _times(A: Array, v: Array) -> Array:
    return np.matmul(A, v[:, :, None])[:, :, 0]


class Point(NamedTuple):
    """A batch of positions with what a transition needs there."""

    y: Array
    h: Array
    log_p: Array
    """log p_β up to a constant."""
    force: Array
    """∇(log p_β - ½ log|G|)."""
    metric: Any
    tensor: Array | None = None
    """∂ₖA_ij (M, d, d, d), where it takes the place of many calls."""


def take(rows: NDArray[np.intp], batch: Any) -> Any:
    """Some rows of an array or of a tuple of them."""
    if batch is None:
        return None
    if isinstance(batch, tuple):
        return type(batch)(*(take(rows, field) for field in batch))
    return batch[rows]


class Field:
    """log p_β and its metric, for rows that have a β each.

    Far out numbers overflow: callers turn NumPy's warnings off, once for a whole trajectory.
    """

    def __init__(self, path: Any, beta: Array) -> None:
        self.path, self.beta = path, beta
        self.whole = bool((beta == 1.0).all())
        metric = path.model.metric
        self.alpha = metric.alpha if isinstance(metric, SoftAbs) else None
        self.evaluations = 0

    def rows(self, index: NDArray[np.intp]) -> Field:
        """The field of some rows; evaluations are counted apart."""
        return Field(self.path, self.beta[index])

    @property
    def hessian(self) -> bool:
        """Whether G is the negative Hessian itself: then ∂ᵢG is symmetric in all indices."""
        return self.alpha is None and not self.path.model.tensorial

    def metric(self, y: Array) -> Soft | Plain:
        """The metric at a batch."""
        A = self.matrix(y)
        return plain(A) if self.alpha is None else soft(A, self.alpha)

    def matrix(self, y: Array) -> Array:
        """A at a batch."""
        self.evaluations += len(y)
        A = self.path.curvature(y)
        if not self.whole:
            beta = self.beta[:, None, None]
            A = beta * A + (1.0 - beta) * self.path.reference.precision
        return A

    def point(self, y: Array, tensor: bool = False) -> Point:
        """Density, force and metric at a batch; with ``tensor`` all of ∂A, if the model can."""
        metric = self.metric(y)
        h, slope = self.path.tilt_and_gradient(y)
        q = self.path.reference
        z = q.standardise(y)
        log_p = self.beta * h - 0.5 * np.einsum("mi,mi->m", z, z)
        force = self.beta[:, None] * slope - z @ q.inverse_root
        T = self.tensor(y) if tensor else None
        trace = 0.5 * self._slope(y, T, self._trace_weight(metric))
        return Point(y, h, log_p, force - trace, metric, T)

    def tensor(self, y: Array) -> Array | None:
        """∂ₖA_ij of a small batch, or None."""
        m, d = y.shape
        T = self.path.curvature_tensor(y) if m * d * (d + 1) <= 2 * _TENSOR else None
        if T is None:
            return None
        return np.ascontiguousarray(T if self.whole else self.beta[:, None, None, None] * T)

    def _slope(self, y: Array, T: Array | None, W: Array) -> Array:
        """∇⟨W, A⟩."""
        if T is None:
            return self.beta[:, None] * self.path.curvature_slope(y, W)
        out = np.empty_like(y)
        contract(T, W, out)
        return out

    def _trace_weight(self, metric: Any) -> Array:
        if isinstance(metric, Plain):
            return np.matmul(np.swapaxes(metric.inverse, 1, 2), metric.inverse)
        W = np.empty_like(metric.Q)
        spectral(metric.Q, metric.slope / metric.phi, W)
        return W

    def kinetic(self, point: Point, w: Array) -> Array:
        """∇(wᵀ G w) with w held fixed."""
        y, metric, T = point.y, point.metric, point.tensor
        if isinstance(metric, Plain) or metric.lam.min(initial=np.inf) * self.alpha > FLAT:
            if T is not None:
                return self._slope(y, T, w[:, :, None] * w[:, None, :])
            return self.beta[:, None] * self.path.curvature_along(y, w)
        V = np.empty_like(metric.Q)
        divided(metric.Q, metric.lam, metric.phi, metric.slope, w, V)
        return self._slope(y, T, V)

    def momentum(
        self, point: Point, base: Array, e: Array, tolerance: float, known: Array | None
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Solve w = G⁻¹(base + e ∇wᵀGw) with the tensor at the point; see :func:`fixed_point`."""
        w, arrived = np.empty_like(base), np.zeros(len(base), dtype=np.bool_)
        metric, soft = point.metric, self.alpha is not None
        nothing = np.zeros((0, 0))
        factor, lam, phi, slope = metric[:4] if soft else (metric.inverse, *3 * (nothing,))
        momentum_fixed_points(
            soft, FLAT / self.alpha if self.alpha else 0.0, factor, lam, phi, slope,
            point.tensor, base, e, nothing if known is None else known, tolerance,
            MAX_ITERATIONS, w, arrived,
        )  # fmt: skip
        return w, arrived


def minus_energy(point: Point, p: Array) -> Array:
    """-H of every row."""
    metric = point.metric
    with np.errstate(all="ignore"):
        kinetic = 0.5 * np.einsum("mi,mi->m", p, metric.solve(p))
        value = point.log_p - metric.half_logdet() - kinetic
    return np.where(metric.bad, np.nan, value)


def plain(A: Array) -> Plain:
    """Cholesky factors of a batch, and their inverses."""
    L, inverse = np.ascontiguousarray(A), np.zeros_like(A)
    bad = np.zeros(len(A), dtype=np.bool_)
    factorise(L, inverse, bad)
    return Plain(L, inverse, bad)


def soft(A: Array, alpha: float) -> Soft:
    """SoftAbs of a batch."""
    m, n = A.shape[:2]
    lam, phi, slope = np.empty((m, n)), np.empty((m, n)), np.empty((m, n))
    if n <= LARGEST:
        Q, bad = np.empty((m, n, n)), np.empty(m, dtype=np.bool_)
        if m * n**3 < _WORTH_A_THREAD:
            decompose(A, Q, lam, bad, 0, 1)
        else:
            run(lambda first, stride: decompose(A, Q, lam, bad, first, stride), m)
    else:
        bad = ~np.isfinite(A).all(axis=(1, 2))
        lam, Q = np.linalg.eigh(np.where(bad[:, None, None], np.eye(n), A))
    softabs(lam, alpha, phi, slope)
    return Soft(Q, lam, phi, slope, bad)


def fixed_point(
    image: Callable[[Array, NDArray[np.intp]], Array],
    start: Array,
    tolerance: float,
    known: Array | None = None,
) -> tuple[Array, NDArray[np.bool_]]:
    """Solve w = image(w, rows) row by row; returns w and which rows arrived.

    With ``known`` it is enough to come within ``tolerance`` of it.
    """
    m = len(start)
    out, arrived = start.copy(), np.zeros(m, dtype=np.bool_)
    rows, w = np.arange(m), start.copy()
    history = np.zeros((m, ROWS, start.shape[1]))
    target = np.zeros((0, 0)) if known is None else known
    done = np.empty(m, dtype=np.int64)
    for k in range(MAX_ITERATIONS):
        found = np.ascontiguousarray(image(w, rows))
        waiting = advance(k, w, found, history, target, tolerance, done)
        if waiting == 0 and rows.size == m:
            return w, done == 1
        if waiting < rows.size:
            good = done == 1
            out[rows[good]], arrived[rows[good]] = w[good], True
            if waiting == 0:
                break
            left = done == 0
            rows, w, history = rows[left], w[left], history[left]
            target = target if known is None else target[left]
            done = done[left]
    return out, arrived
