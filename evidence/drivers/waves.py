r"""From islands to an estimate: how many to run, when to stop, what they say together.

Every island's Ẑ is unbiased, so is the mean of a number of islands fixed in advance. To stop
when the spread is small enough is another matter: islands that happen to agree tend to have
missed the same tail, and the mean over a number of islands that *their own* spread chose is
biased low. So islands form two halves and

.. math:: \hat Z = \tfrac12\big(\bar Z_A(n_B) + \bar Z_B(n_A)\big)

where n_A is the number at which half A alone would have been content, and the other way round:
the number of values that enter a half's mean is independent of these values, and Ẑ is unbiased
under the stopping used. A deadline or ^C takes the islands finished by then; their duration
does not depend on their values where the work is fixed in advance.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..diagnostics import LogMean, log_mean
from .checkpoint import Checkpoint
from .execution import Clock, Job, run_tasks
from .islands import Islands
from .progress import Progress

Array = NDArray[np.float64]

_GROWTH = 4.0  # a half grows at most by this factor between two looks at its spread
_MARGIN = 0.85  # later looks ask for a little more than the target
_NEAR = 1.1  # a target met to within this factor is met


class Wave(NamedTuple):
    """The running estimate after some islands: what an anytime plot shows."""

    seconds: float
    n_islands: int
    logz: float
    logz_se: float


@dataclass(frozen=True)
class Budget:
    """How many islands there may be.

    Parameters
    ----------
    target_se : float, optional
        Go on until the error bar is about this; ``None``: run ``first`` islands.
    first, block, most : int
        Islands of the first look, islands per task, and islands at most.
    patience : str
        When not empty, a target that the first wave misses is not pursued, for this reason.
    """

    target_se: float | None = None
    first: int = 16
    block: int = 4
    most: int = 1024
    patience: str = ""


@dataclass
class Run:
    """Finished islands by task number, and how the estimate came about."""

    budget: Budget
    blocks: dict[int, Islands] = field(default_factory=dict)
    history: list[Wave] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def final(self) -> Array:
        """log Ẑ of every finished island, in the order of seeds."""
        return self._of(sorted(self.blocks))

    def halves(self) -> tuple[Array, Array]:
        """log Ẑ of tasks with even and with odd numbers."""
        order = sorted(self.blocks)
        return self._of([i for i in order if not i % 2]), self._of([i for i in order if i % 2])

    def _of(self, tasks: list[int]) -> Array:
        if not tasks:
            return np.zeros(0)
        return np.concatenate([self.blocks[i].log_z[-1] for i in tasks])

    def estimate(self) -> LogMean:
        """log Z, its standard error, and how uneven the islands were."""
        everything = self.final
        if self.budget.target_se is None or min(map(len, halves := self.halves())) < 2:
            if everything.size == 1 and np.isfinite(everything[0]):  # its own word for it
                (block,) = self.blocks.values()
                return LogMean(float(everything[0]), math.sqrt(block.variance[0]), np.nan, 1.0)
            return log_mean(everything)
        a, b = halves
        enough_a, enough_b = content(a, self.budget)[0], content(b, self.budget)[0]
        return _balanced(a[:enough_b], b[:enough_a])


def content(log_z: Array, budget: Budget) -> tuple[int, bool]:
    """How many islands a half asks for, judging by its own values; whether it has them."""
    assert budget.target_se is not None
    allowed = 2.0 * budget.target_se**2  # relative variance of a half's mean
    n = max(2, budget.first // 2)
    while True:
        if log_z.size < n:
            return n, False
        variance = log_mean(log_z[:n]).relative_sd ** 2
        if not variance > n * allowed:
            return n, True
        allowed = 2.0 * (_MARGIN * budget.target_se) ** 2
        if budget.patience or variance / allowed > budget.most / 2:  # not worth the chase
            return n, True
        wanted = min(variance / allowed, _GROWTH * n)
        n += max(1, math.ceil((wanted - n) / budget.block)) * budget.block


def _balanced(a: Array, b: Array) -> LogMean:
    """log of the mean of two halves' means, with the variance pooled within halves."""
    if len(a) == len(b):
        return log_mean(np.concatenate([a, b]))
    both = np.concatenate([a, b])
    peak = both.max()
    if not np.isfinite(peak):
        return log_mean(both)
    za, zb = np.exp(a - peak), np.exp(b - peak)
    mean = 0.5 * (za.mean() + zb.mean())
    pooled = (za.var() * za.size + zb.var() * zb.size) / (za.size + zb.size - 2)
    share = max(za.max() / za.size, zb.max() / zb.size) / (2.0 * mean)
    se = math.sqrt(0.25 * pooled * (1 / za.size + 1 / zb.size)) / mean
    return LogMean(float(peak + math.log(mean)), se, math.sqrt(pooled) / mean, float(share))


