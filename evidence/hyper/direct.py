r"""Hyperparameters that are integrated as any density is, without EP.

Where log Z(θ) is a formula (:mod:`.grouped`), what is left is

.. math:: Z = \int p(\theta)\, Z(\theta)\, d\theta,

a likelihood Z(θ) under a prior p in a few dimensions. Where latent values are few, too, they may
stay in the integral, as :math:`x = m + L_\theta z` for standard normal z:

.. math:: Z = \int p(\theta) \int N(z; 0, I)\, p(y|A x + o, \theta)\, dz\, d\theta .

Either is searched and integrated by :mod:`evidence.methods.density`, from independent draws of the
prior, with halving and climbs, and shares nothing with a search for an optimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from ..models.density.model import DensityModel
from ..models.likelihoods.quadrature import evaluate
from ..models.priors import Priors
from ..models.sparse import SparseModel
from ..numerics.arrays import Array
from .grouped import grouped_evidence
from .parts import Parts, parts_of

_DEAREST = 2e4  # multiplications of a look: 20 μs, some 600,000 of which are made
_FEW = 4  # dimensions up to which a density takes a second
_FEW_OF_SEVERAL_MODES = (
    12  # the same where posteriors at given θ have several modes: half a minute
)
_TERMS = 500.0  # data whose likelihood takes as long


def density_over(model: Any, priors: Priors) -> DensityModel | None:
    """The density over θ, or over latent values and θ, in natural values; None where evidences at
    given θ have to be estimated. The last coordinates are the hyperparameters."""
    prior = priors.natural()
    if prior is None or not isinstance(model, SparseModel):
        return None
    parts = parts_of(model, priors)
    if parts is None:
        return None
    if model.likelihood.name == "gaussian":
        evidence = grouped_evidence(model, parts)
        if evidence is None or evidence.cost > _DEAREST:
            return None
        return DensityModel(evidence, prior=prior, names=priors.names, vectorized=True)
    few = _FEW if model.likelihood.log_concave else _FEW_OF_SEVERAL_MODES
    if model.n + len(priors) > few or model.y.size > _TERMS:
        return None
    latent = [f"z[{i}]" for i in range(model.n)]
    return DensityModel(
        LikelihoodOfAll(model, parts), prior=[*[stats.norm()] * model.n, *prior],
        names=(*latent, *priors.names), vectorized=True,
    )  # fmt: skip


class LikelihoodOfAll:
    """log p(y | A x + o, θ) for rows of z and θ."""

    def __init__(self, model: SparseModel, parts: Parts) -> None:
        self.parts, self.likelihood, self.n = parts, model.likelihood, model.n
        self.y, self.theta = model.y, model.theta
        self.design, self.middle = model.A.toarray(), model.prior.mean
        values = {name: model.likelihood.value_of(name) for name in model.likelihood.free}
        self.names = [name for name, value in values.items() if np.ndim(value) == 0]

    def __call__(self, rows: Array) -> Array:
        z, values = rows[:, : self.n], self.parts.values(rows[:, self.n :])
        x = self.parts.coloured(values, z)
        own = dict(zip(self.names, values[:, self.parts.n_kernel :].T, strict=True))
        with np.errstate(all="ignore"):
            theta = self.likelihood.thetas(self.y, own) if own else self.theta[:, None]
            theta = np.broadcast_to(theta, (len(theta), len(rows), self.y.size))
            eta = (x @ self.design.T + self.middle).ravel()
            each = evaluate(self.likelihood.kernel, theta.reshape(len(theta), -1), eta, 1)[0]
        out = each.reshape(len(rows), -1).sum(axis=1)
        return np.where(np.isnan(out), -np.inf, out)
