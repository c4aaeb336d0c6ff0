"""Markov chains at one temperature: a batch with one row per chain, tuned and then recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..execution.checkpoint import Checkpoint
from ..execution.clock import Clock
from ..moves.base import Info, Move
from ..numerics.arrays import Array, Rng
from ..paths.gp import TemperedPath
from ..statistics.adaptation import DualAveraging
from .jumps import Jumps
from .plan import sized


@dataclass
class Chains:
    """Recorded draws and what happened on the way."""

    x: Array  # (chains, draws, N)
    tilt: Array  # (chains, draws)
    acceptance: Array  # (chains,)
    step_size: float
    seconds: float
    tune_seconds: float
    gradients: int
    failures: int
    interrupted: bool


class SoFar(NamedTuple):
    """All that chains need to go on, but their state: what a checkpoint keeps of them."""

    generator: str
    tuned: int
    tuner: Array
    x: Array
    tilt: Array
    acceptance: Array
    gradients: int
    failures: int
    seconds: Array


def run_chains(
    path: TemperedPath, move: Move, rng: Rng, clock: Clock,
    advance: Callable[[int], Any] = lambda steps: None, checkpoint: Checkpoint | None = None,
    jumps: Jumps | None = None, initial: Array | None = None, *, beta: float, chains: int,
    tune: int, draws: int, thin: int,
) -> Chains:  # fmt: skip
    """Tune for ``tune`` steps, then record every ``thin``-th of ``thin · draws`` steps.

    The step size adapts while tuning and is fixed afterwards, so what is recorded is a Markov
    chain. ^C or the clock end the run early, with what there is. ``advance`` is told of steps.
    With a checkpoint the run goes on where it ended before, and ends with the same bits.
    With ``jumps`` chains start in all modes and go between them; ``path`` is then theirs.
    Chains start from the rows of ``initial``, latent values, where there are any, and from draws
    of the reference otherwise.
    """
    if jumps is not None:
        state = jumps.start(rng, move, chains)
    elif initial is not None:
        state = move.init(path, initial)
    else:
        state = move.init_reference(rng, path, chains)
    store = checkpoint or Checkpoint(None, {})
    run = _Run(path, move, rng, clock, advance, store, jumps, beta, state, chains, draws, thin)
    run.resume()
    interrupted = False
    try:
        run.adapt(tune)
        run.record()
        run.keep()
    except KeyboardInterrupt:  # within a step: what was kept last counts for a next time
        if not run.kept:
            raise
        interrupted = True
    return run.recorded(interrupted)


class _Run:
    """Chains on their way: their state, what was recorded, and what it took. ``stride`` draws are
    between two jumps."""

    def __init__(
        self, path: TemperedPath, move: Move, rng: Rng, clock: Clock,
        advance: Callable[[int], Any], store: Checkpoint, jumps: Jumps | None, beta: float,
        state: Any, chains: int, draws: int, thin: int, stride: int = 4,
    ) -> None:  # fmt: skip
        self.path, self.move, self.rng, self.clock = path, move, rng, clock
        self.advance, self.store, self.jumps, self.beta = advance, store, jumps, beta
        self.state, self.draws, self.thin, self.stride = state, draws, thin, stride
        self.tuner, self.tuned, self.kept = DualAveraging(move.step_size, move.target or 0.5), 0, 0
        self.x, self.tilt = np.empty((chains, draws, path.n)), np.empty((chains, draws))
        #: acceptance, gradients and failures of what was recorded
        self.counts: tuple[Array, int, int] = (np.zeros(chains), 0, 0)
        self.size = 1  # draws that one call records
        self.began = self.ready = time.perf_counter()

    def resume(self) -> None:
        """Go on where an earlier run ended, if one did."""
        earlier = self.store.get("chains", SoFar)
        if earlier is None:
            return
        self.state = self.store.get("state", type(self.state))
        self.rng.bit_generator.state = json.loads(earlier.generator)
        self.tuned, self.tuner.memory = earlier.tuned, earlier.tuner
        self.kept = earlier.tilt.shape[1]
        self.x[:, : self.kept], self.tilt[:, : self.kept] = earlier.x, earlier.tilt
        self.counts = earlier.acceptance, earlier.gradients, earlier.failures
        self.ready -= earlier.seconds[1]
        self.began = self.ready - earlier.seconds[0]
        self.advance(self.tuned + self.thin * self.kept)

    def keep(self) -> None:
        """Leave all that a later run needs."""
        if self.store.path is None:
            return
        seconds = np.array([self.ready - self.began, time.perf_counter() - self.ready])
        self.store.put("chains", SoFar(
            json.dumps(self.rng.bit_generator.state), self.tuned, np.array(self.tuner.memory),
            self.x[:, : self.kept], self.tilt[:, : self.kept], *self.counts, seconds,
        ))  # fmt: skip
        self.store.put("state", self.state)
        self.store.save()

    def adapt(self, tune: int) -> None:
        """Find the step size, in no more than half of the time."""
        left = self.clock.remaining()
        if left is None or self.store.path is not None:
            left = -np.inf  # a run that is to go on tunes as long as it was told to
        while self.tuned < tune and not self.clock.stop():
            if not (self.clock.remaining() or 0.0) > 0.5 * left:
                break
            self.move = sized(self.move, min(self.tuner.step_size, self.move.longest))
            self.state, info = self.move.step(self.rng, self.path, self.beta, self.state)
            self.tuner.update(float(info.acceptance.mean()))
            if self.tuned == tune // 5:  # which only finds the scale
                self.tuner.restart()
            self.tuned += 1
            self.advance(1)
            self.ready = time.perf_counter()
            self._go_on(self.tuned)
        if tune:
            self.move = sized(self.move, min(self.tuner.final, self.move.longest))

    def record(self) -> None:
        self.size = max(1, self.move.stretch(self.path, len(self.x)) // self.thin)
        if self.jumps is not None:
            self.size = min(self.size, self.stride)
        while self.kept < self.draws and not self.clock.stop():
            stop = min(self.kept + self.size, self.draws)
            if not (self._record_many(stop) if self.size > 1 else self._record_one()):
                break
            self.advance(self.thin * (stop - self.kept))
            self.kept = stop
            self._go_on(self.kept)

    def _record_many(self, stop: int) -> bool:
        new, n = slice(self.kept, stop), self.thin * (stop - self.kept)
        self.state, self.x[:, new], self.tilt[:, new], info = self.move.run(
            self.rng, self.path, self.beta, self.state, n, self.thin
        )
        self.counts = _added(self.counts, info)
        return True

    def _record_one(self) -> bool:
        """Whether there was time for all its steps: a part of a draw is none."""
        before, counts, done = (self.state, self.rng.bit_generator.state), self.counts, 0
        while done < self.thin and not (done and self.clock.stop()):
            self.state, info = self.move.step(self.rng, self.path, self.beta, self.state)
            counts, done = _added(counts, info), done + 1
        if done < self.thin:
            self.state, self.rng.bit_generator.state = before
            return False
        self.counts = counts
        self.x[:, self.kept], self.tilt[:, self.kept] = self.state[0], self.state.tilt
        return True

    def _go_on(self, done: int) -> None:
        """Jump, and keep, when it is time to."""
        if self.jumps is not None and done % self.stride == 0:
            self.state = self.jumps(self.rng, self.move, self.beta, self.state)
        # as files give them back
        self.state = type(self.state)(*map(np.ascontiguousarray, self.state))
        if self.store.due():
            self.keep()

    def recorded(self, interrupted: bool, *, rows: int = 256) -> Chains:
        """In latent values.

        ``rows``: rows turned into latent values at a time.
        """
        x, tilt = self.x[:, : self.kept], self.tilt[:, : self.kept]
        if self.size == 1:
            for chain in x:
                for start in range(0, self.kept, rows):
                    block = chain[start : start + rows]
                    block[:] = self.move.to_latent(self.path, block)
        acceptance, gradients, failures = self.counts
        acceptance = acceptance / max(self.kept * self.thin, 1)
        step_size = self.move.step_size if self.move.target is not None else np.nan
        seconds = time.perf_counter() - self.ready, self.ready - self.began
        early = interrupted or self.kept < self.draws
        return Chains(x, tilt, acceptance, step_size, *seconds, gradients, failures, early)


def _added(counts: tuple[Array, int, int], info: Info) -> tuple[Array, int, int]:
    """Acceptance, gradients and failures, with those of a step more."""
    acceptance, gradients, failures = counts
    added = gradients + info.gradients, failures + info.failures
    return acceptance + info.acceptance, *added
