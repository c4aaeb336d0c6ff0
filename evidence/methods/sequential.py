"""Probit models one datum after the other, by Gibbs moves of the latent utilities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ..drivers.data import Sequential, prepare
from ..drivers.smc import Loop
from ..execution.arguments import check_count
from ..execution.job import Job
from ..numerics.threads import blas_for
from ..statistics.diagnostics import log_mean
from .base import Outcome, Problem, outcome_of_islands, stopped
from .smc import check_growth, grown


def sequential(
    problem: Problem, few: int = 64, most: int = 8192, *, order: str | ArrayLike = "tail",
    adaptive: bool = True, threshold: float = 0.7, i_max: int = 50, sweeps: int = 1,
    resampling: str = "residual",
) -> Outcome:  # fmt: skip
    """Data-sequential resample-move; ``n_particles`` is the (base) number of an island.

    ``order``: "tail" (surprising labels first), "given", "random" or a permutation. With
    ``adaptive`` a few islands find how many particles each datum asks for and all others take
    these numbers as they are. Islands of a ``few`` say how many it takes, up to ``most``.
    """
    check_growth(threshold, i_max, resampling)
    check_count("sweeps", sweeps, 1, optional=False)
    model = problem.model.bare()
    with blas_for(model.n):
        prepared = prepare(model, order, np.random.default_rng(problem.child(8)))
    loop = Sequential(prepared, sweeps, resampling, threshold, i_max if adaptive else 0)
    n_particles = problem.n_particles or few
    pilot = grown(problem, loop, n_particles)
    if pilot is None:
        return stopped("sequential")
    if problem.n_particles is None:
        spread = np.nan_to_num(log_mean(pilot.log_z[-1]).relative_sd, nan=1.0)
        wanted = 1.5 * few * problem.particles_for(spread**2)
        n_particles = int(np.clip(wanted, few, most))
    if adaptive:
        particles = pilot.particles * (n_particles / pilot.particles.min())
        loop = replace(loop, particles=particles)
    job = Job(Loop.run, (loop,), {"n_particles": n_particles})
    share = np.arange(1, model.n + 1) / model.n
    outcome, _ = outcome_of_islands(problem, "sequential", job, share)
    outcome.settings = {"move": None, "reference": None, "adaptive": adaptive}
    outcome.settings |= {"particles_per_island": n_particles}
    return outcome
