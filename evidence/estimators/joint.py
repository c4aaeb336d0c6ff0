"""Several classes as one model: a softmax likelihood, by Laplace's method.

All classes share the kernel's hyperparameters. Laplace's log Z has no gradient here, so
L-BFGS-B takes differences: P + 1 fits a step for P hyperparameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..approximations.classes.laplace import fit_softmax_laplace
from ..approximations.classes.reference import SoftmaxReference
from ..gaussians.base import NotPositiveDefinite
from ..messages import InputError
from ..models.classes import SoftmaxModel
from ..models.covariance import CovarianceError

Array = NDArray[np.float64]

_STEP = 1e-4  # of the differences, in logs
_AT_BOUND = 1e-3  # logs


def fit_softmax(
    X: Array, y: NDArray[Any], kernel: Any, learn: bool
) -> tuple[SoftmaxReference, tuple[str, ...]]:
    """Laplace's method at the best shared hyperparameters, and what there is to warn of."""
    if not (learn and kernel.n_dims):
        reference = fit_softmax_laplace(SoftmaxModel(X, y, kernel))
        return reference, reference.warnings

    def negative(theta: Array) -> float:
        try:
            return -laplace_at(X, y, kernel, theta).logz
        except (CovarianceError, NotPositiveDefinite):
            return 1e10

    found = minimize(
        negative, kernel.theta, method="L-BFGS-B", bounds=kernel.bounds, options={"eps": _STEP}
    )
    reference = laplace_at(X, y, kernel, found.x)
    names = [h.name for h in kernel.hyperparameters if not h.fixed for _ in range(h.n_elements)]
    near = (np.abs(kernel.bounds - found.x[:, None]) < _AT_BOUND).any(axis=1)
    said = [
        f"{name} is at its bound {np.exp(value):.6g}: widen its bounds or fix it"
        for name, value, hit in zip(names, found.x, near, strict=True)
        if hit
    ]
    if not found.success:
        said.append(f"the search for hyperparameters stopped early: {found.message}")
    return reference, (*said, *reference.warnings)


def laplace_at(X: Array, y: NDArray[Any], kernel: Any, theta: Array) -> SoftmaxReference:
    """Laplace's method with the logs ``theta`` in every class's kernel."""
    if np.shape(theta) != np.shape(kernel.theta):
        raise InputError(
            f"theta must hold the logs of {len(kernel.theta)} hyperparameters, got shape "
            f"{np.shape(theta)}"
        )
    return fit_softmax_laplace(SoftmaxModel(X, y, kernel.clone_with_theta(theta)))
