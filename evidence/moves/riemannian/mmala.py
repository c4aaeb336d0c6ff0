r"""Manifold MALA with a position-dependent metric (Girolami and Calderhead 2011).

.. math:: x' \sim N\big(x + \tfrac{\varepsilon^2}2 G^{-1}(\nabla\log p_\beta - c\,h),\
          \varepsilon^2 G^{-1}\big)

with h of :mod:`.separable.system`. For this metric all three drift terms of the paper, and the
drift of Xifara et al. (2014), are c = 2; the simplified sampler has c = 0. The accept step is
exact either way. Two factorisations per transition; where the metric is constant in x,
``Langevin(coordinates="expected")`` needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...numerics.jit import jit
from ...paths.base import TemperedPath
from . import NO_METRIC, OK
from .base import RiemannMove
from .separable import system
from .separable.system import FORCE, ROOT, TRACE, D


@jit
def _look(t, beta, c, x, drift):
    """Drift at x; return (log p_β, ½ log|B|, info). The factor stays in the system."""
    r, force, point = t.vectors[0], t.vectors[1], t.points[0]
    system.prior_solve(t, x, r)
    value, half, info = system.metric_at(t, beta, x, r, point)
    if info == 0:
        for i in range(x.size):
            force[i] = point[FORCE, i] - c * point[TRACE, i]
        system.solve(t, point[ROOT], force, drift)
    return value, half, info


@jit
def transition(t, beta, eps, c, x, z):
    """Overwrite x by a proposal; return (log ratio, code, factorisations)."""
    V, point = t.vectors, t.points[0]
    p, noise, drift, u, Ku = V[3], V[4], V[6], V[7], V[8]
    value, half, info = _look(t, beta, c, x, drift)
    if info != 0:
        return np.nan, NO_METRIC, 1
    system.draw_momentum(t, point[ROOT], z, p)
    system.solve(t, point[ROOT], p, noise)
    ratio = -value - half + 0.5 * system.dot(p, noise)
    for i in range(x.size):
        u[i] = x[i]
        x[i] += 0.5 * eps * eps * drift[i] + eps * noise[i]
    value, half, info = _look(t, beta, c, x, drift)
    if info != 0:
        return np.nan, NO_METRIC, 2
    for i in range(x.size):
        u[i] = (u[i] - x[i] - 0.5 * eps * eps * drift[i]) / eps
    system.prior_times(t, u, Ku)
    quadratic = system.dot(u, Ku)
    for i in range(x.size):
        quadratic += point[D, i] * u[i] * u[i]
    return ratio + value + half - 0.5 * quadratic, OK, 2


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
    transitions = staticmethod(system.for_rows(transition))
    trace: ClassVar[float] = 2.0
    """c of the drift."""

    def parameters(self, path: TemperedPath) -> float:
        return self.trace


@dataclass
class SimplifiedMMALA(MMALA):
    """Manifold MALA without the derivative of the metric in the drift.

    Parameters
    ----------
    step_size, target, name
        As for :class:`MMALA`.
    """

    name: str = "simplified-mmala"
    trace: ClassVar[float] = 0.0
