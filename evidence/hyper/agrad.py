r"""aGrad-z for x given θ (Titsias and Papaspiliopoulos 2018).

With g = ∇f, an auxiliary variable follows the gradient and the proposal is what the prior says
of it, A = (K⁻¹ + (2/δ) I)⁻¹:

.. math:: z \sim N\big(x + \tfrac\delta2 g(x),\ \tfrac\delta2 I\big),\qquad
          y \sim N\big(m + \tfrac2\delta A (z - m),\ A\big).

The log ratio is f(y) - f(x) + e(z, y) - e(z, x) with
:math:`e(z, x) = (z - x - \tfrac\delta4 g)^T g`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .factors import Factor
from .states import Info, State, Steps, Target, probability

Array = NDArray[np.float64]


def update(
    rng: np.random.Generator, target: Target, state: State, steps: Steps
) -> tuple[State, Info]:
    """All blocks at once."""
    mean, delta = target.field.mean, steps.delta
    z = auxiliary(rng, state.x, state.gradient, delta)
    y = np.stack(
        [
            mean[block] + given_auxiliary(rng, factor, delta, z[block] - mean[block])
            for block, factor in enumerate(state.factors)
        ]
    )
    loglik, gradient = target.field.loglik(y, state.theta)
    accepted = probability(
        loglik
        - state.loglik
        + pull(z, y, gradient, delta)
        - pull(z, state.x, state.gradient, delta)
    )
    if rng.random() < accepted:
        state = state._replace(x=y, loglik=loglik, gradient=gradient)
    return state, Info(accepted)


def auxiliary(rng: np.random.Generator, x: Array, gradient: Array, delta: float) -> Array:
    """z ~ N(x + (δ/2) g, (δ/2) I)."""
    return x + 0.5 * delta * gradient + np.sqrt(0.5 * delta) * rng.standard_normal(x.shape)


def given_auxiliary(rng: np.random.Generator, factor: Factor, delta: float, z: Array) -> Array:
    r"""A draw of N((2/δ) A z, A), from one of N(0, K) (Matheron's rule).

    With x₀ ~ N(0, K) and u = z - x₀ - √(δ/2) ε it is x₀ + K S⁻¹ u, S = K + (δ/2) I, and
    K S⁻¹ = I - (δ/2) S⁻¹ needs no product with K.
    """
    shift = 0.5 * delta
    x0 = factor.times(rng.standard_normal(z.size))
    u = z - x0 - np.sqrt(shift) * rng.standard_normal(z.size)
    return x0 + u - shift * factor.shifted(shift).solve(u)


def pull(z: Array, x: Array, gradient: Array, delta: float) -> float:
    """e(z, x): log N(z; x + (δ/2) g, δ/2) - log N(z; x, δ/2)."""
    return float(np.sum((z - x - 0.25 * delta * gradient) * gradient))
