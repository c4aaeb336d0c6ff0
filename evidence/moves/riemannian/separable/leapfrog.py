r"""The implicit generalised leapfrog of :mod:`evidence.moves.riemannian.rmhmc`, row by row.

With w(x, p) = G(x)⁻¹p, a step from (x, p) is

1. p½ = p + ε/2 [f(x) + ½ d'(x) w(x, p½)²]           (implicit in p½)
2. x' = x + ε/2 [w(x, p½) + w(x', p½)]               (implicit in x')
3. p' = p½ + ε/2 [f(x') + ½ d'(x') w(x', p½)²]

Both equations are solved for w, to convergence, with the factor at hand:

.. math:: w \leftarrow G^{-1}\big(p_0 + \tfrac\varepsilon4 d' w^2\big),\qquad
          w \leftarrow G(x_c)^{-1}\big(p_{1/2} - (d(x'(w)) - d(x_c))\, w\big)

so a step needs one factorisation, at x'. Where the second iteration stalls, because d changes
fast, it is refactored at the current x'.
"""

from __future__ import annotations

import numpy as np

from ....numerics.anderson import ARRIVED, FAILED, iterate
from ....numerics.copies import copy
from ....numerics.jit import jit
from .. import IRREVERSIBLE, MAX_ITERATIONS, NO_FIXED_POINT, NO_METRIC, OK
from . import system
from .system import FORCE, ROOT, SLOPE, TRACE, D


@jit
def momentum_equation(t, eps, point, p0, w, known, tolerance):
    """Solve w = G⁻¹(p₀ + ε/4 d' w²) with the factor at x; returns a code."""
    rhs, image = t.vectors[0], t.vectors[1]
    system.solve(t, point[ROOT], p0, w)
    for k in range(MAX_ITERATIONS):
        for i in range(p0.size):
            rhs[i] = p0[i] + 0.25 * eps * point[SLOPE, i] * w[i] * w[i]
        system.solve(t, point[ROOT], rhs, image)
        status, _ = iterate(k, w, image, t.history, known, tolerance)
        if status == ARRIVED:
            copy(image, w)
            return OK
        if status == FAILED:
            break
    return NO_FIXED_POINT


@jit
def position_equation(t, beta, eps, x, r, v, p, point, w, known, tolerance):
    """Solve G(x')w = p, x' = x + ε/2 (v + w), from the factor at x, refactoring if it stalls.

    ``point`` is at x on entry; the factor may be that of another point on return. Returns a
    code and the number of factorisations.
    """
    max_refactors = 3
    V, there = t.vectors, t.points[2]
    rhs, image, y, ry, d_c, root = V[0], V[1], V[3], V[4], V[5], V[6]
    for i in range(p.size):
        w[i], d_c[i], root[i] = v[i], point[D, i], point[ROOT, i]
        ry[i] = r[i]  # the force at trial points is not used
    refactors, k, best, stalled = 0, 0, np.inf, 0
    for _ in range((max_refactors + 1) * MAX_ITERATIONS):
        for i in range(p.size):
            y[i] = x[i] + 0.5 * eps * (v[i] + w[i])
        system.local(t, beta, y, ry, there)
        for i in range(p.size):
            rhs[i] = p[i] - (there[D, i] - d_c[i]) * w[i]
        system.solve(t, root, rhs, image)
        status, size = iterate(k, w, image, t.history, known, tolerance)
        k += 1
        if status == ARRIVED:
            copy(image, w)
            return OK, refactors
        stalled = stalled + 1 if not size < 0.25 * best else 0
        best = min(best, size) if np.isfinite(size) else best
        if status == FAILED or stalled > 4 or k == MAX_ITERATIONS:
            if refactors == max_refactors or not np.isfinite(system.dot(there[D], there[D])):
                return NO_FIXED_POINT, refactors
            refactors += 1
            info, _ = system.factorise(t, 0.0, there)
            if info != 0:
                return NO_METRIC, refactors
            for i in range(p.size):
                d_c[i], root[i] = there[D, i], there[ROOT, i]
            system.solve(t, root, p, w)
            k, best, stalled = 0, np.inf, 0
    return NO_FIXED_POINT, refactors


