"""What a method is given and what it gives back."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..drivers import islands
from ..drivers.waves import Budget, Run, Wave, run_waves
from ..execution.checkpoint import Checkpoint
from ..execution.progress import Progress
from ..execution.tasks import Clock, Job, factorising, shielded
from ..moves.base import Move
from ..paths.families import make_path
from ..paths.gp import TemperedPath

Array = NDArray[np.float64]

_N_DRAWS = 1000


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
    _path: TemperedPath | None = None

    @property
    def path(self) -> TemperedPath:
        """The tempered path, made when first asked for."""
        if self._path is None:
            self._path = make_path(self.reference)
        return self._path

    def prepare(self, move: Move) -> None:
        """Do a move's factorisations once, here, for all workers."""
        with factorising(self.model.n):
            move.prepare(self.path)

    def child(self, key: int) -> np.random.SeedSequence:
        """A seed of its own for everything that needs one."""
        return np.random.SeedSequence(
            self.seed.entropy, spawn_key=(*self.seed.spawn_key, key), pool_size=4
        )

    def run(self, job: Job, budget: Budget) -> Run:
        """Islands by :func:`evidence.drivers.waves.run_waves`."""
        return run_waves(
            job, budget, self.child(1), self.clock, self.progress, self.checkpoint, self.executor
        )


@dataclass
class Outcome:
    """An estimate of log Z and everything known about it."""

    method: str
    logz: float = np.nan
    logz_se: float = np.nan
    trace: dict[str, Array] = field(default_factory=dict)
    history: dict[str, Array] = field(default_factory=dict)
    samples: Array | None = None
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    others: list[tuple[str, float, float]] = field(default_factory=list)
    """Further estimates from the same run: name, logz, logz_se."""


def outcome_of_islands(
    problem: Problem, method: str, run: Run, stages: Array, step_sizes: Array
) -> Outcome:
    """The estimate, trace, history and draws of a finished run."""
    outcome = Outcome(method, warnings=run.warnings)
    outcome.history = {
        name: np.array([getattr(wave, name) for wave in run.history], dtype=float)
        for name in Wave._fields
    }
    if not run.blocks:
        return outcome
    with shielded(problem.clock):
        blocks = [run.blocks[i] for i in sorted(run.blocks)]
        estimate = run.estimate()
        outcome.logz, outcome.logz_se = estimate.value, estimate.se
        outcome.trace = islands.trace_columns(stages, blocks, step_sizes)
        outcome.trace["logz"][-1], outcome.trace["logz_se"][-1] = estimate.value, estimate.se
        rng = np.random.default_rng(problem.child(2))
        draws = islands.posterior_draws(blocks, rng, _N_DRAWS)
        outcome.samples = problem.path.parameters(draws)
    return outcome
