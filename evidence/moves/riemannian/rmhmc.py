r"""Riemannian manifold HMC with the implicit generalised leapfrog (Girolami and Calderhead 2011).

.. math:: H(x, p) = -\log p_\beta(x) + \tfrac12\log|G(x)| + \tfrac12 p^T G(x)^{-1} p

One step from (x, p), with force f = ∇log p_β - h and w(x, p) = G(x)⁻¹p:

1. p½ = p + ε/2 [f(x) + ½ d'(x) w(x, p½)²]           (implicit in p½)
2. x' = x + ε/2 [w(x, p½) + w(x', p½)]               (implicit in x')
3. p' = p½ + ε/2 [f(x') + ½ d'(x') w(x', p½)²]

Both fixed points are solved for w, to convergence, with the factor at hand:

.. math:: w \leftarrow G^{-1}\big(p_0 + \tfrac\varepsilon4 d' w^2\big),\qquad
          w \leftarrow G(x_c)^{-1}\big(p_{1/2} - (d(x'(w)) - d(x_c))\, w\big)

so a step needs one factorisation, at x'. Where the second iteration stalls, because d changes
fast, it is refactored at the current x'. Every step is run backwards too: a proposal whose
reverse does not return to where it came from is rejected and counted, which together with
volume preservation makes the transition exact up to the tolerances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...numerics.anderson import accelerate
from ...numerics.jit import jit
from ...numerics.lapack import scratch
from ...numerics.normal import standard_normal
from ...paths.gp import Path
from ..base import quarter_turn
from . import dense_integrators
from .metric import (
    FORCE,
    IRREVERSIBLE,
    NO_FIXED_POINT,
    NO_METRIC,
    OK,
    ROOT,
    SLOPE,
    TRACE,
    D,
    Proposal,
    RiemannMove,
    dot,
    factorise,
    half_trace,
    local,
    momentum_at,
    prior_solve,
    solve,
)

Array = NDArray[np.float64]

_MAX_ITERATIONS = 60
_MAX_REFACTORS = 3


@jit
def momentum_equation(t, eps, point, work, p0, w, known, tolerance, s):
    """Solve w = G⁻¹(p₀ + ε/4 d' w²) with the factor at x; returns a code.

    With ``known`` (or else an empty array) it is enough to come within ``tolerance`` of it.
    """
    n = p0.size
    history = work.history
    rhs, image, tmp = work.vectors[0], work.vectors[1], work.vectors[2]
    root = point[ROOT]
    solve(t, root, work, p0, w, tmp, s)
    for k in range(_MAX_ITERATIONS):
        for i in range(n):
            rhs[i] = p0[i] + 0.25 * eps * point[SLOPE, i] * w[i] * w[i]
        solve(t, root, work, rhs, image, tmp, s)
        scale = dot(image, image)
        size = accelerate(k, w, image, history)
        if not np.isfinite(size):
            return NO_FIXED_POINT
        if _arrived(size, scale, image, known, tolerance):
            for i in range(n):
                w[i] = image[i]
            return OK
    return NO_FIXED_POINT


@jit
def _arrived(size, scale, image, known, tolerance):
    limit = tolerance * tolerance * scale
    if known.size == 0:
        return size <= limit
    if size > 0.01 * scale:
        return False
    distance = 0.0
    for i in range(image.size):
        distance += (image[i] - known[i]) ** 2
    return distance <= limit


@jit
def position_equation(t, beta, eps, x, r, v, p, point, work, w, known, tolerance, s):
    """Solve G(x')w = p, x' = x + ε/2 (v + w), from the factor at x, refactoring if it stalls.

    ``point`` is at x on entry; the factor may be that of another point on return. Returns a
    code and the number of factorisations.
    """
    n = p.size
    history = work.history
    rhs, image, tmp, y, ry, d_c, root = (
        work.vectors[0],
        work.vectors[1],
        work.vectors[2],
        work.vectors[3],
        work.vectors[4],
        work.vectors[5],
        work.vectors[6],
    )
    there = work.points[2]
    for i in range(n):
        w[i], d_c[i], root[i] = v[i], point[D, i], point[ROOT, i]
        ry[i] = r[i]  # the force at trial points is not used
    refactors, k, best = 0, 0, np.inf
    stalled = 0
    for _ in range((_MAX_REFACTORS + 1) * _MAX_ITERATIONS):
        for i in range(n):
            y[i] = x[i] + 0.5 * eps * (v[i] + w[i])
        local(t, beta, y, ry, work.out, there)
        for i in range(n):
            rhs[i] = p[i] - (there[D, i] - d_c[i]) * w[i]
        solve(t, root, work, rhs, image, tmp, s)
        scale = dot(image, image)
        size = accelerate(k, w, image, history)
        k += 1
        if np.isfinite(size) and _arrived(size, scale, image, known, tolerance):
            for i in range(n):
                w[i] = image[i]
            return OK, refactors
        stalled = stalled + 1 if not size < 0.25 * best else 0
        best = min(best, size) if np.isfinite(size) else best
        if not np.isfinite(size) or stalled > 4 or k == _MAX_ITERATIONS:
            if refactors == _MAX_REFACTORS or not np.isfinite(dot(there[D], there[D])):
                return NO_FIXED_POINT, refactors
            refactors += 1
            info, _ = factorise(t, 0.0, there, work, s)
            if info != 0:
                return NO_METRIC, refactors
            for i in range(n):
                d_c[i], root[i] = there[D, i], there[ROOT, i]
            solve(t, root, work, p, w, tmp, s)
            k, best, stalled = 0, np.inf, 0
    return NO_FIXED_POINT, refactors


@jit
def leapfrog(t, beta, eps, x, p, r, half, work, tolerances, s):
    """One step in place; ``work.points[0]`` and the factor are at x, before and after.

    Returns a code, ½ log|B| at the end (``half`` at the start) and the number of
    factorisations.
    """
    n = x.size
    here, there = work.points[0], work.points[1]
    v, w, x1, u = work.vectors[7], work.vectors[8], work.vectors[9], work.vectors[10]
    nothing = x[:0]
    for i in range(n):
        p[i] += 0.5 * eps * (here[FORCE, i] - here[TRACE, i])
    code = momentum_equation(t, eps, here, work, p, v, nothing, tolerances[0], s)
    if code != OK:
        return code, 0.0, 0
    for i in range(n):
        p[i] += 0.25 * eps * here[SLOPE, i] * v[i] * v[i]
    code, refactors = position_equation(
        t, beta, eps, x, r, v, p, here, work, w, nothing, tolerances[0], s
    )
    if code != OK:
        return code, 0.0, refactors
    for i in range(n):
        x1[i] = x[i] + 0.5 * eps * (v[i] + w[i])
        r[i] += 0.5 * eps * (p[i] - here[D, i] * v[i])
    local(t, beta, x1, r, work.out, there)
    for i in range(n):
        r[i] += 0.5 * eps * (p[i] - there[D, i] * w[i])
    local(t, beta, x1, r, work.out, there)
    if t.fixed.size == 0:
        info, half = factorise(t, 0.0, there, work, s)
        refactors += 1
        if info != 0:
            return NO_METRIC, 0.0, refactors
        half_trace(there, work)
    for i in range(n):
        p[i] += 0.5 * eps * (there[FORCE, i] - there[TRACE, i])
        p[i] += 0.25 * eps * there[SLOPE, i] * w[i] * w[i]
    code, extra = _reverse(t, beta, eps, x, x1, p, r, v, w, u, work, tolerances[1], s)
    for i in range(n):
        x[i] = x1[i]
    here[:, :] = there
    return code, half, refactors + extra


@jit
def _reverse(t, beta, eps, x, x1, p1, r1, v, w, u, work, tolerance, s):
    """Run the step from (x₁, -p₁): it must find -w, then -v, then x."""
    n = x.size
    there = work.points[1]
    p0, back, last = work.vectors[11], work.vectors[12], work.vectors[13]
    for i in range(n):
        back[i] = -w[i]
        p0[i] = -p1[i] + 0.5 * eps * (there[FORCE, i] - there[TRACE, i])
    code = momentum_equation(t, eps, there, work, p0, u, back, tolerance, s)
    if code != OK:
        return IRREVERSIBLE, 0
    for i in range(n):
        u[i] = -w[i]  # not what is only near it: the next equation may magnify the difference
        p0[i] += 0.25 * eps * there[SLOPE, i] * u[i] * u[i]
        back[i] = -v[i]
    code, refactors = position_equation(
        t, beta, eps, x1, r1, u, p0, there, work, last, back, tolerance, s
    )
    if code != OK:
        return IRREVERSIBLE, refactors
    if refactors > 0:
        factorise(t, 0.0, there, work, s)
    return OK, 2 * refactors


@jit
def trajectory(t, work, beta, eps, n_steps, x, p, tolerances):
    """Run ``n_steps`` steps in place; return (-H before, -H after, code, factorisations)."""
    s = scratch()
    here = work.points[0]
    r, w, tmp = work.vectors[14], work.vectors[15], work.vectors[16]
    prior_solve(t, x, r, s)
    before = local(t, beta, x, r, work.out, here)
    info, half = factorise(t, 0.0, here, work, s)
    if info != 0:
        return np.nan, np.nan, NO_METRIC, 1
    half_trace(here, work)
    solve(t, here[ROOT], work, p, w, tmp, s)
    before -= half + 0.5 * dot(p, w)
    total = 1
    for _ in range(n_steps):
        code, half, count = leapfrog(t, beta, eps, x, p, r, half, work, tolerances, s)
        total += count
        if code != OK:
            return before, np.nan, code, total
    prior_solve(t, x, r, s)
    after = local(t, beta, x, r, work.out, here)
    solve(t, here[ROOT], work, p, w, tmp, s)
    return before, after - half - 0.5 * dot(p, w), OK, total


@jit
def transition(t, work, beta, eps, n_steps, x, z, tolerances):
    """Overwrite x by the end of a trajectory; return (log ratio, code, factorisations)."""
    p = work.vectors[17]
    momentum_at(t, work, beta, x, z, p, scratch())
    before, after, code, count = trajectory(t, work, beta, eps, n_steps, x, p, tolerances)
    return after - before, code, count


@jit
def transitions(t, n_steps, tolerances, work, b, first, stride):
    """Rows first, first + stride, … of a batch."""
    for i in range(first, b.eps.size, stride):
        b.log_ratio[i], b.code[i], b.count[i] = transition(
            t, work, b.beta[i], b.eps[i], n_steps, b.x[i], b.z[i], tolerances
        )


@dataclass
class RMHMC(RiemannMove):
    """Riemannian HMC, implicit generalised leapfrog; one O(N³) factorisation per step and row.

    Parameters
    ----------
    step_size : float
        ε; 0.1 to 0.5 where the metric fits the posterior.
    n_leapfrog : int, optional
        Steps of a trajectory; by default about π/2 in total.
    jitter : float
        Every row's ε is multiplied by 1 ± jitter.
    tolerance, reverse_tolerance : float
        Relative tolerances of the fixed points and of the way back.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    step_size: float = 0.2
    target: float | None = 0.8
    name: str = "rmhmc"
    n_leapfrog: int | None = None
    jitter: float = 0.1
    tolerance: float = 1e-9
    reverse_tolerance: float = 1e-6

    def step_sizes(self, rng: np.random.Generator, path: Path, m: int) -> Array:
        return self.step_size * (1.0 + self.jitter * rng.uniform(-1.0, 1.0, m))

    @property
    def n_steps(self) -> int:
        """Steps of a trajectory."""
        return self.n_leapfrog or quarter_turn(self.step_size)

    def proposal(self, path: Path) -> Proposal:
        t, tolerances = self.density(path), (self.tolerance, self.reverse_tolerance)
        return lambda *rows: transitions(t, self.n_steps, tolerances, *rows)

    def trajectories(
        self, rng: np.random.Generator, field: Any, start: Any, eps: Array, ends: Any = None
    ) -> Any:
        p = start.metric.momentum(standard_normal(rng, start.y.shape))
        return self.integrate(field, start, p, eps, ends)

    def integrate(self, field: Any, start: Any, p: Array, eps: Array, ends: Any = None) -> Any:
        """End of trajectories from (start, p) for any density: the map without accept step."""
        tolerances = (self.tolerance, self.reverse_tolerance)
        return dense_integrators.leapfrog(field, start, p, eps, self.n_steps, tolerances, ends)
