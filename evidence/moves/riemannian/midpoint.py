r"""Riemannian HMC with the implicit midpoint rule (Brofos and Lederman 2021).

With the Hamiltonian of :mod:`.rmhmc`, a step from z = (x, p) to z' solves

.. math:: z' = z + \varepsilon J \nabla H\big(\tfrac{z + z'}{2}\big)

In terms of w = G(x̄)⁻¹p̄ at the midpoint: x̄ = x + ε/2 w, p̄ = p + ε/2 [f(x̄) + ½ d'(x̄) w²], and
w is a fixed point of G(x̄)⁻¹p̄. Each iteration factorises at a new x̄, several times the work of
the generalised leapfrog; in return the energy error is steadier where curvature changes fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...numerics.anderson import accelerate
from ...numerics.jit import jit
from ...numerics.lapack import scratch
from ...paths.gp import Path
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
    Array,
    Proposal,
    dot,
    factorise,
    half_trace,
    local,
    momentum_at,
    prior_solve,
    solve,
)
from .rmhmc import RMHMC

_MAX_ITERATIONS = 50


@jit
def midpoint(t, beta, eps, x, p, work, w, p_mid, known, tolerance, s):
    """Solve for w and p̄; return a code and the number of factorisations.

    With ``known`` (or else an empty array) it is enough to come within ``tolerance`` of it.
    """
    n = x.size
    y, r, image, tmp = work.vectors[0], work.vectors[1], work.vectors[2], work.vectors[3]
    point = work.points[1]
    for i in range(n):
        w[i] = 0.0
    for k in range(_MAX_ITERATIONS):
        for i in range(n):
            y[i] = x[i] + 0.5 * eps * w[i]
        prior_solve(t, y, r, s)
        local(t, beta, y, r, work.out, point)
        info, _ = factorise(t, 0.0, point, work, s)
        if info != 0:
            return NO_METRIC, k + 1
        half_trace(point, work)
        for i in range(n):
            slope = 0.5 * point[SLOPE, i] * w[i] * w[i]
            p_mid[i] = p[i] + 0.5 * eps * (point[FORCE, i] - point[TRACE, i] + slope)
        solve(t, point[ROOT], work, p_mid, image, tmp, s)
        distance = 0.0
        for i in range(known.size):
            distance += (image[i] - known[i]) ** 2
        scale = dot(image, image)
        size = accelerate(k, w, image, work.history)
        if not np.isfinite(size):
            return NO_FIXED_POINT, k + 1
        if known.size == 0:
            distance = size
        if size <= 0.01 * scale and distance <= tolerance * tolerance * scale:
            return OK, k + 1
    return NO_FIXED_POINT, _MAX_ITERATIONS


@jit
def minus_energy(t, beta, x, p, work, s):
    """-H and LAPACK's info."""
    r, w, tmp = work.vectors[0], work.vectors[1], work.vectors[2]
    point = work.points[0]
    prior_solve(t, x, r, s)
    value = local(t, beta, x, r, work.out, point)
    info, half = factorise(t, 0.0, point, work, s)
    solve(t, point[ROOT], work, p, w, tmp, s)
    return value - half - 0.5 * dot(p, w), info


@jit
def trajectory(t, work, beta, eps, n_steps, x, p, tolerances):
    """Run ``n_steps`` steps in place; return (-H before, -H after, code, factorisations)."""
    s = scratch()
    n = x.size
    w, p_mid, back, u, p_back = (
        work.vectors[8],
        work.vectors[9],
        work.vectors[10],
        work.vectors[11],
        work.vectors[12],
    )
    before, info = minus_energy(t, beta, x, p, work, s)
    if info != 0:
        return np.nan, np.nan, NO_METRIC, 1
    total = 2
    for _ in range(n_steps):
        code, count = midpoint(t, beta, eps, x, p, work, w, p_mid, x[:0], tolerances[0], s)
        total += count
        if code != OK:
            return before, np.nan, code, total
        for i in range(n):
            x[i] += eps * w[i]
            p[i] = 2.0 * p_mid[i] - p[i]
            back[i] = -w[i]
            p_back[i] = -p[i]
        code, count = midpoint(t, beta, eps, x, p_back, work, u, p_mid, back, tolerances[1], s)
        total += count
        if code != OK:
            return before, np.nan, IRREVERSIBLE, total
    after, info = minus_energy(t, beta, x, p, work, s)
    return before, after, OK if info == 0 else NO_METRIC, total


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
class MidpointRMHMC(RMHMC):
    """Riemannian HMC by the implicit midpoint rule.

    Parameters
    ----------
    step_size, n_leapfrog, jitter, tolerance, reverse_tolerance, target, name
        As for :class:`.RMHMC`.
    """

    name: str = "rmhmc-midpoint"
    longest: ClassVar[float] = 2.0  # a quarter turn of a unit oscillator; twice that reflects

    def proposal(self, path: Path) -> Proposal:
        t, tolerances = self.density(path), (self.tolerance, self.reverse_tolerance)
        return lambda *rows: transitions(t, self.n_steps, tolerances, *rows)

    def integrate(self, field: Any, start: Any, p: Array, eps: Array, ends: Any = None) -> Any:
        tolerances = (self.tolerance, self.reverse_tolerance)
        return dense_integrators.midpoint(field, start, p, eps, self.n_steps, tolerances, ends)
