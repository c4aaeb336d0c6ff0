"""Resample-move to an error bar: pilot, islands in waves, and what to say about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from ..diagnostics import log_mean
from ..moves.base import Move
from ..path import Path
from .execution import Clock, Stopped, run_tasks
from .resample_move import Islands, Plan, Settings, plan, run_islands

Array = NDArray[np.float64]

_BLOCK = 4  # islands per task
_FIRST_WAVE = 16
_FEW = 64
_MAX_ISLANDS = 1024
_GROWTH = 4.0  # a wave is at most this many times what is there already
_CAUTION = 4.0  # pilots see about a quarter of the variance: moves do not mix perfectly
_STUCK = 0.6  # correlation of the tilt over a full allowance of moves


class Wave(NamedTuple):
    """The running estimate after some islands: what an anytime plot shows."""

    seconds: float
    n_islands: int
    logz: float
    logz_se: float


@dataclass
class SMCRun:
    """Everything resample-move found out."""

    plan: Plan | None = None
    blocks: dict[int, Islands] = field(default_factory=dict)
    history: list[Wave] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    n_particles: int = 0

    @property
    def final(self) -> Array:
        """log Ẑ of every island, in the order of seeds."""
        return np.concatenate([self.blocks[i].log_z[-1] for i in sorted(self.blocks)])

    @property
    def log_z(self) -> Array:
        """Cumulative log Ẑ, shape (temperatures, islands), islands in the order of seeds."""
        return np.concatenate([self.blocks[i].log_z for i in sorted(self.blocks)], axis=1)


def resample_move(
    path: Path,
    move: Move,
    *,
    seed: np.random.SeedSequence,
    clock: Clock,
    betas: Array | None = None,
    target_se: float | None = None,
    n_particles: int | None = None,
    n_islands: int | None = None,
    settings: Settings | None = None,
    progressbar: bool = False,
) -> SMCRun:
    """Pilot, then waves of islands until ``target_se`` is met, time is up, or ^C.

    With ``target_se=None`` exactly ``n_islands`` islands run. The waves depend on the seed
    only, never on timing or on the number of cores.
    """
    settings = settings or Settings()
    run = SMCRun()
    pilot_seed, seed = seed.spawn(2)
    bar = tqdm(
        desc="pilot", unit="isl", leave=False, disable=None if progressbar else True, ncols=88
    )
    try:
        run.plan = plan(path, move, np.random.default_rng(pilot_seed), settings, betas, clock.stop)
    except (Stopped, KeyboardInterrupt):
        run.warnings.append("stopped before the pilot run was over: there is no estimate")
        bar.close()
        return run
    run.n_particles = n_particles or _choose_particles(run.plan, target_se, n_islands)
    wanted = n_islands or _FIRST_WAVE
    while True:
        _run_wave(run, path, move, seed, wanted, clock, bar, target_se)
        if clock.stop() or target_se is None:
            break
        estimate = log_mean(run.final)
        wanted, verdict = _next_wave(run, estimate.se, target_se)
        if verdict:
            run.warnings.append(verdict)
        if wanted == 0:
            break
    bar.close()
    _conclude(run, clock, target_se, path.model.likelihood.name)
    return run


def _choose_particles(plan: Plan, target_se: float | None, n_islands: int | None) -> int:
    """Particles per island, so that the first wave should meet the target.

    An island's own relative variance is kept below 1/4, where its spread is a fair measure.
    Where the pilot could not mix, effort is not the remedy and the allowance stays small.
    """
    if _stuck(plan).size:
        return _FEW
    variance = _CAUTION * plan.relative_variance
    target = target_se or 0.05
    needed = variance / (target**2 * (n_islands or _FIRST_WAVE))
    return int(min(max(needed, 4.0 * variance, 32.0), 4096.0))


def _run_wave(
    run: SMCRun,
    path: Path,
    move: Move,
    seed: np.random.SeedSequence,
    n_islands: int,
    clock: Clock,
    bar: Any,
    target_se: float | None,
) -> None:
    first = 1 + max(run.blocks, default=-1)
    sizes = [min(_BLOCK, n_islands - start) for start in range(0, n_islands, _BLOCK)]
    tasks = [
        partial(run_islands, path, move, run.plan, size, run.n_particles, child, clock.stop)
        for size, child in zip(sizes, seed.spawn(len(sizes)), strict=True)
    ]
    bar.set_description("islands")
    bar.total = (bar.n or 0) + n_islands
    bar.refresh()

    def done(index: int, islands: Islands) -> None:
        run.blocks[first + index] = islands
        estimate = log_mean(run.final)
        total = run.final.size
        run.history.append(Wave(clock.elapsed(), total, estimate.value, estimate.se))
        goal = f" (target {target_se:g})" if target_se else ""
        bar.set_postfix_str(f"log Z = {estimate.value:.3f} ± {estimate.se:.3f}{goal}")
        bar.update(islands.log_z.shape[1])

    run_tasks(tasks, clock, done)


def _next_wave(run: SMCRun, se: float, target_se: float) -> tuple[int, str]:
    """How many more islands are needed (0: none), and a warning if that is out of reach."""
    if se <= target_se:
        return 0, ""
    have = run.final.size
    if _stuck(run.plan).size:
        return 0, (
            f"target_se={target_se:g} was not met, and not pursued: where moves mix this slowly "
            "more islands would only make a doubtful error bar smaller"
        )
    needed = math.ceil(have * (se / target_se) ** 2 * 1.05) - have
    if have + needed > _MAX_ISLANDS:
        return 0, (
            f"target_se={target_se:g} was not met: it would take about {have + needed} islands "
            f"of {run.n_particles} particles; pass a larger n_particles or target_se"
        )
    blocks = math.ceil(min(needed, _GROWTH * have) / _BLOCK)
    return blocks * _BLOCK, ""


def _stuck(plan: Plan | None) -> NDArray[np.intp]:
    """Temperatures at which the full allowance of moves left the tilt strongly correlated."""
    if plan is None:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero(plan.mixing > _STUCK)


def _conclude(run: SMCRun, clock: Clock, target_se: float | None, likelihood: str) -> None:
    """Warnings in words."""
    say = run.warnings.append
    if clock.interrupted.is_set():
        say("interrupted by the user: the islands finished until then are used")
    elif clock.expired():
        say(f"stopped after max_seconds={clock.max_seconds:g}")
    if not run.blocks:
        say("no island was finished: there is no estimate")
        return
    assert run.plan is not None
    estimate = log_mean(run.final)
    if run.final.size == 1:
        say("a single island has no error bar; use n_islands ≥ 8")
    elif target_se is not None and estimate.se > target_se and clock.stop():
        say(f"target_se={target_se:g} was not met")
    stuck = _stuck(run.plan)
    if stuck.size:
        say(
            f"moves mix slowly at {stuck.size} of {run.plan.betas.size} temperatures (first at "
            f"β = {run.plan.betas[stuck[0]]:.3g}): log Z may be too low and its error bar too "
            "small; do not trust it without a cross-check"
            + (" (method='orthant' is one for probit)" if likelihood == "probit" else "")
        )
    if estimate.relative_sd > 1.0:
        say(
            f"islands disagree: one of {run.final.size} carries "
            f"{100 * estimate.largest_share:.0f}% of the estimate, the error bar is not "
            "reliable; use more particles (n_particles=) or more moves"
        )
    failures = sum(int(block.failures.sum()) for block in run.blocks.values())
    if failures:
        say(f"{failures} proposals were rejected because their numerics failed")


def trace_columns(run: SMCRun) -> dict[str, Array]:
    """One row per temperature, islands combined."""
    if run.plan is None or not run.blocks:
        return {}
    blocks = list(run.blocks.values())
    estimates = [log_mean(row) for row in run.log_z]

    def mean(name: str) -> Array:
        return np.mean([getattr(block, name) for block in blocks], axis=0)

    return {
        "beta": run.plan.betas,
        "logz": np.array([e.value for e in estimates]),
        "logz_se": np.array([e.se for e in estimates]),
        "ess": mean("ess"),
        "acceptance": mean("acceptance"),
        "step_size": run.plan.step_sizes,
        "n_moves": run.plan.n_moves.astype(float),
        "mixing": mean("mixing"),
        "failures": np.sum([block.failures for block in blocks], axis=0).astype(float),
        "seconds": np.sum([block.seconds for block in blocks], axis=0),
    }


def posterior_draws(run: SMCRun, rng: np.random.Generator, n_draws: int) -> Array:
    """Draws from the posterior: islands in proportion to their Ẑ, then particles at random."""
    log_z = run.final
    w = np.exp(log_z - log_z.max())
    islands = np.searchsorted(
        np.cumsum(w) / w.sum(), (np.arange(n_draws) + rng.random()) / n_draws
    ).clip(0, w.size - 1)
    pools = np.concatenate([run.blocks[i].draws for i in sorted(run.blocks)])
    chosen = np.empty((n_draws, pools.shape[2]))
    for island in np.unique(islands):
        rows = np.flatnonzero(islands == island)
        pool = pools[island]
        repeats = -(-rows.size // len(pool))
        order = np.concatenate([rng.permutation(len(pool)) for _ in range(repeats)])
        chosen[rows] = pool[order[: rows.size]]
    return chosen[rng.permutation(n_draws)]
