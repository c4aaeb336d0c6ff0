"""Parallel tempering: all temperatures at once, swapping; log Z from all levels together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..drivers.segments import Schedule, Segment, consecutive, side_by_side, summarise
from ..drivers.tempering import bridging
from ..drivers.tempering.ensemble import EXPLORE, run_segment
from ..drivers.tuning import tune
from ..execution.arguments import check_choice, check_count
from ..execution.tasks import Job, Stopped, run_tasks
from ..messages import InputError
from .base import Outcome, Problem
from .smc import stopped

Array = NDArray[np.float64]

_ENSEMBLES, _GROUPS = 64, 4
_FIRST = 32  # sweeps before the first look at the error bar; then as many as there were
_MOST = 2**14
_PIECE = 64  # sweeps between two looks at the clock, and between two checkpoints
_ROUNDS, _SHORTEST = 6, 4  # of tuning, each twice as long as the one before
_N_DRAWS = 1000
_NEAR = 1.1

ESTIMATORS = {
    "mbar": bridging.mbar,
    "bennett": bridging.bennett,
    "thermodynamic": bridging.thermodynamic,
    "up": bridging.stepping_stone,
    "down": lambda tilt, betas: bridging.stepping_stone(tilt, betas, "down"),
}


class Pilot(NamedTuple):
    """What tuning found, arrays only."""

    betas: Array
    step_sizes: Array
    barrier: float
    x: Array


@dataclass
class _Ensembles:
    """Groups of ensembles, their segments so far, and the clock's say."""

    problem: Problem
    job: Job
    groups: list[dict[str, Any]]
    segments: list[Segment] = field(default_factory=list)  # all groups side by side
    pieces: int = 0
    sweeps: int = 0  # kept
    warnings: list[str] = field(default_factory=list)

    def advance(self, n_sweeps: int, keep: bool) -> bool:
        """All groups ``n_sweeps`` further, a piece at a time; False when time is up."""
        while n_sweeps > 0:
            piece = min(n_sweeps, _PIECE)
            if not self._piece(piece, keep):
                return False
            n_sweeps -= piece
            self.pieces += 1
            self.sweeps += piece * keep
            self.problem.progress.advance(piece)
        return True

    def _piece(self, n_sweeps: int, keep: bool) -> bool:
        round = self.pieces
        done: dict[int, Segment] = {}
        problem, store = self.problem, self.problem.checkpoint
        for g in range(len(self.groups)):
            if (known := store.get(f"segment {round} {g}", Segment)) is not None:
                done[g] = _as_segment(known)
        fresh = [g for g in range(len(self.groups)) if g not in done]
        tasks = [
            {**self.groups[g], "n_sweeps": n_sweeps, "seed": problem.child(1000 * (round + 1) + g)}
            for g in fresh
        ]

        def finished(index: int, segment: Segment) -> None:
            done[fresh[index]] = segment
            store.put(f"segment {round} {fresh[index]}", segment)
            store.save_soon()

        try:
            self.warnings += run_tasks(self.job, tasks, problem.clock, finished, problem.executor)
        finally:
            store.save()
        if len(done) < len(self.groups):
            return False
        ordered = [done[g] for g in sorted(done)]
        self.groups = [
            {"x": s.x, "parity": int(s.parity), "labels": s.labels, "direction": s.direction}
            for s in ordered
        ]
        if keep:
            self.segments.append(side_by_side(ordered))
        return True


