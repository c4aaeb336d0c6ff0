r"""Manifold MALA with a position-dependent metric (Girolami and Calderhead 2011).

.. math:: x' \sim N\big(x + \tfrac{\varepsilon^2}2 G^{-1}(\nabla\log p_\beta - c\,h),\
          \varepsilon^2 G^{-1}\big)

with h of :mod:`.riemann`. For this metric all three drift terms of the paper, and the drift of
Xifara et al. (2014), are c = 2; the simplified sampler has c = 0. The accept step is exact
either way. Two factorisations per transition; where the metric is constant in x,
``Langevin(coordinates="expected")`` needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...numerics.jit import jit
from ...numerics.lapack import scratch
from ...paths.gp import Path
from .metric import (
    FORCE,
    NO_METRIC,
    OK,
    ROOT,
    TRACE,
    D,
    Proposal,
    RiemannMove,
    dot,
    draw_momentum,
    factorise,
    half_trace,
    local,
    prior_solve,
    prior_times,
    solve,
)


@jit
def _look(t, work, beta, c, x, drift, s):
    """Drift at x; return (log p_β, ½ log|B|, info). The factor stays in the workspace."""
    r, force, tmp = work.vectors[0], work.vectors[1], work.vectors[2]
    point = work.points[0]
    prior_solve(t, x, r, s)
    value = local(t, beta, x, r, work.out, point)
    info, half = factorise(t, 0.0, point, work, s)
    if info != 0:
        return value, half, info
    half_trace(point, work)
    for i in range(x.size):
        force[i] = point[FORCE, i] - c * point[TRACE, i]
    solve(t, point[ROOT], work, force, drift, tmp, s)
    return value, half, 0


@jit
def transition(t, work, beta, eps, c, x, z):
    """Overwrite x by a proposal; return (log ratio, code, factorisations)."""
    s = scratch()
    n = x.size
    point = work.points[0]
    p, noise, tmp, drift, u, Ku = (
        work.vectors[3],
        work.vectors[4],
        work.vectors[5],
        work.vectors[6],
        work.vectors[7],
        work.vectors[8],
    )
    value, half, info = _look(t, work, beta, c, x, drift, s)
    if info != 0:
        return np.nan, NO_METRIC, 1
    draw_momentum(t, point[ROOT], z, p, s)
    solve(t, point[ROOT], work, p, noise, tmp, s)
    ratio = -value - half + 0.5 * dot(p, noise)
    for i in range(n):
        u[i] = x[i]
        x[i] += 0.5 * eps * eps * drift[i] + eps * noise[i]
    value, half, info = _look(t, work, beta, c, x, drift, s)
    if info != 0:
        return np.nan, NO_METRIC, 2
    for i in range(n):
        u[i] = (u[i] - x[i] - 0.5 * eps * eps * drift[i]) / eps
    prior_times(t, u, Ku, s)
    quadratic = dot(u, Ku)
    for i in range(n):
        quadratic += point[D, i] * u[i] * u[i]
    return ratio + value + half - 0.5 * quadratic, OK, 2


@jit
def transitions(t, c, work, b, first, stride):
    """Rows first, first + stride, … of a batch."""
    for i in range(first, b.eps.size, stride):
        b.log_ratio[i], b.code[i], b.count[i] = transition(
            t, work, b.beta[i], b.eps[i], c, b.x[i], b.z[i]
        )


@dataclass
class MMALA(RiemannMove):
    """Manifold MALA.

    Parameters
    ----------
    step_size : float
        ε.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    step_size: float = 0.5
    target: float | None = 0.55
    name: str = "mmala"

    _trace: ClassVar[float] = 2.0

    def proposal(self, path: Path) -> Proposal:
        t = self.density(path)
        return lambda *rows: transitions(t, self._trace, *rows)


@dataclass
class SimplifiedMMALA(MMALA):
    """Manifold MALA without the derivative of the metric in the drift.

    Parameters
    ----------
    step_size, target, name
        As for :class:`MMALA`.
    """

    name: str = "simplified-mmala"

    _trace: ClassVar[float] = 0.0
