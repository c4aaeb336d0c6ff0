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
from .base import FIRST, MARGIN, N_DRAWS, Outcome, Problem, outcome_of_islands
from .importance import fair_share


def over_blend(
    problem: Problem, reference: Blended, left: float, screened: int, margin: float = MARGIN,
    fewest: int = 40, of_even: tuple[float, int] = (0.8, 8), judged: int = 64, most: int = 2**14,
    whole: int = 2**24,
) -> Outcome:  # fmt: skip
    """Islands of weighted draws, no more than the evaluations that are ``left``; after a search
    that ``screened`` so many draws of the prior, 0 if it was a frugal one.

    A ``margin`` more draws than the last weights say; at least ``fewest`` on an island, or less
    where weights are even; one for so many of the prior's as were ``judged`` for it, a quarter in
    all; ``most`` on an island, and on all as ``whole`` says.
    """
    share = max(reference.verdict.share, 1e-3)
    variance = 1.0 / share - 1.0
    islands = problem.n_islands or FIRST
    fewest = of_even[1] if share > of_even[0] else fewest
    if problem.n_draws > N_DRAWS:
        fewest = math.ceil(problem.n_draws / islands)
    if screened:
        fewest = max(fair_share(problem), screened // judged)
    wanted = max(margin * problem.particles_for(variance), 4.0 * variance, fewest)
    affordable = math.floor(min(left, whole) / islands)
    asked = problem.n_particles or min(math.ceil(wanted), most)
    n_particles = int(min(asked, max(affordable, 2)))
    problem.clock.meter.idle = (n_particles - 1.0) * (n_particles == affordable)
    settings = {"n_particles": n_particles, "keep": math.ceil(problem.n_draws / islands)}
    job = Job(run_weighted, (Proposed(reference.blend),), settings)
    outcome, _ = outcome_of_islands(
        problem, "importance", job, independent=True, parameters=lambda draws: draws
    )
    outcome.settings = {"move": None, "draws_per_island": n_particles, "reference": "mixture"}
    outcome.notes.append(
        f"auto: draws of {reference.blend.size} Gaussians and the prior are worth "
        f"{100 * share:.0f} % of their number (Pareto k = {reference.verdict.shape:.2f})"
    )
    if met_more(outcome, reference):
        text = (
            "draws came to a mode that the search had not met: log Z may be off by more than this"
        )
        outcome.warn("modes-missed", text)
    draws = outcome.samples
    if draws is not None and len(draws):
        outcome.samples = problem.model.constrain(draws)
        if len(reference.modes) > 1:
            _divide(outcome, reference, draws)
    return outcome


def met_more(outcome: Outcome, reference: Blended, times: float = 5.0, even: float = 0.95) -> bool:
    """Whether draws are more uneven than those that the proposal was judged by, by an error so
    many ``times`` what these say: they came to a mode that nobody knew. (Of forty densities all
    errors were up to 2.8 times as large, but for two, of 12 and 18 times, that were wrong.) Of
    weights that are ``even`` an error is as large as with this share."""
    n = outcome.settings["draws_per_island"] * outcome.islands.size
    share = min(max(reference.verdict.share, 1e-3), even)  # as :func:`over_blend` has it
    expected = math.sqrt((1.0 / share - 1.0) / n) if n else math.inf
    return outcome.logz_se > times * expected


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