@jit
def step(t, beta, eps, x, p, r, half, tolerances):
    """One step in place; ``points[0]`` and the factor are at x, before and after.

    Returns a code, ½ log|B| at the end (``half`` at the start) and the number of
    factorisations.
    """
    V, here, there = t.vectors, t.points[0], t.points[1]
    v, w, x1, nothing = V[7], V[8], V[9], x[:0]
    for i in range(x.size):
        p[i] += 0.5 * eps * (here[FORCE, i] - here[TRACE, i])
    code = momentum_equation(t, eps, here, p, v, nothing, tolerances[0])
    if code != OK:
        return code, 0.0, 0
    for i in range(x.size):
        p[i] += 0.25 * eps * here[SLOPE, i] * v[i] * v[i]
    code, count = position_equation(t, beta, eps, x, r, v, p, here, w, nothing, tolerances[0])
    if code != OK:
        return code, 0.0, count
    for i in range(x.size):
        x1[i] = x[i] + 0.5 * eps * (v[i] + w[i])
        r[i] += 0.5 * eps * (p[i] - here[D, i] * v[i])
    system.local(t, beta, x1, r, there)
    for i in range(x.size):
        r[i] += 0.5 * eps * (p[i] - there[D, i] * w[i])
    system.local(t, beta, x1, r, there)
    if t.fixed.size == 0:
        info, half = system.factorise(t, 0.0, there)
        count += 1
        if info != 0:
            return NO_METRIC, 0.0, count
        system.half_trace(t, there)
    for i in range(x.size):
        p[i] += 0.5 * eps * (there[FORCE, i] - there[TRACE, i])
        p[i] += 0.25 * eps * there[SLOPE, i] * w[i] * w[i]
    code, extra = _reverse(t, beta, eps, x1, p, r, v, w, tolerances[1])
    copy(x1, x)
    for k in range(len(here)):
        copy(there[k], here[k])
    return code, half, count + extra


@jit
def _reverse(t, beta, eps, x1, p1, r1, v, w, tolerance):
    """Run the step from (x₁, -p₁): it must find -w, then -v."""
    V, there = t.vectors, t.points[1]
    u, p0, back, last = V[10], V[11], V[12], V[13]
    for i in range(x1.size):
        back[i] = -w[i]
        p0[i] = -p1[i] + 0.5 * eps * (there[FORCE, i] - there[TRACE, i])
    code = momentum_equation(t, eps, there, p0, u, back, tolerance)
    if code != OK:
        return IRREVERSIBLE, 0
    for i in range(x1.size):
        u[i] = -w[i]  # not what is only near it: the next equation may magnify the difference
        p0[i] += 0.25 * eps * there[SLOPE, i] * u[i] * u[i]
        back[i] = -v[i]
    code, count = position_equation(t, beta, eps, x1, r1, u, p0, there, last, back, tolerance)
    if code != OK:
        return IRREVERSIBLE, count
    if count > 0:
        system.factorise(t, 0.0, there)
    return OK, 2 * count


@jit
def trajectory(t, beta, eps, n_steps, x, p, tolerances):
    """Run ``n_steps`` steps in place; return (-H before, -H after, code, factorisations)."""
    here, r, w = t.points[0], t.vectors[14], t.vectors[15]
    total = 1
    before, half, info = system.energy_at(t, beta, x, p, r, w, here)
    if info != 0:
        return np.nan, np.nan, NO_METRIC, total
    for _ in range(n_steps):
        code, half, count = step(t, beta, eps, x, p, r, half, tolerances)
        total += count
        if code != OK:
            return before, np.nan, code, total
    system.prior_solve(t, x, r)
    value = system.local(t, beta, x, r, here)
    return before, system.minus_energy(t, value, half, here[ROOT], p, w), OK, total


transitions = system.for_trajectories(trajectory)
