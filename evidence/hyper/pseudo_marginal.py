r"""Pseudo-marginal sampling of θ (Andrieu and Roberts 2009; Filippone and Girolami 2014).

A random walk on :math:`\hat Z(\theta)\,p(\theta)`, with an unbiased estimate of the evidence
(:mod:`.at_theta`), that keeps the estimate of the current θ leaves p(θ | y) invariant, for every
number M of draws behind it. One of the M draws, chosen with probability proportional to its
weight, makes (x, θ) a draw of the joint posterior.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.random import Generator

from ..messages import InputError
from ..numerics.arrays import Array
from .at_theta import GuidedDraws, NoEvidence, guided_estimate
from .fields import GPField
from .states import Acceptance, Joint, JointState, StepSizes, metropolis


def update(
    rng: Generator, target: Joint, state: JointState, sizes: StepSizes,
    bounds: tuple[int, int] = (16, 1024),
) -> tuple[JointState, Acceptance]:  # fmt: skip
    """θ by a random walk on its estimated evidence, then x from the weighted draws.

    The first call finds M, within ``bounds``.
    """
    now: GuidedDraws | None = state.memory
    if now is None:
        try:
            now = estimate(rng, target, state.theta, _pilot(rng, target, state.theta, bounds))
        except NoEvidence:
            raise InputError(
                "EP fails where the chain starts, the model's own hyperparameters (its likelihood "
                "may be far narrower than the prior); start elsewhere with model.at(…), or use "
                "scheme='agrad-z-joint'"
            ) from None
        state = state._replace(memory=now)
    theta = target.walk(rng, state.theta, 0, sizes.kappa)
    log_prior, failures, ratio, new = target.log_prior(theta), 0, -np.inf, state
    if log_prior > -np.inf:
        try:
            then = estimate(rng, target, theta, now.log_weights.size)
            ratio = then.log_z - now.log_z + log_prior - state.log_prior
            new = state._replace(theta=theta, log_prior=log_prior, memory=then)
        except NoEvidence:
            failures = 1
    state, probability = metropolis(rng, state, (new, ratio))
    x = state.memory.pick(rng)
    loglik, gradient = target.field.loglik(x, state.theta)
    state = state._replace(x=x, loglik=loglik, gradient=gradient)
    return state, Acceptance(probability, failures)


def estimate(
    rng: Generator, target: Joint, theta: Array, size: int, *, rounding: float = 0.05
) -> GuidedDraws:
    """log Ẑ(θ) and the draws behind it.

    ``rounding``: nats of log Z_q: where the data are nearly noiseless it loses its digits.
    """
    reference = cast(GPField, target.field).reference(theta)
    return guided_estimate(reference, size, rng, rounding)


def _pilot(
    rng: Generator, target: Joint, theta: Array, bounds: tuple[int, int], *, pilot: int = 256
) -> int:
    """M at which the variance of log Ẑ is about ¼, within bounds, from where the chain starts.

    ``pilot``: draws.
    """
    log_weights = estimate(rng, target, theta, pilot).log_weights
    weights = np.exp(log_weights - log_weights.max())
    return int(np.clip(4.0 * weights.var() / weights.mean() ** 2, *bounds))
