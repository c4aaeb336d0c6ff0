r"""From islands to an estimate: how many to run, when to stop, what they say together.

Every island's Ẑ is unbiased, so is the mean of a number of islands fixed in advance. To stop
when the spread is small enough is another matter: islands that happen to agree tend to have
missed the same tail, and the mean over a number of islands that *their own* spread chose is
biased low. So islands form K groups and

.. math:: \hat Z = \frac1K \sum_k \bar Z_k(n_k)

where n_k, the number of islands of group k that count, is where the spread of all the *other*
groups would have been small enough. It is independent of the values it admits, and Ẑ is
unbiased under the stopping used. A deadline or ^C takes the islands finished by then; their
duration does not depend on their values where the work is fixed in advance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from ..execution.checkpoint import Checkpoint
from ..execution.clock import Clock
from ..execution.job import Job
from ..execution.meter import phase
from ..execution.progress import Progress
from ..execution.tasks import run_tasks
from ..messages import Message
from ..numerics.arrays import Array
from ..statistics.diagnostics import LogMean, log_mean, widened
from .islands import Islands, summarise

_GROUPS = 4
NEAR = 1.1  # a target met to within this factor is met


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
        Islands of the first look, islands per task, and islands beyond which a target is not
        pursued.
    patience : str
        When not empty, a target that the first wave misses is not pursued, for this reason.
    """

    target_se: float | None = None
    first: int = 16
    block: int = 2
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
        return _final(self.blocks)

    def se_of(self, part: Literal["variance", "ends"]) -> float:
        """The standard error of log Z by what islands say of themselves, in all ("variance") or
        of the ends of their nets alone. Of independent draws it tells more than the spread of a
        few islands."""
        if not self.final.max(initial=-math.inf) > -math.inf:
            return math.nan
        z = np.exp(self.final - self.final.max())
        variance = np.concatenate([getattr(self.blocks[i], part) for i in sorted(self.blocks)])
        met = z > 0.0
        return math.sqrt(np.sum(z[met] ** 2 * variance[met])) / float(z.sum())

    @property
    def lost(self) -> float:
        """By how much log Z would be higher with what islands know that failures took from it."""
        lost = np.concatenate([self.blocks[i].lost for i in sorted(self.blocks)] or [np.zeros(0)])
        if not lost.max(initial=-math.inf) > -math.inf:
            return 0.0
        kept, lost = np.logaddexp.reduce(self.final), np.logaddexp.reduce(lost)
        return float(np.logaddexp(kept, lost) - kept)

    def groups(self) -> list[Array]:
        """log Ẑ of the groups that stop each other: task i belongs to group i modulo K."""
        blocks = self.blocks.items()
        return [_final({i: b for i, b in blocks if i % _GROUPS == k}) for k in range(_GROUPS)]

    def estimate(self, few: int = 4) -> LogMean:
        """log Z, its standard error, and how uneven the islands were. The spread of so ``few``
        may be small by chance (of two it was .03 where .19 was missing): the error bar is not
        less than what they say of themselves."""
        found, groups = log_mean(self.final), self.groups()
        if self.budget.target_se is not None and min(map(len, groups)) > 0:
            numbers, _ = admitted(groups, self.budget)
            found = balanced([group[:n] for group, n in zip(groups, numbers, strict=True)])
        if self.final.size < few:
            found = found._replace(se=float(np.fmax(found.se, self.se_of("variance"))))
        return found


def _final(blocks: Mapping[int, Islands]) -> Array:
    return np.concatenate([np.zeros(0), *(blocks[i].log_z[-1] for i in sorted(blocks))])


def looks(budget: Budget, growth: float = 1.25) -> Iterator[int]:
    """Islands of a group at each look, fixed in advance: whole tasks, ``growth`` times as many."""
    tasks = max(1, math.ceil(budget.first / (_GROUPS * budget.block)))
    while True:
        yield tasks * budget.block
        tasks = max(tasks + 1, math.floor(growth * tasks))


