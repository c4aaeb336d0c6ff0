r"""Sequential Monte Carlo samplers in independent islands: one loop, and what varies in it.

Particles are *weighed* for the next target, *resampled* where their weights have become uneven,
and *moved* (Chopin 2002; Del Moral, Doucet and Jasra 2006). On a tempered path, with the plan
fixed in advance, every island's

.. math:: \hat Z = Z_q \prod_t \sum_i W_t^i \exp(\Delta\beta_t \sum_n h_n(x_t^i))

is unbiased for Z whatever the number of particles, so the answer is the mean of Ẑ over islands
(not of log Ẑ) and its error bar comes from their spread, with no assumption about mixing.

:class:`ResampleMove`
    Weights are carried on until their effective sample size is below ``threshold``.

:class:`WasteFree`
    Of N particles M are resampled; each makes P - 1 moves, and the M chains of length P = N/M
    are the next N particles (Dau and Chopin 2022). Nothing that was computed is thrown away,
    and long chains take care of slow mixing. As a particle filter whose particles are whole
    chains it is unbiased, too. What a chain inherits from its ancestors makes variances that
    one island could report of itself too small by a third and more, so it reports none.

:class:`Adaptive`
    More particles where a step is hard (Fraccaro, Paquet and Winther 2016). While the effective
    sample size of R particles is below ``threshold`` R, further rounds of R are generated, each
    properly weighted for the current target, and averaged with those before; then R particles
    are resampled. (Only the *absolute* size grows: relative to their number it tends to
    1/(1 + v), with v the relative variance of the weights, however many there are.)
    At β = 0 a round is a set of fresh exact draws from the reference; later it consists of

    ``"copy"``: the base particles with their weights, moved;

    ``"anticipate"``: ancestors resampled by :math:`w^i W(x^i)`, which the *next* target
    favours, and moved. A copy x' carries :math:`\sum_j w^j W(x^j) / (R\,W(x^{\rm ancestor}))`
    before W(x') is applied. That pays where moves are short; where they forget, W(x')/W(x) is
    more uneven than W(x');

    ``"reseed"``: draws of the current target by ``sampler(rng, beta, m)``, shape (m, N).

    With numbers of rounds fixed in advance Ẑ is exactly unbiased, whatever the moves' mixing.
    Stopping on the effective sample size makes it low by a part of order 1/R: a set that
    happens to miss large weights looks good and is kept, one that has them is diluted. Where
    that is a tenth of an island's sd, averaging a hundred islands makes it as large as the
    error bar; numbers of rounds from a first run are rid of it.

Each is a description that knows neither the model nor how states move; :meth:`Loop.run` runs
islands of it, as one batch. A variant overrides a step; :mod:`.data` and :mod:`.annealing` hold
two more.

References
----------
N. Chopin, Biometrika 89 (2002) 539. P. Del Moral, A. Doucet and A. Jasra, J. R. Stat. Soc. B 68
(2006) 411. H.-D. Dau and N. Chopin, J. R. Stat. Soc. B 84 (2022) 114. M. Fraccaro, U. Paquet and
O. Winther, arXiv:1604.01972 (2016).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ..execution.clock import Stopped, check_interrupt
from ..moves.base import Info, Move, State, StateT, stacked, take
from ..numerics.arrays import Array, Flags, Rng
from ..paths.gp import TemperedPath
from ..statistics.genealogy import Genealogy
from ..statistics.resampling import Ancestors
from ..statistics.weights import Weights
from .islands import KEEP, Islands, Row
from .plan import REFERENCE, Plan, Stage, correlation, run_moves, strided

Sampler = Callable[[np.random.Generator, float, int], Array]


@dataclass
class Population:
    """G islands of R particles at one target, and what its moves told since the last report."""

    rng: Rng
    log_w: Array
    """(G, R), of mean weight one within each island."""
    log_z: Array
    """(G,)"""
    infos: list[Info] = field(default_factory=list)


PopulationT = TypeVar("PopulationT", bound=Population)
StageT = TypeVar("StageT")


class Loop(Generic[PopulationT, StageT]):
    """Weigh, resample, move: a subclass says what particles are and how each step is done."""

    resampling: str
    """A scheme of :mod:`.resampling`."""
    threshold: float
    """Islands are resampled when their relative effective sample size is below."""
    i_max: int = 0
    """Rounds of R particles added at most, while their effective sample size is too small."""
    particles: Array | None = None
    """Numbers of particles fixed in advance, at every step, in the place of that."""

    @property
    def stages(self) -> Sequence[StageT]:
        """What the steps are told of the targets, one after the other."""
        raise NotImplementedError

    def run(
        self, n_islands: int, n_particles: int, seed: np.random.SeedSequence,
        stop: Callable[[], bool] = lambda: False,
    ) -> Islands:  # fmt: skip
        """``n_islands`` islands of ``n_particles`` each, as one batch."""
        population = self.start(np.random.default_rng(seed), n_islands, n_particles)
        rows: list[Row] = []
        for t, stage in enumerate(stages := self.stages, start=1):
            started, last = time.perf_counter(), t == len(stages)
            weights = self.weigh(population, stage)
            short = self.short(population, weights, t)
            while short.size and not stop():
                weights.add(self.another_round(population, stage, short), short)
                short = self.short(population, weights, t)
            if short.size or stop():
                raise Stopped
            population.log_z = population.log_z + self.log_mean(population, weights)
            if last:
                variance = self.variance(population, weights)
            poor = self.poor(population, weights) | last
            self.resample(population, weights, poor)
            mixing = self.move_all(population, stage, poor)
            infos, population.infos = population.infos, []
            ess, particles = self.ess(population, weights), float(weights.count.mean())
            rows.append(Row.of(population.log_z, ess, infos, started, mixing, particles))
        return Islands.of(rows, self.draws(population), variance, lost=self.lost(population))

    def start(self, rng: Rng, n_islands: int, n_particles: int) -> PopulationT:
        """The population at the first target."""
        raise NotImplementedError

    def weigh(self, population: PopulationT, stage: StageT) -> Weights:
        """Weights for the target of ``stage``."""
        raise NotImplementedError

    def log_mean(self, population: PopulationT, weights: Weights) -> Array:
        """By how much a step moves each island's log Z."""
        return np.asarray(weights.log_mean)

    def short(self, population: PopulationT, weights: Weights, t: int) -> Ancestors:
        """Islands that want another round for step ``t``."""
        r = population.log_w.shape[1]
        if self.particles is not None:
            wanted = max(np.rint(self.particles[t - 1] / r), 1.0) * r
            return np.flatnonzero(weights.count < wanted)
        small = weights.ess * weights.count < self.threshold * r
        return np.flatnonzero(small & (weights.count <= self.i_max * r))

    def another_round(self, population: PopulationT, stage: StageT, islands: Ancestors) -> Array:
        """R more particles for some islands: their log weights."""
        raise NotImplementedError

    def ess(self, population: PopulationT, weights: Weights) -> float:
        """The effective sample size to report."""
        return float(weights.ess.mean())

    def variance(self, population: PopulationT, weights: Weights) -> Array | None:
        """Each island's own estimate of the relative variance of its Ẑ, if it has one."""
        return None

    def lost(self, population: PopulationT) -> Array | None:
        """log of what failures would have added to each island's Ẑ, if that is known."""
        return None

    def poor(self, population: PopulationT, weights: Weights) -> Flags:
        """Islands to resample: those with uneven weights, and those that have grown."""
        return (weights.ess < self.threshold) | (weights.count > population.log_w.shape[1])

    def resample(self, population: PopulationT, weights: Weights, poor: Flags) -> None:
        """Survivors, R for each island, and their weights."""
        population.log_w = np.where(poor[:, None], 0.0, weights.normalised)
        if poor.any():
            self.survive(population, weights.resample(poor, self.resampling, population.rng), poor)

    def survive(self, population: PopulationT, index: Ancestors, poor: Flags) -> None:
        """Go on with particles ``index``, (G, R), of the stacked rounds."""
        raise NotImplementedError

    def move_all(self, population: PopulationT, stage: StageT, poor: Flags) -> float:
        """Moves under the target of ``stage``; how they mix."""
        raise NotImplementedError

    def draws(self, population: PopulationT) -> Array:
        """Some particles of each island as latent values, (G, kept, N)."""
        raise NotImplementedError


