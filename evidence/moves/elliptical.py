r"""Elliptical slice sampling (Murray, Adams and MacKay 2010) with the reference as base.

A draw v ~ N(0, C) spans an ellipse through the state,

.. math:: x(\theta) = m + (x - m)\cos\theta + v\sin\theta,

and θ is drawn uniformly from the part where β Σ h exceeds a random level, by shrinking a
bracket around θ = 0. Nothing to tune and nothing rejected. The ellipse is made in latent
space, so one N × N product serves the whole step and each further evaluation costs O(N).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._jit import jit
from ..path import Path
from .base import Info, Latent, LatentMove, per_row

Array = NDArray[np.float64]

_MAX_SHRINKS = 200  # the bracket is then 1e-40 wide: only rounding can get there


@jit
def _on_ellipse(mean, x, v, theta, rows, out):
    """Points at the angles theta of some rows."""
    for k in range(rows.size):
        m = rows[k]
        c, s = np.cos(theta[m]), np.sin(theta[m])
        for i in range(mean.size):
            out[k, i] = mean[i] + c * (x[m, i] - mean[i]) + s * v[m, i]


@dataclass
class EllipticalSlice(LatentMove):
    """Elliptical slice sampler; nothing to tune.

    Parameters
    ----------
    step_size, target
        Without effect.
    name : str
        What results call the move.
    """

    name: str = "elliptical"

    def step(
        self, rng: np.random.Generator, path: Path, beta: float | Array, state: Latent
    ) -> tuple[Latent, Info]:
        m = len(state.x)
        beta = per_row(beta, m)
        v = self.draw(rng, path, m)
        with np.errstate(invalid="ignore"):  # a state of density zero at β = 0
            level = beta * state.tilt - rng.standard_exponential(m)
        high = rng.uniform(0.0, 2.0 * np.pi, m)
        low, theta = high - 2.0 * np.pi, high.copy()
        x, tilt = state.x.copy(), state.tilt.copy()
        active, evaluations = np.arange(m), 0
        for _ in range(_MAX_SHRINKS):
            candidate = np.empty((active.size, path.n))
            _on_ellipse(path.mean, state.x, v, theta, active, candidate)
            value = path.tilt(candidate)
            evaluations += active.size
            with np.errstate(invalid="ignore"):
                inside = beta[active] * value > level[active]
            x[active[inside]], tilt[active[inside]] = candidate[inside], value[inside]
            active = active[~inside]
            if not active.size:
                break
            negative = theta[active] < 0.0
            low[active[negative]] = theta[active[negative]]
            high[active[~negative]] = theta[active[~negative]]
            theta[active] = rng.uniform(low[active], high[active])
        acceptance = np.ones(m)
        acceptance[active] = 0.0
        return Latent(x, tilt), Info(acceptance, int(active.size), evaluations)
