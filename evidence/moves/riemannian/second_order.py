r"""The second-order marginal sampler (Titsias and Papaspiliopoulos 2018, supplement).

A second-order expansion of log p_β around x, and u ~ N(x, δ/2) integrated out, propose

.. math:: x' \sim N\big(x + A\nabla\log p_\beta,\ A + \tfrac2\delta A^2\big),\qquad
          A = \big(G(x) + \tfrac2\delta I\big)^{-1}

with G of :mod:`.separable.system`. (The supplement's mean (2/δ)A(u + δ/2(∇f - Hx)) is
x + A∇log p at u = x; it has a minus in front of δ/2 by mistake.) The covariance is A (G + 4/δ) A,
so its inverse and determinant take two factorisations per point, four per transition. A quadratic
log-likelihood is met exactly: every proposal is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...numerics.jit import jit
from ...paths.base import TemperedPath
from ..base import Array, Rng
from . import NO_METRIC, OK
from .base import RiemannMove
from .separable import system
from .separable.system import FORCE, D


@jit
def _shifted(point, shift, root):
    for i in range(root.size):
        root[i] = np.sqrt(point[D, i] + shift)


@jit
def _log_proposal(t, shift, u):
    """log N(u; 0, A (G + 2 shift) A) + constant, for the first point of the system.

    Returns (value, info); the factor left behind is that of A.
    """
    e, w, root, point = t.vectors[0], t.vectors[1], t.vectors[2], t.points[0]
    system.prior_times(t, u, e)
    for i in range(u.size):
        e[i] += (point[D, i] + shift) * u[i]
    info, wide = system.factorise(t, 2.0 * shift, point)
    if info != 0:
        return np.nan, info
    _shifted(point, 2.0 * shift, root)
    system.solve(t, root, e, w)
    info, half = system.factorise(t, shift, point)
    return 2.0 * half - wide - 0.5 * system.dot(e, w), info


@jit
def _look(t, beta, shift, x, root, drift):
    """√(d + shift) and the drift at x; returns log p_β and info. The factor is that of A."""
    r, point = t.vectors[4], t.points[0]
    system.prior_solve(t, x, r)
    value = system.local(t, beta, x, r, point)
    info, _ = system.factorise(t, shift, point)
    if info == 0:
        _shifted(point, shift, root)
        system.solve(t, root, point[FORCE], drift)
    return value, info


@jit
def transition(t, beta, delta, parameters, x, z):
    """Overwrite x by a proposal; return (log ratio, code, factorisations)."""
    V, shift = t.vectors, 2.0 / delta
    p, root, drift, u = V[5], V[6], V[7], V[8]
    value, info = _look(t, beta, shift, x, root, drift)
    if info != 0:
        return np.nan, NO_METRIC, 1
    system.draw_momentum(t, root, z, p)
    for i in range(x.size):
        p[i] += np.sqrt(shift) * z[2, i]
    system.solve(t, root, p, u)
    forward, info = _log_proposal(t, shift, u)
    if info != 0:
        return np.nan, NO_METRIC, 3
    ratio = -value - forward
    for i in range(x.size):
        x[i] += drift[i] + u[i]
        u[i] += drift[i]
    value, info = _look(t, beta, shift, x, root, drift)
    if info != 0:
        return np.nan, NO_METRIC, 4
    for i in range(x.size):
        u[i] = -u[i] - drift[i]
    backward, info = _log_proposal(t, shift, u)
    return ratio + value + backward, OK if info == 0 else NO_METRIC, 6


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
    normals: ClassVar[int] = 3
    transitions = staticmethod(system.for_rows(transition))

    def step_sizes(self, rng: Rng, path: TemperedPath, m: int) -> Array:
        return np.full(m, self.step_size * float(path.reference.var.mean()))
