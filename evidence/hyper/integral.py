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
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from ..drivers.islands import Islands
from ..execution.clock import Stopped
from ..models.priors import Priors
from ..statistics.resampling import systematic
from ..statistics.weights import Weights
from .at_theta import NoEvidence

Array = NDArray[np.float64]

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

    def take(self, index: NDArray[np.intp]) -> ThetaCloud:
        return ThetaCloud(*(part[index] for part in self))


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
    ) -> tuple[ThetaCloud, float, int]:
        """One pseudo-marginal random-walk step of every particle; acceptance and failures."""
        m, p = cloud.theta.shape
        step = 2.38 / math.sqrt(p) * rng.standard_normal((m, p)) @ root.T
        new = self.at(cloud.theta + step, rng)
        ratio = beta * (new.target - cloud.target) + (1.0 - beta) * (new.start - cloud.start)
        accepted = np.log(rng.random(m)) < ratio
        both = ThetaCloud(*(np.concatenate(parts) for parts in zip(cloud, new, strict=True)))
        moved = both.take(np.arange(m) + m * accepted)
        return moved, float(np.exp(np.minimum(ratio, 0.0)).mean()), int(new.failed.sum())


class ThetaPlan(NamedTuple):
    """Temperatures after 0, root of the walk's covariance, and steps at each temperature."""

    betas: Array
    root: Array
    n_moves: int


def run_theta_islands(
    path: ThetaPath,
    plan: ThetaPlan,
    n_islands: int,
    n_particles: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
) -> Islands:
    """Independent islands; ``draws`` holds θ and, last, log Z_EP(θ) - log Ẑ(θ)."""
    rng = np.random.default_rng(seed)
    islands = [_island(path, plan, n_particles, rng, stop) for _ in range(n_islands)]
    rows = np.array([rows for rows, _ in islands])
    log_z, ess, acceptance, *sums = rows.T
    failures, evaluations, seconds = (part.sum(axis=1) for part in sums)
    nothing = np.full(plan.betas.size, np.nan)
    return Islands(
        log_z, ess.mean(axis=1), acceptance.mean(axis=1), nothing, failures.astype(int),
        evaluations.astype(int), np.full(plan.betas.size, float(n_particles)), seconds,
        np.array([draws for _, draws in islands]), np.full(n_islands, np.nan),
    )  # fmt: skip


def _island(
    path: ThetaPath, plan: ThetaPlan, m: int, rng: Generator, stop: Callable[[], bool]
) -> tuple[Array, Array]:
    """A row per temperature (log Ẑ so far, ESS, acceptance, failures, work, time), and draws."""
    clock = time.perf_counter()
    cloud = path.draw(m, rng)
    evaluations, failures, log_z, beta = m, int(cloud.failed.sum()), 0.0, 0.0
    rows = []
    for new in plan.betas:
        if stop():
            raise Stopped
        weights = Weights((new - beta) * cloud.tilt)
        log_z += float(weights.log_mean)
        cloud = cloud.take(systematic(weights.relative, rng))
        beta, acceptance = float(new), []
        for _ in range(plan.n_moves if beta < 1.0 else 0):
            cloud, accepted, failed = path.walk(rng, plan.root, beta, cloud)
            acceptance.append(accepted)
            failures += failed
            evaluations += m
        mean = float(np.mean(acceptance)) if acceptance else np.nan
        seconds = time.perf_counter() - clock
        rows.append((log_z, float(weights.ess), mean, failures, evaluations, seconds))
        failures, evaluations, clock = 0, 0, time.perf_counter()
    return np.array(rows), np.column_stack([cloud.theta, cloud.ep - cloud.target])
