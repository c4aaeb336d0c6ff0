"""Batches of a density while its mass is looked for: on an executor's workers, and kept.

A search asks for one batch after the other, in one thread. Where a batch takes long its points are
shared out, and where points take long their values are kept in the run's checkpoint: a run that
was killed evaluates again what a second or two may have left unwritten. Values do not depend on
where they come from, so a stopwatch may decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...execution.checkpoint import Checkpoint, digest
from ...execution.clock import Clock
from ...execution.job import Job
from ...execution.meter import tally
from ...execution.progress import Progress
from ...execution.tasks import run_in_order
from ...numerics.arrays import Array
from .functions import Batched

_DEAR = 1e-4  # seconds of a point whose value is kept: reading it back takes a hundredth


class Tape(NamedTuple):
    """Batches evaluated so far: their digests, sizes, and values one after the other."""

    keys: ArrayLike
    sizes: ArrayLike
    values: Array


class SharedBatches:
    """Evaluates batches of one model for one call."""

    def __init__(
        self, clock: Clock, executor: Executor | None, store: Checkpoint, progress: Progress
    ) -> None:
        self.clock, self.executor, self.store, self.progress = clock, executor, store, progress
        self._seconds = 0.0
        tape = store.get("evaluations", Tape)
        self._known: dict[str, Array] = {}
        if tape is not None:
            parts = np.split(tape.values, np.cumsum(np.atleast_1d(tape.sizes))[:-1])
            self._known = dict(zip(np.atleast_1d(tape.keys).tolist(), parts, strict=True))

    def values(self, function: Batched, x: Array, most: int = 128) -> Array:
        """The log density at rows x; of a function of one point ``most`` of them at a time, where
        they are to be kept, lest a long batch be lost as a whole."""
        parts, left = list[Array](), x
        if self.store.path is not None and not function.vectorized:
            while len(left) > most and (self._known or not 0.0 < self._seconds <= _DEAR):
                parts.append(self._values(function, left[:most]))
                left = left[most:]
        parts.append(self._values(function, left))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _values(self, function: Batched, x: Array, *, worth: float = 0.02) -> Array:
        """``worth``: seconds of a batch from which on handing it over costs little beside it."""
        keep = self.store.path is not None
        key = digest(x) if keep and (self._known or self._seconds > _DEAR) else ""
        if key in self._known:
            tally(len(x))
            return self._known[key]
        started = time.perf_counter()
        shared = self.executor is not None and self._seconds * len(x) > worth and len(x) > 1
        value = self._shared(function, x) if shared else function.here(x)
        seconds = (time.perf_counter() - started) / len(x)
        if not shared:
            self._seconds = seconds if not self._seconds else min(seconds, 2.0 * self._seconds)
        self.progress.advance(len(x))
        if keep and self._seconds > _DEAR:
            self._known[key or digest(x)] = value
            if self.store.due():
                self.save()
        return value

    def save(self) -> None:
        """Put what was evaluated into the checkpoint."""
        if self._known:
            sizes = np.array([value.size for value in self._known.values()])
            tape = Tape(list(self._known), sizes, np.concatenate(list(self._known.values())))
            self.store.put("evaluations", tape)
            self.store.save()

    def _shared(self, function: Batched, x: Array, *, most_parts: int = 64) -> Array:
        """``most_parts``: parts of a batch, at most, that workers share."""
        parts = np.array_split(x, min(len(x), most_parts))
        job, tasks = Job(_values, (function,)), [{"x": part} for part in parts]
        return np.concatenate(run_in_order(job, tasks, self.clock, self.executor))


def _values(function: Batched, x: Array, stop: Callable[[], bool]) -> Array:
    function.worked = True  # where the search began
    return function.here(x)
