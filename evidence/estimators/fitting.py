"""What the estimators share: from their parameters to a fitted reference.

Hyperparameters are learnt by the evidence of the approximation that predicts: EP's with its exact
gradient (:func:`evidence.optimise`), Laplace's with differences.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, Kernel
from sklearn.utils import check_random_state

from ..approximations.gp.gradient import log_evidence_gradient
from ..approximations.predictors.reference import BlockReference
from ..approximations.reference import GaussianReference
from ..execution.arguments import array, shown
from ..messages import InputError, Message, messages
from ..models.classes import SoftmaxModel
from ..models.covariance import CovarianceError, as_kernel
from ..models.gp import GPModel
from ..models.scales import natural, to_line
from ..numerics.arrays import Array
from ..numerics.threads import blas_for
from ..paths.families import fit_reference
from ..verbs.optimise import REACH, optimise
from .base import GaussianProcess

_REJECTED = 1e10  # minus log Z where there is none
_FOR_EVERYBODY = ("interrupted", "several-fixed-points")  # warnings of a search


class End(NamedTuple):
    """Where a search over hyperparameters ended, and why, if not at an optimum."""

    logz: float
    theta: Array
    trouble: str = ""


class LogEvidence:
    """log Z by an approximation, over the logs of the hyperparameters.

    Those are the kernel's, which several classes share, and the likelihood's.
    """

    def __init__(self, model: GPModel | SoftmaxModel, approximation: str) -> None:
        self.model, self.approximation = model, approximation
        free = model.hyperparameters
        self._times = model.n_predictors
        own = slice(len(free) // self._times)
        self.theta, self.bounds, self.lows = free.theta[own], free.bounds[own], free.lows[own]
        self.names = [name.rpartition("]__")[2] for name in free.names[own]]

    def fit(self, theta: Array) -> Any:
        """The reference at ``theta``."""
        theta = array("theta", theta, self.theta.shape)
        return fit_reference(self.model.at(np.tile(theta, self._times)), self.approximation)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """log Z and its gradient: exact for EP, else by forward differences."""
        h = 1e-4  # of the differences, in logs
        reference = self.fit(theta)
        if self.approximation == "ep":
            return reference.logz, log_evidence_gradient(reference)
        ahead = [self.fit(theta + step).logz for step in h * np.eye(theta.size)]
        return reference.logz, (np.array(ahead) - reference.logz) / h

    def negative(self, theta: Array, eval_gradient: bool = True) -> float | tuple[float, Array]:
        """What scikit-learn's optimizers minimise."""
        try:
            if not eval_gradient:
                return -self.fit(theta).logz
            value, gradient = self(theta)
        except (CovarianceError, ArithmeticError, np.linalg.LinAlgError):
            return (_REJECTED, np.zeros_like(theta)) if eval_gradient else _REJECTED
        return -value, -gradient

    def climb(self, start: Array, optimizer: str | Callable[..., Any] | None) -> End:
        """From one start, by L-BFGS-B or an optimizer as scikit-learn takes them."""
        if callable(optimizer):
            theta, value = optimizer(self.negative, start, bounds=self.bounds)
            return End(-float(value), np.asarray(theta, dtype=float))
        found = minimize(self.negative, start, jac=True, method="L-BFGS-B", bounds=self.bounds)
        return End(-float(found.fun), found.x, "" if found.success else str(found.message))


def start_kernel(estimator: GaussianProcess) -> Kernel:
    """The kernel from which a fit starts: of the last fit, as given, or scikit-learn's default."""
    if estimator.warm_start and hasattr(estimator, "reference_"):
        return fitted_kernel(estimator.reference_)
    if estimator.kernel is None:
        return ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    kernel = as_kernel(estimator.kernel)
    if isinstance(kernel, CompoundKernel):
        raise InputError("kernel cannot be a CompoundKernel")
    if not hasattr(kernel, "get_params") or isinstance(kernel, type):
        raise InputError(
            "kernel must be a scikit-learn kernel, or text such as '4.0 * RBF(1.5)', got "
            f"{shown(kernel)}"
        )
    return clone(kernel)


