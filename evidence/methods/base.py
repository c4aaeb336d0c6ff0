"""What a method is given and what it gives back.

Warnings of methods and drivers are :class:`.Message` objects, whose codes are

======================  ======================================================================
``few-draws``           an island's draws are worth less than ten: the reference is far away
``few-islands``         a single island that has no error bar
``approximation-only``  nothing was finished in time, or ten times worse: log Z is EP's, say
``failed-proposals``    moves that were rejected because their numerics failed
``forward-only``        annealing was stopped before its way down
``heavy-tail``          weights of so heavy a tail that the error bar may be too small
``impossible``          numbers that no log Z can be, which are NaN now
``interrupted``         ^C: what was finished until then is used
``neck-missed``         draws in two stages saw more than annealing: the error bar has the gap
``no-estimate``         nothing was finished in time
``no-overlap``          levels of parallel tempering that are too far apart
``no-round-trips``      replicas that have not been at both ends of the ladder
``no-saddle-point``     minimax tilting found nothing to tilt by
``other-kernels``       parts of a checkpoint were computed on another kind of processor
``out-of-evaluations``  ``max_evaluations`` were used up: what was finished until then is used
``out-of-time``         ``max_seconds`` were over: what was finished until then is used
``search-unfinished``   a look from the prior ended before it could say what else there is
``slow-mixing``         the pilot's moves did not forget where they had started
``target-missed``       the error bar is larger than ``target_se``
``uneven-islands``      one island carries much of the estimate
``ways-disagree``       annealing upwards and downwards say different things
======================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..drivers import islands
from ..drivers.stopping import Budget, Run, Wave, run_waves
from ..execution.checkpoint import Checkpoint
from ..execution.clock import Clock, Stopped
from ..execution.job import Job
from ..execution.progress import Progress
from ..messages import Message
from ..moves.base import Move
from ..numerics.arrays import Array
from ..numerics.threads import blas_for
from ..paths.families import make_path
from ..paths.gp import TemperedPath
from ..statistics.weights import Weights
from .doubts import Doubt

T = TypeVar("T")
Piece = TypeVar("Piece", bound=tuple[Any, ...])

FIRST = 16  # islands of the first wave
N_DRAWS = 1000  # of the posterior
MARGIN = 2.0  # times as many draws as a trial says
SURE = 3.0  # standard errors by which one answer differs from another


@dataclass
class Problem:
    """A model and its reference, what the user asked for, and the means to run it."""

    model: Any
    reference: Any
    move: Move
    betas: Array | None
    target_se: float | None
    n_particles: int | None
    n_islands: int | None
    seed: np.random.SeedSequence
    clock: Clock
    progress: Progress
    checkpoint: Checkpoint
    executor: Executor | None = None
    n_betas: int | None = None
    """Temperatures, spaced like a pilot's."""
    free: bool = False
    """Whether the reference is the package's choice, which a method may improve."""
    frugal: bool = False
    """Whether there are many such problems, so that no draw is so cheap that it is nothing."""
    own_move: bool = False
    """Whether the move is the user's choice, which no method may replace."""
    _path: TemperedPath | None = None

    @property
    def path(self) -> TemperedPath:
        """The tempered path, made when first asked for."""
        if self._path is None:
            self._path = make_path(self.reference)
        return self._path

    @property
    def annealed(self) -> bool:
        """Whether the user asked for annealing, by a move or by temperatures."""
        return self.own_move or self.betas is not None or self.n_betas is not None

    @property
    def cheap(self) -> int:
        """Numbers to draw for an island that cost little beside the reference."""
        return 2**14 if self.frugal else 2**18

    @property
    def aim(self) -> float:
        """The error bar that decisions are made for: the target, or 0.05 where there is none."""
        return self.target_se or 0.05

    @property
    def n_draws(self) -> int:
        """Of the posterior, that a result keeps."""
        return getattr(self.model, "n_draws", None) or N_DRAWS

    def prepare(self, move: Move) -> None:
        """Do a move's factorisations once, here, for all workers."""
        with blas_for(self.model.n):
            move.prepare(self.path)

    def child(self, key: int) -> np.random.SeedSequence:
        """A seed of its own for everything that needs one."""
        keys = (*self.seed.spawn_key, key)
        return np.random.SeedSequence(self.seed.entropy, spawn_key=keys, pool_size=4)

    def particles_for(self, variance: float) -> float:
        """Particles of an island with which the first wave should meet the target, if one
        particle has this relative variance."""
        return variance / self.aim**2 / (self.n_islands or FIRST)

    def in_time(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T | None:
        """What the function returns, or None when time is up or the user has interrupted it."""
        try:
            return function(*arguments, **options)
        except Stopped:
            return None
        except KeyboardInterrupt:
            self.clock.interrupted.set()
            return None

    def once(self, name: str, kind: type[Piece], compute: Callable[[], Piece]) -> Piece | None:
        """The checkpoint's piece of this name, or what is computed now, :meth:`in_time`."""
        piece = self.checkpoint.get(name, kind)
        if piece is None and (piece := self.in_time(compute)) is not None:
            self.checkpoint.put(name, piece)
            self.checkpoint.save()
        return piece


@dataclass
class Outcome:
    """An estimate of log Z and everything known about it."""

    method: str
    logz: float = np.nan
    logz_se: float = np.nan
    trace: dict[str, Array] = field(default_factory=dict)
    history: dict[str, Array] = field(default_factory=dict)
    samples: Array | None = None
    islands: Array = field(default_factory=lambda: np.zeros(0))
    """log Ẑ of every island."""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    others: list[tuple[str, float, float]] = field(default_factory=list)
    """Further estimates from the same run: name, logz, logz_se."""
    components: list[tuple[str, float, float]] = field(default_factory=list)
    """Of a mixture, the same of every component."""
    component: Array = field(default_factory=lambda: np.zeros(0))
    """The component that every draw is of."""
    doubts: list[Doubt] = field(default_factory=list)
    """What the islands' spread does not know, until :func:`.widen` has settled it."""

    @property
    def staged(self) -> bool:
        """Whether its draws were made in two stages, with a measure of their own."""
        return self.settings.get("reference") == "staged"

    def warn(self, code: str, text: str) -> None:
        self.warnings.append(Message(code, text))

    def doubt(self, code: str, text: str, size: float) -> None:
        """A warning, and an error bar as wide as what it tells."""
        self.warn(code, text)
        self.doubts.append(Doubt(size, least=True))

    def unsay(self, *codes: str) -> None:
        """Warnings that hold no more."""
        self.warnings = [w for w in self.warnings if getattr(w, "code", "") not in codes]


def stopped(method: str) -> Outcome:
    """No more than a warning."""
    outcome = Outcome(method)
    outcome.warn("no-estimate", "stopped before the pilot run was over: there is no estimate")
    return outcome


def outcome_of_islands(
    problem: Problem, method: str, job: Job, stages: Array | None = None,
    step_sizes: Array | None = None, independent: bool = False,
    parameters: Callable[[Array], Array] | None = None, fewest_draws: int = 64,
    memory: int = 2**26, **budget: Any,
) -> tuple[Outcome, Run]:  # fmt: skip
    """Run islands of a job: their estimate, trace, history and draws.

    A :class:`.Budget` may have more than ``problem`` says; one stage, without a step size, is
    the default. Of ``independent`` draws the variance of all weights is known, too: the error bar
    is the larger of what it and the spread of the islands, often sixteen, say. ``parameters``
    are made of what islands keep; by default as the path makes them. Posterior draws are fewer
    where they have more than ``memory`` numbers, though not less than ``fewest_draws``.
    """
    run = run_waves(
        job, Budget(problem.target_se, **{"first": problem.n_islands or FIRST} | budget),
        problem.child(1), problem.clock, problem.progress, problem.checkpoint, problem.executor,
    )  # fmt: skip
    outcome = Outcome(method, warnings=run.warnings)
    outcome.history = {
        name: np.array([getattr(wave, name) for wave in run.history], dtype=float)
        for name in Wave._fields
    }
    if not run.blocks:
        return outcome, run
    blocks = [run.blocks[i] for i in sorted(run.blocks)]
    estimate = run.estimate()
    if independent and (own := run.se_of("variance")) > estimate.se:
        estimate = estimate._replace(se=own)
    outcome.logz, outcome.logz_se = estimate.value, estimate.se
    outcome.islands = run.final
    stages = np.ones(1) if stages is None else stages
    step_sizes = np.full(stages.size, np.nan) if step_sizes is None else step_sizes
    outcome.trace = islands.trace_columns(stages, blocks, step_sizes)
    outcome.trace["logz"][-1], outcome.trace["logz_se"][-1] = estimate.value, estimate.se
    rng = np.random.default_rng(problem.child(2))
    most = max(fewest_draws, memory // blocks[0].draws.shape[-1])
    parameters = parameters or problem.path.parameters
    wanted = min(problem.n_draws, most)
    outcome.samples = islands.posterior_draws(blocks, rng, wanted, parameters)
    return outcome, run


def warn_of_heavy_tail(outcome: Outcome, weights: Weights) -> None:
    """Where weights have a tail that islands may not meet."""
    if weights.heavy():
        outcome.warn(
            "heavy-tail",
            f"the weights of {weights.n} draws have a heavy tail (Pareto k = {weights.shape:.2f})"
            ": log Z may be too low and its error bar too small; method='smc' is a cross-check",
        )


def warn_of_few_draws(
    outcome: Outcome, run: Run, n_particles: int, why: str, few: float = 10.0
) -> None:
    """Where an island's draws are worth less than a ``few`` independent ones of equal weight."""
    if not run.blocks:
        return
    ess = float(np.mean([b.ess[-1] for b in run.blocks.values()])) * n_particles
    if ess < few:
        text = f"an island's {n_particles} draws are worth {ess:.1f}: {why}; use method='smc', "
        outcome.warn("few-draws", text + "or 'auto'")