def run_waves(
    job: Job,
    budget: Budget,
    seed: np.random.SeedSequence,
    clock: Clock,
    progress: Progress,
    checkpoint: Checkpoint,
    executor: Executor | None = None,
) -> Run:
    """Run ``job(n_islands=, seed=)`` for as many islands as ``budget`` wants.

    What is run depends on seeds and values only, never on timing, unless the clock runs out.
    Islands found in the checkpoint are not run again.
    """
    run = Run(budget)
    while True:
        sizes = _tasks_wanted(run)
        fresh = [i for i in range(len(sizes)) if i not in run.blocks]
        if not fresh:
            break
        for i in fresh:
            if (known := checkpoint.get(f"block {i}", Islands)) is not None:
                _record(run, i, known, clock, progress)
        fresh = [i for i in fresh if i not in run.blocks]
        children = [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, i))
                    for i in fresh]  # fmt: skip
        progress.expect(sum(sizes))

        def done(index: int, islands: Islands, fresh: list[int] = fresh) -> None:
            checkpoint.put(f"block {fresh[index]}", islands)
            checkpoint.save_soon()
            _record(run, fresh[index], islands, clock, progress)

        try:
            run.warnings += run_tasks(
                job,
                [
                    {"n_islands": sizes[i], "seed": child}
                    for i, child in zip(fresh, children, strict=True)
                ],
                clock,
                done,
                executor,
            )
        finally:
            checkpoint.save()
        if clock.stop():
            break
    _conclude(run, clock)
    return run


def _tasks_wanted(run: Run) -> list[int]:
    """Sizes of all tasks so far wanted: an even number of full ones, or what was asked for."""
    budget = run.budget
    if budget.target_se is None:
        return [
            min(budget.block, budget.first - start)
            for start in range(0, budget.first, budget.block)
        ]
    wanted = max(content(half, budget)[0] for half in run.halves())
    return [budget.block] * (2 * math.ceil(wanted / budget.block))


def _record(run: Run, index: int, islands: Islands, clock: Clock, progress: Progress) -> None:
    run.blocks[index] = islands
    estimate = run.estimate()
    run.history.append(Wave(clock.elapsed(), run.final.size, estimate.value, estimate.se))
    progress.islands(islands, estimate, run.budget.target_se)


def _conclude(run: Run, clock: Clock) -> None:
    """Warnings in words about the estimate; the method adds its own."""
    say = run.warnings.append
    if clock.interrupted.is_set():
        say("interrupted by the user: the islands finished until then are used")
    elif clock.expired():
        say(f"stopped after max_seconds={clock.max_seconds:g}")
    if not run.blocks:
        say("no island was finished: there is no estimate")
        return
    estimate, target = run.estimate(), run.budget.target_se
    if math.isnan(estimate.se):
        say("a single island has no error bar here; use n_islands ≥ 8")
    if target is not None and not estimate.se <= _NEAR * target:
        if clock.stop():
            say(f"target_se={target:g} was not met")
        elif run.budget.patience:
            say(f"target_se={target:g} was not met, and not pursued: {run.budget.patience}")
        elif (needed := run.final.size * (estimate.se / target) ** 2) > 0.5 * run.budget.most:
            say(
                f"target_se={target:g} was not met: it would take about {needed:.0f} islands; "
                "pass a larger n_particles or target_se"
            )
        else:
            say(f"target_se={target:g} was narrowly missed, by chance")
    if estimate.relative_sd > 1.0:
        say(
            f"islands disagree: one of {run.final.size} carries "
            f"{100 * estimate.largest_share:.0f}% of the estimate, the error bar is not "
            "reliable; use more particles (n_particles=) or more moves"
        )
    failures = sum(int(block.failures.sum()) for block in run.blocks.values())
    if failures:
        say(f"{failures} proposals were rejected because their numerics failed")
