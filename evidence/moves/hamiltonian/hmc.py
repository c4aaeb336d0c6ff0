r"""Hamiltonian Monte Carlo with a constant mass matrix (Duane et al. 1987; Neal 2011).

.. math:: H(x, p) = -\log p_\beta(x) + \tfrac12 p^T M^{-1} p

by leapfrog steps: half a kick, (drift, kick) …, drift, half a kick. In coordinates of unit mass
with base N(0, diag γ) the potential is ``½ a²/γ - β Σ h``. ``coordinates`` chooses M; with
``"expected"``, the posterior's curvature averaged over the base, this is Riemannian HMC with
a metric that is constant in x, at O(N²) per step (Girolami and Calderhead 2011).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...numerics.jit import jit, reduction, vector_loop
from ...numerics.normal import standard_normal
from ...paths.base import TemperedPath
from ...paths.coordinates import Frame
from ..base import Array, Beta, GradientMove, Info, Rng, Slope, metropolis, per_row, quarter_turn


@vector_loop
def kick(p, size, beta, slope, a, stiffness):
    """p + size ∇log p_β of one coordinate, where the base pulls with stiffness 1/γ."""
    return p + size * (beta * slope - a * stiffness)


@jit
def _kicks(p, a, slope, beta, stiffness, eps, factor):
    for m in range(a.shape[0]):
        size, b = factor * eps[m], beta[m]
        for i in range(a.shape[1]):
            p[m, i] = kick(p[m, i], size, b, slope[m, i], a[m, i], stiffness[i])


@jit
def _drifts(a, p, eps, out):
    """out = a + ε p."""
    for m in range(a.shape[0]):
        for i in range(a.shape[1]):
            out[m, i] = a[m, i] + eps[m] * p[m, i]


@reduction
def log_density(a, tilt, p, beta, gamma, out):
    """-H of every row."""
    for m in range(a.shape[0]):
        total = 0.0
        for i in range(a.shape[1]):
            total += a[m, i] * a[m, i] / gamma[i] + p[m, i] * p[m, i]
        out[m] = beta[m] * tilt[m] - 0.5 * total


@dataclass
class HMC(GradientMove):
    """Hamiltonian Monte Carlo.

    Parameters
    ----------
    step_size : float
        ε of a leapfrog step, in units of the mass.
    coordinates : {"identity", "diagonal", "base", "prior", "expected"}, optional
        Mass matrix, see :mod:`evidence.paths.coordinates`; default ``"base"``.
    n_leapfrog : int, optional
        Leapfrog steps of a trajectory; by default about π/2 in total.
    jitter, length_jitter : float
        Every row's ε is multiplied by 1 ± jitter, the batch's number of steps by
        1 ± length_jitter, drawn afresh for each trajectory: no resonance with the target's
        periods.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    step_size: float = 0.5
    target: float | None = 0.75
    name: str = "hmc"
    n_leapfrog: int | None = None
    jitter: float = 0.1
    length_jitter: float = 0.0

    flow = staticmethod(_drifts)
    """What moves a between two kicks, and p where that is exact."""

    def stiffness(self, frame: Frame) -> Array:
        """Of the base, as far as kicks have to know it."""
        return 1.0 / frame.gamma

    def steps(self, rng: Rng, m: int) -> tuple[Array, int]:
        """Step size per row and number of steps of this trajectory."""
        eps = self.step_size * (1.0 + self.jitter * rng.uniform(-1.0, 1.0, m))
        length = float(self.n_leapfrog or quarter_turn(self.step_size))
        if self.length_jitter > 0.0:
            length *= 1.0 + self.length_jitter * rng.uniform(-1.0, 1.0)
        return eps, max(1, round(length))

    def integrate(
        self, path: TemperedPath, beta: Array, state: Slope, p: Array, eps: Array, n_steps: int
    ) -> tuple[Slope, Array]:
        """End of the trajectory from (state, p): the map without accept step."""
        frame, p = self.frame(path), p.copy()
        stiffness = self.stiffness(frame)
        _kicks(p, state.a, state.slope, beta, stiffness, eps, 0.5)
        for step in range(n_steps):
            a = np.empty_like(p)
            self.flow(state.a, p, eps, a)
            state = self.evaluate(path, frame, a)
            last = step == n_steps - 1
            _kicks(p, a, state.slope, beta, stiffness, eps, 0.5 if last else 1.0)
        return state, p

    def step(self, rng: Rng, path: TemperedPath, beta: Beta, state: Slope) -> tuple[Slope, Info]:
        m = len(state.a)
        gamma, beta = self.frame(path).gamma, per_row(beta, m)
        eps, n_steps = self.steps(rng, m)
        p = standard_normal(rng, state.a.shape)
        new, p_new = self.integrate(path, beta, state, p, eps, n_steps)
        before, after = np.empty((2, m))
        log_density(state.a, state.tilt, p, beta, gamma, before)
        log_density(new.a, new.tilt, p_new, beta, gamma, after)
        with np.errstate(invalid="ignore"):  # from one state of density zero to another
            log_ratio = after - before
        return metropolis(rng, log_ratio, state, new, n_steps)
