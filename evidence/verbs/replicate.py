"""Prior and posterior predictive checks: does a model make data like those there are?"""

from __future__ import annotations

import numpy as np

from ..execution.arguments import check_count, check_kind, seed_sequence
from ..execution.keywords import hinted
from ..messages import InputError
from ..models.formulas.jzs import check_proper
from ..models.types import Described
from ..results.at_draws import AtDraws
from ..results.export import at_theta
from ..results.hyper import IntegratedEvidence
from ..results.replicates import Replicates
from ._options import Posterior
from .simulate import from_prior


@hinted
def replicate(
    model: Described,
    posterior: Posterior | None = None,
    *,
    draws: int = 100,
    random_seed: int | np.random.Generator | None = None,
) -> Replicates:
    """Draw data sets from a model's prior, or given the data from its posterior.

    Parameters
    ----------
    model : GPModel, SparseModel or FormulaModel
        Hyperparameters that have priors are drawn as well; the prior's need a finite mass.
    posterior : IntegratedEvidence, or draws of latent values as for :func:`evidence.loo`, optional
        What :func:`evidence.log_evidence` or :func:`evidence.sample` returned; the prior without.
    draws : int
        Data sets; of draws of latent values as many as there are, if fewer.
    random_seed : int or Generator, optional
        Same seed, same data.

    Returns
    -------
    Replicates
        ``.replicated``, ``.y``, ``.plot()``.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> model = ev.GPModel(np.arange(5.0), [1, 0, 2, 1, 3], "RBF(1.0)", likelihood="poisson")
    >>> ev.replicate(model, draws=20, random_seed=0).replicated.shape
    (20, 5)
    >>> result = ev.log_evidence(model, random_seed=0, progressbar=False)
    >>> ev.replicate(model, result, random_seed=0)
    Replicates(100 data sets like the 5 from the posterior)
    """
    check_kind("model", model, Described)
    check_count("draws", draws, 1, optional=False, below=10**6)
    rng = np.random.default_rng(seed_sequence(random_seed))
    if posterior is None:
        check_proper("model", model)
        made = np.array([from_prior(model, rng)[1] for _ in range(draws)])
    elif isinstance(posterior, IntegratedEvidence):
        if not len(posterior.theta):
            raise InputError("posterior: this result has no draws of hyperparameters")
        chosen = np.linspace(0, len(posterior.theta) - 1, draws).astype(int)
        made = at_theta(model, posterior, posterior.theta[None, chosen], rng).simulate(rng)[0]
    else:
        made = AtDraws.of(model, posterior).simulate(rng).reshape(-1, model.y.size)
        made = made[np.unique(np.linspace(0, len(made) - 1, draws).astype(int))]
    return Replicates(model.observed, made, "prior" if posterior is None else "posterior")
