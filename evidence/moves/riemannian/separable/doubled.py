"""The explicit integrator of :mod:`evidence.moves.riemannian.rmhmc`, row by row.

r = K⁻¹(x - m) is carried for both copies, so that the binding matrix needs no inverse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....numerics.jit import jit
from ....numerics.lapack import symmetric_times
from ....paths.base import TemperedPath
from ...base import Array
from .. import NO_METRIC, OK
from . import system
from .system import FORCE, ROOT, SLOPE, TRACE, D


class Binding(NamedTuple):
    """M = K⁻¹ + diag(tau), its inverse, √tau, Ω and σ."""

    tau: Array
    root: Array
    covariance: Array
    omega: float
    sigma: float


def binding(path: TemperedPath, omega: float, sigma: float) -> Binding:
    """Distances in the base's precision, or in the prior's where sites have negative τ."""
    tau, covariance = path.reference.sites.tau, path.reference.cov
    if tau.min() < 0.0:
        tau, covariance = np.zeros_like(tau), path.model.K
    return Binding(tau, np.sqrt(tau), covariance, omega, sigma)


@jit
def _flow(t, eps, p, q, y, ry):
    """The flow of H(x, q) for a time ε, x being the first point: moves p and y."""
    w, point = t.vectors[0], t.points[0]
    system.solve(t, point[ROOT], q, w)
    for i in range(p.size):
        p[i] += eps * (point[FORCE, i] - point[TRACE, i] + 0.5 * point[SLOPE, i] * w[i] * w[i])
        y[i] += eps * w[i]
        ry[i] += eps * (q[i] - point[D, i] * w[i])


@jit
def _bind(t, bind, angle, x, p, r, y, q, ry):
    """Turn the differences; all four updates use the old values. r = K⁻¹(x - m)."""
    dp, Cdp = t.vectors[0], t.vectors[1]
    c, s = np.cos(angle), np.sin(angle)
    for i in range(x.size):
        dp[i] = p[i] - q[i]
    symmetric_times(bind.covariance, dp, Cdp, t.flags)
    for i in range(x.size):
        dx, dr = x[i] - y[i], r[i] - ry[i]
        new_dx = c * dx + s * Cdp[i]
        new_dr = c * dr + s * (dp[i] - bind.tau[i] * Cdp[i])
        new_dp = c * dp[i] - s * (dr + bind.tau[i] * dx)
        sx, sr, sp = x[i] + y[i], r[i] + ry[i], p[i] + q[i]
        x[i], y[i] = 0.5 * (sx + new_dx), 0.5 * (sx - new_dx)
        r[i], ry[i] = 0.5 * (sr + new_dr), 0.5 * (sr - new_dr)
        p[i], q[i] = 0.5 * (sp + new_dp), 0.5 * (sp - new_dp)


@jit
def _log_copies(t, bind, x, p, r, y, q, ry):
    """Log density of the copies given (x, p), up to a constant."""
    dp, Cdp = t.vectors[0], t.vectors[1]
    total = 0.0
    for i in range(x.size):
        dx = x[i] - y[i]
        dp[i] = p[i] - q[i]
        total += dx * (r[i] - ry[i] + bind.tau[i] * dx)
    symmetric_times(bind.covariance, dp, Cdp, t.flags)
    return -0.5 * (total + system.dot(dp, Cdp)) / (bind.sigma * bind.sigma)


@jit
def trajectory(t, bind, beta, eps, n_steps, x, p, y, q):
    """``n_steps`` steps in place; returns the log density before and after, a code, a count."""
    here, w, r, ry = t.points[0], t.vectors[0], t.vectors[2], t.vectors[3]
    system.prior_solve(t, y, ry)
    before, _, info = system.energy_at(t, beta, x, p, r, w, here)
    if info != 0:
        return np.nan, np.nan, NO_METRIC, 1
    before += _log_copies(t, bind, x, p, r, y, q, ry)
    _flow(t, 0.5 * eps, p, q, y, ry)
    angle = 2.0 * bind.omega * eps
    for step in range(n_steps):
        _, _, info = system.metric_at(t, beta, y, ry, here)
        if info != 0:
            return before, np.nan, NO_METRIC, 2 + 3 * step
        _flow(t, 0.5 * eps, q, p, x, r)
        _bind(t, bind, angle, x, p, r, y, q, ry)
        _, _, info = system.metric_at(t, beta, y, ry, here)
        if info != 0:
            return before, np.nan, NO_METRIC, 3 + 3 * step
        _flow(t, 0.5 * eps, q, p, x, r)
        _, _, info = system.metric_at(t, beta, x, r, here)
        if info != 0:
            return before, np.nan, NO_METRIC, 4 + 3 * step
        _flow(t, eps if step < n_steps - 1 else 0.5 * eps, p, q, y, ry)
    system.prior_solve(t, y, ry)
    after, _, info = system.energy_at(t, beta, x, p, r, w, here)
    after += _log_copies(t, bind, x, p, r, y, q, ry)
    return before, after, OK if info == 0 else NO_METRIC, 2 + 3 * n_steps


@jit
def transition(t, beta, eps, parameters, x, z):
    """Overwrite x by the end of a trajectory; return (log ratio, code, factorisations)."""
    V, (n_steps, bind) = t.vectors, parameters
    p, y, q, dx = V[4], V[5], V[6], V[7]
    system.momentum_at(t, beta, x, z[:2], p)
    system.draw_momentum(t, bind.root, z[2:4], q)
    system.draw_momentum(t, bind.root, z[4:6], y)
    symmetric_times(bind.covariance, y, dx, t.flags)
    for i in range(x.size):
        q[i] = p[i] + bind.sigma * q[i]
        y[i] = x[i] + bind.sigma * dx[i]
    before, after, code, count = trajectory(t, bind, beta, eps, n_steps, x, p, y, q)
    return after - before, code, count


transitions = system.for_rows(transition)
