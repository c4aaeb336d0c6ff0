r"""Tempering over hyperparameters, with an unbiased estimate of the evidence at each of them.

The target on θ (logs of hyperparameters) is :math:`p(\theta) \hat Z(\theta)`, with an unbiased
estimate :math:`\hat Z` (:mod:`.at_theta`), and the start a Student-t g around where EP's evidence
is largest. Between them

.. math:: \gamma_\beta(\theta, u) = g(\theta)^{1-\beta}\,
          [p(\theta)\,\hat Z(\theta, u)]^\beta\,m(u),

u being the random numbers behind :math:`\hat Z`, which travel with their θ. At β = 1 the
integral over u restores Z(θ), so every island's estimate is unbiased for
:math:`\int p(\theta) Z(\theta)\,d\theta`, whatever the noise in :math:`\hat Z`, the fit of g
and the number of particles. (A θ at which numbers fail counts as Z = 0; it is reported.)
Where g fits, the ladder has one step and this is importance sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from ..drivers.smc import Climbers, Loop
from ..models.priors import Priors
from ..moves.base import Info, metropolis, take
from ..numerics.arrays import Array, Flags
from ..statistics.resampling import Ancestors
from ..statistics.weights import Weights
from .at_theta import NoEvidence

#: (θ, rng) to log Ẑ(θ) and log Z_EP(θ), or :class:`.NoEvidence`
EvidenceAt = Callable[[Array, Generator], tuple[float, float]]

_DF = 5.0


class ThetaStart(NamedTuple):
    """The Student-t g: location, lower root of the scale matrix."""

    mean: Array
    root: Array

    def draw(self, rng: Generator, m: int) -> Array:
        z = rng.standard_normal((m, self.mean.size)) @ self.root.T
        return self.mean + z / np.sqrt(rng.chisquare(_DF, (m, 1)) / _DF)

    def log_density(self, theta: Array) -> Array:
        p = self.mean.size
        white = solve_triangular(self.root, (theta - self.mean).T, lower=True)
        constant = gammaln(0.5 * (_DF + p)) - gammaln(0.5 * _DF) - 0.5 * p * math.log(_DF * np.pi)
        constant -= np.log(np.diag(self.root)).sum()
        return constant - 0.5 * (_DF + p) * np.log1p(np.sum(white**2, axis=0) / _DF)


class ThetaCloud(NamedTuple):
    """Particles: θ, log g, log p Ẑ, log p Z_EP, and 1 where numbers failed, else 0."""

    theta: Array
    start: Array
    target: Array
    ep: Array
    failed: Array

    @property
    def tilt(self) -> Array:
        return self.target - self.start


@dataclass(frozen=True, eq=False)
class ThetaPath:
    """From the start g to p(θ) Ẑ(θ)."""

    evidence: EvidenceAt
    priors: Priors
    start: ThetaStart

    def draw(self, m: int, rng: Generator) -> ThetaCloud:
        """``m`` particles from the start."""
        return self.at(self.start.draw(rng, m), rng)

    def at(self, theta: Array, rng: Generator) -> ThetaCloud:
        """Particles at the rows of ``theta``."""
        target = self.priors.log_density(theta)
        ep, failed = target.copy(), np.zeros(len(theta))
        for i in np.flatnonzero(target > -np.inf):
            try:
                log_z, log_z_ep = self.evidence(theta[i], rng)
            except NoEvidence:
                log_z = log_z_ep = -np.inf
                failed[i] = 1.0
            target[i] += log_z
            ep[i] += log_z_ep
        return ThetaCloud(theta, self.start.log_density(theta), target, ep, failed)

    def walk(
        self, rng: Generator, root: Array, beta: float, cloud: ThetaCloud
    ) -> tuple[ThetaCloud, Info]:
        """One pseudo-marginal random-walk step of every particle."""
        m, p = cloud.theta.shape
        step = 2.38 / math.sqrt(p) * rng.standard_normal((m, p)) @ root.T
        new = self.at(cloud.theta + step, rng)
        failures = int(new.failed.sum())
        ratio = beta * (new.target - cloud.target) + (1.0 - beta) * (new.start - cloud.start)
        cloud, info = metropolis(rng, ratio, cloud, new)
        return cloud, info._replace(failures=failures)

    def parameters(self, draws: Array) -> Array:
        """Draws of islands as they are."""
        return draws


class ThetaPlan(NamedTuple):
    """Temperatures after 0, root of the walk's covariance, and steps at each temperature."""

    betas: Array
    root: Array
    n_moves: int


@dataclass(frozen=True, eq=False)
class ThetaIslands(Loop):
    """Islands over θ, resampled at every temperature.

    Their ``draws`` hold θ and, last, log Z_EP(θ) - log Ẑ(θ).
    """

    path: ThetaPath
    plan: ThetaPlan
    resampling: str = "systematic"
    threshold: float = math.inf

    @property
    def stages(self) -> list[tuple[float, float]]:
        return list(pairwise([0.0, *self.plan.betas.tolist()]))

    def start(self, rng: Generator, n_islands: int, n_particles: int) -> Climbers:
        shape = n_islands, n_particles
        cloud = self.path.draw(n_islands * n_particles, rng)
        drawn = Info(np.empty(0), int(cloud.failed.sum()), len(cloud.theta))
        return Climbers(rng, np.zeros(shape), np.zeros(n_islands), [drawn], state=cloud)

    def weigh(self, population: Climbers, stage: tuple[float, float]) -> Weights:
        tilt = population.state.tilt.reshape(population.log_w.shape)
        return Weights((stage[1] - stage[0]) * tilt)

    def survive(self, population: Climbers, index: Ancestors, poor: Flags) -> None:
        population.state = take(population.state, index.ravel())

    def move_all(self, population: Climbers, stage: tuple[float, float], poor: Flags) -> float:
        beta = stage[1]
        for _ in range(self.plan.n_moves if beta < 1.0 else 0):
            population.state, info = self.path.walk(
                population.rng, self.plan.root, beta, population.state
            )
            population.infos.append(info)
        return np.nan

    def draws(self, population: Climbers) -> Array:
        cloud, shape = population.state, population.log_w.shape
        return np.column_stack([cloud.theta, cloud.ep - cloud.target]).reshape(*shape, -1)
