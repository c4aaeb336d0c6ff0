"""Adaptive resample-move: the number of particles follows what each temperature asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..drivers.arm import Sampler, check_options, run_arm
from ..drivers.islands import Islands
from ..drivers.waves import Budget
from ..execution.arguments import check_choice
from ..execution.tasks import Job, Stopped
from ..messages import InputError
from ..statistics.resampling import SCHEMES
from .base import Outcome, Problem, outcome_of_islands
from .smc import STUCK_ADVICE, choose_particles, find_plan, stopped, stuck, warn_of_slow_mixing

_FIRST = 16
_PILOTS = 4


def arm(
    problem: Problem,
    *,
    threshold: float = 0.7,
    i_max: int = 50,
    generate: str = "copy",
    sampler: Sampler | None = None,
    resampling: str = "residual",
    freeze: bool = True,
) -> Outcome:
    """Adaptive resample-move; ``n_particles`` is the base number R of an island.

    Rounds of R particles are added until the effective sample size is ``threshold`` R, at most
    ``i_max`` of them: by ``generate`` = "copy", moved copies; "anticipate", copies of those that
    the next temperature favours; or "reseed", draws ``sampler(rng, beta, m)`` (m, N).

    A number of particles that depends on their weights biases Ẑ; with ``freeze`` a few islands
    find the numbers and all others take them as they are, which is exactly unbiased.
    """
    check_choice("generate", generate, ("copy", "anticipate", "reseed"))
    if (generate == "reseed") != (sampler is not None):
        raise InputError("generate='reseed' and sampler= belong together: give both or neither")
    check_choice("resampling", resampling, tuple(SCHEMES))
    check_options(threshold, i_max, resampling)
    plan = find_plan(problem)
    if plan is None:
        return stopped("arm")
    n_particles = problem.n_particles or choose_particles(
        plan, problem.target_se, problem.n_islands
    )
    options: dict[str, Any] = {"n_particles": n_particles, "resampling": resampling}
    options |= {"threshold": threshold, "i_max": i_max, "generate": generate}
    if sampler is not None:
        options["sampler"] = sampler
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
    outcome.warnings += warn_of_slow_mixing(plan, problem.model)
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
