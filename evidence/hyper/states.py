"""The target of a chain, and where it stands: latent values, hyperparameters, factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.priors import Priors
from .factors import Factor
from .fields import Field

Array = NDArray[np.float64]


_WIDEST = 100.0


class Steps(NamedTuple):
    """Step sizes: δ of the latent values, κ of the hyperparameters (a variance)."""

    delta: float
    kappa: float


class Info(NamedTuple):
    """Acceptance probability of an update, and proposals lost because numbers failed."""

    acceptance: float
    failures: int = 0


class Proposal(NamedTuple):
    """θ' that differs in the hyperparameters of one block, and what follows from it."""

    block: int
    theta: Array
    log_prior: float
    factor: Factor


class State(NamedTuple):
    """A point (x, θ) and what was computed there; updates replace it, never change it."""

    theta: Array  # all of the field's hyperparameters, fixed ones included
    log_prior: float
    x: Array  # (C, N)
    loglik: float
    gradient: Array  # (C, N)
    factors: tuple[Factor, ...]
    memory: Any = None  # what one update keeps from step to step

    def moved(self, to: Proposal, x: Array, loglik: float, gradient: Array) -> State:
        factors = (*self.factors[: to.block], to.factor, *self.factors[to.block + 1 :])
        return State(to.theta, to.log_prior, x, loglik, gradient, factors)


@dataclass(frozen=True, eq=False)
class Target:
    """p(x, θ | y) of a field and priors, with the shape of θ's random walk."""

    field: Field
    priors: Priors
    groups: tuple[NDArray[np.intp], ...]
    """Per block, the sampled hyperparameters that move with it."""
    shapes: tuple[Array, ...]
    """Per block, a square root of the covariance of their proposal."""

    @classmethod
    def of(cls, field: Field, priors: Priors) -> Target:
        groups = tuple(group[np.isin(group, priors.free)] for group in field.groups)
        return cls(field, priors, groups, tuple(np.eye(group.size) for group in groups))

    def start(self, rng: np.random.Generator, theta: Array) -> State:
        """θ with latent values drawn from the prior, which fit it."""
        factors = tuple(
            Factor(self.field.covariance(block, theta)) for block in range(len(self.field.mean))
        )
        white = rng.standard_normal(self.field.mean.shape)
        x = self.field.mean + np.stack([f.times(v) for f, v in zip(factors, white, strict=True)])
        return State(theta, self.log_prior(theta), x, *self.field.loglik(x, theta), factors)

    def log_prior(self, theta: Array) -> float:
        """log p(θ), -inf where exp(θ) and its square leave the range of numbers."""
        if np.abs(theta).max() > _WIDEST:
            return -np.inf
        return float(self.priors.log_density(theta[self.priors.free]))

    def walk(self, rng: np.random.Generator, theta: Array, block: int, kappa: float) -> Array:
        """θ' with the hyperparameters of one block moved, covariance κ times their shape."""
        group, moved = self.groups[block], theta.copy()
        moved[group] += np.sqrt(kappa) * (self.shapes[block] @ rng.standard_normal(group.size))
        return moved

    def propose(
        self, rng: np.random.Generator, state: State, block: int, kappa: float
    ) -> Proposal | None:
        """A step of the walk; nothing where the prior is 0."""
        theta = self.walk(rng, state.theta, block, kappa)
        log_prior = self.log_prior(theta)
        if log_prior == -np.inf:
            return None
        return Proposal(block, theta, log_prior, Factor(self.field.covariance(block, theta)))


#: ``update(rng, target, state, steps)`` leaves the target invariant
Update = Callable[[np.random.Generator, Target, State, Steps], tuple[State, Info]]


def by_blocks(
    update: Callable[[np.random.Generator, Target, State, Steps, Proposal], tuple[State, float]],
) -> Update:
    """Block after block: a proposal of its hyperparameters, then ``update``.

    One block at a time costs as many factorisations as all at once, and the walk is in few
    dimensions: its steps need not shrink with the number of blocks.
    """

    def sweep(
        rng: np.random.Generator, target: Target, state: State, steps: Steps
    ) -> tuple[State, Info]:
        moving = [block for block, group in enumerate(target.groups) if group.size]
        total, failures = 0.0, 0
        for block in moving:
            proposal = target.propose(rng, state, block, steps.kappa)
            if proposal is None:
                continue
            if not proposal.factor.ok:
                failures += 1
                continue
            state, accepted = update(rng, target, state, steps, proposal)
            total += accepted
        return state, Info(total / len(moving), failures)

    return sweep


def with_block(values: Array, block: int, new: Array) -> Array:
    """A copy with one row replaced."""
    out = values.copy()
    out[block] = new
    return out


def probability(log_ratio: float) -> float:
    """min(1, exp(log ratio)), 0 where it is not a number."""
    return 0.0 if np.isnan(log_ratio) else float(np.exp(min(log_ratio, 0.0)))
