r"""Metropolis-adjusted Langevin with a constant preconditioner M⁻¹.

.. math:: x' \sim N\big(x + \tfrac\delta2 M^{-1}\nabla\log p_\beta(x),\ \delta M^{-1}\big)

In coordinates of unit mass, with base N(0, diag γ): a' ~ N(a + δ/2 (g - a/γ), δ). The choice of
coordinates names the sampler:

- ``"identity"``: MALA;
- ``"prior"``: pMALA with Σ = K (Titsias and Papaspiliopoulos 2018); ``"base"`` replaces the
  prior by the reference;
- ``"expected"``: manifold MALA with the averaged metric, constant in x and therefore O(N²)
  (Girolami and Calderhead 2011). :mod:`.mmala` has the position-dependent one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...numerics.jit import jit, reduction
from ...numerics.normal import standard_normal
from ...paths.coordinates import Frame
from ..base import Array, GradientMove, Proposed, Rng, Slope


@jit
def _propose(a, slope, beta, gamma, delta, out):
    """``out`` enters holding standard normals and leaves holding the proposal."""
    spread = np.sqrt(delta)
    for m in range(a.shape[0]):
        for i in range(a.shape[1]):
            force = beta[m] * slope[m, i] - a[m, i] / gamma[i]
            out[m, i] = a[m, i] + 0.5 * delta * force + spread * out[m, i]


@reduction
def _log_ratio(a, tilt, slope, a1, tilt1, slope1, beta, gamma, delta, out):
    for m in range(a.shape[0]):
        total, b = 0.0, beta[m]
        for i in range(a.shape[1]):
            x, y = a[m, i], a1[m, i]
            there = y - x - 0.5 * delta * (b * slope[m, i] - x / gamma[i])
            back = x - y - 0.5 * delta * (b * slope1[m, i] - y / gamma[i])
            total += (x * x - y * y) / gamma[i] + (there * there - back * back) / delta
        out[m] = b * (tilt1[m] - tilt[m]) + 0.5 * total


@dataclass
class Langevin(GradientMove):
    """Metropolis-adjusted Langevin proposals.

    Parameters
    ----------
    step_size : float
        δ.
    coordinates : {"identity", "diagonal", "base", "prior", "expected"}, optional
        The preconditioner, see :mod:`evidence.paths.coordinates`; default ``"base"``.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    step_size: float = 0.1
    target: float | None = 0.55
    name: str = "mala"

    log_ratio = staticmethod(_log_ratio)

    def propose(self, rng: Rng, frame: Frame, beta: Array, state: Slope) -> Proposed:
        a = standard_normal(rng, state.a.shape)
        _propose(state.a, state.slope, beta, frame.gamma, self.step_size, a)
        return a, (frame.gamma, self.step_size)


def pmala(step_size: float = 0.01) -> Langevin:
    """MALA preconditioned by the prior covariance: :class:`Langevin` in other words.

    >>> pmala(0.02).coordinates
    'prior'
    """
    return Langevin(step_size, coordinates="prior", name="pmala")
