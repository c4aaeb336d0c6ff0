"""Tuning parallel tempering: levels of equal rejection and their step sizes, in rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...execution.clock import Stopped
from ...moves.base import Move
from ...numerics.arrays import Array, Rng
from ...paths.gp import TemperedPath
from ...statistics import ladders
from ...statistics.adaptation import WIDEST
from .ensemble import EXPLORE, Replicas, decide, swap_acceptance
from .segments import Schedule


class Tuned(NamedTuple):
    """A schedule, where the chains are, and what the last round of tuning measured.

    Attributes
    ----------
    rejection : array
        (L - 1,) mean of 1 - α between neighbours.
    x : array
        (L, R, N) latent values at every level, for :func:`.run_segment` to go on from.
    """

    betas: Array
    step_sizes: Array
    rejection: Array
    x: Array

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.betas, self.step_sizes)


def tune(
    path: TemperedPath, move: Move, rng: Rng, stop: Callable[[], bool], *,
    betas: Array | None = None, n_levels: int | None = None, rounds: int = 5, sweeps: int = 8,
    n_ensembles: int = 8, explore: int = EXPLORE,
    report: Callable[[int, int], None] = lambda levels, sweeps: None,
    first: int = 16, fewest: int = 4, most: int = 64,
) -> Tuned:  # fmt: skip
    r"""Find a schedule in ``rounds`` rounds of ``sweeps``, 2 ``sweeps``, 4 ``sweeps`` … sweeps.

    Each round adapts the step size of every level towards the move's target and measures the
    rejection rates r_l. The next one has about 2 Λ + 1 levels (at least ``fewest``, at
    most ``most``; the first round has ``first``), or ``n_levels``, spaced so that each pair
    rejects equally. A given ladder ``betas`` is used as it stands. ``report`` is told the number
    of levels and of sweeps after each round.
    """
    ladder = ladders.power((n_levels or first) - 1, 3.0) if betas is None else betas
    schedule = Schedule(ladder, np.full(ladder.size, float(move.step_size)))
    x: Array | None = None
    done = 0
    for k in range(rounds):
        replicas = Replicas(path, move, schedule, rng, x, n_ensembles)
        schedule, rejection = _tuning_round(replicas, sweeps * 2**k, done, stop, explore)
        x = np.array([replicas.latent(l) for l in range(schedule.betas.size)])
        done += sweeps * 2**k
        report(schedule.betas.size, sweeps * 2**k)
        if betas is None and k < rounds - 1:
            wanted = n_levels or int(np.clip(np.ceil(2.0 * rejection.sum() + 1.0), fewest, most))
            new = ladders.equal_barrier(schedule.betas, rejection, wanted - 1)
            schedule, x = _move_levels(schedule, x, new)
    assert x is not None
    return Tuned(*schedule, rejection, x)


def _tuning_round(
    replicas: Replicas, n_sweeps: int, done: int, stop: Callable[[], bool], explore: int
) -> tuple[Schedule, Array]:
    """Adapted step sizes (the mean of their logs) and rejection rates of the second half."""
    betas, rng, target = replicas.betas, replicas.rng, replicas.move.target
    logs = np.log(replicas.step_sizes)
    later, rejection = np.zeros(betas.size), np.zeros(betas.size - 1)
    middle, longest = np.log(replicas.move.step_size), np.log(replicas.move.longest)
    first = n_sweeps // 2
    for sweep in range(n_sweeps):
        if stop():
            raise Stopped
        acceptance = replicas.explore(explore)
        if target is not None and acceptance is not None:
            logs += 2.0 / np.sqrt(1.0 + done + sweep) * (acceptance - target)
            logs[0] = logs[1]  # level 0 makes no moves
            logs = np.clip(logs, middle - WIDEST, min(middle + WIDEST, longest))
            replicas.use(np.exp(logs))
        alpha = swap_acceptance(betas, replicas.tilt)
        replicas.swap(decide(rng, alpha, sweep % 2))
        if sweep >= first:
            later += logs / (n_sweeps - first)
            rejection += (1.0 - alpha).mean(axis=1) / (n_sweeps - first)
    return Schedule(betas, np.exp(later)), rejection


def _move_levels(schedule: Schedule, x: Array, betas: Array) -> tuple[Schedule, Array]:
    """Step sizes interpolated in their logs, states from the nearest old level."""
    steps = np.exp(np.interp(betas, schedule.betas, np.log(schedule.step_sizes)))
    nearest = np.abs(betas[:, None] - schedule.betas).argmin(axis=1)
    return Schedule(betas, steps), x[nearest]
