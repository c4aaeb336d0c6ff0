"""Draws of one blend of Gaussians, which a search has made for all of a density's mass.

:mod:`evidence.approximations.density.search` makes it; here are islands of fresh draws of it, as
many as its last weights say.
"""

from __future__ import annotations

import math

import numpy as np

from ..approximations.density.blend import Blended
from ..drivers.weighted import Proposed, run_weighted
from ..execution.job import Job
from ..numerics.arrays import Array
from .base import FIRST, N_DRAWS, Outcome, Problem, outcome_of_islands
from .importance import fair_share

_FEWEST = {True: 8, False: 40}  # draws of an island where weights are even, and elsewhere
_EVEN, _MOST, _ALL = 0.8, 2**14, 2**24
_SCREENED = 64  # draws of the prior judged before, for one of an island: a quarter in all
_MARGIN = 2.0  # draws beyond what the last weights say


def over_blend(problem: Problem, reference: Blended, left: float, screened: int) -> Outcome:
    """Islands of weighted draws, no more than the evaluations that are ``left``; after a search
    that ``screened`` so many, 0 if it was a frugal one."""
    share = max(reference.verdict.share, 1e-3)
    variance = 1.0 / share - 1.0
    islands, fewest = problem.n_islands or FIRST, _FEWEST[share > _EVEN]
    if problem.n_draws > N_DRAWS:
        fewest = math.ceil(problem.n_draws / islands)
    if screened:
        fewest = max(fair_share(problem), screened // _SCREENED)
    wanted = max(_MARGIN * problem.particles_for(variance), 4.0 * variance, fewest)
    affordable = math.floor(min(left, _ALL) / islands)
    n_particles = int(min(math.ceil(wanted), max(affordable, 2), _MOST))
    keep = math.ceil(problem.n_draws / islands)
    settings = {"n_particles": n_particles, "keep": keep}
    job = Job(run_weighted, (Proposed(reference.blend),), settings)
    outcome, _ = outcome_of_islands(
        problem, "importance", job, independent=True, parameters=lambda draws: draws
    )
    outcome.settings = {"move": None, "draws_per_island": n_particles, "reference": "mixture"}
    outcome.notes.append(
        f"auto: draws of {reference.blend.size} Gaussians and the prior are worth "
        f"{100 * share:.0f} % of their number (Pareto k = {reference.verdict.shape:.2f})"
    )
    draws = outcome.samples
    if draws is not None and len(draws):
        outcome.samples = problem.model.constrain(draws)
        if len(reference.modes) > 1:
            _divide(outcome, reference, draws)
    return outcome


def _divide(outcome: Outcome, reference: Blended, draws: Array) -> None:
    """Which mode every draw belongs to, and what each of them holds."""
    nearest = reference.mode_of(draws)
    found, label, counts = np.unique(nearest, return_inverse=True, return_counts=True)
    share = counts / counts.sum()
    noise = np.sqrt((1.0 - share) / counts)
    outcome.component = label.astype(float)
    outcome.components = [
        (f"mode {m + 1}", outcome.logz + math.log(p), math.hypot(outcome.logz_se, se))
        for m, p, se in zip(found, share, noise, strict=True)
    ]
