"""What all long calls share: a budget that is checked once, a clock, a checkpoint and its seed."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import __version__
from ..execution import arguments
from ..execution.checkpoint import Checkpoint, digest
from ..execution.clock import Clock, Stopped, within
from ..execution.meter import Meter, metered
from ..execution.progress import Progress, compiling
from ..numerics.threads import blas_kernels
from ..paths.families import Reference
from ..results.base import Identified, fingerprint

DEFAULT_TARGET_SE = 0.05
FINE = 0.002  # of Bayes factors that people report to half a percent
ROUGH = 0.1  # the same for an integral over hyperparameters that is only averaged over


@dataclass
class Call:
    """The words that every long call takes, checked; and what they open.

    ``size`` is how many numbers a particle is.
    """

    target_se: float | None = None
    n_particles: int | None = None
    n_islands: int | None = None
    max_seconds: float | None = None
    max_evaluations: int | None = None
    random_seed: int | np.random.Generator | None = None
    executor: Executor | None = None
    checkpoint: str | os.PathLike[str] | None = None
    progressbar: bool = True
    size: int = 1
    clock: Clock = field(init=False)
    store: Checkpoint = field(init=False)
    seed: np.random.SeedSequence = field(init=False)

    def __post_init__(self) -> None:
        self.target_se = arguments.check_target("target_se", self.target_se)
        self.max_seconds = arguments.check_positive("max_seconds", self.max_seconds)
        arguments.check_count("max_evaluations", self.max_evaluations, 1)
        arguments.check_count("n_particles", self.n_particles, 2)
        arguments.check_count("n_islands", self.n_islands, 1)
        arguments.check_memory("n_particles", self.n_particles, self.n_particles, self.size)
        arguments.check_memory("n_islands", self.n_islands, self.n_islands, arguments.ISLAND)
        arguments.check_path("checkpoint", self.checkpoint)
        arguments.check_executor(self.executor)

    def until_target(self, target_se: float = DEFAULT_TARGET_SE) -> None:
        """The default target where nothing else says when to stop."""
        if self.target_se is None and self.n_particles is None and self.n_islands is None:
            self.target_se = target_se

    @property
    def budget(self) -> dict[str, Any]:
        names = ("target_se", "n_particles", "n_islands")
        return {name: getattr(self, name) for name in names}

    @property
    def words(self) -> dict[str, Any]:
        """This call's own words, for another one in its place."""
        names = ("max_seconds", "random_seed", "executor", "checkpoint", "progressbar")
        return self.budget | {name: getattr(self, name) for name in names}

    @property
    def told(self) -> dict[str, Any]:
        """What a result says of its call, and of the kernels that its last digits depend on."""
        limits = {"max_seconds": self.max_seconds, "max_evaluations": self.max_evaluations}
        return {**self.budget, **limits, **self.told_seed, "blas": blas_kernels()}

    @property
    def told_seed(self) -> dict[str, Any]:
        """The seed, where it is one that can be given again."""
        whole = isinstance(self.random_seed, numbers.Integral)
        return {"random_seed": self.random_seed if whole else None}

    def begin(
        self, model: Identified | None = None, identity: Callable[[], Mapping[str, Any]] = dict
    ) -> None:
        """Start the clock, and open the checkpoint of this run; ``identity`` is what decides its
        numbers besides the model and the seed, and is asked for where there is a file."""
        self.clock = Clock(self.max_seconds, Meter(self.max_evaluations))
        known: dict[str, Any] = {}
        if self.checkpoint is not None and model is not None:
            known = {"package version": __version__, "model": fingerprint(model), **identity()}
        self.store, self.seed = Checkpoint.seeded(self.checkpoint, known, self.random_seed)

    @contextmanager
    def under_way(self) -> Iterator[Progress]:
        """The call itself, counted, with its line of progress."""
        with (
            metered(self.clock.meter),
            compiling(self.progressbar),
            Progress(self.progressbar) as progress,
        ):
            yield progress

    @contextmanager
    def in_time(self, what: str) -> Iterator[None]:
        """All the time there is, for what has to be done before anything is known."""
        try:
            with within(self.clock.last_moment):
                yield
        except Stopped:
            raise RuntimeError(
                f"max_seconds={self.max_seconds:g} were over before {what}; allow more time"
            ) from None

    def too_early(self, what: str, tune: int) -> BaseException:
        """Why a run of chains has nothing to show: it ended before ``what``."""
        if self.clock.interrupted.is_set():
            return KeyboardInterrupt()
        return RuntimeError(
            f"the run ended before {what} (max_seconds={self.max_seconds}, tune={tune}); allow "
            "more time or tune less"
        )


def check_chains(**counts: int) -> dict[str, int]:
    """How many chains, and how many steps of each for what."""
    for name, value in counts.items():
        least, most = 0 if name == "tune" else 1, arguments.LONGEST
        arguments.check_count(name, value, least, optional=False, below=most)
    return counts


def in_identity(reference: str | Reference | None) -> str | None:
    """What a checkpoint keeps of where a run starts."""
    if reference is None or isinstance(reference, str):
        return reference
    return digest(*reference.identity())