def pt(
    problem: Problem,
    *,
    n_levels: int | None = None,
    n_sweeps: int | None = None,
    explore: int = EXPLORE,
    reversible: bool = False,
    estimator: str = "mbar",
) -> Outcome:
    """Parallel tempering; ``n_particles`` is the number of ensembles, in ``n_islands`` tasks.

    The schedule is tuned by the communication barrier unless ``betas`` or ``n_levels`` fix it.
    Sweeps (``explore`` moves at every level, then swaps) go on until the target is met, or
    for ``n_sweeps``. ``estimator``: "mbar", "bennett", "thermodynamic" integration, or stepping
    stones "up" or "down"; the others are reported as well. Ẑ is consistent, not unbiased.
    """
    check_choice("estimator", estimator, tuple(ESTIMATORS))
    check_count("n_levels", n_levels, 2)
    check_count("n_sweeps", n_sweeps, 4)
    check_count("explore", explore, 1, optional=False)
    if n_levels is not None and problem.betas is not None:
        raise InputError("give n_levels= or betas=, not both")
    pilot = _pilot(problem, n_levels or (problem.n_betas and problem.n_betas + 1), explore)
    if pilot is None:
        return stopped("pt")
    schedule = Schedule(pilot.betas, pilot.step_sizes)
    ensembles = _Ensembles(
        problem,
        Job(
            run_segment,
            (problem.path, problem.move, schedule),
            {"explore": explore, "reversible": reversible},
        ),
        _groups(problem, pilot),
    )
    target = problem.target_se if n_sweeps is None else None
    wanted = n_sweeps or (_FIRST if target else 8 * _FIRST)
    problem.progress.phase("sweeps", "sweep")
    outcome, history = Outcome("pt"), []
    going = ensembles.advance(max(16, wanted // 3), keep=False)  # forgets the pilot
    while going:
        going = ensembles.advance(wanted, keep=True)
        if not ensembles.sweeps:
            break
        bridge, se = _estimate(ensembles, schedule, estimator)
        logz, total = problem.path.log_z0 + bridge.delta, ensembles.sweeps
        history.append((problem.clock.elapsed(), float(total), logz, se))
        problem.progress.running(logz, se, target, f"{total} sweeps", 0)
        if target is None or se <= target or problem.clock.stop():
            break
        if not total * (se / target) ** 2 <= _MOST:
            outcome.warnings.append(_hopeless(total, se, target))
            break
        wanted = total
    _conclude(problem, outcome, ensembles, schedule, estimator, target)
    columns = np.array(history).reshape(-1, 4).T
    outcome.history = dict(zip(("seconds", "n_sweeps", "logz", "logz_se"), columns, strict=True))
    return outcome


def _hopeless(total: int, se: float, target: float) -> str:
    if not np.isfinite(se):
        return (
            f"the levels do not overlap, there is no error bar after {total} sweeps: pass more "
            "levels (n_levels=, betas=)"
        )
    return (
        f"target_se={target:g} was not met: it would take about {total * (se / target) ** 2:.0f} "
        "sweeps; pass a larger n_particles or target_se"
    )


def _pilot(problem: Problem, n_levels: int | None, explore: int) -> Pilot | None:
    problem.prepare(problem.move)
    known = problem.checkpoint.get("pilot", Pilot)
    if known is not None:
        return known
    problem.progress.phase("tuning")
    try:
        tuned = tune(
            problem.path,
            problem.move,
            np.random.default_rng(problem.child(0)),
            problem.clock.stop,
            betas=problem.betas,
            n_levels=n_levels,
            rounds=_ROUNDS,
            sweeps=_SHORTEST,
            explore=explore,
            report=lambda levels, sweeps: problem.progress.tuning(levels, sweeps),
        )
    except Stopped:
        return None
    except KeyboardInterrupt:
        problem.clock.interrupted.set()
        return None
    found = Pilot(tuned.schedule.betas, tuned.schedule.step_sizes, tuned.barrier, tuned.x)
    problem.checkpoint.put("pilot", found)
    problem.checkpoint.save()
    return found


def _groups(problem: Problem, pilot: Pilot) -> list[dict[str, Any]]:
    """Ensembles in groups of one task each, started from the pilot's states."""
    n = problem.n_particles or _ENSEMBLES
    groups = min(problem.n_islands or _GROUPS, n)
    return [
        {"x": pilot.x[:, members % pilot.x.shape[1]]}
        for members in np.array_split(np.arange(n), groups)
    ]


def _as_segment(known: Segment) -> Segment:
    """Numbers as the arrays they were before they were stored."""
    return known._replace(parity=np.array(known.parity), seconds=np.array(known.seconds))


def _estimate(
    ensembles: _Ensembles, schedule: Schedule, estimator: str
) -> tuple[bridging.Bridge, float]:
    """An estimate and its error bar."""
    whole = consecutive(ensembles.segments)
    bridge = ESTIMATORS[estimator](whole.tilt, schedule.betas)
    return bridge, standard_error(bridge)


def standard_error(bridge: bridging.Bridge) -> float:
    """The larger of what autocorrelation says and what the spread of ensembles says."""
    each = bridge.influence.mean(axis=1)
    if each.size < 16:
        return bridge.se
    with np.errstate(over="ignore"):  # of a tilt too low to be squared
        return float(np.fmax(bridge.se, each.std(ddof=1) / np.sqrt(each.size)))


def _conclude(
    problem: Problem,
    outcome: Outcome,
    ensembles: _Ensembles,
    schedule: Schedule,
    estimator: str,
    target: float | None,
) -> None:
    """Everything known at the end, and warnings in words."""
    say = outcome.warnings.append
    outcome.warnings += ensembles.warnings
    clock = problem.clock
    if clock.interrupted.is_set():
        say("interrupted by the user: the sweeps finished until then are used")
    elif clock.expired():
        say(f"stopped after max_seconds={clock.max_seconds:g}")
    outcome.settings = {"levels": int(schedule.betas.size), "estimator": estimator}
    if not ensembles.segments:
        say("no round of sweeps was finished: there is no estimate")
        return
    log_z0 = problem.path.log_z0
    for name in ESTIMATORS:
        bridge, se = _estimate(ensembles, schedule, name)
        if name == estimator:
            outcome.logz, outcome.logz_se = log_z0 + bridge.delta, se
        else:
            outcome.others.append((f"pt_{name}", log_z0 + bridge.delta, se))
    found = summarise(ensembles.segments, schedule)
    outcome.trace = {name: np.asarray(v, float)[1:] for name, v in found.columns.items()}
    outcome.trace["logz"] = outcome.trace["logz"] + log_z0
    spread = np.full(schedule.betas.size - 1, np.nan)
    spread[-1] = outcome.logz_se
    outcome.trace["logz_se"] = spread
    whole = consecutive(ensembles.segments)
    draws = whole.draws.reshape(-1, problem.model.n)
    rng = np.random.default_rng(problem.child(2))
    kept = rng.choice(len(draws), min(_N_DRAWS, len(draws)), replace=False)
    outcome.samples = problem.path.parameters(draws[kept])
    outcome.settings |= {
        "ensembles": int(whole.tilt.shape[0]),
        "sweeps": int(whole.tilt.shape[1]),
        "barrier": float(found.columns["barrier"][-1]),
        "round_trips": found.round_trips,
    }
    if not np.isfinite(outcome.logz_se) and not outcome.warnings:
        say(_hopeless(ensembles.sweeps, outcome.logz_se, np.nan))
    if not found.round_trips:
        say(
            "no replica made a round trip between β = 0 and β = 1: the levels hardly "
            "communicate; pass more sweeps (n_sweeps=) or another move"
        )
    if target is not None and not outcome.logz_se <= _NEAR * target and clock.stop():
        say(f"target_se={target:g} was not met")
    failures = int(whole.failures.sum())
    if failures:
        say(f"{failures} proposals were rejected because their numerics failed")
