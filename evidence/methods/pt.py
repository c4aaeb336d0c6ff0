"""Parallel tempering: all temperatures at once, swapping; log Z from all levels together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..drivers.stopping import NEAR, ended_early, failed_proposals, run_pieces
from ..drivers.tempering import segments
from ..drivers.tempering.bridging import ESTIMATORS
from ..drivers.tempering.ensemble import EXPLORE, run_segment
from ..drivers.tempering.segments import Schedule, Segment
from ..drivers.tempering.tuning import Tuned, tune
from ..execution.arguments import ISLAND, check_choice, check_count, check_memory
from ..execution.job import Job
from ..messages import InputError
from ..numerics.arrays import Array
from .base import Outcome, Problem, stopped


@dataclass
class _Ensembles:
    """Groups of ensembles and their segments so far."""

    problem: Problem
    job: Job
    groups: list[dict[str, Any]]
    segments: list[Segment] = field(default_factory=list)  # all groups side by side
    pieces: int = 0
    sweeps: int = 0  # kept
    warnings: list[str] = field(default_factory=list)

    def advance(self, n_sweeps: int, keep: bool) -> bool:
        """All groups ``n_sweeps`` further, a piece at a time; False when time is up."""
        most = 64  # sweeps between two looks at the clock, and between two checkpoints
        for start in range(0, n_sweeps, most):
            piece = min(n_sweeps - start, most)
            if not self._piece(piece, keep):
                return False
            self.pieces += 1
            self.sweeps += piece * keep
            self.problem.progress.advance(piece)
        return True

    def _piece(self, n_sweeps: int, keep: bool) -> bool:
        problem, done = self.problem, dict[int, Segment]()
        key = 1000 * (self.pieces + 1)
        tasks = {
            g: {**group, "n_sweeps": n_sweeps, "seed": problem.child(key + g)}
            for g, group in enumerate(self.groups)
        }
        name = f"segment {self.pieces} {{}}"
        tools = (problem.clock, problem.checkpoint, problem.executor)
        self.warnings += run_pieces(self.job, tasks, name, Segment, done.__setitem__, *tools)
        if len(done) < len(tasks):
            return False
        ordered = [done[g] for g in tasks]
        standing = ("x", "parity", "labels", "direction")
        self.groups = [{name: getattr(s, name) for name in standing} for s in ordered]
        if keep:
            self.segments.append(segments.side_by_side(ordered))
        return True


def pt(
    problem: Problem, first: int = 32, most: int = 2**14, *, n_levels: int | None = None,
    n_sweeps: int | None = None, explore: int = EXPLORE, reversible: bool = False,
    estimator: str = "mbar",
) -> Outcome:  # fmt: skip
    """Parallel tempering; ``n_particles`` is the number of ensembles, in ``n_islands`` tasks.

    The schedule is tuned by the communication barrier unless ``betas`` or ``n_levels`` fix it.
    Sweeps (``explore`` moves at every level, then swaps) go on until the target is met, or
    for ``n_sweeps``. ``estimator``: "mbar", "bennett", "thermodynamic" integration, or stepping
    stones "up" or "down"; the others are reported as well. Ẑ is consistent, not unbiased.

    The error bar is looked at after the ``first`` sweeps, then after as many again as there were,
    unless more than ``most`` would be needed.
    """
    check_choice("estimator", estimator, tuple(ESTIMATORS))
    check_count("n_levels", n_levels, 2)
    check_count("n_sweeps", n_sweeps, 4)
    check_memory("n_levels", n_levels, n_levels, ISLAND)
    check_memory("n_sweeps", n_sweeps, n_sweeps, problem.n_particles or 1)
    check_count("explore", explore, 1, optional=False)
    if n_levels is not None and problem.betas is not None:
        raise InputError("give n_levels= or betas=, not both")
    tuned = _tuned(problem, n_levels or (problem.n_betas and problem.n_betas + 1), explore)
    if tuned is None:
        return stopped("pt")
    schedule, options = tuned.schedule, {"explore": explore, "reversible": reversible}
    job = Job(run_segment, (problem.path, problem.move, schedule), options)
    ensembles = _Ensembles(problem, job, _groups(problem, tuned.x))
    target = problem.target_se if n_sweeps is None else None
    wanted = n_sweeps or (first if target else 8 * first)
    problem.progress.phase("sweeps", "sweep")
    outcome, history = Outcome("pt"), []
    going = ensembles.advance(max(16, wanted // 3), keep=False)  # forgets the pilot
    while going:
        going = ensembles.advance(wanted, keep=True)
        if not ensembles.sweeps:
            break
        whole, total = segments.consecutive(ensembles.segments), ensembles.sweeps
        bridge = ESTIMATORS[estimator](whole.tilt, schedule.betas)
        logz, se = problem.path.log_z0 + bridge.delta, bridge.se
        history.append((problem.clock.elapsed(), float(total), logz, se))
        problem.progress.running(logz, se, target, f"{total} sweeps", 0)
        if target is None or se <= target or problem.clock.stop():
            break
        if not total * (se / target) ** 2 <= most:
            _hopeless(outcome, total, se, target)
            break
        wanted = total
    _conclude(problem, outcome, ensembles, schedule, estimator, target)
    columns = np.array(history).reshape(-1, 4).T
    outcome.history = dict(zip(("seconds", "n_sweeps", "logz", "logz_se"), columns, strict=True))
    return outcome


def _hopeless(outcome: Outcome, total: int, se: float, target: float) -> None:
    if not np.isfinite(se):
        outcome.warn(
            "no-overlap",
            f"the levels do not overlap, there is no error bar after {total} sweeps: pass more "
            "levels (n_levels=, betas=)",
        )
    else:
        outcome.warn(
            "target-missed",
            f"target_se={target:g} was not met: it would take about "
            f"{total * (se / target) ** 2:.3g} sweeps; pass a larger n_particles or target_se",
        )


def _tuned(
    problem: Problem, n_levels: int | None, explore: int, rounds: int = 6, shortest: int = 4
) -> Tuned | None:
    """Levels and their step sizes, in ``rounds`` each twice as long as the one before: the first
    has the ``shortest`` number of sweeps."""
    problem.prepare(problem.move)

    def compute() -> Tuned:
        problem.progress.phase("tuning")
        return tune(
            problem.path, problem.move, np.random.default_rng(problem.child(0)),
            problem.clock.stop, betas=problem.betas, n_levels=n_levels, rounds=rounds,
            sweeps=shortest, explore=explore, report=problem.progress.tuning,
        )  # fmt: skip

    return problem.once("pilot", Tuned, compute)


def _groups(
    problem: Problem, x: Array, ensembles: int = 64, groups: int = 4
) -> list[dict[str, Any]]:
    """Ensembles in groups of one task each, started from the states that tuning left."""
    n = problem.n_particles or ensembles
    groups = min(problem.n_islands or groups, n)
    return [{"x": x[:, some % x.shape[1]]} for some in np.array_split(np.arange(n), groups)]


def _conclude(
    problem: Problem, outcome: Outcome, ensembles: _Ensembles, schedule: Schedule, estimator: str,
    target: float | None,
) -> None:  # fmt: skip
    """Everything known at the end, and warnings."""
    clock = problem.clock
    outcome.warnings += [*ensembles.warnings, *ended_early(clock, "sweeps")]
    outcome.settings = {"levels": int(schedule.betas.size), "estimator": estimator}
    if not ensembles.segments:
        text = "no round of sweeps was finished: there is no estimate"
        outcome.warn("no-estimate", text)
        return
    log_z0, whole = problem.path.log_z0, segments.consecutive(ensembles.segments)
    bridges = {name: bridge(whole.tilt, schedule.betas) for name, bridge in ESTIMATORS.items()}
    outcome.logz, outcome.logz_se = log_z0 + bridges[estimator].delta, bridges[estimator].se
    outcome.others = [
        (f"pt_{name}", log_z0 + bridge.delta, bridge.se)
        for name, bridge in bridges.items()
        if name != estimator
    ]
    columns = segments.trace_columns(whole, schedule, log_z0 + bridges["mbar"].levels)
    outcome.trace = {name: np.asarray(column, float)[1:] for name, column in columns.items()}
    outcome.trace["logz_se"] = np.full(schedule.betas.size - 1, np.nan)
    outcome.trace["logz_se"][-1] = outcome.logz_se
    draws = whole.draws.reshape(-1, whole.draws.shape[-1])
    rng = np.random.default_rng(problem.child(2))
    kept = rng.choice(len(draws), min(problem.n_draws, len(draws)), replace=False)
    outcome.samples = problem.path.parameters(draws[kept])
    (n_ensembles, sweeps), barrier = whole.tilt.shape[:2], float(columns["barrier"][-1])
    outcome.settings |= {"ensembles": n_ensembles, "sweeps": sweeps, "barrier": barrier}
    outcome.settings["round_trips"] = int(whole.round_trips.sum())
    if not np.isfinite(outcome.logz_se) and not outcome.warnings:
        _hopeless(outcome, ensembles.sweeps, outcome.logz_se, np.nan)
    if not whole.round_trips.any():
        outcome.warn(
            "no-round-trips",
            "no replica made a round trip between β = 0 and β = 1: the levels hardly "
            "communicate; pass more sweeps (n_sweeps=) or another move",
        )
    if target is not None and not outcome.logz_se <= NEAR * target and clock.stop():
        outcome.warn("target-missed", f"target_se={target:g} was not met")
    outcome.warnings += failed_proposals(int(whole.failures.sum()))
