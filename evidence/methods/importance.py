"""Plain importance sampling from the reference: annealing with no temperature in between."""

from __future__ import annotations

import numpy as np

from ..drivers.resample_move import Plan, run_islands
from ..drivers.waves import Budget
from ..execution.tasks import Job
from ..moves.gradient.crank_nicolson import PCN
from .base import Outcome, Problem, outcome_of_islands

_FIRST = 16
_WORK = 2**18  # draws of an island times N: about what fitting the reference costs

#: straight from β = 0 to β = 1, without a move
NO_LADDER = Plan(np.ones(1), np.ones(1), np.zeros(1, dtype=np.intp), np.full(1, np.nan), np.nan)


def importance(problem: Problem) -> Outcome:
    """Z = Z_q E_q[exp Σ h]: right for every q, useful where q is close to the posterior."""
    move = PCN()
    problem.prepare(move)
    n_particles = problem.n_particles or fair_share(problem.model.n)
    job = Job(run_islands, (problem.path, move, NO_LADDER), {"n_particles": n_particles})
    run = problem.run(job, Budget(problem.target_se, problem.n_islands or _FIRST))
    outcome = outcome_of_islands(problem, "importance", run, NO_LADDER.betas, np.full(1, np.nan))
    outcome.settings = {"move": None, "draws_per_island": n_particles}
    if run.blocks:
        ess = float(np.mean([b.ess[-1] for b in run.blocks.values()])) * n_particles
        if ess < 10.0:
            outcome.warnings.append(
                f"an island's {n_particles} draws are worth {ess:.1f}: the reference is far from "
                "the posterior; use method='smc', or 'auto'"
            )
    return outcome


def fair_share(n: int) -> int:
    """Draws of an island that cost little beside the reference.

    >>> fair_share(270), fair_share(4096)
    (970, 128)
    """
    return int(np.clip(_WORK // n, 128, 1024))
