"""PyMC: ``sample_smc`` on whitened latent values, with its two kernels."""

from __future__ import annotations

import logging

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from problem import Problem

VERSION = f"pymc {pm.__version__}"
logging.getLogger("pymc").setLevel(logging.ERROR)


def run(problem: Problem, settings: dict, seed: int) -> tuple[float, float]:
    words = dict(settings)
    base = problem.bases[words.pop("base")]
    kernel = getattr(pm.smc, words.pop("kernel"))
    with pm.Model():
        z = pm.Normal("z", shape=base.n)
        x = base.mean + pt.dot(base.root, z)
        h = pm.logcdf(pm.Normal.dist(), base.y * x) - x * (base.nu - 0.5 * base.tau * x)
        pm.Potential("h", h.sum() - base.constant)
        trace = pm.sample_smc(
            kernel=kernel, chains=1, cores=1, random_seed=seed, progressbar=False,
            compute_convergence_checks=False, **words,
        )  # fmt: skip
    found = np.asarray(trace.sample_stats.log_marginal_likelihood.values[0])
    return base.log_z0 + float(np.asarray(found, dtype=float).ravel()[-1]), float("nan")
