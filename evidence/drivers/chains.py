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
from ..numerics.arrays import Array
from ..paths.gp import TemperedPath
from ..statistics.adaptation import DualAveraging
from .jumps import Jumps
from .plan import sized

_STRIDE = 4  # draws between two jumps
_BLOCK = 256  # rows turned into latent values at a time


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
    path: TemperedPath,
    move: Move,
    rng: np.random.Generator,
    clock: Clock,
    advance: Callable[[int], Any] = lambda steps: None,
    checkpoint: Checkpoint | None = None,
    jumps: Jumps | None = None,
    initial: Array | None = None,
    *,
    beta: float,
    chains: int,
    tune: int,
    draws: int,
    thin: int,
) -> Chains:
    """Tune for ``tune`` steps, then record every ``thin``-th of ``thin · draws`` steps.

    The step size adapts while tuning and is fixed afterwards, so what is recorded is a Markov
    chain. ^C or the clock end the run early, with what there is. ``advance`` is told of steps.
    With a checkpoint the run goes on where it ended before, and ends with the same bits.
    With ``jumps`` chains start in all modes and go between them; ``path`` is then theirs.
    Chains start from the rows of ``initial``, latent values, where there are any, and from draws
    of the reference otherwise.
    """
    store = checkpoint or Checkpoint(None, {})
    if jumps is not None:
        state = jumps.start(rng, move, chains)
    elif initial is not None:
        state = move.init(path, initial)
    else:
        state = move.init_reference(rng, path, chains)
    tuner = DualAveraging(move.step_size, move.target or 0.5)
    x, tilt = np.empty((chains, draws, path.n)), np.empty((chains, draws))
    acceptance, gradients, failures, tuned, kept = np.zeros(chains), 0, 0, 0, 0
    began = ready = time.perf_counter()
    earlier = store.get("chains", SoFar)
    if earlier is not None:
        state = store.get("state", type(state))
        rng.bit_generator.state = json.loads(earlier.generator)
        tuned, tuner.memory = earlier.tuned, earlier.tuner
        kept = earlier.tilt.shape[1]
        x[:, :kept], tilt[:, :kept], acceptance = earlier.x, earlier.tilt, earlier.acceptance
        gradients, failures = earlier.gradients, earlier.failures
        ready -= earlier.seconds[1]
        began = ready - earlier.seconds[0]
        advance(tuned + thin * kept)

    def keep() -> None:
        if store.path is None:
            return
        seconds = np.array([ready - began, time.perf_counter() - ready])
        generator = json.dumps(rng.bit_generator.state)
        store.put("chains", SoFar(
            generator, tuned, np.array(tuner.memory), x[:, :kept], tilt[:, :kept], acceptance,
            gradients, failures, seconds,
        ))  # fmt: skip
        store.put("state", state)
        store.save()

    interrupted, size, left = False, 1, clock.remaining()
    if left is None or store.path is not None:
        left = -np.inf  # a run that is to go on tunes as long as it was told to
    try:
        while tuned < tune and not clock.stop() and (clock.remaining() or 0.0) > 0.5 * left:
            move = sized(move, min(tuner.step_size, move.longest))
            state, info = move.step(rng, path, beta, state)
            tuner.update(float(info.acceptance.mean()))
            if tuned == tune // 5:  # which only finds the scale
                tuner.restart()
            tuned += 1
            if jumps is not None and tuned % _STRIDE == 0:
                state = jumps(rng, move, beta, state)
            advance(1)
            ready = time.perf_counter()
            state = type(state)(*map(np.ascontiguousarray, state))
            if store.due():
                keep()
        if tune:
            move = sized(move, min(tuner.final, move.longest))
        size = max(1, move.stretch(path, chains) // thin)
        if jumps is not None:
            size = min(size, _STRIDE)
        while kept < draws and not clock.stop():
            new = slice(kept, min(kept + size, draws))
            before, counts = (state, rng.bit_generator.state), (acceptance, gradients, failures)
            done = 0
            if size > 1:
                state, x[:, new], tilt[:, new], info = move.run(
                    rng, path, beta, state, thin * (new.stop - kept), thin
                )
                counts = _added(counts, info)
            else:
                while done < thin and not (done and clock.stop()):
                    state, info = move.step(rng, path, beta, state)
                    counts, done = _added(counts, info), done + 1
                if done < thin:  # a part of a draw is none
                    state, rng.bit_generator.state = before
                    break
                x[:, kept], tilt[:, kept] = state[0], state.tilt
            acceptance, gradients, failures = counts
            advance(thin * (new.stop - kept))
            kept = new.stop
            if jumps is not None and kept % _STRIDE == 0:
                state = jumps(rng, move, beta, state)
            state = type(state)(*map(np.ascontiguousarray, state))  # as files give them back
            if store.due():
                keep()
        keep()
    except KeyboardInterrupt:  # within a step: what was kept last counts for a next time
        if not kept:
            raise
        interrupted = True
    x, tilt = x[:, :kept], tilt[:, :kept]
    if size == 1:
        for chain in x:
            for start in range(0, kept, _BLOCK):
                block = chain[start : start + _BLOCK]
                block[:] = move.to_latent(path, block)
    return Chains(
        x,
        tilt,
        acceptance / max(kept * thin, 1),
        move.step_size if move.target is not None else np.nan,
        time.perf_counter() - ready,
        ready - began,
        gradients,
        failures,
        interrupted or kept < draws,
    )


def _added(counts: tuple[Array, int, int], info: Info) -> tuple[Array, int, int]:
    """Acceptance, gradients and failures, with those of a step more."""
    acceptance, gradients, failures = counts
    added = gradients + info.gradients, failures + info.failures
    return acceptance + info.acceptance, *added