@dataclass
class Climbers(Population):
    """Particles at a temperature: the rows of a state, island by island."""

    state: Any = None
    rounds: list[Any] = field(default_factory=list)
    """States of further rounds."""
    stage: Stage = REFERENCE
    steps: int = 0
    """Moves made so far, which take strides in turn."""
    family: Genealogy | None = None


@dataclass(frozen=True)
class ResampleMove(Loop[Climbers, Stage]):
    """Particles climb a plan."""

    path: TemperedPath
    move: Move
    plan: Plan
    resampling: str = "systematic"
    threshold: float = 0.7
    length: ClassVar[int] = 1
    knows_variance: ClassVar[bool] = True

    @property
    def stages(self) -> list[Stage]:
        return self.plan.stages

    def start(self, rng: Rng, n_islands: int, n_particles: int) -> Climbers:
        shape = n_islands, -(-n_particles // self.length)
        state = self.move.init_reference(rng, self.path, self.length * n_islands * shape[1])
        family = Genealogy(*shape, self.resampling) if self.knows_variance else None
        log_z = np.full(n_islands, self.path.log_z0)
        return Climbers(rng, np.zeros(shape), log_z, state=state, family=family)

    def weigh(self, population: Climbers, stage: Stage) -> Weights:
        increments = self.increment(population, stage, population.state)
        first, *others = increments.reshape(-1, *population.log_w.shape)
        weights = Weights(population.log_w + first)
        for other in others:
            weights.add(population.log_w + other)
        return weights

    def increment(self, population: Climbers, stage: Stage, state: State) -> Array:
        """log W of the rows of a state."""
        return (stage.beta - population.stage.beta) * state.tilt

    def variance(self, population: Climbers, weights: Weights) -> Array | None:
        family = population.family
        return None if family is None else family.variance(weights.relative)

    def survive(self, population: Climbers, index: Ancestors, poor: Flags) -> None:
        everyone = stacked([population.state, *population.rounds])
        population.state, population.rounds = take(everyone, index.ravel()), []
        if population.family is not None:
            population.family.resample(index, poor)

    def move_all(self, population: Climbers, stage: Stage, poor: Flags) -> float:
        population.stage = stage
        population.state, mixing = self.moved(population, population.state)
        return mixing

    def moved(self, population: Climbers, state: StateT) -> tuple[StateT, float]:
        """After the moves that the plan has for the present temperature."""
        beta, step_size, n_moves = population.stage
        moves = strided(self.move, step_size, population.steps, n_moves)
        state, infos, mixing = run_moves(population.rng, self.path, beta, state, moves)
        population.steps += n_moves
        population.infos += infos
        return state, mixing

    def draws(self, population: Climbers) -> Array:
        rows = self.kept(population)
        x = self.move.latent(self.path, take(population.state, rows.ravel()))
        return x.reshape(*rows.shape, self.path.n)

    def kept(self, population: Climbers) -> Ancestors:
        """Rows of the state that are kept, (G, kept): spread evenly, as ancestors ascend."""
        g, m = population.log_w.shape
        return np.arange(g * m).reshape(g, m)[:, :: max(1, -(-m // KEEP))]


@dataclass(frozen=True)
class WasteFree(ResampleMove):
    """Chains of ``length`` of which every state is a particle; numbers are rounded up."""

    length: int = 8  # type: ignore[misc]
    knows_variance: ClassVar[bool] = False

    def move_all(self, population: Climbers, stage: Stage, poor: Flags) -> float:
        links = [population.state]
        for move in strided(self.move, stage.step_size, 0, self.length - 1):
            check_interrupt()
            copy = take(links[-1], np.arange(population.log_w.size))  # steps work in place
            state, info = move.step(population.rng, self.path, stage.beta, copy)
            links.append(state)
            population.infos.append(info)
        population.state, population.stage = stacked(links), stage
        return correlation(links[0].tilt, links[-1].tilt)

    def kept(self, population: Climbers) -> Ancestors:
        g, m = population.log_w.shape
        link, chain = np.divmod(population.rng.permutation(self.length * m)[:KEEP], m)
        return (link * g + np.arange(g)[:, None]) * m + chain


@dataclass(frozen=True)
class Adaptive(ResampleMove):
    """Rounds of particles are added where a step is hard."""

    resampling: str = "residual"
    i_max: int = 50
    particles: Array | None = None
    generate: str = "copy"
    sampler: Sampler | None = None
    knows_variance: ClassVar[bool] = False

    def another_round(self, population: Climbers, stage: Stage, islands: Ancestors) -> Array:
        r = population.log_w.shape[1]
        rng, log_w = population.rng, np.zeros((islands.size, r))
        rows = islands[:, None] * r + np.arange(r)
        if population.stage.beta == 0.0:
            state = self.move.init_reference(rng, self.path, rows.size)
        elif self.generate == "reseed":
            assert self.sampler is not None
            x = self.sampler(rng, population.stage.beta, rows.size)
            state = self.move.init(self.path, x)
        else:
            log_w = population.log_w[islands]
            if self.generate == "anticipate":
                increment = self.increment(population, stage, population.state)[rows]
                following = Weights(log_w + increment)
                chosen = following.resample(np.ones(islands.size, bool), self.resampling, rng)
                log_w = following.log_mean[:, None] - increment.ravel()[chosen]
                rows = rows.ravel()[chosen]
            state, _ = self.moved(population, take(population.state, rows.ravel()))
        population.rounds.append(state)
        return log_w + self.increment(population, stage, state).reshape(log_w.shape)

    def kept(self, population: Climbers) -> Ancestors:
        rows = np.arange(population.log_w.size).reshape(population.log_w.shape)
        return population.rng.permuted(rows, axis=1)[:, :KEEP]
