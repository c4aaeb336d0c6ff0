r"""pCNL for x given θ: the preconditioned Crank–Nicolson Langevin proposal.

With g = ∇f, ρ = 2/(2 + δ) and v = x - m,

.. math:: y = m + \rho v + (1-\rho) K g(x) + \sqrt{1-\rho^2}\, w,\qquad w \sim N(0, K),

and the log ratio is f(y) - f(x) + j(y, x) - j(x, y), with

.. math:: j(y, x) = \frac{1}{1+\rho}\, g(y)^T (v - \rho v')
          - \frac{1-\rho}{2(1+\rho)}\, g(y)^T K g(y),\qquad v' = y - m.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .states import Info, State, Steps, Target, probability

Array = NDArray[np.float64]


def update(
    rng: np.random.Generator, target: Target, state: State, steps: Steps
) -> tuple[State, Info]:
    """All blocks at once; Lᵀg and a white draw go through L together."""
    mean = target.field.mean
    rho = 2.0 / (2.0 + steps.delta)
    spread = np.sqrt(1.0 - rho * rho)
    slope = _slopes(state, state.gradient)
    white = (1.0 - rho) * slope + spread * rng.standard_normal(mean.shape)
    v = state.x - mean
    moved = np.stack([f.times(w) for f, w in zip(state.factors, white, strict=True)])
    y = mean + rho * v + moved
    loglik, gradient = target.field.loglik(y, state.theta)
    back = _log_forward(gradient, _slopes(state, gradient), v - rho * (y - mean), rho)
    there = _log_forward(state.gradient, slope, y - mean - rho * v, rho)
    accepted = probability(loglik - state.loglik + back - there)
    if rng.random() < accepted:
        state = state._replace(x=y, loglik=loglik, gradient=gradient)
    return state, Info(accepted)


def _slopes(state: State, gradient: Array) -> Array:
    """Lᵀ g of every block."""
    return np.stack([f.transposed_times(g) for f, g in zip(state.factors, gradient, strict=True)])


def _log_forward(gradient: Array, slope: Array, moved: Array, rho: float) -> float:
    push, drift = np.sum(gradient * moved), np.sum(slope * slope)
    return float((push - 0.5 * (1.0 - rho) * drift) / (1.0 + rho))