def admitted(groups: list[Array], budget: Budget) -> tuple[list[int], int]:
    """How many islands of each group count, as far as is known, and how many each should have.

    A group's number is the first look at which the others' spread is small enough, or hopeless.
    """
    assert budget.target_se is not None
    numbers, have = [0] * len(groups), min(map(len, groups))
    for n in looks(budget):
        if n > have:
            return [number or have for number in numbers], n
        for k in range(len(groups)):
            if not numbers[k]:
                others = np.concatenate([g[:n] for j, g in enumerate(groups) if j != k])
                cautious = 1.0 + math.sqrt(2.0 / (others.size - 1.0))  # one sd of a variance
                needed = cautious * log_mean(others).relative_sd ** 2 / budget.target_se**2
                if not needed > n * len(groups) or needed > budget.most or budget.patience:
                    numbers[k] = n
        if all(numbers):
            return numbers, n
    raise AssertionError


def balanced(groups: list[Array]) -> LogMean:
    """log of the mean of the groups' means, with the variance pooled within groups."""
    everything = np.concatenate(groups)
    sizes = np.array([len(group) for group in groups])
    peak = everything.max()
    if (sizes == sizes[0]).all() or not np.isfinite(peak):
        return log_mean(everything)
    z = [np.exp(group - peak) for group in groups]
    mean = float(np.mean([one.mean() for one in z]))
    pooled = sum(one.var() * one.size for one in z) / (everything.size - len(groups))
    se = math.sqrt(pooled * np.sum(1.0 / sizes)) / len(groups) / mean
    share = max(one.max() / one.size for one in z) / (len(groups) * mean)
    value = float(peak + math.log(mean))
    se = widened(se, value, everything)
    return LogMean(value, se, math.sqrt(pooled) / mean, float(share))


def run_waves(
    job: Job, budget: Budget, seed: np.random.SeedSequence, clock: Clock, progress: Progress,
    checkpoint: Checkpoint, executor: Executor | None = None,
) -> Run:  # fmt: skip
    """Run ``job(n_islands=, seed=)`` for as many islands as ``budget`` wants.

    What is run depends on seeds and values only, never on timing, unless the clock runs out.
    Islands found in the checkpoint are not run again.
    """
    run = Run(budget)

    def record(index: int, islands: Islands) -> None:
        _record(run, index, islands, clock, progress)

    while tasks := _missing(run, seed):
        more, have = sum(task["n_islands"] for task in tasks.values()), run.final.size
        progress.expect(have + more, have)
        name = f"block {{}} of {{n_islands}} × {job.options.get('n_particles')}"
        run.warnings += run_pieces(job, tasks, name, Islands, record, clock, checkpoint, executor)
        if clock.stop():
            break
    _conclude(run, clock)
    return run


def run_pieces(
    job: Job, tasks: Mapping[int, Mapping[str, Any]], name: str, kind: type[Any],
    done: Callable[[int, Any], None], clock: Clock, checkpoint: Checkpoint,
    executor: Executor | None, whole: Callable[[Any], bool] = lambda result: True,
) -> list[str]:  # fmt: skip
    """Run tasks by number, except those whose results the checkpoint has; warnings.

    ``name`` is formatted with a task's number and arguments, ``kind`` is what results are, and
    ``done`` is called with a number and a result. Only a ``whole`` result is kept.
    """
    names = {i: name.format(i, **arguments) for i, arguments in tasks.items()}
    fresh = []
    for i in tasks:
        if (kept := checkpoint.get(names[i], kind)) is None:
            fresh.append(i)
        else:
            done(i, kept)

    def finished(index: int, result: tuple[Any, ...]) -> None:
        if whole(result):
            checkpoint.put(names[fresh[index]], result)
            checkpoint.save_soon()
        done(fresh[index], result)

    try:
        with phase("run"):
            return run_tasks(job, [tasks[i] for i in fresh], clock, finished, executor)
    finally:
        checkpoint.save()


