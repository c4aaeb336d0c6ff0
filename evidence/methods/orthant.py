"""Minimax tilting for probit: Z as the probability of an orthant.

Independent of EP and annealing; see :mod:`evidence.proposals.tilting`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..drivers.tilting import Tilted, prepare, run_tilted
from ..drivers.waves import Budget
from ..execution.tasks import Job, factorising
from ..proposals.tilting import Weights, draw
from .base import Outcome, Problem, outcome_of_islands

TRIAL = 2000
_FIRST = 16
_FEWEST = 128
_MEMORY = 2**22  # numbers in the draws of an island


class Trial(NamedTuple):
    """The proposal and what its first weights look like."""

    tilted: Tilted
    weights: Weights


def orthant(problem: Problem) -> Outcome:
    """Minimax tilting; ``n_particles`` is the number of draws of an island."""
    return run_trial(problem, try_tilting(problem))


def try_tilting(problem: Problem) -> Trial:
    """Prepare, and look at a few weights."""
    problem.progress.phase("minimax tilting")
    with factorising(problem.model.n):
        tilted = prepare(problem.model)
    return look_again(problem, Trial(tilted, Weights()), TRIAL)


def look_again(problem: Problem, trial: Trial, draws: int) -> Trial:
    """The same proposal judged by more weights."""
    rng, weights = np.random.default_rng(problem.child(3)), trial.weights
    with factorising(problem.model.n):
        while weights.n < draws and not (weights.n and problem.clock.stop()):
            weights.add(draw(trial.tilted.proposal, TRIAL, rng)[1])
            rng = np.random.default_rng(problem.child(100 + weights.n // TRIAL))
    return trial


def run_trial(problem: Problem, trial: Trial) -> Outcome:
    """Islands until the target is met; the trial's own draws only decide how large they are."""
    target = problem.target_se or 0.05
    needed = trial.weights.relative_variance / target**2 / (problem.n_islands or _FIRST)
    most = max(1024, _MEMORY // problem.model.n)  # islands are many rather than large
    n_particles = problem.n_particles or min(max(_FEWEST, math.ceil(1.2 * needed)), most)
    job = Job(run_tilted, (trial.tilted,), {"n_particles": n_particles})
    run = problem.run(job, Budget(problem.target_se, problem.n_islands or _FIRST))
    outcome = outcome_of_islands(problem, "orthant", run, np.ones(1), np.full(1, np.nan))
    outcome.settings = {
        "move": None,
        "reference": None,
        "draws_per_island": n_particles,
        "log_weight_sd": float(trial.weights.log_sd),
    }
    outcome.warnings += trial.weights.complaints()
    if trial.tilted.proposal.bound == math.inf:
        outcome.warnings.append("Newton's method found no saddle point: weights are not tilted")
    return outcome
