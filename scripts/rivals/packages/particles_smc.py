"""particles: adaptive tempering, waste-free, on whitened latent values."""

from __future__ import annotations

from collections import OrderedDict
from importlib.metadata import version

import numpy as np
import particles
from particles import distributions as dists
from particles import smc_samplers as ssp
from problem import Problem

VERSION = f"particles {version('particles')}"
_MOVES = {"random walk": ssp.ArrayRandomWalk, "independent": ssp.ArrayIndependentMetropolis}


def run(problem: Problem, settings: dict, seed: int) -> tuple[float, float]:
    base = problem.bases[settings["base"]]

    class Model(ssp.StaticModel):
        def loglik(self, theta, t=None):  # type: ignore[no-untyped-def]
            return base.loglik(theta["z"])

    np.random.seed(seed)  # noqa: NPY002  its generator is NumPy's global one
    prior = dists.StructDist(OrderedDict(z=dists.MvNormal(cov=np.eye(base.n))))
    sampler = ssp.AdaptiveTempering(
        model=Model(prior=prior),
        wastefree=True,
        len_chain=settings["chain"],
        move=ssp.MCMCSequenceWF(mcmc=_MOVES[settings["move"]](), len_chain=settings["chain"]),
        ESSrmin=settings["ess"],
    )
    smc = particles.SMC(fk=sampler, N=settings["particles"], ESSrmin=1.0, verbose=False)
    smc.run()
    return base.log_z0 + float(smc.logLt), float("nan")
