r"""The second-order marginal sampler (Titsias and Papaspiliopoulos 2018, supplement).

A second-order expansion of log p_β around x, and u ~ N(x, δ/2) integrated out, propose

.. math:: x' \sim N\big(x + A\nabla\log p_\beta,\ A + \tfrac2\delta A^2\big),\qquad
          A = \big(G(x) + \tfrac2\delta I\big)^{-1}

with G of :mod:`.riemann`. (The supplement's mean (2/δ)A(u + δ/2(∇f - Hx)) is x + A∇log p at
u = x; it has a minus in front of δ/2 by mistake.) The covariance is A (G + 4/δ) A, so its
inverse and determinant take two factorisations per point, four per transition. A quadratic
log-likelihood is met exactly: every proposal is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...numerics.jit import jit
from ...numerics.lapack import scratch
from ...numerics.normal import standard_normal
from ...paths.gp import Path
from ..riemannian.metric import (
    FORCE,
    NO_METRIC,
    OK,
    Array,
    D,
    Proposal,
    RiemannMove,
    dot,
    draw_momentum,
    factorise,
    local,
    prior_solve,
    prior_times,
    solve,
)


@jit
def _shifted(point, shift, root):
    for i in range(root.size):
        root[i] = np.sqrt(point[D, i] + shift)


@jit
def _log_proposal(t, work, shift, u, s):
    """log N(u; 0, A (G + 2 shift) A) + constant, for the point in the workspace.

    Returns (value, info); the factor left behind is that of A.
    """
    n = u.size
    e, w, tmp, root = work.vectors[0], work.vectors[1], work.vectors[2], work.vectors[3]
    point = work.points[0]
    prior_times(t, u, e, s)
    for i in range(n):
        e[i] += (point[D, i] + shift) * u[i]
    info, wide = factorise(t, 2.0 * shift, point, work, s)
    if info != 0:
        return np.nan, info
    _shifted(point, 2.0 * shift, root)
    solve(t, root, work, e, w, tmp, s)
    info, half = factorise(t, shift, point, work, s)
    return 2.0 * half - wide - 0.5 * dot(e, w), info


@jit
def transition(t, work, beta, delta, x, z):
    """Overwrite x by a proposal; return (log ratio, code, factorisations)."""
    s = scratch()
    n = x.size
    point, shift = work.points[0], 2.0 / delta
    r, p, root, drift, u, tmp = (
        work.vectors[4],
        work.vectors[5],
        work.vectors[6],
        work.vectors[7],
        work.vectors[8],
        work.vectors[9],
    )
    prior_solve(t, x, r, s)
    value = local(t, beta, x, r, work.out, point)
    info, _ = factorise(t, shift, point, work, s)
    if info != 0:
        return np.nan, NO_METRIC, 1
    _shifted(point, shift, root)
    draw_momentum(t, root, z, p, s)
    for i in range(n):
        p[i] += np.sqrt(shift) * z[2, i]
    solve(t, root, work, p, u, tmp, s)
    solve(t, root, work, point[FORCE], drift, tmp, s)
    forward, info = _log_proposal(t, work, shift, u, s)
    if info != 0:
        return np.nan, NO_METRIC, 3
    ratio = -value - forward
    for i in range(n):
        x[i] += drift[i] + u[i]
        u[i] += drift[i]
    prior_solve(t, x, r, s)
    value = local(t, beta, x, r, work.out, point)
    info, _ = factorise(t, shift, point, work, s)
    if info != 0:
        return np.nan, NO_METRIC, 4
    _shifted(point, shift, root)
    solve(t, root, work, point[FORCE], drift, tmp, s)
    for i in range(n):
        u[i] = -u[i] - drift[i]
    backward, info = _log_proposal(t, work, shift, u, s)
    return ratio + value + backward, OK if info == 0 else NO_METRIC, 6


@jit
def transitions(t, work, b, first, stride):
    """Rows first, first + stride, … of a batch."""
    for i in range(first, b.eps.size, stride):
        b.log_ratio[i], b.code[i], b.count[i] = transition(
            t, work, b.beta[i], b.eps[i], b.x[i], b.z[i]
        )


@dataclass
class SecondOrder(RiemannMove):
    """Second-order marginal sampler.

    Parameters
    ----------
    step_size : float
        δ in units of the base's mean variance.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    step_size: float = 1.0
    target: float | None = 0.6
    name: str = "second-order"

    def step_sizes(self, rng: np.random.Generator, path: Path, m: int) -> Array:
        return np.full(m, self.step_size * float(path.reference.var.mean()))

    def noise(self, rng: np.random.Generator, m: int, n: int) -> Array:
        return standard_normal(rng, (m, 3, n))

    def proposal(self, path: Path) -> Proposal:
        t = self.density(path)
        return lambda *rows: transitions(t, *rows)
