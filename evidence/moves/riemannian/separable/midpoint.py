r"""The implicit midpoint rule of :mod:`evidence.moves.riemannian.rmhmc`, row by row.

In terms of w = G(x̄)⁻¹p̄ at the midpoint: x̄ = x + ε/2 w, p̄ = p + ε/2 [f(x̄) + ½ d'(x̄) w²], and
w is a fixed point of G(x̄)⁻¹p̄. Each iteration factorises at a new x̄.
"""

from __future__ import annotations

import numpy as np

from ....numerics.anderson import ARRIVED, UNDERWAY, iterate
from ....numerics.jit import jit
from .. import IRREVERSIBLE, NO_FIXED_POINT, NO_METRIC, OK
from . import system
from .system import FORCE, ROOT, SLOPE, TRACE


@jit
def midpoint(t, beta, eps, x, p, w, middle, known, tolerance):
    """Solve for w and p̄; return a code and the number of factorisations."""
    max_iterations = 50
    V, point = t.vectors, t.points[1]
    y, r, image = V[0], V[1], V[2]
    for i in range(x.size):
        w[i] = 0.0
    for k in range(max_iterations):
        for i in range(x.size):
            y[i] = x[i] + 0.5 * eps * w[i]
        system.prior_solve(t, y, r)
        _, _, info = system.metric_at(t, beta, y, r, point)
        if info != 0:
            return NO_METRIC, k + 1
        for i in range(x.size):
            push = point[FORCE, i] - point[TRACE, i] + 0.5 * point[SLOPE, i] * w[i] * w[i]
            middle[i] = p[i] + 0.5 * eps * push
        system.solve(t, point[ROOT], middle, image)
        status, _ = iterate(k, w, image, t.history, known, tolerance)
        if status != UNDERWAY:
            return OK if status == ARRIVED else NO_FIXED_POINT, k + 1
    return NO_FIXED_POINT, max_iterations


@jit
def trajectory(t, beta, eps, n_steps, x, p, tolerances):
    """Run ``n_steps`` steps in place; return (-H before, -H after, code, factorisations)."""
    V = t.vectors
    w, middle, back, u, p_back = V[8], V[9], V[10], V[11], V[12]
    before, _, info = system.energy_at(t, beta, x, p, V[0], V[1], t.points[0])
    if info != 0:
        return np.nan, np.nan, NO_METRIC, 1
    total = 2
    for _ in range(n_steps):
        code, count = midpoint(t, beta, eps, x, p, w, middle, x[:0], tolerances[0])
        total += count
        if code != OK:
            return before, np.nan, code, total
        for i in range(x.size):
            x[i] += eps * w[i]
            p[i] = 2.0 * middle[i] - p[i]
            back[i], p_back[i] = -w[i], -p[i]
        code, count = midpoint(t, beta, eps, x, p_back, u, middle, back, tolerances[1])
        total += count
        if code != OK:
            return before, np.nan, IRREVERSIBLE, total
    after, _, info = system.energy_at(t, beta, x, p, V[0], V[1], t.points[0])
    return before, after, OK if info == 0 else NO_METRIC, total


transitions = system.for_trajectories(trajectory)
