"""dynesty: nested sampling, the prior cube mapped to whitened latent values."""

from __future__ import annotations

import dynesty
import numpy as np
from problem import Problem
from scipy.special import ndtri

VERSION = f"dynesty {dynesty.__version__}"


def run(problem: Problem, settings: dict, seed: int) -> tuple[float, float]:
    words = dict(settings)
    base, dlogz = problem.bases[words.pop("base")], words.pop("dlogz")
    sampler = dynesty.NestedSampler(
        base.loglik, ndtri, base.n, rstate=np.random.default_rng(seed), **words
    )
    sampler.run_nested(dlogz=dlogz, print_progress=False)
    found = sampler.results
    return base.log_z0 + float(found.logz[-1]), float(found.logzerr[-1])