def fitted_kernel(reference: GaussianReference | BlockReference) -> Kernel:
    """The kernel of the reference's model; classes of a softmax model share theirs."""
    return reference.model.hyperparameters.kernels[0]


def fit(estimator: GaussianProcess, model: GPModel | SoftmaxModel) -> Any:
    """The reference at the hyperparameters that maximise log Z, or at the model's own."""
    approximation = "laplace" if model.n_predictors > 1 else estimator.approximation
    evidence = LogEvidence(model, approximation)
    doubts: list[Message] = []
    with blas_for(model.y.size):
        if estimator.optimizer is None or not evidence.theta.size:
            reference = fit_reference(model, evidence.approximation)
        else:
            reference, doubts = _learn(evidence, estimator)
    for message in (*doubts, *map(_in_our_words, reference.warnings)):
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
    return reference


def _learn(evidence: LogEvidence, estimator: GaussianProcess) -> tuple[Any, list[Message]]:
    """The reference where log Z is largest, and what to be careful about."""
    optimizer, restarts = estimator.optimizer, estimator.n_restarts_optimizer
    rng = check_random_state(estimator.random_state)
    if evidence.approximation == "ep" and not callable(optimizer):
        seed = int(rng.randint(2**31))
        found = optimise(evidence.model, n_restarts=restarts, random_seed=seed, progressbar=False)
        thetas = to_line(found.restarts[evidence.names].to_numpy(dtype=float), evidence.lows)
        troubles = np.where(found.restarts.converged, "", found.restarts.message)
        ends = [End(*each) for each in zip(found.restarts.logz, thetas, troubles, strict=True)]
        kept = [one for one in messages(found.warnings) if one.code in _FOR_EVERYBODY]
        return found.reference, [*kept, *_doubts(evidence, ends)]
    near = evidence.theta[:, None] + np.log(REACH) * np.array([-1.0, 1.0])
    low, high = np.clip(near, evidence.bounds[:, :1], evidence.bounds[:, 1:]).T
    starts = [evidence.theta, *(rng.uniform(low, high) for _ in range(restarts))]
    ends = [evidence.climb(start, optimizer) for start in starts]
    best = max(ends, key=lambda end: end.logz)
    return evidence.fit(best.theta), list(_doubts(evidence, ends))


def _doubts(
    evidence: LogEvidence, ends: list[End], *, at_bound: float = 1e-3, same_height: float = 0.01
) -> Iterator[Message]:
    """What to be careful about after a search.

    ``at_bound``: logs from a bound at which an optimum is at it; ``same_height``: nats between two
    ends of one height.
    """
    done = sorted((end for end in ends if end.logz > -_REJECTED), key=lambda end: -end.logz)
    if lost := len(ends) - len(done):
        yield Message("starts-failed", f"{lost} of {len(ends)} starts failed")
    if not done:
        return
    best = done[0]
    aways = np.abs(best.theta[:, None] - evidence.bounds)
    bounds = natural(evidence.bounds, evidence.lows[:, None])
    for name, away, pair in zip(evidence.names, aways, bounds, strict=True):
        if away.min() < at_bound:
            side, bound = ("lower", "upper")[away.argmin()], pair[away.argmin()]
            ours = name.startswith("likelihood__")
            advice = "the data do not determine it" if ours else "widen its bounds or fix it"
            yield Message("at-bound", f"{name} is at its {side} bound {bound:g}: {advice}")
    if best.trouble:
        text = f"the search for hyperparameters stopped early: {best.trouble}"
        yield Message("stopped-early", text)
    if len(done) > 1 and best.logz - done[1].logz > same_height:
        text = (
            f"the best optimum, {best.logz - done[1].logz:.2g} nats above the next, was found by "
            f"only 1 of {len(ends)} starts: raise n_restarts_optimizer to look for better ones"
        )
        yield Message("found-once", text)


def _in_our_words(warning: Message) -> Message:
    """Without advice that is for others than users of the estimators."""
    if warning.code != "ep-not-converged":
        return warning
    text = "EP did not converge, its log Z is not to be trusted: try approximation='laplace'"
    return Message(warning.code, text)
