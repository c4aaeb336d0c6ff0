r"""pCNL for x given θ: the preconditioned Crank–Nicolson Langevin proposal.

With g = ∇f, ρ = 2/(2 + δ) and v = x - m,

.. math:: y = m + \rho v + (1-\rho) K g(x) + \sqrt{1-\rho^2}\, w,\qquad w \sim N(0, K),

and the log ratio is f(y) - f(x) + j(y, x) - j(x, y), with

.. math:: j(y, x) = \frac{1}{1+\rho}\, g(y)^T (v - \rho v')
          - \frac{1-\rho}{2(1+\rho)}\, g(y)^T K g(y),\qquad v' = y - m.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from ..numerics.arrays import Array
from .states import Candidate, Joint, JointState, StepSizes, coloured


def propose(rng: Generator, target: Joint, state: JointState, sizes: StepSizes) -> Candidate:
    """x of all blocks; Lᵀg and a white draw go through L together."""
    mean = target.field.mean
    rho = 2.0 / (2.0 + sizes.delta)
    slope = _slopes(state, state.gradient)
    noise = np.sqrt(1.0 - rho * rho) * rng.standard_normal(mean.shape)
    v = state.x - mean
    y = mean + rho * v + coloured(state.factors, (1.0 - rho) * slope + noise)
    loglik, gradient = target.field.loglik(y, state.theta)
    back = _log_forward(gradient, _slopes(state, gradient), v - rho * (y - mean), rho)
    there = _log_forward(state.gradient, slope, y - mean - rho * v, rho)
    ratio = loglik - state.loglik + back - there
    return state._replace(x=y, loglik=loglik, gradient=gradient), ratio


def _slopes(state: JointState, gradient: Array) -> Array:
    """Lᵀ g of every block."""
    return np.stack([f.transposed_times(g) for f, g in zip(state.factors, gradient, strict=True)])


def _log_forward(gradient: Array, slope: Array, moved: Array, rho: float) -> float:
    push, drift = np.sum(gradient * moved), np.sum(slope * slope)
    return float((push - 0.5 * (1.0 - rho) * drift) / (1.0 + rho))
