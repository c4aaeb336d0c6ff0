"""Markov chains at one temperature: a batch with one row per chain, tuned and then recorded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..execution.clock import Clock
from ..moves.base import Move
from ..paths.gp import TemperedPath
from ..statistics.adaptation import DualAveraging
from .plan import sized

Array = NDArray[np.float64]

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


def run_chains(
    path: TemperedPath,
    move: Move,
    rng: np.random.Generator,
    clock: Clock,
    advance: Callable[[int], Any] = lambda steps: None,
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
    """
    state = move.init_reference(rng, path, chains)
    x, tilt = np.empty((chains, draws, path.n)), np.empty((chains, draws))
    acceptance, gradients, failures, kept = np.zeros(chains), 0, 0, 0
    started = tuned = time.perf_counter()
    interrupted, size = False, 1
    try:
        state, move = _tune(path, move, rng, clock, advance, beta, state, tune)
        tuned = time.perf_counter()
        size = max(1, move.stretch(path, chains) // thin)
        while kept < draws and not clock.stop():
            new = slice(kept, min(kept + size, draws))
            infos = []
            if size > 1:
                state, x[:, new], tilt[:, new], info = move.run(
                    rng, path, beta, state, thin * (new.stop - kept), thin
                )
                infos.append(info)
            else:
                for _ in range(thin):
                    state, info = move.step(rng, path, beta, state)
                    infos.append(info)
                x[:, kept], tilt[:, kept] = state[0], state.tilt
            for info in infos:
                acceptance += info.acceptance
                gradients += info.gradients
                failures += info.failures
            advance(thin * (new.stop - kept))
            kept = new.stop
    except KeyboardInterrupt:
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
        time.perf_counter() - tuned,
        tuned - started,
        gradients,
        failures,
        interrupted or kept < draws,
    )


def _tune(
    path: TemperedPath,
    move: Move,
    rng: np.random.Generator,
    clock: Clock,
    advance: Callable[[int], Any],
    beta: float,
    state: Any,
    steps: int,
) -> tuple[Any, Move]:
    """Bring the acceptance to the move's target; the first fifth only finds the scale."""
    tuner = DualAveraging(move.step_size, move.target or 0.5)
    for i in range(steps):
        if clock.stop():
            break
        move = sized(move, min(tuner.step_size, move.longest))
        state, info = move.step(rng, path, beta, state)
        tuner.update(float(info.acceptance.mean()))
        if i == steps // 5:
            tuner.restart()
        advance(1)
    return state, sized(move, min(tuner.final, move.longest)) if steps else move
