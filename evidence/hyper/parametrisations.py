r"""θ by a random walk with x held, or with the whitened field ν held, x = m + L_θ ν.

*Centred*: on N(x; m, K_θ) p(θ), the second half of plain Gibbs sampling. x pins θ down the more
firmly the more latent values there are, so steps are short.

*Whitened*: on :math:`\exp f(m + L_\theta \nu; \theta)\,p(\theta)`, which carries x along. It
mixes where the data say little about x, and slowly where they say much.

Parameters of the likelihood move along, with f at θ' in the ratio.
"""

from __future__ import annotations

from numpy.random import Generator

from .states import Candidate, Joint, JointState, NewTheta, StepSizes, with_block


def propose_centred(
    rng: Generator, target: Joint, state: JointState, sizes: StepSizes, to: NewTheta
) -> Candidate:
    v = state.x[to.block] - target.field.mean[to.block]
    loglik, gradient = target.field.loglik(state.x, to.theta)
    prior = to.factor.log_density(v) - state.factors[to.block].log_density(v)
    ratio = prior + loglik - state.loglik + to.log_prior - state.log_prior
    return state.moved(to, state.x, loglik, gradient), ratio


def propose_whitened(
    rng: Generator, target: Joint, state: JointState, sizes: StepSizes, to: NewTheta
) -> Candidate:
    mean = target.field.mean[to.block]
    nu = state.factors[to.block].whiten(state.x[to.block] - mean)
    x = with_block(state.x, to.block, mean + to.factor.times(nu))
    loglik, gradient = target.field.loglik(x, to.theta)
    ratio = loglik - state.loglik + to.log_prior - state.log_prior
    return state.moved(to, x, loglik, gradient), ratio
