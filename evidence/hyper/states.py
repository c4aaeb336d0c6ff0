"""The posterior that chains over (x, θ) leave invariant, where they stand, and how they step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from ..models.priors import Priors
from ..numerics.arrays import Array, Indices
from .factors import CholeskyFactor
from .fields import LatentField


class StepSizes(NamedTuple):
    """δ of the latent values, κ of the hyperparameters (a variance)."""

    delta: float
    kappa: float


class Acceptance(NamedTuple):
    """Acceptance probability of an update, and proposals lost because numbers failed."""

    probability: float
    failures: int = 0


class NewTheta(NamedTuple):
    """θ' that differs in the hyperparameters of one block, and what follows from it."""

    block: int
    theta: Array
    log_prior: float
    factor: CholeskyFactor


class JointState(NamedTuple):
    """A point (x, θ) and what was computed there; updates replace it, never change it."""

    theta: Array  # all of the field's hyperparameters, fixed ones included
    log_prior: float
    x: Array  # (C, N)
    loglik: float
    gradient: Array  # (C, N)
    factors: tuple[CholeskyFactor, ...]
    memory: Any = None  # what one update keeps from step to step

    def moved(self, to: NewTheta, x: Array, loglik: float, gradient: Array) -> JointState:
        factors = (*self.factors[: to.block], to.factor, *self.factors[to.block + 1 :])
        return JointState(to.theta, to.log_prior, x, loglik, gradient, factors)


@dataclass(frozen=True, eq=False)
class Joint:
    """p(x, θ | y) of a field and priors, with the shape of θ's random walk.

    Attributes
    ----------
    groups : tuple[Indices, ...]
        Per block, the sampled hyperparameters that move with it.
    shapes : tuple[Array, ...]
        Per block, a square root of the covariance of their proposal.
    """

    field: LatentField
    priors: Priors
    groups: tuple[Indices, ...]
    shapes: tuple[Array, ...]

    @classmethod
    def of(cls, field: LatentField, priors: Priors) -> Joint:
        groups = tuple(group[np.isin(group, priors.free)] for group in field.groups)
        return cls(field, priors, groups, tuple(np.eye(group.size) for group in groups))

    def start(self, rng: Generator, theta: Array) -> JointState:
        """θ with latent values drawn from the prior, which fit it."""
        factors = tuple(
            CholeskyFactor(self.field.covariance(block, theta))
            for block in range(len(self.field.mean))
        )
        white = rng.standard_normal(self.field.mean.shape)
        x = self.field.mean + coloured(factors, white)
        return JointState(theta, self.log_prior(theta), x, *self.field.loglik(x, theta), factors)

    def log_prior(self, theta: Array, *, widest: float = 100.0) -> float:
        """log p(θ), -inf where exp(θ) and its square leave the range of numbers."""
        if np.abs(theta).max() > widest:
            return -np.inf
        return float(self.priors.log_density(theta[self.priors.free]))

    def walk(self, rng: Generator, theta: Array, block: int, kappa: float) -> Array:
        """θ' with the hyperparameters of one block moved, covariance κ times their shape."""
        group, moved = self.groups[block], theta.copy()
        moved[group] += np.sqrt(kappa) * (self.shapes[block] @ rng.standard_normal(group.size))
        return moved

    def propose(
        self, rng: Generator, state: JointState, block: int, kappa: float
    ) -> NewTheta | None:
        """A step of the walk; nothing where the prior is 0."""
        theta = self.walk(rng, state.theta, block, kappa)
        log_prior = self.log_prior(theta)
        if log_prior == -np.inf:
            return None
        factor = CholeskyFactor(self.field.covariance(block, theta))
        return NewTheta(block, theta, log_prior, factor)


#: leaves the posterior invariant
Update = Callable[[Generator, Joint, JointState, StepSizes], tuple[JointState, Acceptance]]
#: a new state and its log ratio, the log of what Metropolis and Hastings accept by
Candidate = tuple[JointState, float]


def metropolis(rng: Generator, state: JointState, proposal: Candidate) -> tuple[JointState, float]:
    """The new state with probability min(1, exp(log ratio)), 0 where that is not a number."""
    new, log_ratio = proposal
    probability = 0.0 if np.isnan(log_ratio) else float(np.exp(min(log_ratio, 0.0)))
    return (new if rng.random() < probability else state), probability


def update_x(
    propose: Callable[[Generator, Joint, JointState, StepSizes], Candidate],
    rng: Generator, target: Joint, state: JointState, sizes: StepSizes,
) -> tuple[JointState, Acceptance]:  # fmt: skip
    """Move the latent values of all blocks at once."""
    state, probability = metropolis(rng, state, propose(rng, target, state, sizes))
    return state, Acceptance(probability)


def update_by_blocks(
    propose: Callable[[Generator, Joint, JointState, StepSizes, NewTheta], Candidate],
    rng: Generator, target: Joint, state: JointState, sizes: StepSizes,
) -> tuple[JointState, Acceptance]:  # fmt: skip
    """Block after block: a step of its hyperparameters, and what ``propose`` makes of it.

    One block at a time costs as many factorisations as all at once, and the walk is in few
    dimensions: its steps need not shrink with the number of blocks.
    """
    moving = [block for block, group in enumerate(target.groups) if group.size]
    total, failures = 0.0, 0
    for block in moving:
        to = target.propose(rng, state, block, sizes.kappa)
        if to is None:
            continue
        if not to.factor.ok:
            failures += 1
            continue
        state, probability = metropolis(rng, state, propose(rng, target, state, sizes, to))
        total += probability
    return state, Acceptance(total / len(moving), failures)


def coloured(factors: tuple[CholeskyFactor, ...], white: Array) -> Array:
    """L v of every block."""
    return np.stack([factor.times(v) for factor, v in zip(factors, white, strict=True)])


def with_block(values: Array, block: int, new: Array) -> Array:
    """A copy with one row replaced."""
    out = values.copy()
    out[block] = new
    return out
