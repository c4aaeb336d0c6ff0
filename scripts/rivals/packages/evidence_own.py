"""This package: its default, tempered resample-move, importance sampling, minimax tilting."""

from __future__ import annotations

from problem import Problem

import evidence as ev

VERSION = f"evidence {ev.__version__}"


def run(problem: Problem, settings: dict, seed: int) -> tuple[float, float]:
    model = ev.GPModel(K=problem.K, y=problem.y, likelihood="probit", jitter=0.0)
    result = ev.log_evidence(model, random_seed=seed, progressbar=False, **settings)
    return result.logz, result.logz_se
