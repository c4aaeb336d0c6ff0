"""Gaussian-process regression, robust regression and count regression for scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..messages import InputError
from ..models import likelihoods
from ..models.likelihoods.base import Likelihood
from ..prediction.gp import Prediction
from ..prediction.predict import predict
from ..results.evidence import EvidenceResult
from .fitting import estimate, fit

Array = NDArray[np.float64]


class GaussianProcessRegressor(RegressorMixin, BaseEstimator):
    """Gaussian-process regression with any likelihood, by expectation propagation.

    Parameters
    ----------
    kernel : scikit-learn kernel, optional
        Default ``1.0 * RBF(1.0)`` with both numbers fixed, as in scikit-learn.
    likelihood : str or Likelihood
        ``"gaussian"``, ``"student_t"``, ``"poisson"``, ``"negative_binomial"``, with starting
        parameters as in ``"student_t(df=4, scale=0.5)"``. Its free parameters (noise included)
        are learnt with the kernel's.
    approximation : {"ep", "laplace"}
        The posterior for predictions and ``log_marginal_likelihood_value_``. Hyperparameters
        are learnt with EP in either case; for normal noise it is exact.
    optimizer : {"fmin_l_bfgs_b", None}
        ``None`` keeps kernel and likelihood as they are.
    n_restarts_optimizer : int
        Further starts of the optimizer, drawn as :func:`evidence.optimise` does.
    normalize_y : bool
        Real targets are shifted and scaled to mean 0 and variance 1 for the fit (and
        predictions scaled back); for counts the prior mean is set to that of the average count.
    warm_start : bool
        Begin the next fit's search at the kernel of the last one.
    copy_X_train : bool
        Taken for compatibility; inputs are always copied.
    random_state : int, RandomState or None

    Attributes
    ----------
    n_features_in_, feature_names_in_
    kernel_, likelihood_ : with the learnt hyperparameters
    log_marginal_likelihood_value_ : log Z by the approximation, of the normalised targets
    reference_ : the fitted GaussianReference
    log_evidence_, log_evidence_se_ : after :meth:`log_evidence`

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from evidence import GaussianProcessRegressor
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> y = np.random.default_rng(0).poisson(np.exp(1.0 + np.sin(X[:, 0])))
    >>> regressor = GaussianProcessRegressor(1.0 * RBF(1.0), likelihood="poisson").fit(X, y)
    >>> regressor.predict([[1.5], [4.5]]).round(0)
    array([9., 1.])
    >>> regressor.predict_quantiles([[1.5]], [0.05, 0.95])
    array([[ 4., 14.]])
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: str | Likelihood = "gaussian",
        approximation: str = "ep",
        optimizer: str | None = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        normalize_y: bool = False,
        warm_start: bool = False,
        copy_X_train: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.approximation = approximation
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.normalize_y = normalize_y
        self.warm_start = warm_start
        self.copy_X_train = copy_X_train
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the hyperparameters, then fit the posterior."""
        likelihood = likelihoods.get(self.likelihood)
        if hasattr(likelihood, "probability"):
            raise InputError(
                f"likelihood {likelihood.name!r} is for labels; use GaussianProcessClassifier"
            )
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._shift, self._scale, mean = 0.0, 1.0, 0.0
        if self.normalize_y and likelihood.counts:
            mean = float(likelihood.location(np.array([np.mean(y)]))[0])
        elif self.normalize_y:
            self._shift, self._scale = float(np.mean(y)), float(np.std(y)) or 1.0
        self.reference_ = fit(self, X, (y - self._shift) / self._scale, likelihood, mean)
        self.kernel_ = self.reference_.model.kernel
        self.likelihood_ = self.reference_.model.likelihood
        self.log_marginal_likelihood_value_ = self.reference_.logz
        return self

    def _predict(self, X: ArrayLike) -> Prediction:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return predict(self.reference_.model, X, posterior=self.reference_)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Mean of a new observation, and its standard deviation when asked for.

        The standard deviation is that of the observation, noise included. (scikit-learn's own
        regressor leaves out the noise in its ``alpha`` and includes that of a WhiteKernel.)
        """
        prediction = self._predict(X)
        mean = self._shift + self._scale * prediction.y_mean
        if return_std:
            return mean, self._scale * np.sqrt(prediction.y_var)
        return mean

    def predict_quantiles(self, X: ArrayLike, q: ArrayLike = (0.05, 0.5, 0.95)) -> Array:
        """Quantiles of a new observation, shape (n, Q) for Q probabilities ``q``."""
        quantiles = self._predict(X).quantiles(np.atleast_1d(q), of="y")
        return self._shift + self._scale * quantiles.T

    def log_evidence(self, **words: Any) -> EvidenceResult:
        """Estimate log Z (of the normalised targets) at the fitted hyperparameters.

        Takes the words of :func:`evidence.log_evidence` and leaves ``log_evidence_`` and
        ``log_evidence_se_``.
        """
        check_is_fitted(self)
        return estimate(self, words)
