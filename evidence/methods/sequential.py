"""Probit models one datum after the other, by Gibbs moves of the latent utilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..drivers.arm import check_options
from ..drivers.sequential import prepare, run_sequential
from ..drivers.waves import Budget
from ..execution.arguments import check_choice, check_count
from ..execution.tasks import Job, factorising
from ..statistics.diagnostics import log_mean
from ..statistics.resampling import SCHEMES
from .arm import grown
from .base import Outcome, Problem, outcome_of_islands
from .smc import stopped

_FIRST = 16
_PILOT = 64  # particles of a pilot's island
_MOST = 8192


def sequential(
    problem: Problem,
    *,
    order: str | ArrayLike = "tail",
    adaptive: bool = True,
    threshold: float = 0.7,
    i_max: int = 50,
    sweeps: int = 1,
    resampling: str = "residual",
) -> Outcome:
    """Data-sequential resample-move; ``n_particles`` is the (base) number of an island.

    ``order``: "tail" (surprising labels first), "given", "random" or a permutation. With
    ``adaptive`` a few islands find how many particles each datum asks for and all others take
    these numbers as they are.
    """
    check_choice("resampling", resampling, tuple(SCHEMES))
    check_options(threshold, i_max, resampling)
    check_count("sweeps", sweeps, 1, optional=False)
    model = problem.model.bare()
    with factorising(model.n):
        prepared = prepare(model, order, np.random.default_rng(problem.child(8)))
    options: dict[str, Any] = {"order": prepared, "threshold": threshold, "sweeps": sweeps}
    options |= {"resampling": resampling, "n_particles": problem.n_particles or _PILOT}
    growth = {"adaptive": adaptive, "i_max": i_max}
    pilot = grown(problem, Job(run_sequential, (model,), options | growth))
    if pilot is None:
        return stopped("sequential")
    if problem.n_particles is None:
        spread = np.nan_to_num(log_mean(pilot.log_z[-1]).relative_sd, nan=1.0)
        spread /= problem.target_se or 0.05
        wanted = 1.5 * _PILOT * spread**2 / (problem.n_islands or _FIRST)
        options["n_particles"] = int(np.clip(wanted, _PILOT, _MOST))
    if adaptive:
        options["particles"] = pilot.particles * (options["n_particles"] / pilot.particles.min())
    run = problem.run(
        Job(run_sequential, (model,), options),
        Budget(problem.target_se, problem.n_islands or _FIRST),
    )
    share = np.arange(1, model.n + 1) / model.n
    outcome = outcome_of_islands(problem, "sequential", run, share, np.full(model.n, np.nan))
    outcome.settings = {"move": None, "reference": None, "adaptive": adaptive}
    outcome.settings |= {"particles_per_island": options["n_particles"]}
    return outcome
