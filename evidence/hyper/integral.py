r"""Tempering over hyperparameters, with an unbiased estimate of the evidence at each of them.

The target on θ (logs of hyperparameters) is :math:`p(\theta) \hat Z(\theta)`, with
the estimate :math:`\hat Z` from draws that EP guides (:mod:`evidence.proposals.guide`),
and the start a Student-t g around where EP's evidence is largest. Between them

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
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf
from scipy.special import gammaln

from ..approximations.gp.ep import fit_ep, rounding_error
from ..drivers.islands import Islands
from ..execution.clock import Stopped
from ..gaussians.base import NotPositiveDefinite, Sites
from ..models.gp import CovarianceError, GPModel
from ..models.priors import Priors
from ..proposals.guide import CannotGuide, make_guide
from ..statistics import ladders
from ..statistics.resampling import systematic

Array = NDArray[np.float64]

_DF = 5.0
_EP_TOLERANCE = 1e-3  # weights make up for the rest
_DIGITS = 0.1  # nats of rounding, where sites are ten orders stronger than the prior
_LONGEST = 24  # steps of a ladder


class StudentT(NamedTuple):
    """The start: location, lower root of the scale matrix."""

    mean: Array
    root: Array

    def draw(self, rng: np.random.Generator, m: int) -> Array:
        z = rng.standard_normal((m, self.mean.size)) @ self.root.T
        return self.mean + z / np.sqrt(rng.chisquare(_DF, (m, 1)) / _DF)

    def log_density(self, theta: Array) -> Array:
        p = self.mean.size
        white = solve_triangular(self.root, (theta - self.mean).T, lower=True)
        constant = gammaln(0.5 * (_DF + p)) - gammaln(0.5 * _DF) - 0.5 * p * math.log(_DF * np.pi)
        constant -= np.log(np.diag(self.root)).sum()
        return constant - 0.5 * (_DF + p) * np.log1p(np.sum(white**2, axis=0) / _DF)


@dataclass(frozen=True, eq=False)
class Target:
    """p(θ) Ẑ(θ), the θ without a prior held where the model has them."""

    model: GPModel
    priors: Priors
    sites: Sites
    """Where EP starts at every θ."""
    n_draws: int
    """Draws behind every Ẑ."""

    def evaluate(self, rng: np.random.Generator, theta: Array) -> tuple[Array, Array, int]:
        """log p(θ) Ẑ(θ), log p(θ) Z_EP(θ), and how many θ failed, for rows of ``theta``."""
        log_target = self.priors.log_density(theta)
        log_ep, failures = log_target.copy(), 0
        for i in np.flatnonzero(log_target > -np.inf):
            try:
                log_z, ep = self._estimate(rng, theta[i])
            except (CovarianceError, NotPositiveDefinite, CannotGuide, OverflowError):
                log_z = ep = -np.inf
                failures += 1
            log_target[i] += log_z
            log_ep[i] += ep
        return log_target, log_ep, failures

    def _estimate(self, rng: np.random.Generator, theta: Array) -> tuple[float, float]:
        everything = self.model.hyperparameters.theta.copy()
        everything[self.priors.free] = theta
        reference = fit_ep(self.model.at(everything), start=self.sites, tol=_EP_TOLERANCE)
        if not rounding_error(reference.model.prior, reference.sites, reference.mean) < _DIGITS:
            raise NotPositiveDefinite
        guide = make_guide(reference)
        _, log_w = guide.draw(self.n_draws, rng)
        log_mean = float(np.logaddexp.reduce(log_w)) - math.log(self.n_draws)
        return guide.log_z0 + log_mean, reference.logz


class Plan(NamedTuple):
    """Temperatures after 0, root of the walk's covariance, and steps at each temperature."""

    betas: Array
    root: Array
    n_moves: int


class Cloud(NamedTuple):
    """Particles: θ, log g, log p Ẑ and log p Z_EP."""

    theta: Array
    start: Array
    target: Array
    ep: Array

    @property
    def tilt(self) -> Array:
        return self.target - self.start

    def take(self, index: NDArray[np.intp]) -> Cloud:
        return Cloud(*(part[index] for part in self))


def first_cloud(
    target: Target, start: StudentT, rng: np.random.Generator, m: int
) -> tuple[Cloud, int]:
    """``m`` draws from the start, evaluated."""
    theta = start.draw(rng, m)
    log_target, ep, failures = target.evaluate(rng, theta)
    return Cloud(theta, start.log_density(theta), log_target, ep), failures


