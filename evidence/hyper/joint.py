r"""The joint move of (x, θ) given the auxiliary variable of aGrad-z.

Given :math:`z \sim N(x + \tfrac\delta2 g(x), \tfrac\delta2 I)`, θ' is proposed by a random walk
and y from what its prior says of z, :math:`N(m + \tfrac2\delta A_{\theta'} (z - m), A_{\theta'})`.
The log ratio

.. math:: f(y) - f(x) + e(z, y) - e(z, x)
          + \log \frac{N(z; m, K_{\theta'} + \tfrac\delta2 I)\,p(\theta')}
                      {N(z; m, K_\theta + \tfrac\delta2 I)\,p(\theta)}

sees θ through the smoothed z, not through x, which leaves it far more room. Parameters of the
likelihood move along: f and g are then those at θ'.
"""

from __future__ import annotations

import numpy as np

from .agrad import auxiliary, given_auxiliary, pull
from .states import Proposal, State, Steps, Target, by_blocks, probability, with_block


@by_blocks
def update(
    rng: np.random.Generator, target: Target, state: State, steps: Steps, to: Proposal
) -> tuple[State, float]:
    delta, block = steps.delta, to.block
    x, old, mean = state.x[block], state.factors[block], target.field.mean[block]
    z = auxiliary(rng, x, state.gradient[block], delta)
    y = mean + given_auxiliary(rng, to.factor, delta, z - mean)
    moved = with_block(state.x, block, y)
    loglik, gradient = target.field.loglik(moved, to.theta)
    fits = loglik - state.loglik
    fits += pull(z, y, gradient[block], delta) - pull(z, x, state.gradient[block], delta)
    smoothed = to.factor.shifted(0.5 * delta).log_density(z - mean)
    smoothed -= old.shifted(0.5 * delta).log_density(z - mean)
    accepted = probability(fits + smoothed + to.log_prior - state.log_prior)
    if rng.random() < accepted:
        state = state.moved(to, moved, loglik, gradient)
    return state, accepted