def _missing(
    run: Run, seed: np.random.SeedSequence, together: int = 4096
) -> dict[int, dict[str, Any]]:  # fmt: skip
    """Tasks wanted and not done, full ones for all groups, or what was asked for; so many
    ``together`` at most, as seeds take time, too."""
    block, most = run.budget.block, run.budget.first
    if run.budget.target_se is not None:
        _, wanted = admitted(run.groups(), run.budget)
        most = _GROUPS * math.ceil(wanted / block) * block
    wanting = (i for i in range(math.ceil(most / block)) if i not in run.blocks)
    sizes = {i: min(block, most - i * block) for i in islice(wanting, together)}
    keys = {i: (*seed.spawn_key, i) for i in sizes}
    seeds = {i: np.random.SeedSequence(seed.entropy, spawn_key=key) for i, key in keys.items()}
    return {i: {"n_islands": n, "seed": seeds[i]} for i, n in sizes.items()}


def _record(run: Run, index: int, islands: Islands, clock: Clock, progress: Progress) -> None:
    run.blocks[index] = islands
    value, se, *_ = run.estimate()
    run.history.append(Wave(clock.elapsed(), run.final.size, value, se))
    n = islands.log_z.shape[1]
    progress.running(value, se, run.budget.target_se, summarise(islands), n)


def _conclude(run: Run, clock: Clock, large: float = 0.1, many: float = 8.0) -> None:
    """Warnings about the estimate; the method adds its own. It is uneven where an island carries
    a ``large`` share of it, and ``many`` times that of an island among equals."""
    run.warnings += ended_early(clock, "islands")
    if not run.blocks:
        text = "no island was finished: there is no estimate"
        run.warnings.append(Message("no-estimate", text))
        return
    estimate, target = run.estimate(), run.budget.target_se
    if math.isnan(estimate.se):
        text = "a single island has no error bar here; use n_islands ≥ 8"
        run.warnings.append(Message("few-islands", text))
    if target is not None and not estimate.se <= NEAR * target:
        if clock.stop():
            why = ""
        elif run.budget.patience:
            why = f", and not pursued: {run.budget.patience}"
        else:
            why = (
                f" (by a factor {estimate.se / target:.3g}): it would take about "
                f"{(estimate.relative_sd / target) ** 2:.0f} islands; pass a larger n_particles "
                "or target_se"
            )
        run.warnings.append(Message("target-missed", f"target_se={target:g} was not met{why}"))
    # where a group of few islands has it, the mean hides how far off it is
    alone = estimate.largest_share * run.final.size > many
    if (alone or estimate.relative_sd > 1.0) and estimate.largest_share > large:
        text = (
            f"the estimate is uneven: one of {run.final.size} islands carries "
            f"{100 * estimate.largest_share:.0f}% of it, the error bar is not reliable; use more "
            "particles (n_particles=), temperatures or moves"
        )
        run.warnings.append(Message("uneven-islands", text))
    run.warnings += failed_proposals(sum(int(b.failures.sum()) for b in run.blocks.values()))


def ended_early(clock: Clock, finished: str) -> list[Message]:
    """Why a run ended before it was over, and what of it was used."""
    if clock.interrupted.is_set():
        text = f"interrupted by the user: the {finished} finished until then are used"
        return [Message("interrupted", text)]
    if clock.expired():
        return [Message("out-of-time", f"stopped after max_seconds={clock.max_seconds:g}")]
    if clock.meter.spent():
        text = f"max_evaluations={clock.meter.most} are used up: the {finished} until then count"
        return [Message("out-of-evaluations", text)]
    return []


def failed_proposals(n: int) -> list[Message]:
    """A warning of rejections that no density is the reason for."""
    text = f"{n} proposals were rejected because their numerics failed"
    return [Message("failed-proposals", text)] if n else []
