"""Tempered resample-move to an error bar: pilot, islands, and what to say about them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..drivers.annealing import refine
from ..drivers.resample_move import Plan, Settings, plan, run_islands
from ..drivers.waste_free import run_waste_free
from ..drivers.waves import Budget
from ..execution.arguments import check_choice, check_count
from ..execution.tasks import Job, Stopped
from ..moves.base import Move
from ..paths.families import is_probit
from ..statistics.resampling import SCHEMES
from .base import Outcome, Problem, outcome_of_islands

_FIRST = 16
_FEW = 64
_CAUTION = 4.0  # pilots see about a quarter of the variance: moves do not mix perfectly
_STUCK = 0.6  # correlation of the tilt over a full allowance of moves
STUCK_ADVICE = (
    "where moves mix this slowly more islands would only make a doubtful error bar smaller"
)


def smc(
    problem: Problem, *, resampling: str = "systematic", waste_free: int | None = None
) -> Outcome:
    """Resample-move with ``resampling`` = systematic, stratified, residual or multinomial.

    ``waste_free`` = P keeps all states of chains of length P as particles.
    """
    check_choice("resampling", resampling, tuple(SCHEMES))
    check_count("waste_free", waste_free, 2)
    found = find_plan(problem)
    if found is None:
        return stopped()
    return run_plan(problem, found, resampling, waste_free)


def run_plan(
    problem: Problem, found: Plan, resampling: str = "systematic", waste_free: int | None = None
) -> Outcome:
    """Islands that follow the plan."""
    n_particles = problem.n_particles or choose_particles(
        found, problem.target_se, problem.n_islands
    )
    options = {"n_particles": n_particles, "resampling": resampling}
    function = run_islands
    if waste_free is not None:
        function, options["length"] = run_waste_free, waste_free
        options["n_particles"] = waste_free * max(2, -(-n_particles // waste_free))
    job = Job(function, (problem.path, problem.move, found), options)
    patience = STUCK_ADVICE if stuck(found).size else ""
    budget = Budget(problem.target_se, problem.n_islands or _FIRST, patience=patience)
    run = problem.run(job, budget)
    outcome = outcome_of_islands(problem, "smc", run, found.betas, found.step_sizes)
    outcome.settings = {
        "particles_per_island": options["n_particles"],
        "resampling": resampling,
    }
    outcome.warnings += warn_of_slow_mixing(found, problem.model)
    return outcome


def stopped(method: str = "smc") -> Outcome:
    return Outcome(
        method, warnings=["stopped before the pilot run was over: there is no estimate"]
    )


def find_plan(
    problem: Problem,
    settings: Settings | None = None,
    name: str = "plan",
    single: bool = False,
) -> Plan | None:
    """The pilot's plan, or the checkpoint's; None when time was up before.

    A number of temperatures given by the user comes with the pilot's moves, or a ``single`` one.
    """
    known = problem.checkpoint.get(name, Plan)
    problem.prepare(problem.move)
    if known is not None:
        return known
    problem.progress.phase("pilot", "β")
    try:
        found = plan(
            problem.path,
            problem.move,
            np.random.default_rng(problem.child(0)),
            settings or default_settings(problem.move),
            problem.betas,
            problem.clock.stop,
            problem.progress.climbing,
        )
    except Stopped:
        return None
    except KeyboardInterrupt:
        problem.clock.interrupted.set()
        return None
    if problem.n_betas is not None:
        found = refine(found, problem.n_betas, single)
    problem.checkpoint.put(name, found)
    problem.checkpoint.save()
    return found


def default_settings(move: Move) -> Settings:
    """A pilot has fewer particles where every move of every particle factorises matrices."""
    return Settings(pilot_particles=32) if move.riemannian else Settings()


def choose_particles(plan: Plan, target_se: float | None, n_islands: int | None) -> int:
    """Particles per island, so that the first wave should meet the target.

    An island's own relative variance is kept below 1/4, where its spread is a fair measure.
    Where the pilot could not mix, effort is not the remedy and the allowance stays small.
    """
    if stuck(plan).size:
        return _FEW
    variance = _CAUTION * plan.relative_variance
    target = target_se or 0.05
    needed = variance / (target**2 * (n_islands or _FIRST))
    return int(min(max(needed, 4.0 * variance, 32.0), 4096.0))


def stuck(plan: Plan) -> NDArray[np.intp]:
    """Temperatures at which the full allowance of moves left the tilt strongly correlated."""
    return np.flatnonzero(plan.mixing > _STUCK)


def warn_of_slow_mixing(plan: Plan, model: Any) -> list[str]:
    slow = stuck(plan)
    if not slow.size:
        return []
    return [
        f"moves mix slowly at {slow.size} of {plan.betas.size} temperatures (first at "
        f"β = {plan.betas[slow[0]]:.3g}): log Z may be too low and its error bar too "
        "small; do not trust it without a cross-check"
        + (" (method='orthant' is one for probit)" if is_probit(model) else "")
    ]
