r"""Riemannian manifold HMC (Girolami and Calderhead 2011), by three integrators.

.. math:: H(x, p) = -\log p_\beta(x) + \tfrac12\log|G(x)| + \tfrac12 p^T G(x)^{-1} p

*Generalised leapfrog.* With force f = ∇log p_β - h, h = ½ tr(G⁻¹∂G), and w(x, p) = G(x)⁻¹p:

1. p½ = p + ε/2 [f(x) + ½ ∇(wᵀGw)], w = w(x, p½)      (implicit in p½)
2. x' = x + ε/2 [w(x, p½) + w(x', p½)]                (implicit in x')
3. p' = p½ + ε/2 [f(x') + ½ ∇(wᵀGw)], w = w(x', p½)

where the gradient acts on G alone; it is d' w² for G = K⁻¹ + diag(d).

*Implicit midpoint* (Brofos and Lederman 2021): :math:`z' = z + \varepsilon J \nabla
H\big(\tfrac{z + z'}{2}\big)` for z = (x, p). Every iteration needs the metric at a new point,
several times the work of the generalised leapfrog; in return the energy error is steadier where
curvature changes fast.

Every step of these two is run backwards too: a proposal whose reverse does not return to where
it came from is rejected and counted, which together with volume preservation makes the
transition exact up to the tolerances.

*Explicit* (Tao 2016; Cobb et al. 2019). Phase space is doubled, z = (x, p, x̃, p̃), and

.. math:: \tilde H = H(x, \tilde p) + H(\tilde x, p)
          + \tfrac\Omega2\big(|x - \tilde x|^2_M + |p - \tilde p|^2_{M^{-1}}\big)

is split into three flows that are known in closed form: A moves (p, x̃), B moves (p̃, x), C
turns the differences (x - x̃, p - p̃) by the angle 2Ωε. A step is A(ε/2) B(ε/2) C(ε) B(ε/2)
A(ε/2), three metrics when neighbouring A's share theirs. Distances are measured in the base's
precision M, so that one Ω suits all directions. The map preserves volume and reverses when both
momenta are flipped, but it does not keep the copies equal, so accepting with H(x, p) alone would
not be exact. Here the copies are part of the target:

.. math:: \pi(x, p)\, \exp\Big(-\tfrac{1}{2\sigma^2}\big(|x - \tilde x|^2_M
          + |p - \tilde p|^2_{M^{-1}}\big)\Big)

They are drawn afresh around (x, p) before each trajectory, and the accept step uses this
density. Its marginal in x is p_β exactly, whatever σ; a small σ keeps H(x, p) close to H̃/2, a
large one forgives the drift between the copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...numerics.normal import standard_normal
from ...paths.base import TemperedPath
from ...paths.density import DensityPath
from ..base import Array, Rng, quarter_turn
from . import End, Ends
from .base import RiemannMove
from .dense.field import DensityField, Point
from .dense.integrators import Doubled, Implicit, Integrator, Leapfrog, Midpoint, binding
from .separable import doubled, leapfrog, midpoint


@dataclass
class RiemannHMC(RiemannMove):
    """What the three share: the length of a trajectory."""

    step_size: float = 0.2
    target: float | None = 0.8
    n_leapfrog: int | None = None
    jitter: float = 0.1

    def step_sizes(self, rng: Rng, path: TemperedPath, m: int) -> Array:
        return self.step_size * (1.0 + self.jitter * rng.uniform(-1.0, 1.0, m))

    @property
    def n_steps(self) -> int:
        """Steps of a trajectory."""
        return self.n_leapfrog or quarter_turn(self.step_size)

    def launch(self, rng: Rng, field: DensityField, start: Point) -> tuple[Integrator, Array]:
        """The integrator of trajectories of a density, and momenta at their start."""
        raise NotImplementedError

    def trajectories(
        self, rng: Rng, field: DensityField, start: Point, eps: Array, ends: Ends = None
    ) -> End:
        """Of a density; ``ends`` receives the end after each step, where asked."""
        integrator, p = self.launch(rng, field, start)
        return integrator.follow(field, start, p, eps, self.n_steps, ends)

    def _dense(self, rng: Rng, path: TemperedPath, beta: Array, x: Array) -> End:
        assert isinstance(path, DensityPath)
        field = DensityField(path, beta)
        with np.errstate(all="ignore"):  # trajectories that fly off are rejected
            start = field.point(x)
            return self.trajectories(rng, field, start, self.step_sizes(rng, path, len(x)))


@dataclass
class RMHMC(RiemannHMC):
    """Riemannian HMC, implicit generalised leapfrog; one O(N³) factorisation per step and row.

    Parameters
    ----------
    step_size : float
        ε; 0.1 to 0.5 where the metric fits the posterior.
    n_leapfrog : int, optional
        Steps of a trajectory; by default about π/2 in total.
    jitter : float
        Every row's ε is multiplied by 1 ± jitter.
    tolerance, reverse_tolerance : float
        Relative tolerances of the fixed points and of the way back.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    name: str = "rmhmc"
    tolerance: float = 1e-9
    reverse_tolerance: float = 1e-6
    transitions = staticmethod(leapfrog.transitions)
    integrator: ClassVar[type[Implicit]] = Leapfrog

    @property
    def tolerances(self) -> tuple[float, float]:
        """Of the fixed points, and of the way back."""
        return self.tolerance, self.reverse_tolerance

    def parameters(self, path: TemperedPath) -> tuple[int, tuple[float, float]]:
        return self.n_steps, self.tolerances

    def launch(self, rng: Rng, field: DensityField, start: Point) -> tuple[Integrator, Array]:
        p = start.metric.momentum(standard_normal(rng, start.y.shape))
        return self.integrator(*self.tolerances), p


@dataclass
class MidpointRMHMC(RMHMC):
    """Riemannian HMC by the implicit midpoint rule.

    Parameters
    ----------
    step_size, n_leapfrog, jitter, tolerance, reverse_tolerance, target, name
        As for :class:`.RMHMC`.
    """

    name: str = "rmhmc-midpoint"
    longest: ClassVar[float] = 2.0  # a quarter turn of a unit oscillator; twice that reflects
    transitions = staticmethod(midpoint.transitions)
    integrator: ClassVar[type[Implicit]] = Midpoint


@dataclass
class ExplicitRMHMC(RiemannHMC):
    """Explicit Riemannian HMC in doubled phase space; three factorisations per step and row.

    Parameters
    ----------
    omega : float
        Strength Ω of the binding between the copies.
    sigma : float
        Spread σ of the copies, in units of the base.
    binding : {"base", "identity"}
        The matrix M that measures distances between copies: the base's precision, or none
        (models given by a density only).
    step_size, n_leapfrog, jitter, target, name
        As for :class:`.RMHMC`.
    """

    name: str = "rmhmc-explicit"
    step_size: float = 0.05
    omega: float = 10.0
    sigma: float = 0.01
    binding: str = "base"
    normals: ClassVar[int] = 6
    transitions = staticmethod(doubled.transitions)

    def parameters(self, path: TemperedPath) -> tuple[int, doubled.Binding]:
        return self.n_steps, doubled.binding(path, self.omega, self.sigma)

    def launch(self, rng: Rng, field: DensityField, start: Point) -> tuple[Integrator, Array]:
        m, d = start.y.shape
        z = standard_normal(rng, (m, 3, d))
        bind = binding(field.path, self.binding, self.omega, self.sigma)
        return Doubled(bind, z[:, 1:]), start.metric.momentum(z[:, 0])
