"""The three integrators of :mod:`.rmhmc`, :mod:`.midpoint` and :mod:`.explicit` for any density.

A trajectory takes the whole batch; rows drop out where a metric does not exist, a fixed point is
not found, or a step is not reversible. Those that fly off overflow on the way, without a warning.
Where asked, ``ends`` receives what the trajectory would end with after each step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .dense import Field, Point, fixed_point, minus_energy, take
from .dense_kernels import extrapolate, newton
from .metric import IRREVERSIBLE, NO_FIXED_POINT, NO_METRIC, OK

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class End(NamedTuple):
    """Where trajectories end: positions, tilts, log acceptance ratios, codes, evaluations."""

    y: Array
    h: Array
    log_ratio: Array
    code: NDArray[np.int64]
    evaluations: int


class Trajectories:
    """The rows still under way, and what became of the others."""

    def __init__(self, start: Point) -> None:
        m = len(start.y)
        self.code = np.full(m, OK, dtype=np.int64)
        self.alive: Rows = np.arange(m)
        self.drop(start.metric.bad, NO_METRIC)

    def drop(self, lost: NDArray[np.bool_], code: int) -> Rows | None:
        """Note which of the rows under way are lost; the places of the others if any are."""
        if not lost.any():
            return None
        self.code[self.alive[lost]] = code
        kept = np.flatnonzero(~lost)
        self.alive = self.alive[kept]
        return kept

    def lost(self, d: int, evaluations: int) -> End:
        """The end when no row is left: functions are never called with an empty batch."""
        return self.end(np.zeros((0, d)), np.zeros(0), np.zeros(0), evaluations)

    def end(self, y: Array, h: Array, log_ratio: Array, evaluations: int) -> End:
        m = self.code.size
        ends = End(
            np.zeros((m, y.shape[1])),
            np.full(m, -np.inf),
            np.full(m, np.nan),
            self.code.copy(),
            evaluations,
        )
        ends.y[self.alive], ends.h[self.alive] = y, h
        ends.log_ratio[self.alive] = log_ratio
        return ends


# -- implicit generalised leapfrog --------------------------------------------------------------


def solve_momentum(
    field: Field, point: Point, eps: Array, p0: Array, tolerance: float, known: Array | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """w = G⁻¹(p₀ + ε/4 ∇wᵀGw) at a fixed point."""
    e = 0.25 * eps[:, None]
    if point.tensor is not None:
        return field.momentum(point, p0, e, tolerance, known)
    known_rows, held = np.arange(0), (field, point, p0, e)

    def image(w: Array, rows: Rows) -> Array:
        nonlocal known_rows, held
        if rows.size < len(p0) and rows is not known_rows:
            known_rows = rows
            held = (field.rows(rows), take(rows, point), p0[rows], e[rows])
        here, some, base, quarter = held
        return some.metric.solve(base + quarter * here.kinetic(some, w))

    return fixed_point(image, point.metric.solve(p0), tolerance, known)


def solve_position(
    field: Field,
    point: Point,
    eps: Array,
    v: Array,
    p: Array,
    tolerance: float,
    known: Array | None = None,
) -> tuple[Array, NDArray[np.bool_], int]:
    """w = G(y')⁻¹p with y' = y + ε/2 (v + w).

    Where G is the negative Hessian, G(y')w - p has the derivative G(y') + ε/2 ∂_wG, of which
    the second part is about half of G(y') - G(y): Newton's iteration, nearly, for nothing.
    """
    count = 0
    e = 0.5 * eps[:, None]
    start = np.matmul(point.metric.L, np.swapaxes(point.metric.L, 1, 2)) if field.hessian else v
    guess = v
    if field.hessian and point.tensor is not None:
        guess = np.empty_like(v)
        extrapolate(start, point.tensor, e, p, v, guess)
    known_rows, held = np.arange(0), (field, point.y + e * v, e, p, start)

    def image(w: Array, rows: Rows) -> Array:
        nonlocal count, known_rows, held
        if rows.size < len(p) and rows is not known_rows:
            known_rows = rows
            base = point.y[rows] + e[rows] * v[rows]
            held = field.rows(rows), base, e[rows], p[rows], start[rows]
        count += rows.size
        here, base, half, q, first = held
        there = base + half * w
        if here.hessian:
            out = np.empty_like(w)
            newton(here.matrix(there), first, q, w, out)
            return out
        metric = here.metric(there)
        out = metric.solve(q)
        if metric.bad.any():
            out[metric.bad] = np.nan
        return out

    w, arrived = fixed_point(image, guess, tolerance, known)
    return w, arrived, count


@np.errstate(all="ignore")
def leapfrog(
    field: Field,
    start: Point,
    p: Array,
    eps: Array,
    n_steps: int,
    tolerances: tuple[float, float],
    ends: list[End] | None = None,
) -> End:
    """Trajectories of the implicit generalised leapfrog, every step run backwards too."""
    way = Trajectories(start)
    before = minus_energy(start, p)
    total, d = len(p), p.shape[1]
    point = start._replace(tensor=field.tensor(start.y))
    here, kept = field, way.alive
    if kept.size < len(p):
        point, p, eps, here = take(kept, point), p[kept], eps[kept], field.rows(kept)

    def end() -> End:
        after = minus_energy(point, p)
        return way.end(point.y, point.h, after - before[way.alive], total)

    for _ in range(n_steps):
        if not way.alive.size:
            return way.lost(d, total)
        e = 0.5 * eps[:, None]
        p_half = p + e * point.force
        v, ok = solve_momentum(here, point, eps, p_half, tolerances[0])
        kept = way.drop(~ok, NO_FIXED_POINT)
        if kept is not None:
            point, p_half, eps, v = take(kept, point), p_half[kept], eps[kept], v[kept]
            here, e = here.rows(kept), e[kept]
        if not way.alive.size:
            return way.lost(d, total)
        p_half = p_half + 0.5 * e * here.kinetic(point, v)
        w, ok, count = solve_position(here, point, eps, v, p_half, tolerances[0])
        total += count
        kept = way.drop(~ok, NO_FIXED_POINT)
        if kept is not None:
            point, p_half, eps = take(kept, point), p_half[kept], eps[kept]
            v, w, here, e = v[kept], w[kept], here.rows(kept), e[kept]
        if not way.alive.size:
            return way.lost(d, total)
        there = here.point(point.y + e * (v + w), tensor=True)
        total += len(e)
        p = p_half + e * (there.force + 0.5 * here.kinetic(there, w))
        ok, count = _reversible(here, there, eps, p, v, w, tolerances[1])
        total += count
        kept = way.drop(~ok | there.metric.bad, IRREVERSIBLE)
        point = there
        if kept is not None:
            point, p, eps, here = take(kept, point), p[kept], eps[kept], here.rows(kept)
        if ends is not None:
            ends.append(end())
    return end()


def _reversible(
    field: Field, there: Point, eps: Array, p: Array, v: Array, w: Array, tolerance: float
) -> tuple[NDArray[np.bool_], int]:
    """Whether the step from (y', -p') finds -w and then -v."""
    e = 0.5 * eps[:, None]
    p_half = -p + e * there.force
    _, first = solve_momentum(field, there, eps, p_half, tolerance, -w)
    p_half = p_half + 0.5 * e * field.kinetic(there, -w)  # not of what is only near -w
    _, second, count = solve_position(field, there, eps, -w, p_half, tolerance, -v)
    return first & second, count


# -- implicit midpoint --------------------------------------------------------------------------


def solve_midpoint(
    field: Field,
    start: Point,
    p: Array,
    eps: Array,
    tolerance: float,
    known: Array | None = None,
) -> tuple[Array, Array, NDArray[np.bool_], int]:
    """w and p at the middle: w = G(ȳ)⁻¹p̄, ȳ = y + ε/2 w, p̄ = p + ε/2 (force + ½ ∇wᵀGw).

    The first guess depends on (y, p) alone: where there are several solutions, a trajectory and
    its reverse must find the same ones.
    """
    y, guess = start.y, start.metric.solve(p + 0.5 * eps[:, None] * start.force)
    middle = np.zeros_like(p)
    count = 0

    def image(w: Array, rows: Rows) -> Array:
        nonlocal count
        count += rows.size
        here, e = field.rows(rows), 0.5 * eps[rows, None]
        point = here.point(y[rows] + e * w)
        push = point.force + 0.5 * here.kinetic(point, w)
        middle[rows] = p[rows] + e * push
        out = point.metric.solve(middle[rows])
        out[point.metric.bad] = np.nan
        return out

    w, arrived = fixed_point(image, guess, tolerance, known)
    return w, middle, arrived, count


@np.errstate(all="ignore")
def midpoint(
    field: Field,
    start: Point,
    p: Array,
    eps: Array,
    n_steps: int,
    tolerances: tuple[float, float],
    ends: list[End] | None = None,
) -> End:
    """Trajectories of the implicit midpoint rule, every step run backwards too."""
    way = Trajectories(start)
    before = minus_energy(start, p)
    kept = way.alive
    here, point, p, eps = field.rows(kept), take(kept, start), p[kept], eps[kept]
    total, d = kept.size, p.shape[1]

    def end() -> End:
        after = minus_energy(point, p)
        return way.end(point.y, point.h, after - before[way.alive], total)

    for _ in range(n_steps):
        if not way.alive.size:
            return way.lost(d, total)
        w, middle, ok, count = solve_midpoint(here, point, p, eps, tolerances[0])
        total += count
        kept = way.drop(~ok, NO_FIXED_POINT)
        if kept is not None:
            here, point, p, eps = here.rows(kept), take(kept, point), p[kept], eps[kept]
            w, middle = w[kept], middle[kept]
        if not way.alive.size:
            return way.lost(d, total)
        point, p = here.point(point.y + eps[:, None] * w), 2.0 * middle - p
        _, _, back, count = solve_midpoint(here, point, -p, eps, tolerances[1], -w)
        total += count + len(p)
        kept = way.drop(~back | point.metric.bad, IRREVERSIBLE)
        if kept is not None:
            here, point, p, eps = here.rows(kept), take(kept, point), p[kept], eps[kept]
        if ends is not None:
            ends.append(end())
    return end()


# -- explicit, in doubled phase space -----------------------------------------------------------


class Binding(NamedTuple):
    """The matrix M in which copies are compared, its inverse and a root of each; Ω and σ."""

    M: Array
    inverse: Array
    root: Array
    inverse_root: Array
    omega: float
    sigma: float


def turn(
    bind: Binding, angle: Array, y: Array, p: Array, y2: Array, p2: Array
) -> tuple[Array, Array, Array, Array]:
    """Turn the differences of the copies; all four updates use the old values."""
    dy, dp = y - y2, p - p2
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    new_dy = c * dy + s * (dp @ bind.inverse)
    new_dp = c * dp - s * (dy @ bind.M)
    sy, sp = y + y2, p + p2
    return 0.5 * (sy + new_dy), 0.5 * (sp + new_dp), 0.5 * (sy - new_dy), 0.5 * (sp - new_dp)


def log_copies(bind: Binding, y: Array, p: Array, y2: Array, p2: Array) -> Array:
    """Log density of the copies given (y, p), up to a constant."""
    dy, dp = y - y2, p - p2
    total = np.einsum("mi,mi->m", dy @ bind.M, dy) + np.einsum("mi,mi->m", dp @ bind.inverse, dp)
    return -0.5 * total / bind.sigma**2


@np.errstate(all="ignore")
def explicit(
    field: Field,
    start: Point,
    p: Array,
    eps: Array,
    n_steps: int,
    bind: Binding,
    z: Array,
    ends: list[End] | None = None,
) -> End:
    """Trajectories of Tao's splitting; z (M, 2, d) are the normals that make the copies."""
    way = Trajectories(start)
    kept = way.alive
    y2 = start.y + bind.sigma * z[:, 0] @ bind.inverse_root.T
    p2 = p + bind.sigma * z[:, 1] @ bind.root.T
    before = minus_energy(start, p) + log_copies(bind, start.y, p, y2, p2)
    point, here = start, field
    if kept.size < len(p):
        point, here = take(kept, start), field.rows(kept)
        p, eps, y2, p2 = p[kept], eps[kept], y2[kept], p2[kept]
    y, total = point.y, len(p)
    half = 0.5 * eps

    def end() -> End:
        after = minus_energy(point, p) + log_copies(bind, y, p, y2, p2)
        return way.end(y, point.h, after - before[way.alive], total)

    for step in range(n_steps):
        if not way.alive.size:
            break
        if step == 0 or ends is not None:
            p, y2 = _flow(here, point, half, p, y2, p2)
        other = here.point(y2)
        p2, y = _flow(here, other, half, p2, y, p)
        y, p, y2, p2 = turn(bind, 2.0 * bind.omega * eps, y, p, y2, p2)
        third = here.point(y2)
        p2, y = _flow(here, third, half, p2, y, p)
        point = here.point(y)
        total += 3 * len(p)
        whole = step == n_steps - 1 or ends is not None
        p, y2 = _flow(here, point, half if whole else eps, p, y2, p2)
        lost = other.metric.bad | third.metric.bad | point.metric.bad
        lost |= ~np.isfinite(p).all(axis=1) | ~np.isfinite(y2).all(axis=1)
        kept = way.drop(lost, NO_METRIC)
        if kept is not None:
            point, here = take(kept, point), here.rows(kept)
            y, p, y2, p2 = y[kept], p[kept], y2[kept], p2[kept]
            eps, half = eps[kept], half[kept]
        if ends is not None:
            ends.append(end())
    return end()


def _flow(
    field: Field, point: Point, eps: Array, p: Array, other: Array, q: Array
) -> tuple[Array, Array]:
    """The flow of H(y, q) for a time ε, y being the point: moves p and the other position."""
    w = point.metric.solve(q)
    push = point.force + 0.5 * field.kinetic(point, w)
    return p + eps[:, None] * push, other + eps[:, None] * w
