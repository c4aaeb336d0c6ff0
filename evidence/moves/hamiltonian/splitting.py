r"""Hamiltonian Monte Carlo with an exact Gaussian part (Shahbaba et al. 2014).

In coordinates where the base is N(0, I) the Hamiltonian is

.. math:: H(a, p) = \tfrac12 (|a|^2 + |p|^2) - \beta \sum h

and its first part turns (a, p) by an angle exactly. Steps are: half a kick by β Σ h, a
rotation by ε, half a kick. Where the base resembles the posterior the kicks are weak, and a
quarter turn in a few steps gives nearly independent draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...numerics.jit import jit
from ...paths.gp import Path
from ..base import Slope
from .hmc import HMC

Array = NDArray[np.float64]


@jit
def _kick(p, slope, beta, eps, factor):
    for m in range(p.shape[0]):
        for i in range(p.shape[1]):
            p[m, i] += factor * eps[m] * beta[m] * slope[m, i]


@jit
def _rotate(a, p, eps, out):
    """out = a cos ε + p sin ε; p becomes p cos ε - a sin ε."""
    for m in range(a.shape[0]):
        c, s = np.cos(eps[m]), np.sin(eps[m])
        for i in range(a.shape[1]):
            out[m, i] = c * a[m, i] + s * p[m, i]
            p[m, i] = c * p[m, i] - s * a[m, i]


@dataclass
class SplittingHMC(HMC):
    """Gaussian-splitting HMC.

    Parameters
    ----------
    step_size : float
        The angle of a step, at most a quarter turn.
    n_leapfrog, jitter, length_jitter, target, name
        As for :class:`.HMC`.
    coordinates
        Without effect: always ``"base"``.
    """

    step_size: float = np.pi / 6.0
    name: str = "splitting"
    longest: ClassVar[float] = 0.5 * np.pi

    def steps(self, rng: np.random.Generator, m: int) -> tuple[Array, int]:
        eps, n_steps = super().steps(rng, m)
        return np.minimum(eps, self.longest), n_steps

    def mass(self, path: Path) -> str:
        return "base"

    def integrate(
        self, path: Path, beta: Array, state: Slope, p: Array, eps: Array, n_steps: int
    ) -> tuple[Slope, Array]:
        """End of the trajectory from (state, p): the map without accept step."""
        frame = self.frame(path)
        p = p.copy()
        _kick(p, state.slope, beta, eps, 0.5)
        for step in range(n_steps):
            a = np.empty_like(p)
            _rotate(state.a, p, eps, a)
            state = self.evaluate(path, frame, a)
            _kick(p, state.slope, beta, eps, 0.5 if step == n_steps - 1 else 1.0)
        return state, p
