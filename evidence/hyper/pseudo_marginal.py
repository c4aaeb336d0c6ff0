r"""Pseudo-marginal sampling of θ (Andrieu and Roberts 2009; Filippone and Girolami 2014).

Draws that EP's sites at θ guide (:mod:`evidence.proposals.guide`) give an unbiased estimate of the
evidence, :math:`\hat Z(\theta) = Z_q\,\frac1M \sum_{i=1}^M w_i`, and a random walk on
:math:`\hat Z(\theta)\,p(\theta)` that keeps the estimate of the current θ leaves p(θ | y)
invariant, for every M. One of the M draws, chosen with probability proportional to w, makes
(x, θ) a draw of the joint posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ..approximations.gp.ep import rounding_error
from ..gaussians.base import NotPositiveDefinite
from ..messages import InputError
from ..models.gp import CovarianceError, GPModel
from ..moves.gradient.gibbs import latent_given_utilities, latent_root
from ..proposals.guide import CannotGuide, make_guide
from .fields import GPField
from .states import Info, State, Steps, Target, probability

Array = NDArray[np.float64]

_PILOT = 256
_FEWEST, _MOST = 16, 1024
_ROUNDING = 0.05  # nats of log Z_q


class Unreliable(ArithmeticError):
    """log Z_q has lost its digits: the data are nearly noiseless for this θ."""


_FAILURES = (CovarianceError, NotPositiveDefinite, CannotGuide, Unreliable)


@dataclass
class Cloud:
    """Guided draws at one θ, their weights, and log Ẑ."""

    model: GPModel
    values: Array  # (N, M), probit's utilities or latent values
    utilities: bool
    log_weights: Array
    log_z: float

    @property
    def size(self) -> int:
        return self.log_weights.size

    @cached_property
    def root(self) -> Array:
        return latent_root(self.model)

    def pick(self, rng: np.random.Generator) -> Array:
        """Latent values (1, N) of one draw, chosen by weight."""
        chosen = np.argmax(self.log_weights + rng.gumbel(size=self.size))
        value = self.values[:, [chosen]]
        if not self.utilities:
            return np.ascontiguousarray(value.T)
        return latent_given_utilities(value, self.model.mean, self.root, rng)


def update(
    rng: np.random.Generator, target: Target, state: State, steps: Steps
) -> tuple[State, Info]:
    """θ by a random walk on its estimated evidence, then x from the weighted draws."""
    cloud = state.memory
    if cloud is None:
        try:
            cloud = _estimate(rng, target, state.theta, _pilot(rng, target, state.theta))
        except _FAILURES:
            raise InputError(
                "EP fails where the chain starts, the model's own hyperparameters (its likelihood "
                "may be far narrower than the prior); start elsewhere with model.at(…), or use "
                "scheme='agrad-z-joint'"
            ) from None
    theta = target.walk(rng, state.theta, 0, steps.kappa)
    accepted, failures = 0.0, 0
    log_prior = target.log_prior(theta)
    if log_prior > -np.inf:
        try:
            new = _estimate(rng, target, theta, cloud.size)
            accepted = probability(new.log_z - cloud.log_z + log_prior - state.log_prior)
        except _FAILURES:
            failures = 1
    if rng.random() < accepted:
        cloud = new
    else:
        theta, log_prior = state.theta, state.log_prior
    x = cloud.pick(rng)
    loglik, gradient = target.field.loglik(x, theta)
    state = State(theta, log_prior, x, loglik, gradient, state.factors, cloud)
    return state, Info(accepted, failures)


def _estimate(rng: np.random.Generator, target: Target, theta: Array, size: int) -> Cloud:
    reference = cast(GPField, target.field).reference(theta)
    if rounding_error(reference.model.prior, reference.sites, reference.mean) > _ROUNDING:
        raise Unreliable
    guide = make_guide(reference)
    values, log_weights = guide.draw(size, rng)
    log_mean = float(np.logaddexp.reduce(log_weights)) - np.log(size)
    return Cloud(reference.model, values, guide.utilities, log_weights, guide.log_z0 + log_mean)


def _pilot(rng: np.random.Generator, target: Target, theta: Array) -> int:
    """M at which the variance of log Ẑ is about ¼, within bounds, from where the chain starts."""
    log_weights = _estimate(rng, target, theta, _PILOT).log_weights
    weights = np.exp(log_weights - log_weights.max())
    return int(np.clip(4.0 * weights.var() / weights.mean() ** 2, _FEWEST, _MOST))
