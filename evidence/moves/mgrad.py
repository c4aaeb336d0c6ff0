r"""mGrad: the marginal gradient sampler (Titsias and Papaspiliopoulos 2018).

The target is N(x; m, C) exp f(x) with C = U diag(γ) Uᵀ; here the Gaussian is the reference
(the prior, or q) and f = β Σ h. An auxiliary u ~ N(x, ½ U diag(δ) Uᵀ) turns a first-order
expansion of f into a Gaussian proposal that knows C; integrating u out gives, in the eigenbasis
a = Uᵀ(x - m), g = β Uᵀ∇Σh, for each coordinate

.. math:: a' \sim N\big(\lambda_1(\tfrac2\delta a + g),\ \lambda_2\big),\quad
          \lambda_1 = \frac{\gamma\delta}{\delta + 2\gamma},\quad
          \lambda_2 = \lambda_1\frac{\delta + 4\gamma}{\delta + 2\gamma},

accepted with log ratio :math:`f' - f + k(a, a', g') - k(a', a, g)`,

.. math:: k(a, a', g') = \big(a - \lambda_1(\tfrac2\delta a' + \tfrac12 g')\big)^T
          \frac{\delta + 2\gamma}{\delta + 4\gamma}\, g'.

No quadratic form of the prior appears. Two N × N products per step serve the whole batch.

δ is the same for all coordinates (the paper's choice: it suits a prior, whose wide directions
the data constrain), or proportional to γ (*preconditioned*: it suits a base that already
resembles the posterior, where every direction should move alike).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import jit
from ..path import Path
from .base import Info

Array = NDArray[np.float64]


class MGradState(NamedTuple):
    """Coordinates, tilt and tilt gradient in the eigenbasis of the reference."""

    a: Array
    tilt: Array
    slope: Array


class Coefficients(NamedTuple):
    """2λ₁/δ, λ₁, √λ₂ and (δ + 2γ)/(δ + 4γ) for every coordinate."""

    pull: Array
    push: Array
    spread: Array
    weigh: Array


def coefficients(gamma: Array, delta: Array | float) -> Coefficients:
    """What the proposal and its density are made of."""
    push = gamma * delta / (delta + 2.0 * gamma)
    weigh = (delta + 2.0 * gamma) / (delta + 4.0 * gamma)
    return Coefficients(2.0 * gamma / (delta + 2.0 * gamma), push, np.sqrt(push / weigh), weigh)


@jit
def _propose(a, slope, beta, pull, push, spread, out):
    """``out`` enters holding standard normals and leaves holding the proposal."""
    for m in range(a.shape[0]):
        for i in range(a.shape[1]):
            mean = pull[i] * a[m, i] + push[i] * beta[m] * slope[m, i]
            out[m, i] = mean + spread[i] * out[m, i]


@jit
def _log_ratio(a, tilt, slope, a1, tilt1, slope1, beta, pull, push, weigh, out):
    for m in range(a.shape[0]):
        forward, backward = 0.0, 0.0
        b = beta[m]
        for i in range(a.shape[1]):
            g, g1 = b * slope[m, i], b * slope1[m, i]
            forward += (a[m, i] - pull[i] * a1[m, i] - 0.5 * push[i] * g1) * weigh[i] * g1
            backward += (a1[m, i] - pull[i] * a[m, i] - 0.5 * push[i] * g) * weigh[i] * g
        out[m] = b * (tilt1[m] - tilt[m]) + forward - backward


@jit
def _select(accepted, a, tilt, slope, a1, tilt1, slope1):
    """Overwrite the proposal by the current state wherever it was rejected."""
    for m in range(a.shape[0]):
        if not accepted[m]:
            tilt1[m] = tilt[m]
            for i in range(a.shape[1]):
                a1[m, i] = a[m, i]
                slope1[m, i] = slope[m, i]


@dataclass
class MGrad:
    """Marginal gradient sampler with the reference as Gaussian base.

    Parameters
    ----------
    step_size : float
        δ in units of the base covariance: of each eigenvalue when preconditioned, of their
        mean otherwise. Drivers adapt it to ``target`` acceptance.
    precondition : bool, optional
        Default: True unless the reference is the prior.
    """

    step_size: float = 1.0
    precondition: bool | None = None
    target: float = 0.55
    name: str = "mgrad"

    def init(self, path: Path, x: Array) -> MGradState:
        """Cache coordinates, tilt and slope of the batch ``x``."""
        return self._state(path, (x - path.mean) @ path.U)

    def init_reference(self, rng: np.random.Generator, path: Path, m: int) -> MGradState:
        """``m`` exact draws from the reference."""
        return self._state(path, rng.standard_normal((m, path.n)) * path.sqrt_gamma)

    def _state(self, path: Path, a: Array) -> MGradState:
        tilt, gradient = path.tilt_and_gradient(path.to_latent(a))
        return MGradState(a, tilt, gradient @ path.U)

    def latent(self, path: Path, state: MGradState) -> Array:
        return path.to_latent(state.a)

    def _delta(self, path: Path) -> Array | float:
        precondition = self.precondition
        if precondition is None:
            precondition = path.reference.name != "prior"
        return self.step_size * (path.gamma if precondition else path.gamma.mean())

    def step(
        self, rng: np.random.Generator, path: Path, beta: float | Array, state: MGradState
    ) -> tuple[MGradState, Info]:
        m, n = state.a.shape
        beta = np.array(np.broadcast_to(beta, (m,)), dtype=float)
        pull, push, spread, weigh = coefficients(path.gamma, self._delta(path))
        a = rng.standard_normal((m, n))
        _propose(state.a, state.slope, beta, pull, push, spread, a)
        new = self._state(path, a)
        log_ratio = np.empty(m)
        _log_ratio(*state, *new, beta, pull, push, weigh, log_ratio)
        failed = ~np.isfinite(log_ratio)
        log_ratio[failed] = -np.inf
        acceptance = np.exp(np.minimum(log_ratio, 0.0))
        accepted = rng.random(m) < acceptance
        _select(accepted, *state, *new)
        return new, Info(acceptance, int(failed.sum()))
