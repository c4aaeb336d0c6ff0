"""What the estimators share: from their parameters to a fitted reference."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel
from sklearn.utils import check_random_state

from ..approximations.reference import GaussianReference
from ..execution.arguments import check_choice, check_count
from ..execution.tasks import factorising
from ..messages import InputError
from ..models.classes import SoftmaxModel
from ..models.gp import GPModel
from ..models.likelihoods.base import Likelihood
from ..paths.families import fit_reference
from ..results.evidence import EvidenceResult
from ..verbs.estimate import log_evidence
from ..verbs.optimise import optimise
from .joint import fit_softmax

Array = NDArray[np.float64]

APPROXIMATIONS = ("ep", "laplace")


def start_kernel(estimator: Any) -> Any:
    """The kernel from which a fit starts: of the last fit, as given, or scikit-learn's default."""
    if estimator.warm_start and hasattr(estimator, "reference_"):
        return fitted_kernel(estimator.reference_)
    if estimator.kernel is None:
        return ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    if isinstance(estimator.kernel, CompoundKernel):
        raise InputError("kernel cannot be a CompoundKernel")
    if not hasattr(estimator.kernel, "get_params"):
        raise InputError(f"kernel must be a scikit-learn kernel, got {estimator.kernel!r}")
    return clone(estimator.kernel)


def fitted_kernel(reference: Any) -> Any:
    """The kernel of the reference's model; classes of a softmax model share theirs."""
    model = reference.model
    return model.kernels[0] if isinstance(model, SoftmaxModel) else model.kernel


def fit(
    estimator: Any, X: Array, y: Array, likelihood: str | Likelihood, mean: float = 0.0
) -> Any:
    """The reference at the hyperparameters that maximise log Z, or at those given.

    ``likelihood="softmax"`` makes one model of several classes, by Laplace's method.
    """
    check_choice("approximation", estimator.approximation, APPROXIMATIONS)
    check_count("n_restarts_optimizer", estimator.n_restarts_optimizer, 0, optional=False)
    if estimator.optimizer not in ("fmin_l_bfgs_b", None):
        raise InputError(f"optimizer must be 'fmin_l_bfgs_b' or None, got {estimator.optimizer!r}")
    reference: Any
    with factorising(len(y)):
        if likelihood == "softmax":
            learn = estimator.optimizer is not None
            reference, said = fit_softmax(X, y, start_kernel(estimator), learn)
        else:
            reference, said = _fit(estimator, X, y, likelihood, mean)
    for text in said:
        warnings.warn(text, ConvergenceWarning, stacklevel=3)
    return reference


def _fit(
    estimator: Any, X: Array, y: Array, likelihood: str | Likelihood, mean: float
) -> tuple[GaussianReference, tuple[str, ...]]:
    """The reference, and what there is to warn of."""
    model = GPModel(X, y, start_kernel(estimator), likelihood=likelihood, mean=mean)
    said: tuple[str, ...] = ()
    if estimator.optimizer is not None and len(model.hyperparameters):
        found = optimise(
            model,
            n_restarts=estimator.n_restarts_optimizer,
            random_seed=int(check_random_state(estimator.random_state).randint(2**31)),
            progressbar=False,
        )
        if estimator.approximation == "ep":
            return found.reference, found.warnings
        model, said = found.model, found.warnings
    reference = fit_reference(model, estimator.approximation)
    return reference, (*said, *reference.warnings)


def estimate(estimator: Any, words: dict[str, Any]) -> EvidenceResult:
    """Monte Carlo evidence at the fitted hyperparameters, remembered by the estimator."""
    words = {"progressbar": False, **words}
    if estimator.reference_.name == "ep":
        words.setdefault("reference", estimator.reference_)
    result = log_evidence(estimator.reference_.model, **words)
    estimator.log_evidence_, estimator.log_evidence_se_ = result.logz, result.logz_se
    return result
