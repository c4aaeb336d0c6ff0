r"""Pseudo-marginal sampling of θ (Andrieu and Roberts 2009; Filippone and Girolami 2014).

EP's Gaussian q at θ gives an unbiased estimate of the evidence,

.. math:: \hat Z(\theta) = Z_q\,\frac1M \sum_{i=1}^M w_i,\qquad
          w_i = \exp \sum_n h_n(x_{in}),\quad x_i \sim q,

and a random walk on Ẑ(θ) p(θ) that keeps the estimate of the current θ leaves p(θ | y)
invariant, for every M. One of the M draws, chosen with probability proportional to w, makes
(x, θ) a draw of the joint posterior.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

from ..approximations.ep import rounding_error
from ..approximations.reference import NotPositiveDefinite
from ..model import CovarianceError
from ..path import Path
from .fields import GPField
from .states import Info, State, Steps, Target, probability

Array = NDArray[np.float64]

_PILOT = 256
_FEWEST, _MOST = 64, 1024
_ROUNDING = 0.05  # nats of log Z_q


class Unreliable(ArithmeticError):
    """log Z_q has lost its digits: the data are nearly noiseless for this θ."""


class Cloud(NamedTuple):
    """Draws of q at one θ, their weights, and log Ẑ."""

    x: Array  # (M, N)
    log_weights: Array
    log_z: float


def update(
    rng: np.random.Generator, target: Target, state: State, steps: Steps
) -> tuple[State, Info]:
    """θ by a random walk on its estimated evidence, then x from the weighted draws."""
    cloud = state.memory
    if cloud is None:
        try:
            cloud = _estimate(rng, target, state.theta, _pilot(rng, target, state.theta))
        except (CovarianceError, NotPositiveDefinite, Unreliable):
            raise ValueError(
                "EP fails where the chain starts, the model's own hyperparameters (its likelihood "
                "may be far narrower than the prior); start elsewhere with model.at(…), or use "
                "scheme='agrad-z-joint'"
            ) from None
    theta = target.walk(rng, state.theta, 0, steps.kappa)
    accepted, failures = 0.0, 0
    log_prior = target.log_prior(theta)
    if log_prior > -np.inf:
        try:
            new = _estimate(rng, target, theta, len(cloud.x))
            accepted = probability(new.log_z - cloud.log_z + log_prior - state.log_prior)
        except (CovarianceError, NotPositiveDefinite, Unreliable):
            failures = 1
    if rng.random() < accepted:
        cloud = new
    else:
        theta, log_prior = state.theta, state.log_prior
    gumbel = rng.gumbel(size=len(cloud.x))
    x = cloud.x[np.argmax(cloud.log_weights + gumbel)][None]
    loglik, gradient = target.field.loglik(x, theta)
    state = State(theta, log_prior, x, loglik, gradient, state.factors, cloud)
    return state, Info(accepted, failures)


def _estimate(rng: np.random.Generator, target: Target, theta: Array, size: int) -> Cloud:
    reference = cast(GPField, target.field).reference(theta)
    if rounding_error(reference.model, reference.sites, reference.mean) > _ROUNDING:
        raise Unreliable
    root, info = dpotrf(reference.cov, lower=1, clean=1)
    if info != 0:
        raise NotPositiveDefinite
    x = reference.mean + rng.standard_normal((size, reference.mean.size)) @ root.T
    log_weights = Path(reference).tilt(x)
    log_mean = np.logaddexp.reduce(log_weights) - np.log(size)
    return Cloud(x, log_weights, reference.logz + float(log_mean))


def _pilot(rng: np.random.Generator, target: Target, theta: Array) -> int:
    """M at which the variance of log Ẑ is about ¼, within bounds, from where the chain starts."""
    log_weights = _estimate(rng, target, theta, _PILOT).log_weights
    weights = np.exp(log_weights - log_weights.max())
    return int(np.clip(4.0 * weights.var() / weights.mean() ** 2, _FEWEST, _MOST))
