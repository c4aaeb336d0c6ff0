r"""θ given the whitened field ν, x = m + L_θ ν: the ancillary parametrisation.

A random walk on :math:`\exp f(m + L_\theta \nu; \theta)\,p(\theta)` carries x along. It mixes
where the data say little about x, and slowly where they say much.
"""

from __future__ import annotations

import numpy as np

from .states import Proposal, State, Steps, Target, by_blocks, probability, with_block


@by_blocks
def update(
    rng: np.random.Generator, target: Target, state: State, steps: Steps, to: Proposal
) -> tuple[State, float]:
    mean = target.field.mean[to.block]
    nu = state.factors[to.block].whiten(state.x[to.block] - mean)
    x = with_block(state.x, to.block, mean + to.factor.times(nu))
    loglik, gradient = target.field.loglik(x, to.theta)
    accepted = probability(loglik - state.loglik + to.log_prior - state.log_prior)
    if rng.random() < accepted:
        state = state.moved(to, x, loglik, gradient)
    return state, accepted
