"""pocoMC: preconditioned Monte Carlo on whitened latent values."""

from __future__ import annotations

from importlib.metadata import version

import pocomc
from problem import Problem
from scipy.stats import norm

VERSION = f"pocomc {version('pocomc')}"


def run(problem: Problem, settings: dict, seed: int) -> tuple[float, float]:
    words = dict(settings)
    base, n_total = problem.bases[words.pop("base")], words.pop("n_total")
    sampler = pocomc.Sampler(
        prior=pocomc.Prior([norm()] * base.n), likelihood=base.loglik, vectorize=True,
        random_state=seed, **words,
    )  # fmt: skip
    sampler.run(n_total=n_total, n_evidence=0, progress=False)
    log_z, error = sampler.evidence()
    return base.log_z0 + float(log_z), float("nan") if error is None else float(error)
