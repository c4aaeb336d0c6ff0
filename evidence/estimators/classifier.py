"""Gaussian-process classification behind scikit-learn's interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..execution.arguments import array, check_choice, shown
from ..messages import InputError
from ..models.classes import SoftmaxModel
from ..models.gp import GPModel
from ..numerics.arrays import Array
from ..numerics.threads import blas_for
from ..prediction.predict import predict
from .base import GaussianProcess, with_hints
from .fitting import LogEvidence, fit, fitted_kernel, start_kernel

if TYPE_CHECKING:
    from ..results.evidence import EvidenceResult

_MULTI = {"one_vs_rest": OneVsRestClassifier, "one_vs_one": OneVsOneClassifier}


def _has_probabilities(estimator: GaussianProcessClassifier) -> bool:
    return estimator.multi_class != "one_vs_one" or getattr(estimator, "n_classes_", 3) == 2


@with_hints
@dataclass(eq=False, repr=False, kw_only=True)
class GaussianProcessClassifier(ClassifierMixin, GaussianProcess):
    """Gaussian-process classifier by expectation propagation.

    A drop-in for :class:`sklearn.gaussian_process.GaussianProcessClassifier`: same words, same
    attributes, EP instead of Laplace's method, a choice of link, and the evidence by Monte
    Carlo when asked for.

    Parameters
    ----------
    kernel : scikit-learn kernel or str, optional
        Text as for :func:`evidence.parse_kernel`. Default ``1.0 * RBF(1.0)`` with both numbers
        fixed, as in scikit-learn.
    likelihood : {"logit", "probit"}
    approximation : {"ep", "laplace"}
        The posterior for predictions, and whose log Z the hyperparameters are learnt with.
    optimizer : {"fmin_l_bfgs_b", None} or callable
        ``None`` keeps the kernel as it is. A callable is called as scikit-learn does,
        ``optimizer(obj_func, initial_theta, bounds=bounds)``, to minimise minus log Z.
    n_restarts_optimizer : int
        Further starts of the optimizer: with EP drawn as :func:`evidence.optimise` does, from a
        window that the inputs suggest rather than from all of the kernel's bounds; else within a
        factor of 10 of the kernel's values.
    copy_X_train : bool
        Taken for compatibility; inputs are always copied.
    random_state : int, RandomState or None
    multi_class : {"one_vs_rest", "one_vs_one", "softmax"}
        How more than two classes are split into binary problems, or not: ``"softmax"`` is one
        model of all classes with a common kernel, always by Laplace's method.
    n_jobs : int, optional
        Binary problems fitted at a time.
    warm_start : bool
        Begin the next fit's search at the hyperparameters of the last one (binary problems).

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_
    kernel_
        The kernel with the learnt hyperparameters (a CompoundKernel for many classes).
    log_marginal_likelihood_value_
        log Z by the approximation; the mean over binary problems.
    reference_
        The fitted reference (two classes, or ``"softmax"``).
    base_estimator_
        The one-vs-rest or one-vs-one estimator (more classes).
    log_evidence_, log_evidence_se_
        After :meth:`log_evidence`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from evidence import GaussianProcessClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = X[50:, :2], y[50:]
    >>> classifier = GaussianProcessClassifier(1.0 * RBF(1.0)).fit(X, y)
    >>> classifier.predict_proba(X[:2]).round(1)
    array([[0.2, 0.8],
           [0.4, 0.6]])
    """

    likelihood: str = "logit"
    multi_class: str = "one_vs_rest"
    n_jobs: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters, then fit the posterior.

        ``sample_weight`` says how often every row counts, in whole numbers.
        """
        given = validate_data(self, X, y, dtype=np.float64)
        X, y = self._counted(given, sample_weight)
        try:
            check_classification_targets(y)
        except TypeError:  # of labels that cannot be sorted
            kinds = ", ".join(sorted({type(label).__name__ for label in y}))
            raise InputError(
                f"y must hold labels of one kind, none missing, got {kinds}"
            ) from None
        self._check_parameters()
        check_choice("likelihood", self.likelihood, ("logit", "probit"))
        check_choice("multi_class", self.multi_class, ("softmax", *_MULTI))
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_classes_ = self.classes_.size
        if self.n_classes_ == 1:
            raise InputError(
                "GaussianProcessClassifier requires 2 or more distinct classes; got 1 class "
                f"(only class {shown(self.classes_[0])} is present)"
            )
        if self._one_model:
            kernel, model = start_kernel(self), None
            if self.n_classes_ == 2:
                model = GPModel(X, 2.0 * codes - 1.0, kernel, likelihood=self.likelihood)
            self.reference_ = fit(self, model or SoftmaxModel(X, codes, kernel))
            self.log_marginal_likelihood_value_ = self.reference_.logz
            return self
        self.base_estimator_ = _MULTI[self.multi_class](clone(self), n_jobs=self.n_jobs)
        self.base_estimator_.fit(X, codes)
        values = [one.log_marginal_likelihood_value_ for one in self._binary]
        self.log_marginal_likelihood_value_ = float(np.mean(values))
        return self

    @property
    def _one_model(self) -> bool:
        """Whether there is one model, not one per class or pair of classes."""
        return self.n_classes_ == 2 or self.multi_class == "softmax"

    @property
    def _binary(self) -> list[GaussianProcessClassifier]:
        """The estimators of the binary problems."""
        return self.base_estimator_.estimators_

    @property
    def kernel_(self) -> Kernel:
        """The kernel with the learnt hyperparameters."""
        check_is_fitted(self)
        if self._one_model:
            return fitted_kernel(self.reference_)
        return CompoundKernel([one.kernel_ for one in self._binary])

    def _predict(self, X: Array) -> Any:
        return predict(self.reference_.model, X, posterior=self.reference_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more probable class of each row."""
        X = self._inputs(X)
        if not self._one_model:
            return self.classes_[self.base_estimator_.predict(X)]
        if self.n_classes_ > 2:
            return self.classes_[self._predict(X).probability.argmax(axis=1)]
        return self.classes_[(self._predict(X).mean > 0.0).astype(int)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Class probabilities, averaged over the posterior; one column per class.

        Three or more classes one_vs_one have none: the method is missing then.
        """
        X = self._inputs(X)
        if not self._one_model:
            return self.base_estimator_.predict_proba(X)
        p = self._predict(X).probability
        return np.column_stack([1.0 - p, p]) if self.n_classes_ == 2 else p

    def latent_mean_and_variance(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of the latent function; two classes only."""
        X = self._inputs(X)
        self._two_classes("the latent function")
        prediction = self._predict(X)
        return prediction.mean, prediction.var

    def log_marginal_likelihood(
        self,
        theta: ArrayLike | None = None,
        eval_gradient: bool = False,
        clone_kernel: bool = True,
    ) -> float | tuple[float, Array]:
        """log Z by the approximation, at the logs ``theta`` of the kernel's hyperparameters.

        Where there are binary problems, their mean, and ``theta`` is that of one kernel or of all
        of them one after the other; there is no gradient then. ``clone_kernel`` is taken for
        compatibility: kernels are never changed.
        """
        check_is_fitted(self)
        if theta is None:
            if eval_gradient:
                raise InputError("eval_gradient needs theta")
            return self.log_marginal_likelihood_value_
        theta = np.asarray(theta, dtype=float)
        if self._one_model:
            evidence = LogEvidence(self.reference_.model, self.reference_.name)
            with blas_for(evidence.model.y.size):
                return evidence(theta) if eval_gradient else evidence.fit(theta).logz
        if eval_gradient:
            self._two_classes("the gradient of the log marginal likelihood")
        count, each = len(self._binary), len(self._binary[0].reference_.model.hyperparameters)
        parts = np.resize(array("theta", theta, (each,), (count * each,)), (count, each))
        pairs = zip(self._binary, parts, strict=True)
        return float(np.mean([one.log_marginal_likelihood(part) for one, part in pairs]))

    def log_evidence(self, **words: Any) -> EvidenceResult:
        """Estimate log Z at the fitted hyperparameters by Monte Carlo.

        For two classes, or several with ``multi_class="softmax"``.

        Takes the words of :func:`evidence.log_evidence` and leaves ``log_evidence_`` and
        ``log_evidence_se_``.
        """
        check_is_fitted(self)
        if not self._one_model:
            self._two_classes("log_evidence")
        return super().log_evidence(**words)

    def _two_classes(self, what: str) -> None:
        if self.n_classes_ > 2:
            raise InputError(
                f"{what} is there for two classes only, this has {self.n_classes_} by "
                f"multi_class={shown(self.multi_class)}"
            )
