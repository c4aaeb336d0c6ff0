"""Adaptive resample-move: the number of particles follows what each temperature asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import check_choice, check_count
from ..drivers.arm import run_arm
from ..drivers.execution import Job, Stopped
from ..drivers.islands import Islands
from ..drivers.resample_move import Settings
from ..drivers.resampling import SCHEMES
from ..drivers.waves import Budget
from .base import Outcome, Problem, outcome_of_islands
from .smc import STUCK_ADVICE, choose_particles, find_plan, stopped, stuck, warn_of_slow_mixing

_COARSE = Settings(cess=0.8)  # fewer temperatures: particles make up for it
_FIRST = 16
_PILOTS = 4


def arm(
    problem: Problem,
    *,
    threshold: float = 0.7,
    i_max: int = 50,
    generate: str = "copy",
    resampling: str = "residual",
    freeze: bool = True,
) -> Outcome:
    """Adaptive resample-move; ``n_particles`` is the base number R of an island.

    Rounds of R ``generate`` = "copy" or "anticipate" particles are added until the effective
    sample size is ``threshold`` R, at most ``i_max`` of them. A number of particles that depends
    on their weights biases Ẑ; with ``freeze`` a few islands find the numbers and all others take
    them as they are, which is exactly unbiased.
    """
    check_choice("generate", generate, ("copy", "anticipate"))
    check_choice("resampling", resampling, tuple(SCHEMES))
    check_count("i_max", i_max, 1)
    plan = find_plan(problem, _COARSE)
    if plan is None:
        return stopped("arm")
    n_particles = problem.n_particles or choose_particles(
        plan, problem.target_se, problem.n_islands
    )
    options: dict[str, Any] = {"n_particles": n_particles, "resampling": resampling}
    options |= {"threshold": threshold, "i_max": i_max, "generate": generate}
    shared = (problem.path, problem.move, plan)
    if freeze:
        pilot = grown(problem, Job(run_arm, shared, options))
        if pilot is None:
            return stopped("arm")
        options["particles"] = pilot.particles
    patience = STUCK_ADVICE if stuck(plan).size else ""
    budget = Budget(problem.target_se, problem.n_islands or _FIRST, patience=patience)
    run = problem.run(Job(run_arm, shared, options), budget)
    outcome = outcome_of_islands(problem, "arm", run, plan.betas, plan.step_sizes)
    outcome.settings = {"particles_per_island": n_particles, "frozen": freeze}
    outcome.warnings += warn_of_slow_mixing(plan, problem.model.likelihood.name)
    return outcome


def grown(problem: Problem, job: Job) -> Islands | None:
    """A few islands that choose their numbers of particles; None when time is up."""
    known = problem.checkpoint.get("pilot", Islands)
    if known is not None:
        return known
    problem.progress.phase("pilot")
    try:
        found: Islands = job({"n_islands": _PILOTS, "seed": problem.child(7)}, problem.clock.stop)
    except Stopped:
        return None
    except KeyboardInterrupt:
        problem.clock.interrupted.set()
        return None
    found = found._replace(draws=np.zeros((0, 0, 0)))
    problem.checkpoint.put("pilot", found)
    problem.checkpoint.save()
    return found
