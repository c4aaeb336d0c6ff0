r"""aGrad-z and aGrad-u: auxiliary gradient samplers (Titsias and Papaspiliopoulos 2018).

They make the proposal of :mod:`.mgrad` in two stages and keep the auxiliary variable in the
acceptance ratio. In coordinates with base N(0, diag γ), A = γδ/(δ + 2γ), g the gradient of
f = β Σ h:

.. math:: u \sim N(a, \tfrac\delta2),\qquad z = u + \tfrac\delta2 g,\qquad
          a' \sim N(\tfrac2\delta A z,\ A).

With z as auxiliary variable the log ratio is f' - f + e(z, a') - e(z, a), an O(N) sum,

.. math:: e(z, a) = (z - a - \tfrac\delta4 g)^T g,

and with u it is f' - f + j(a, a', u) - j(a', a, u),

.. math:: j(a, a', u) = \big(a - \tfrac2\delta A(u + \tfrac\delta4 g')\big)^T g'.

The marginal sampler is better per step (Peskun); these are what joint moves of latents and
hyperparameters are built on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...numerics.jit import jit, reduction
from ...numerics.normal import standard_normal
from ...paths.coordinates import Frame
from ..base import Array, Proposed, Rng, Slope
from .mgrad import MGrad, coefficients


@jit
def _propose(a, slope, beta, pull, spread, delta, u, out):
    """``u`` and ``out`` enter as standard normals; they leave as u and the proposal."""
    away = np.sqrt(0.5 * delta)
    for m in range(a.shape[0]):
        for i in range(a.shape[1]):
            u[m, i] = a[m, i] + away * u[m, i]
            z = u[m, i] + 0.5 * delta * beta[m] * slope[m, i]
            out[m, i] = pull[i] * z + spread[i] * out[m, i]


@reduction
def _log_ratio_z(a, tilt, slope, a1, tilt1, slope1, beta, pull, delta, u, out):
    for m in range(a.shape[0]):
        b, total = beta[m], 0.0
        for i in range(a.shape[1]):
            g, g1 = b * slope[m, i], b * slope1[m, i]
            z = u[m, i] + 0.5 * delta * g
            total += (z - a1[m, i] - 0.25 * delta * g1) * g1
            total -= (z - a[m, i] - 0.25 * delta * g) * g
        out[m] = b * (tilt1[m] - tilt[m]) + total


@reduction
def _log_ratio_u(a, tilt, slope, a1, tilt1, slope1, beta, pull, delta, u, out):
    for m in range(a.shape[0]):
        b, total = beta[m], 0.0
        for i in range(a.shape[1]):
            g, g1 = b * slope[m, i], b * slope1[m, i]
            total += (a[m, i] - pull[i] * (u[m, i] + 0.25 * delta * g1)) * g1
            total -= (a1[m, i] - pull[i] * (u[m, i] + 0.25 * delta * g)) * g
        out[m] = b * (tilt1[m] - tilt[m]) + total


@dataclass
class AGradZ(MGrad):
    """Auxiliary gradient sampler in z.

    Parameters
    ----------
    step_size, coordinates, target, name
        As for :class:`.MGrad`.
    """

    target: float | None = 0.5
    name: str = "agrad-z"
    stretches: ClassVar[bool] = False

    log_ratio = staticmethod(_log_ratio_z)

    def propose(self, rng: Rng, frame: Frame, beta: Array, state: Slope) -> Proposed:
        delta = self.delta(frame)
        pull, push, _, _ = coefficients(frame.gamma, delta)
        u, a = standard_normal(rng, (2, *state.a.shape))
        _propose(state.a, state.slope, beta, pull, np.sqrt(push), delta, u, a)
        return a, (pull, delta, u)


@dataclass
class AGradU(AGradZ):
    """Auxiliary gradient sampler in u.

    Parameters
    ----------
    step_size, coordinates, target, name
        As for :class:`.MGrad`.
    """

    name: str = "agrad-u"

    log_ratio = staticmethod(_log_ratio_u)
