"""Derivatives of log Z_q in a prior's hyperparameters, for priors of any structure.

At the fixed point of EP, log Z is stationary in the sites: what is left is how the normaliser of
prior times sites, the sites fixed, depends on the prior. That is differenced here, at the cost of
four factorisations for each hyperparameter; dense priors have a contraction instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..gaussians.base import Gaussian
from ..numerics.arrays import Array

if TYPE_CHECKING:
    from .latent import LatentModel

_STEP = 2e-3  # an error of h⁴/30, and rounding of log Z divided by h
_STENCIL = ((-2, 1.0 / 12.0), (-1, -2.0 / 3.0), (1, 2.0 / 3.0), (2, -1.0 / 12.0))


def numerical_gradient(model: LatentModel, q: Gaussian) -> Array:
    """Gradient of log Z_q at fixed sites in the logs of the prior's parameters.

    Parameters
    ----------
    model : GPModel or SparseModel
        Of which ``hyperparameters``, ``at`` and ``prior`` are asked.
    q : Gaussian
        Whose sites these are.
    """
    free, c = model.hyperparameters, np.zeros(q.tau.size)
    gradient = np.zeros(free.n_kernel)
    for p in range(free.n_kernel):
        for steps, weight in _STENCIL:
            theta = free.theta.copy()
            theta[p] += steps * _STEP
            moved = model.at(theta).prior.with_sites(q.nu, q.tau)
            gradient[p] += weight / _STEP * moved.log_normaliser(c)
    return gradient
