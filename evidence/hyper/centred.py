r"""θ given x: a random walk on N(x; m, K_θ) p(θ), the second half of plain Gibbs sampling.

x pins θ down the more firmly the more latent values there are, so steps are short. Parameters
of the likelihood move along, with f at θ' in the ratio.
"""

from __future__ import annotations

import numpy as np

from .states import Proposal, State, Steps, Target, by_blocks, probability


@by_blocks
def update(
    rng: np.random.Generator, target: Target, state: State, steps: Steps, to: Proposal
) -> tuple[State, float]:
    v = state.x[to.block] - target.field.mean[to.block]
    loglik, gradient = target.field.loglik(state.x, to.theta)
    prior = to.factor.log_density(v) - state.factors[to.block].log_density(v)
    accepted = probability(prior + loglik - state.loglik + to.log_prior - state.log_prior)
    if rng.random() < accepted:
        state = state.moved(to, state.x, loglik, gradient)
    return state, accepted
