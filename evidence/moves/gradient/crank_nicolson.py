r"""pCN: the preconditioned Crank–Nicolson proposal (Neal 1998; Cotter et al. 2013).

.. math:: x' = m + \rho (x - m) + \sqrt{1 - \rho^2}\, v,\qquad v \sim N(0, C),\qquad
          \rho = \frac{2}{2 + \delta}

leaves the base N(m, C) invariant, so the log ratio is β Σ (h' - h). One N × N product per
step. Its gradient version pCNL is :func:`.mgrad.pcnl`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...numerics.jit import jit
from ...paths.base import TemperedPath
from ..base import Beta, Info, Latent, LatentMove, Rng, metropolis


@jit
def _mix(mean, x, rho, out):
    """``out`` enters as a draw of the base minus its mean and leaves as the proposal."""
    spread = np.sqrt(1.0 - rho * rho)
    for m in range(x.shape[0]):
        for i in range(mean.size):
            out[m, i] = mean[i] + rho * (x[m, i] - mean[i]) + spread * out[m, i]


@dataclass
class PCN(LatentMove):
    """Preconditioned Crank–Nicolson.

    Parameters
    ----------
    step_size : float
        δ > 0.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    step_size: float = 0.1
    target: float | None = 0.25
    name: str = "pcn"
    longest: ClassVar[float] = 8.0  # ρ = 0.2: nearly a fresh draw of the base

    def step(self, rng: Rng, path: TemperedPath, beta: Beta, state: Latent) -> tuple[Latent, Info]:
        rho = 2.0 / (2.0 + self.step_size)
        x = self.draw(rng, path, len(state.x))
        _mix(path.mean, state.x, rho, x)
        new = Latent(x, path.tilt(x))
        with np.errstate(invalid="ignore"):  # from one state of density zero to another
            log_ratio = beta * (new.tilt - state.tilt)
        return metropolis(rng, log_ratio, state, new)
