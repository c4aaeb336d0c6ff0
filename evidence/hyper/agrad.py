r"""aGrad-z for x given θ, and its joint move of (x, θ) (Titsias and Papaspiliopoulos 2018).

With g = ∇f, an auxiliary variable follows the gradient and the proposal is what the prior says
of it, A = (K⁻¹ + (2/δ) I)⁻¹:

.. math:: z \sim N\big(x + \tfrac\delta2 g(x),\ \tfrac\delta2 I\big),\qquad
          y \sim N\big(m + \tfrac2\delta A (z - m),\ A\big).

The log ratio is f(y) - f(x) + e(z, y) - e(z, x) with
:math:`e(z, x) = (z - x - \tfrac\delta4 g)^T g`.

The joint move proposes θ' by a random walk and y by what the prior at θ' says of z. Its log ratio

.. math:: f(y) - f(x) + e(z, y) - e(z, x)
          + \log \frac{N(z; m, K_{\theta'} + \tfrac\delta2 I)\,p(\theta')}
                      {N(z; m, K_\theta + \tfrac\delta2 I)\,p(\theta)}

sees θ through the smoothed z, not through x, which leaves it far more room. Parameters of the
likelihood move along: f and g are then those at θ'.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from ..numerics.arrays import Array
from .factors import CholeskyFactor
from .states import Candidate, Joint, JointState, NewTheta, StepSizes, with_block


def propose(rng: Generator, target: Joint, state: JointState, sizes: StepSizes) -> Candidate:
    """x of all blocks."""
    mean, delta = target.field.mean, sizes.delta
    z = auxiliary(rng, state.x, state.gradient, delta)
    draws = [
        given_auxiliary(rng, factor, delta, away)
        for factor, away in zip(state.factors, z - mean, strict=True)
    ]
    y = mean + np.stack(draws)
    loglik, gradient = target.field.loglik(y, state.theta)
    ratio = loglik - state.loglik + pull(z, y, gradient, delta)
    ratio -= pull(z, state.x, state.gradient, delta)
    return state._replace(x=y, loglik=loglik, gradient=gradient), ratio


def propose_jointly(
    rng: Generator, target: Joint, state: JointState, sizes: StepSizes, to: NewTheta
) -> Candidate:
    """x and θ of one block."""
    delta, block = sizes.delta, to.block
    x, old, mean = state.x[block], state.factors[block], target.field.mean[block]
    z = auxiliary(rng, x, state.gradient[block], delta)
    y = mean + given_auxiliary(rng, to.factor, delta, z - mean)
    moved = with_block(state.x, block, y)
    loglik, gradient = target.field.loglik(moved, to.theta)
    fits = loglik - state.loglik
    fits += pull(z, y, gradient[block], delta) - pull(z, x, state.gradient[block], delta)
    smoothed = to.factor.shifted(0.5 * delta).log_density(z - mean)
    smoothed -= old.shifted(0.5 * delta).log_density(z - mean)
    ratio = fits + smoothed + to.log_prior - state.log_prior
    return state.moved(to, moved, loglik, gradient), ratio


def auxiliary(rng: Generator, x: Array, gradient: Array, delta: float) -> Array:
    """z ~ N(x + (δ/2) g, (δ/2) I)."""
    return x + 0.5 * delta * gradient + np.sqrt(0.5 * delta) * rng.standard_normal(x.shape)


def given_auxiliary(rng: Generator, factor: CholeskyFactor, delta: float, z: Array) -> Array:
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
