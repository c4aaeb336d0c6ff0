r"""Hamiltonian Monte Carlo with an exact Gaussian part (Shahbaba et al. 2014).

In coordinates where the base is N(0, I) the Hamiltonian is

.. math:: H(a, p) = \tfrac12 (|a|^2 + |p|^2) - \beta \sum h

and its first part turns (a, p) by an angle exactly. Steps are: half a kick by β Σ h, a
rotation by ε, half a kick. Where the base resembles the posterior the kicks are weak, and a
quarter turn in a few steps gives nearly independent draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...numerics.jit import jit
from ...paths.coordinates import Frame
from ..base import Array, Rng
from .hmc import HMC


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
    """Gaussian-splitting HMC, always in the base's own coordinates.

    Parameters
    ----------
    step_size : float
        The angle of a step, at most a quarter turn.
    n_leapfrog, jitter, length_jitter, target, name
        As for :class:`.HMC`.
    """

    step_size: float = np.pi / 6.0
    coordinates: str | None = field(default="base", init=False, repr=False)
    name: str = "splitting"
    longest: ClassVar[float] = 0.5 * np.pi
    flow = staticmethod(_rotate)

    def stiffness(self, frame: Frame) -> Array:
        return np.zeros_like(frame.gamma)

    def steps(self, rng: Rng, m: int) -> tuple[Array, int]:
        eps, n_steps = super().steps(rng, m)
        return np.minimum(eps, self.longest), n_steps
