"""The three integrators of :mod:`evidence.moves.riemannian.rmhmc` for the metric of a density.

A trajectory takes the whole batch; rows drop out where a metric does not exist, a fixed point is
not found, or a step is not reversible. Those that fly off overflow on the way, without a warning.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....paths.density import DensityPath
from ...base import Array
from .. import IRREVERSIBLE, NO_FIXED_POINT, NO_METRIC, OK, End, Ends
from .field import Bool, DensityField, Goal, Point, fixed_point, take
from .metric import Plain
from .small_matrices import extrapolate, newton


class NoRowLeft(Exception):
    """All rows of a batch are lost: functions are never called with an empty one."""


class UnderWay:
    """The rows still under way, their field and step sizes; and what became of the others."""

    def __init__(self, field: DensityField, eps: Array) -> None:
        self.field, self.eps = field, eps
        self.code = np.full(eps.size, OK, dtype=np.int64)
        self.alive = np.arange(eps.size)

    @property
    def half(self) -> Array:
        """ε/2 as a column."""
        return 0.5 * self.eps[:, None]

    def keep(self, ok: Bool, code: int, *batches: object) -> tuple[Any, ...]:
        """Go on with the rows that are ok, and note what the others are lost to; the rows of
        ``batches`` that are left."""
        if not ok.all():
            self.code[self.alive[~ok]] = code
            kept = np.flatnonzero(ok)
            self.alive = self.alive[kept]
            if not kept.size:
                raise NoRowLeft
            self.field, self.eps = take(kept, (self.field, self.eps))
            batches = take(kept, batches)
        return batches


class Integrator(ABC):
    """One step of a batch; a *phase* is a point, momenta, and what else is carried along."""

    def phase(self, field: DensityField, start: Point, p: Array) -> tuple[Any, ...]:
        """Where trajectories begin."""
        return start, p

    @abstractmethod
    def step(self, rows: UnderWay, *phase: Any) -> tuple[Any, ...]:
        """The next phase of the rows that get there."""

    def log_density(self, point: Point, p: Array, *others: object) -> Array:
        """-H of every row; the acceptance ratio is the difference of its exponents."""
        return point.minus_energy(p)

    @np.errstate(all="ignore")
    def follow(
        self, field: DensityField, start: Point, p: Array, eps: Array, n: int, ends: Ends = None
    ) -> End:
        """Trajectories of n steps; ``ends`` receives the end after each, if asked."""
        rows, (m, d) = UnderWay(field, eps), p.shape
        phase = self.phase(field, start, p)
        before = self.log_density(*phase)

        def end() -> End:
            y, h, log_ratio = np.zeros((m, d)), np.full(m, -np.inf), np.full(m, np.nan)
            if rows.alive.size:
                y[rows.alive], h[rows.alive] = phase[0].y, phase[0].h
                log_ratio[rows.alive] = self.log_density(*phase) - before[rows.alive]
            return End(y, h, log_ratio, rows.code.copy(), field.evaluations)

        try:
            phase = rows.keep(~start.metric.bad, NO_METRIC, *phase)
            for _ in range(n):
                phase = self.step(rows, *phase)
                if ends is not None:
                    ends.append(end())
        except NoRowLeft:
            pass
        return end()


class Implicit(Integrator):
    """Every step is run backwards, too: fixed points that are not found again are no way.

    Parameters
    ----------
    tolerance, reverse_tolerance : float
        Relative tolerances of the fixed points and of the way back.
    """

    def __init__(self, tolerance: float, reverse_tolerance: float) -> None:
        self.goal, self.reverse_tolerance = Goal(tolerance), reverse_tolerance


class Leapfrog(Implicit):
    """The generalised leapfrog."""

    def phase(self, field: DensityField, start: Point, p: Array) -> tuple[Any, ...]:
        return start._replace(tensor=field.tensor(start.y)), p

    def step(self, rows: UnderWay, *phase: Any) -> tuple[Any, ...]:
        point, p = phase
        half_p = p + rows.half * point.force
        v, ok = rows.field.momentum(point, half_p, 0.5 * rows.half, self.goal)
        point, half_p, v = rows.keep(ok, NO_FIXED_POINT, point, half_p, v)
        half_p = half_p + 0.5 * rows.half * rows.field.kinetic(point, v)
        w, ok = solve_position(rows.field, point, rows.half, v, half_p, self.goal)
        point, half_p, v, w = rows.keep(ok, NO_FIXED_POINT, point, half_p, v, w)
        there = rows.field.point(point.y + rows.half * (v + w), tensor=True)
        p = half_p + rows.half * (there.force + 0.5 * rows.field.kinetic(there, w))
        back = self._returns(rows.field, there, rows.half, p, v, w)
        return rows.keep(back & ~there.metric.bad, IRREVERSIBLE, there, p)

    def _returns(
        self, field: DensityField, there: Point, half: Array, p: Array, v: Array, w: Array
    ) -> Bool:
        """Whether the step from (y', -p') finds -w and then -v."""
        tolerance, half_p = self.reverse_tolerance, -p + half * there.force
        _, first = field.momentum(there, half_p, 0.5 * half, Goal(tolerance, -w))
        half_p = half_p + 0.5 * half * field.kinetic(there, -w)  # not of what is only near -w
        _, second = solve_position(field, there, half, -w, half_p, Goal(tolerance, -v))
        return first & second


def solve_position(
    field: DensityField, point: Point, half: Array, v: Array, p: Array, goal: Goal
) -> tuple[Array, Bool]:
    """w = G(y')⁻¹p with y' = y + ε/2 (v + w).

    Where G is the negative Hessian, G(y')w - p has the derivative G(y') + ε/2 ∂_wG, of which
    the second part is about half of G(y') - G(y): Newton's iteration, nearly, for nothing.
    """
    base = point.y + half * v
    if not (field.hessian and isinstance(point.metric, Plain)):

        def image(w: Array, field: DensityField, base: Array, half: Array, p: Array) -> Array:
            metric = field.metric(base + half * w)
            out = metric.solve(p)
            out[metric.bad] = np.nan
            return out

        return fixed_point(image, v, goal, field, base, half, p)

    def newtons(
        w: Array, field: DensityField, base: Array, half: Array, p: Array, G: Array
    ) -> Array:
        out = np.empty_like(w)
        newton(field.matrix(base + half * w), G, p, w, out)
        return out

    G, guess = np.matmul(point.metric.L, np.swapaxes(point.metric.L, 1, 2)), v
    if point.tensor is not None:
        guess = np.empty_like(v)
        extrapolate(G, point.tensor, half, p, v, guess)
    return fixed_point(newtons, guess, goal, field, base, half, p, G)


class Midpoint(Implicit):
    """The implicit midpoint rule."""

    def step(self, rows: UnderWay, *phase: Any) -> tuple[Any, ...]:
        point, p = phase
        w, middle, ok = solve_midpoint(rows.field, point, p, rows.half, self.goal)
        point, p, w, middle = rows.keep(ok, NO_FIXED_POINT, point, p, w, middle)
        there, p = rows.field.point(point.y + rows.eps[:, None] * w), 2.0 * middle - p
        reverse = Goal(self.reverse_tolerance, -w)
        *_, back = solve_midpoint(rows.field, there, -p, rows.half, reverse)
        return rows.keep(back & ~there.metric.bad, IRREVERSIBLE, there, p)


def solve_midpoint(
    field: DensityField, start: Point, p: Array, half: Array, goal: Goal
) -> tuple[Array, Array, Bool]:
    """w and p at the middle: w = G(ȳ)⁻¹p̄, ȳ = y + ε/2 w, p̄ = p + ε/2 (force + ½ ∇wᵀGw).

    The first guess depends on (y, p) alone: where there are several solutions, a trajectory and
    its reverse must find the same ones.
    """
    guess, middle = start.metric.solve(p + half * start.force), np.zeros_like(p)

    def image(
        w: Array, field: DensityField, rows: NDArray[np.intp], y: Array, p: Array, half: Array
    ) -> Array:
        point = field.point(y + half * w)
        middle[rows] = p + half * (point.force + 0.5 * field.kinetic(point, w))
        out = point.metric.solve(middle[rows])
        out[point.metric.bad] = np.nan
        return out

    rows = np.arange(len(p))
    w, arrived = fixed_point(image, guess, goal, field, rows, start.y, p, half)
    return w, middle, arrived


class Binding(NamedTuple):
    """The matrix M in which copies are compared, its inverse and a root of each; Ω and σ."""

    M: Array
    inverse: Array
    root: Array
    inverse_root: Array
    omega: float
    sigma: float


def binding(path: DensityPath, kind: str, omega: float, sigma: float) -> Binding:
    """Distances in the base's precision, or in the model's coordinates as they are."""
    if kind == "identity":
        return Binding(*4 * (np.eye(path.n),), omega, sigma)
    q = path.reference
    return Binding(q.precision, q.root @ q.root.T, q.inverse_root.T, q.root, omega, sigma)


class Doubled(Integrator):
    """Tao's splitting; z (M, 2, d) are the normals that make the copies.

    A phase holds the copies' (ỹ, p̃), too, and the :meth:`velocity` of (y, p̃) once it is known:
    the flow A ends one step and begins the next.
    """

    def __init__(self, bind: Binding, z: Array) -> None:
        self.bind, self.z = bind, z

    def phase(self, field: DensityField, start: Point, p: Array) -> tuple[Any, ...]:
        bind, z = self.bind, self.z
        y2 = start.y + bind.sigma * z[:, 0] @ bind.inverse_root.T
        return start, p, y2, p + bind.sigma * z[:, 1] @ bind.root.T, None

    def log_density(self, point: Point, p: Array, *others: Any) -> Array:
        """-H, and the log density of the copies given (y, p), up to a constant."""
        y2, p2, _ = others
        bind, dy, dp = self.bind, point.y - y2, p - p2
        total = np.einsum("mi,mi->m", dy @ bind.M, dy)
        total += np.einsum("mi,mi->m", dp @ bind.inverse, dp)
        return point.minus_energy(p) - 0.5 * total / bind.sigma**2

    def step(self, rows: UnderWay, *phase: Any) -> tuple[Any, ...]:
        field, half = rows.field, rows.half
        point, p, y2, p2, a = phase
        push, w = self.velocity(field, point, p2) if a is None else a
        p, y2 = p + half * push, y2 + half * w
        second = field.point(y2)
        push, w = self.velocity(field, second, p)
        p2, y = p2 + half * push, point.y + half * w
        y, p, y2, p2 = self.turn(2.0 * self.bind.omega * rows.eps, y, p, y2, p2)
        third = field.point(y2)
        push, w = self.velocity(field, third, p)
        p2, point = p2 + half * push, field.point(y + half * w)
        push, w = self.velocity(field, point, p2)
        p, y2 = p + half * push, y2 + half * w
        ok = ~(second.metric.bad | third.metric.bad | point.metric.bad)
        ok &= np.isfinite(p).all(axis=1) & np.isfinite(y2).all(axis=1)
        return rows.keep(ok, NO_METRIC, point, p, y2, p2, (push, w))

    def velocity(self, field: DensityField, point: Point, q: Array) -> tuple[Array, Array]:
        """What H(y, q), y being the point, changes a momentum and the other position by."""
        w = point.metric.solve(q)
        return point.force + 0.5 * field.kinetic(point, w), w

    def turn(
        self, angle: Array, y: Array, p: Array, y2: Array, p2: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Turn the differences of the copies; all four updates use the old values."""
        dy, dp = y - y2, p - p2
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        new_dy = c * dy + s * (dp @ self.bind.inverse)
        new_dp = c * dp - s * (dy @ self.bind.M)
        sy, sp = y + y2, p + p2
        return 0.5 * (sy + new_dy), 0.5 * (sp + new_dp), 0.5 * (sy - new_dy), 0.5 * (sp - new_dp)