def walk(
    rng: np.random.Generator,
    target: Target,
    start: StudentT,
    root: Array,
    beta: float,
    cloud: Cloud,
) -> tuple[Cloud, float, int]:
    """One pseudo-marginal random-walk step of every particle; acceptance and failures."""
    m, p = cloud.theta.shape
    theta = cloud.theta + 2.38 / math.sqrt(p) * rng.standard_normal((m, p)) @ root.T
    log_target, ep, failures = target.evaluate(rng, theta)
    new = Cloud(theta, start.log_density(theta), log_target, ep)
    ratio = beta * (new.target - cloud.target) + (1.0 - beta) * (new.start - cloud.start)
    accepted = np.log(rng.random(m)) < ratio
    mixed = [np.where(accepted if a.ndim == 1 else accepted[:, None], a, b)
             for a, b in zip(new, cloud, strict=True)]  # fmt: skip
    return Cloud(*mixed), float(np.exp(np.minimum(ratio, 0.0)).mean()), failures


def plan_ladder(
    target: Target,
    start: StudentT,
    cloud: Cloud,
    rng: np.random.Generator,
    cess: float,
    n_moves: int,
) -> Plan:
    """Climb once from ``cloud`` by conditional ESS, then keep ladder and walk as they are."""
    betas, beta, root = [], 0.0, start.root
    while beta < 1.0:
        if len(betas) == _LONGEST - 1:
            betas.append(1.0)
            break
        new = ladders.next_beta(cloud.tilt, beta, cess)
        w = np.exp((new - beta) * (cloud.tilt - cloud.tilt.max()))
        root = spread(cloud.theta, w, start.root)
        cloud = cloud.take(systematic(w, rng))
        beta = new
        betas.append(beta)
        for _ in range(n_moves if beta < 1.0 else 0):
            cloud, _, _ = walk(rng, target, start, root, beta, cloud)
    return Plan(np.array(betas), root, n_moves)


def spread(theta: Array, w: Array, otherwise: Array) -> Array:
    """Lower root of the weighted covariance; ``otherwise`` where too few count for one."""
    w = w / w.sum()
    centred = theta - w @ theta
    cov = (w[:, None] * centred).T @ centred
    if 1.0 / np.sum(w * w) < 4.0 * theta.shape[1]:
        return otherwise
    root, info = dpotrf(cov, lower=1, clean=1)
    return root if info == 0 else otherwise


def run_theta_islands(
    target: Target,
    start: StudentT,
    plan: Plan,
    n_islands: int,
    n_particles: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
) -> Islands:
    """Independent islands; ``draws`` holds θ and, last, log Z_EP(θ) - log Ẑ(θ)."""
    rng = np.random.default_rng(seed)
    islands = [_island(target, start, plan, n_particles, rng, stop) for _ in range(n_islands)]
    log_z, ess, acceptance, failures, gradients, seconds, draws = (
        np.array(column) for column in zip(*islands, strict=True)
    )
    nothing = np.full(plan.betas.size, np.nan)
    return Islands(
        log_z.T, ess.mean(axis=0), acceptance.mean(axis=0), nothing, failures.sum(axis=0),
        gradients.sum(axis=0), np.full(plan.betas.size, float(n_particles)),
        seconds.sum(axis=0), draws, np.full(n_islands, np.nan),
    )  # fmt: skip


def _island(
    target: Target,
    start: StudentT,
    plan: Plan,
    m: int,
    rng: np.random.Generator,
    stop: Callable[[], bool],
) -> tuple[Array, ...]:
    clock = time.perf_counter()
    cloud, failures = first_cloud(target, start, rng, m)
    evaluations, log_z, beta = m, 0.0, 0.0
    rows = []
    for new in plan.betas:
        if stop():
            raise Stopped
        log_w = (new - beta) * cloud.tilt
        peak = log_w.max()
        w = np.exp(log_w - peak) if peak > -np.inf else np.zeros(m)
        log_z += peak + math.log(w.mean()) if peak > -np.inf else -math.inf
        if not w.any():  # nothing is left to go on with, Ẑ = 0
            w[:] = 1.0
        ess = w.mean() ** 2 / np.mean(w * w)
        cloud = cloud.take(systematic(w, rng))
        beta = float(new)
        acceptance = [np.nan]
        for _ in range(plan.n_moves if beta < 1.0 else 0):
            cloud, accepted, failed = walk(rng, target, start, plan.root, beta, cloud)
            acceptance.append(accepted)
            failures += failed
            evaluations += m
        mean = float(np.mean(acceptance[1:])) if acceptance[1:] else np.nan
        rows.append((log_z, ess, mean, failures, evaluations, time.perf_counter() - clock))
        failures, evaluations, clock = 0, 0, time.perf_counter()
    draws = np.column_stack([cloud.theta, cloud.ep - cloud.target])
    return (*(np.array(column) for column in zip(*rows, strict=True)), draws)
