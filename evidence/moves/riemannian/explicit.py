r"""Riemannian HMC with an explicit integrator (Tao 2016; Cobb et al. 2019).

Phase space is doubled, z = (x, p, x̃, p̃), and

.. math:: \tilde H = H(x, \tilde p) + H(\tilde x, p)
          + \tfrac\Omega2\big(|x - \tilde x|^2_M + |p - \tilde p|^2_{M^{-1}}\big)

is split into three flows that are known in closed form: A moves (p, x̃), B moves (p̃, x), C
turns the differences (x - x̃, p - p̃) by the angle 2Ωε. A step is A(ε/2) B(ε/2) C(ε) B(ε/2)
A(ε/2), three factorisations when neighbouring A's are merged. Distances are measured in
the base's precision M, so that one Ω suits all directions.

The map preserves volume and reverses when both momenta are flipped, but it does not keep the
copies equal, so accepting with H(x, p) alone would not be exact. Here the copies are part of
the target:

.. math:: \pi(x, p)\, \exp\Big(-\tfrac{1}{2\sigma^2}\big(|x - \tilde x|^2_M
          + |p - \tilde p|^2_{M^{-1}}\big)\Big)

They are drawn afresh around (x, p) before each trajectory, and the accept step uses this
density. Its marginal in x is p_β exactly, whatever σ; a small σ keeps H(x, p) close to H̃/2, a
large one forgives the drift between the copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...messages import InputError
from ...numerics.jit import jit
from ...numerics.lapack import scratch, symmetric_times
from ...numerics.normal import standard_normal
from ...paths.gp import Path
from . import dense_integrators
from .metric import (
    FORCE,
    NO_METRIC,
    OK,
    ROOT,
    SLOPE,
    TRACE,
    Array,
    D,
    Proposal,
    dot,
    draw_momentum,
    factorise,
    half_trace,
    local,
    momentum_at,
    prior_solve,
    solve,
)
from .rmhmc import RMHMC


class Binding(NamedTuple):
    """M = K⁻¹ + diag(tau), its inverse, √tau, Ω and σ."""

    tau: Array
    root: Array
    covariance: Array
    omega: float
    sigma: float


@jit
def _metric_at(t, beta, x, r, work, s):
    """Metric, force and trace at x in ``points[0]``; returns (info, log p_β, ½ log|B|)."""
    value = local(t, beta, x, r, work.out, work.points[0])
    info, half = factorise(t, 0.0, work.points[0], work, s)
    half_trace(work.points[0], work)
    return info, value, half


@jit
def _flow(t, eps, p, q, y, ry, work, s):
    """The flow of H(x, q) for a time ε, x being the point in the workspace: moves p and y."""
    w, tmp = work.vectors[0], work.vectors[1]
    point = work.points[0]
    solve(t, point[ROOT], work, q, w, tmp, s)
    for i in range(p.size):
        slope = 0.5 * point[SLOPE, i] * w[i] * w[i]
        p[i] += eps * (point[FORCE, i] - point[TRACE, i] + slope)
        y[i] += eps * w[i]
        ry[i] += eps * (q[i] - point[D, i] * w[i])


@jit
def _bind(bind, angle, x, p, r, y, q, ry, work, s):
    """Turn the differences; all four updates use the old values. r = K⁻¹(x - m)."""
    n = x.size
    dp, Cdp = work.vectors[0], work.vectors[1]
    c, si = np.cos(angle), np.sin(angle)
    for i in range(n):
        dp[i] = p[i] - q[i]
    symmetric_times(bind.covariance, dp, Cdp, s)
    for i in range(n):
        dx, dr = x[i] - y[i], r[i] - ry[i]
        new_dx = c * dx + si * Cdp[i]
        new_dr = c * dr + si * (dp[i] - bind.tau[i] * Cdp[i])
        new_dp = c * dp[i] - si * (dr + bind.tau[i] * dx)
        sx, sr, sp = x[i] + y[i], r[i] + ry[i], p[i] + q[i]
        x[i], y[i] = 0.5 * (sx + new_dx), 0.5 * (sx - new_dx)
        r[i], ry[i] = 0.5 * (sr + new_dr), 0.5 * (sr - new_dr)
        p[i], q[i] = 0.5 * (sp + new_dp), 0.5 * (sp - new_dp)


@jit
def _log_copies(bind, x, p, r, y, q, ry, work, s):
    """Log density of the copies given (x, p), up to a constant."""
    dp, Cdp = work.vectors[0], work.vectors[1]
    total = 0.0
    for i in range(x.size):
        dx = x[i] - y[i]
        dp[i] = p[i] - q[i]
        total += dx * (r[i] - ry[i] + bind.tau[i] * dx)
    symmetric_times(bind.covariance, dp, Cdp, s)
    return -0.5 * (total + dot(dp, Cdp)) / (bind.sigma * bind.sigma)


@jit
def _minus_energy(t, value, half, p, work, s):
    w, tmp = work.vectors[0], work.vectors[1]
    solve(t, work.points[0, ROOT], work, p, w, tmp, s)
    return value - half - 0.5 * dot(p, w)


@jit
def trajectory(t, bind, work, beta, eps, n_steps, x, p, y, q):
    """``n_steps`` steps in place; returns the log density before and after, a code, a count."""
    s = scratch()
    r, ry = work.vectors[2], work.vectors[3]
    prior_solve(t, x, r, s)
    prior_solve(t, y, ry, s)
    info, value, half = _metric_at(t, beta, x, r, work, s)
    if info != 0:
        return np.nan, np.nan, NO_METRIC, 1
    before = _minus_energy(t, value, half, p, work, s)
    before += _log_copies(bind, x, p, r, y, q, ry, work, s)
    _flow(t, 0.5 * eps, p, q, y, ry, work, s)
    angle = 2.0 * bind.omega * eps
    for step in range(n_steps):
        info, _, _ = _metric_at(t, beta, y, ry, work, s)
        if info != 0:
            return before, np.nan, NO_METRIC, 2 + 3 * step
        _flow(t, 0.5 * eps, q, p, x, r, work, s)
        _bind(bind, angle, x, p, r, y, q, ry, work, s)
        info, _, _ = _metric_at(t, beta, y, ry, work, s)
        if info != 0:
            return before, np.nan, NO_METRIC, 3 + 3 * step
        _flow(t, 0.5 * eps, q, p, x, r, work, s)
        info, _, _ = _metric_at(t, beta, x, r, work, s)
        if info != 0:
            return before, np.nan, NO_METRIC, 4 + 3 * step
        _flow(t, eps if step < n_steps - 1 else 0.5 * eps, p, q, y, ry, work, s)
    prior_solve(t, x, r, s)
    prior_solve(t, y, ry, s)
    info, value, half = _metric_at(t, beta, x, r, work, s)
    after = _minus_energy(t, value, half, p, work, s)
    after += _log_copies(bind, x, p, r, y, q, ry, work, s)
    return before, after, OK if info == 0 else NO_METRIC, 2 + 3 * n_steps


@jit
def transition(t, bind, work, beta, eps, n_steps, x, z):
    """Overwrite x by the end of a trajectory; return (log ratio, code, factorisations)."""
    s = scratch()
    p, y, q, dx = work.vectors[4], work.vectors[5], work.vectors[6], work.vectors[7]
    momentum_at(t, work, beta, x, z[:2], p, s)
    draw_momentum(t, bind.root, z[2:4], q, s)
    draw_momentum(t, bind.root, z[4:6], y, s)
    symmetric_times(bind.covariance, y, dx, s)
    for i in range(x.size):
        q[i] = p[i] + bind.sigma * q[i]
        y[i] = x[i] + bind.sigma * dx[i]
    before, after, code, count = trajectory(t, bind, work, beta, eps, n_steps, x, p, y, q)
    return after - before, code, count


@jit
def transitions(t, bind, n_steps, work, b, first, stride):
    """Rows first, first + stride, … of a batch."""
    for i in range(first, b.eps.size, stride):
        b.log_ratio[i], b.code[i], b.count[i] = transition(
            t, bind, work, b.beta[i], b.eps[i], n_steps, b.x[i], b.z[i]
        )


def binding(path: Path, omega: float, sigma: float) -> Binding:
    """Distances in the base's precision, or in the prior's where sites have negative τ."""
    tau = path.reference.sites.tau
    if tau.min() < 0.0:
        return Binding(np.zeros_like(tau), np.zeros_like(tau), path.model.K, omega, sigma)
    return Binding(tau, np.sqrt(tau), path.reference.cov, omega, sigma)


@dataclass
class ExplicitRMHMC(RMHMC):
    """Explicit Riemannian HMC in doubled phase space; three factorisations per step and row.

    Parameters
    ----------
    omega : float
        Strength Ω of the binding between the copies.
    sigma : float
        Spread σ of the copies, in units of the base.
    binding : {"base", "identity"}
        The matrix M that measures distances between copies: the base's precision, or none
        (models given by a density only).
    step_size, n_leapfrog, jitter, tolerance, reverse_tolerance, target, name
        As for :class:`.RMHMC`; nothing is solved here, so the tolerances have no effect.
    """

    name: str = "rmhmc-explicit"
    step_size: float = 0.05
    omega: float = 10.0
    sigma: float = 0.01
    binding: str = "base"

    def noise(self, rng: np.random.Generator, m: int, n: int) -> Array:
        return standard_normal(rng, (m, 6, n))

    def proposal(self, path: Path) -> Proposal:
        t, bind = self.density(path), binding(path, self.omega, self.sigma)
        return lambda *rows: transitions(t, bind, self.n_steps, *rows)

    def trajectories(
        self, rng: np.random.Generator, field: Any, start: Any, eps: Array, ends: Any = None
    ) -> Any:
        m, d = start.y.shape
        z = standard_normal(rng, (m, 3, d))
        p = start.metric.momentum(z[:, 0])
        bind = dense_binding(field.path, self.binding, self.omega, self.sigma)
        return dense_integrators.explicit(field, start, p, eps, self.n_steps, bind, z[:, 1:], ends)


def dense_binding(path: Any, kind: str, omega: float, sigma: float) -> dense_integrators.Binding:
    """Distances in the base's precision, or in the model's coordinates as they are."""
    q = path.reference
    if kind == "identity":
        one = np.eye(path.n)
        return dense_integrators.Binding(one, one, one, one, omega, sigma)
    if kind != "base":
        raise InputError(f"binding must be 'base' or 'identity', got {kind!r}")
    return dense_integrators.Binding(
        q.precision, q.root @ q.root.T, q.inverse_root.T, q.root, omega, sigma
    )
