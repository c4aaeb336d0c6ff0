"""Plain importance sampling from the reference: annealing with no temperature in between."""

from __future__ import annotations

import numpy as np

from ..drivers.plan import Plan
from ..drivers.smc import Loop, ResampleMove
from ..execution.job import Job
from ..models.density.model import DensityModel
from ..moves.gradient.crank_nicolson import PCN
from ..statistics.weights import Weights
from .base import Outcome, Problem, outcome_of_islands, warn_of_few_draws, warn_of_heavy_tail

#: straight from β = 0 to β = 1, without a move
NO_LADDER = Plan(np.ones(1), np.ones(1), np.zeros(1, dtype=np.intp), np.full(1, np.nan), np.nan)


def importance(problem: Problem) -> Outcome:
    """As :func:`plain_draws`, whose weights, of others, nobody has seen yet."""
    outcome = plain_draws(problem)
    if not isinstance(problem.model, DensityModel):  # whose user pays for every draw
        rng, many = np.random.default_rng(problem.child(4)), fair_share(problem, 1024, 8192)
        warn_of_heavy_tail(outcome, Weights(PCN().init_reference(rng, problem.path, many).tilt))
    return outcome


def plain_draws(problem: Problem) -> Outcome:
    """Z = Z_q E_q[exp Σ h]: right for every q, useful where q is close to the posterior."""
    move = PCN()
    problem.prepare(move)
    n_particles = problem.n_particles or fair_share(problem)
    loop = ResampleMove(problem.path, move, NO_LADDER)
    job = Job(Loop.run, (loop,), {"n_particles": n_particles})
    outcome, run = outcome_of_islands(problem, "importance", job, independent=True)
    outcome.settings = {"move": None, "draws_per_island": n_particles}
    warn_of_few_draws(outcome, run, n_particles, "the reference is far from the posterior")
    return outcome


def fair_share(
    problem: Problem, fewest: int = 128, most: int = 1024, size: int | None = None
) -> int:
    """Draws of an island that cost little beside the reference, of ``size`` numbers each (by
    default the model's): ``fewest`` where none do, and ``most`` where nearly all do."""
    return min(max(fewest, problem.cheap // (size or problem.model.n)), most)
