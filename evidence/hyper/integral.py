r"""Tempering over hyperparameters, with an unbiased estimate of the evidence at each of them.

The target on θ (logs of hyperparameters) is :math:`p(\theta) \hat Z(\theta)`, with an unbiased
estimate :math:`\hat Z` (:mod:`.at_theta`), and the start g is p times a surrogate of EP's
evidence (:mod:`.surrogate`), whose integral every island estimates for itself. Between them

.. math:: \gamma_\beta(\theta, u) = g(\theta)^{1-\beta}\,
          [p(\theta)\,\hat Z(\theta, u)]^\beta\,m(u),

u being the random numbers behind :math:`\hat Z`, which travel with their θ. At β = 1 the
integral over u restores Z(θ), so every island's estimate is unbiased for
:math:`\int p(\theta) Z(\theta)\,d\theta`, whatever the noise in :math:`\hat Z`, the fit of g
and the number of particles. (A θ at which numbers fail counts as Z = 0; it is reported, and the
error bar holds what the start, by EP's evidence nearby, expected of it.)
Where g fits, the ladder has one step and this is importance sampling, with the surrogate's own
weights as a control variate: what is known of g costs nothing, so that g may cover tails amply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from scipy.linalg import solve_triangular
from scipy.special import chdtri, gammaln, ndtri
from scipy.stats import qmc

from ..drivers.smc import Climbers, Loop
from ..models.priors import Priors
from ..moves.base import Info, metropolis, take
from ..numerics.arrays import Array, Flags
from ..statistics.resampling import Ancestors, systematic
from ..statistics.weights import Weights
from .at_theta import NoEvidence
from .surrogate import Surrogate


class EvidenceAt(Protocol):
    """What is integrated: (θ, rng) to log Ẑ(θ) and log Z_EP(θ), or :class:`.NoEvidence`."""

    def __call__(self, theta: Array, rng: Generator) -> tuple[float, float]: ...


_DF = 5.0


class StudentMixture(NamedTuple):
    """Student-t's in P dimensions, drawn by a scrambled Sobol' net."""

    shares: Array
    """(K,)"""
    means: Array
    """(K, P)"""
    roots: Array
    """(K, P, P), lower roots of their scale matrices."""

    def control(self, theta: Array, g: Array) -> Array:
        """log of what weights are expected to be at the rows of θ, of log density ``g``."""
        return np.zeros(len(theta))

    def draw(
        self, rng: Generator, m: int, *, finest: float = 2**-40
    ) -> tuple[Array, float, float]:
        """``m`` rows of θ, the log of an unbiased estimate of the density's integral, and the
        mean of what :meth:`control` is the log of.

        ``finest``: distance from 0 and 1 that numbers of a net keep.
        """
        p = self.means.shape[1]
        net = qmc.Sobol(p + 2, rng=rng).random_base2(math.ceil(math.log2(m)))[:m]
        net = np.clip(net, finest, 1.0 - finest)
        k = np.searchsorted(np.cumsum(self.shares[:-1]), net[:, 0])
        z = ndtri(net[:, 2:]) / np.sqrt(chdtri(_DF, net[:, 1:2]) / _DF)
        return self.means[k] + np.einsum("mij,mj->mi", self.roots[k], z), 0.0, 1.0

    def log_density(self, theta: Array) -> Array:
        """Log density at the rows of θ."""
        p = self.means.shape[1]
        constant = gammaln(0.5 * (_DF + p)) - gammaln(0.5 * _DF) - 0.5 * p * math.log(_DF * np.pi)
        total = np.full(len(theta), -np.inf)
        for share, mean, root in zip(*self, strict=True):
            white = solve_triangular(root, (theta - mean).T, lower=True)
            log_t = constant - np.log(np.diag(root)).sum()
            log_t -= 0.5 * (_DF + p) * np.log1p(np.sum(white**2, axis=0) / _DF)
            total = np.logaddexp(total, math.log(share) + log_t)
        return total


@dataclass(frozen=True, eq=False)
class SurrogateStart:
    r"""p(θ) times a surrogate s of the evidence, plus a little of the proposal q.

    ``size`` draws from q, weighted and resampled, are draws from this density, as they are
    properly weighted: for any function f their mean of f, times the mean weight, which is the
    estimate of the density's integral, has the right expectation, however few they are
    (C. A. Naesseth, F. Lindsten and T. B. Schön, ICML 2015). So neither has s to be normalised
    nor need it be right.
    """

    priors: Priors
    surrogate: Surrogate
    ceiling: tuple[float, float]
    """of the log density"""
    proposal: StudentMixture
    floor: float = -math.inf
    """log of what the proposal is multiplied with."""
    size: int = 1024

    def log_density(self, theta: Array, *, most_doubt: float = 3.0) -> Array:
        """``most_doubt``: nats by which a start exceeds its surrogate, at most."""
        prior = self.priors.log_density(theta)
        doubt = np.minimum(2.0 * self.surrogate.variance(theta), most_doubt)
        log_s = np.minimum(self.surrogate.mean(theta) + doubt, self.ceiling[0])
        log_s = np.minimum(prior + log_s, self.ceiling[1])
        floor = self.floor + self.proposal.log_density(theta)
        return np.where(prior > -np.inf, np.logaddexp(log_s, floor), -np.inf)

    def control(self, theta: Array, g: Array) -> Array:
        prior = self.priors.log_density(theta)
        log_s = np.minimum(self.surrogate.mean(theta), self.ceiling[0])
        log_s = np.minimum(prior + log_s, self.ceiling[1])
        inside = prior > -np.inf
        return np.where(inside, log_s - np.where(inside, g, 0.0), -np.inf)

    def draw(self, rng: Generator, m: int) -> tuple[Array, float, float]:
        theta = self.proposal.draw(rng, self.size)[0]
        g = self.log_density(theta)
        weights = Weights(g - self.proposal.log_density(theta))
        w = weights.relative
        expected = float(w @ np.exp(self.control(theta, g)) / w.sum())
        return theta[systematic(w, rng, m)], float(weights.log_mean), expected

    def posterior(self, rng: Generator, n: int) -> Array:
        """About ``n`` equally weighted draws of θ, if the surrogate is right."""
        theta = self.proposal.draw(rng, max(self.size, 16 * n))[0]
        log_w = self.priors.log_density(theta) - self.proposal.log_density(theta)
        log_w += np.minimum(self.surrogate.mean(theta), self.ceiling[0])
        return rng.permutation(theta[systematic(Weights(log_w).relative, rng, n)])


class ThetaCloud(NamedTuple):
    """Particles: θ, log g, log p Ẑ, log p Z_EP, log of the weight expected, and 1 where numbers
    failed, else 0."""

    theta: Array
    start: Array
    target: Array
    ep: Array
    control: Array
    failed: Array

    @property
    def tilt(self) -> Array:
        return self.target - self.start


@dataclass(frozen=True, eq=False)
class ThetaPath:
    """From the start g, which need not be normalised, to p(θ) Ẑ(θ)."""

    evidence: EvidenceAt
    priors: Priors
    start: StudentMixture | SurrogateStart

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
        g = self.start.log_density(theta)
        return ThetaCloud(theta, g, target, ep, self.start.control(theta, g), failed)

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
    control: bool = False
    """Whether a single step has a control variate."""


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
        drawn = [self.path.start.draw(rng, n_particles) for _ in range(n_islands)]
        thetas, log_z, expected = zip(*drawn, strict=True)
        cloud = self.path.at(np.concatenate(thetas), rng)
        info = Info(np.empty(0), int(cloud.failed.sum()), len(cloud.theta))
        share = (cloud.failed * np.exp(cloud.control)).reshape(shape).mean(axis=1)
        with np.errstate(divide="ignore"):
            state = cloud, np.array(expected), np.array(log_z) + np.log(share)
        return Climbers(rng, np.zeros(shape), np.array(log_z), [info], state=state)

    def weigh(self, population: Climbers, stage: tuple[float, float]) -> Weights:
        tilt = population.state[0].tilt.reshape(population.log_w.shape)
        return Weights((stage[1] - stage[0]) * tilt)

    def log_mean(
        self, population: Climbers, weights: Weights, *, most_change: float = 0.8
    ) -> Array:
        r"""Of one step with a control variate, c, the weights that a right surrogate would have.

        Their mean under the start is known, so :math:`\bar w - \bar c + \mathrm{E}[c]` is as
        unbiased as :math:`\bar w` and free of what is known: that the start covers more than the
        surrogate. (Where it is not positive, or small, numbers are few and weights wild: the
        plain mean is taken.)

        ``most_change``: change of an island's mean weight by its control variate, at most.
        """
        plain = super().log_mean(population, weights)
        if not self.plan.control:
            return plain
        cloud, expected, _ = population.state
        control = np.exp(cloud.control).reshape(population.log_w.shape).mean(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            change = (expected - control) * np.exp(-plain)
        return plain + np.log1p(np.where(change > -most_change, change, 0.0))

    def survive(self, population: Climbers, index: Ancestors, poor: Flags) -> None:
        cloud, *rest = population.state
        population.state = take(cloud, index.ravel()), *rest

    def move_all(self, population: Climbers, stage: tuple[float, float], poor: Flags) -> float:
        beta = stage[1]
        for _ in range(self.plan.n_moves if beta < 1.0 else 0):
            cloud, *rest = population.state
            cloud, info = self.path.walk(population.rng, self.plan.root, beta, cloud)
            population.state = cloud, *rest
            population.infos.append(info)
        return np.nan

    def lost(self, population: Climbers) -> Array:
        """By the weights that were expected where numbers failed."""
        return population.state[2]

    def draws(self, population: Climbers) -> Array:
        cloud, shape = population.state[0], population.log_w.shape
        with np.errstate(invalid="ignore"):  # of islands that are lost
            gap = cloud.ep - cloud.target
        return np.column_stack([cloud.theta, gap]).reshape(*shape, -1)
