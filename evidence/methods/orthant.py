"""Minimax tilting for probit: Z as the probability of an orthant."""

from __future__ import annotations

import numpy as np

from ..drivers.execution import factorising
from ..orthant import OrthantEstimate, log_orthant
from .base import Outcome, Problem


def orthant(problem: Problem) -> Outcome:
    """Independent of EP and annealing; see :mod:`evidence.orthant`."""
    problem.progress.phase("orthant", "draws")
    remaining = problem.clock.remaining()
    found = estimate(
        problem,
        n_draws=problem.n_particles or 10_000,
        target_se=problem.target_se,
        max_seconds=None if remaining is None else max(remaining, 1e-3),
    )
    return Outcome(
        "orthant",
        found.logp,
        found.se,
        warnings=[found.message] if found.message else [],
        settings={"n_draws": found.n_draws, "log_weight_sd": found.log_weight_sd},
    )


def estimate(
    problem: Problem,
    n_draws: int,
    target_se: float | None = None,
    max_seconds: float | None = None,
) -> OrthantEstimate:
    """Draw until the target is met."""
    model, drawn = problem.model, 0
    cov = model.K.copy()
    cov.flat[:: model.n + 1] += 1.0

    def progress(n: int, logp: float, se: float) -> None:
        nonlocal drawn
        problem.progress.running(logp, se, target_se, "minimax tilting", n - drawn)
        drawn = n

    with factorising(model.n):
        return log_orthant(
            cov,
            model.y,
            model.mean,
            n_draws=n_draws,
            target_se=target_se,
            max_seconds=max_seconds,
            rng=np.random.default_rng(problem.child(3)),
            progress=progress,
        )
