r"""Densities whose metric is a full matrix, for batches: what Riemannian moves need of them.

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
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....models.density.metrics import SoftAbs
from ....numerics.anderson import ARRIVED, ROWS, UNDERWAY
from ....paths.density import DensityPath
from ...base import Array
from .. import MAX_ITERATIONS
from .metric import Plain, Soft, plain, soft
from .small_matrices import FLAT, advance, contract, divided, momentum_fixed_points

Rows = NDArray[np.intp]
Bool = NDArray[np.bool_]


class Goal(NamedTuple):
    """When a fixed point has arrived: when it stands still, or near one that is known."""

    tolerance: float
    known: Array | None = None


class Point(NamedTuple):
    """A batch of positions with what a transition needs there."""

    y: Array
    h: Array
    log_p: Array
    """log p_β up to a constant."""
    force: Array
    """∇(log p_β - ½ log|G|)."""
    metric: Soft | Plain
    tensor: Array | None = None
    """∂ₖA_ij (M, d, d, d), where it takes the place of many calls."""

    def minus_energy(self, p: Array) -> Array:
        """-H of every row."""
        with np.errstate(all="ignore"):
            kinetic = 0.5 * np.einsum("mi,mi->m", p, self.metric.solve(p))
            value = self.log_p - self.metric.half_logdet() - kinetic
        return np.where(self.metric.bad, np.nan, value)


class DensityField:
    """log p_β and its metric, for rows that have a β each.

    Far out numbers overflow: callers turn NumPy's warnings off, once for a whole trajectory.

    Parameters
    ----------
    path : DensityPath
    beta : array (M,)
    pairs : int
        Rows times pairs of coordinates up to which all of ∂A is asked for at once.
    """

    def __init__(self, path: DensityPath, beta: Array, pairs: int = 256) -> None:
        self.path, self.beta, self.pairs = path, beta, pairs
        self.whole = bool((beta == 1.0).all())
        metric = path.model.metric
        self.alpha = metric.alpha if isinstance(metric, SoftAbs) else None
        self.hessian = self.alpha is None and not path.model.tensorial
        """Whether G is the negative Hessian itself: then ∂ᵢG is symmetric in all indices."""
        self._counts: list[int] = []  # one list for the field and all fields of some of its rows

    @property
    def evaluations(self) -> int:
        """Evaluations of the metric so far, each row counted, those of fields of rows too."""
        return sum(self._counts)

    def rows(self, index: Rows) -> DensityField:
        """The field of some rows."""
        some = copy(self)
        some.beta = self.beta[index]
        some.whole = bool((some.beta == 1.0).all())
        return some

    def metric(self, y: Array) -> Soft | Plain:
        """The metric at a batch."""
        A = self.matrix(y)
        return plain(A) if self.alpha is None else soft(A, self.alpha)

    def matrix(self, y: Array) -> Array:
        """A at a batch."""
        self._counts.append(len(y))
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
        trace = 0.5 * self._slope(y, T, metric.log_slope())
        return Point(y, h, log_p, force - trace, metric, T)

    def tensor(self, y: Array) -> Array | None:
        """∂ₖA_ij of a small batch, or None."""
        m, d = y.shape
        T = self.path.curvature_tensor(y) if m * d * (d + 1) <= 2 * self.pairs else None
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

    def momentum(self, point: Point, base: Array, e: Array, goal: Goal) -> tuple[Array, Bool]:
        """Solve w = G⁻¹(base + e ∇wᵀGw); returns w and which rows arrived."""
        if point.tensor is None:

            def image(w: Array, field: DensityField, point: Point, base: Array, e: Array) -> Array:
                return point.metric.solve(base + e * field.kinetic(point, w))

            start = point.metric.solve(base)
            return fixed_point(image, start, goal, self, point, base, e)
        w, arrived = np.empty_like(base), np.zeros(len(base), dtype=np.bool_)
        metric, nothing = point.metric, np.zeros((0, 0))
        factors = metric[:4] if isinstance(metric, Soft) else (metric.inverse, *3 * (nothing,))
        momentum_fixed_points(
            self.alpha is not None, FLAT / self.alpha if self.alpha else 0.0, *factors,
            point.tensor, base, e, nothing if goal.known is None else goal.known, goal.tolerance,
            MAX_ITERATIONS, w, arrived,
        )  # fmt: skip
        return w, arrived


def take(rows: Rows, batch: object) -> Any:
    """Some rows of an array, a field, a point or another tuple of them; None is left alone."""
    if isinstance(batch, np.ndarray):
        return batch[rows]
    if isinstance(batch, DensityField):
        return batch.rows(rows)
    if isinstance(batch, tuple):
        some = (take(rows, part) for part in batch)
        return type(batch)(*some) if hasattr(batch, "_fields") else tuple(some)
    return batch


def fixed_point(
    image: Callable[..., Array], start: Array, goal: Goal, *batches: object
) -> tuple[Array, Bool]:
    r"""Solve w = image(w, \*batches) row by row; returns w and which rows arrived."""
    m = len(start)
    out, arrived = start.copy(), np.zeros(m, dtype=np.bool_)
    rows, w = np.arange(m), start.copy()
    history = np.zeros((m, ROWS, start.shape[1]))
    target = np.zeros((m, 0)) if goal.known is None else goal.known
    for k in range(MAX_ITERATIONS):
        status = np.empty(rows.size, dtype=np.int64)
        mapped = np.ascontiguousarray(image(w, *batches))
        waiting = advance(k, w, mapped, history, target, goal.tolerance, status)
        if waiting == rows.size:
            continue
        good = status == ARRIVED
        out[rows[good]], arrived[rows[good]] = w[good], True
        if waiting == 0:
            break
        left = np.flatnonzero(status == UNDERWAY)
        rows, w, history, target, *some = take(left, (rows, w, history, target, *batches))
        batches = tuple(some)
    return out, arrived
