"""Derivatives of log Z_q in a prior's hyperparameters, for priors of any structure.

At the fixed point of EP, log Z is stationary in the sites: what is left is how the normaliser of
prior times sites, the sites fixed, depends on the prior. That is differenced here, at the cost of
four factorisations for each hyperparameter; dense and sparse priors have a contraction instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..gaussians.base import Gaussian
from ..numerics.arrays import Array

if TYPE_CHECKING:
    from .latent import LatentModel


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

    def log_normaliser(theta: Array) -> float:
        return model.at(theta).prior.with_sites(q.nu, q.tau).log_normaliser(c)

    return central(log_normaliser, free.theta, range(free.n_kernel))


def central(
    value: Callable[[Array], float], theta: Array, places: Sequence[int], step: float = 2e-3
) -> Array:
    """Derivatives at some places of theta, by differences of fourth order.

    A ``step`` h makes an error of h⁴/30, and rounding of the value divided by h.
    """
    stencil = ((-2, 1.0 / 12.0), (-1, -2.0 / 3.0), (1, 2.0 / 3.0), (2, -1.0 / 12.0))
    gradient = np.zeros(len(places))
    for k, p in enumerate(places):
        for steps, weight in stencil:
            moved = theta.copy()
            moved[p] += steps * step
            gradient[k] += weight / step * value(moved)
    return gradient
