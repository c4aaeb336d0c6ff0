"""Gaussian-process regression, robust regression and count regression for scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..execution.arguments import array, check_count, shown
from ..messages import InputError
from ..models import likelihoods
from ..models.gp import GPModel
from ..models.likelihoods.base import Likelihood
from ..models.likelihoods.checks import check_reals
from ..models.likelihoods.gaussian import Gaussian
from ..numerics.arrays import Array
from ..prediction.gp import Prediction
from ..prediction.predict import predict
from .base import GaussianProcess, with_hints
from .fitting import fit, start_kernel

if TYPE_CHECKING:
    from ..results.evidence import EvidenceResult


@with_hints
@dataclass(eq=False, repr=False, kw_only=True)
class GaussianProcessRegressor(RegressorMixin, GaussianProcess):
    """Gaussian-process regression with any likelihood, by expectation propagation.

    Parameters
    ----------
    kernel : scikit-learn kernel or str, optional
        Text as for :func:`evidence.parse_kernel`. Default ``1.0 * RBF(1.0)`` with both numbers
        fixed, as in scikit-learn.
    alpha : float or array (N,), optional
        The variance of normal noise (of the normalised targets), known instead of learnt. Then
        everything is as in scikit-learn: predictions leave this noise out.
    likelihood : str or Likelihood
        ``"gaussian"``, ``"student_t"``, ``"gamma"``, ``"poisson"``, ``"ordinal"`` or another of
        :mod:`evidence.models.likelihoods` that is not for labels, with starting parameters as in
        ``"student_t(df=4, scale=0.5)"``. Its free parameters (noise included) are learnt with
        the kernel's.
    approximation : {"ep", "laplace"}
        The posterior for predictions, and whose log Z the hyperparameters are learnt with; both
        are exact for normal noise.
    optimizer : {"fmin_l_bfgs_b", None} or callable
        ``None`` keeps kernel and likelihood as they are. A callable is called as scikit-learn
        does, ``optimizer(obj_func, initial_theta, bounds=bounds)``, to minimise minus log Z; the
        logs of the likelihood's parameters come after the kernel's.
    n_restarts_optimizer : int
        Further starts of the optimizer: with EP drawn as :func:`evidence.optimise` does, else
        within a factor of 10 of the values given.
    normalize_y : bool
        Real targets are shifted and scaled to mean 0 and variance 1 for the fit (and
        predictions scaled back); for counts, ordered categories, shares and positive targets
        the prior mean is set to that of their average.
    warm_start : bool
        Begin the next fit's search at the kernel of the last one (of one output).
    copy_X_train : bool
        Taken for compatibility; inputs are always copied.
    random_state : int, RandomState or None

    Attributes
    ----------
    n_features_in_, feature_names_in_
    kernel_, likelihood_
        With the learnt hyperparameters.
    log_marginal_likelihood_value_
        log Z by the approximation, of the normalised targets.
    reference_
        The fitted GaussianReference.
    log_evidence_, log_evidence_se_
        After :meth:`log_evidence`.
    estimators_
        Of several outputs, one regressor for each, which has the attributes above.

    Notes
    -----
    Columns of ``y`` are independent outputs, each with its own hyperparameters; log Z is the sum
    of theirs. Predictions have an axis for them after that of the inputs, and covariances at the
    end, as in scikit-learn.

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

    alpha: float | ArrayLike | None = None
    likelihood: str | Likelihood = "gaussian"
    normalize_y: bool = False

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters, then fit the posterior.

        ``sample_weight`` says how often every row counts, in whole numbers.
        """
        likelihood = likelihoods.get(self.likelihood)
        if hasattr(likelihood, "probability"):
            raise InputError(
                f"likelihood {likelihood.name!r} is for labels; use GaussianProcessClassifier"
            )
        shape = np.asarray(y).shape
        several = len(shape) == 2 and shape[1] > 1
        given = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=several)
        if sample_weight is not None and not isinstance(self.alpha, float | int | None):
            raise InputError("sample_weight with an alpha for each row: give one of them")
        X, y = self._counted(given, sample_weight)
        self._check_parameters()
        for name in ("reference_", "kernel_", "likelihood_") if several else ():
            self.__dict__.pop(name, None)  # of an earlier fit
        self.estimators_ = [clone(self).fit(X, column) for column in y.T] if several else []
        if several:
            values = [one.log_marginal_likelihood_value_ for one in self.estimators_]
            self.log_marginal_likelihood_value_ = float(np.sum(values))
            return self
        if self.alpha is not None:
            likelihood = _known_noise(self.alpha, likelihood, y.size)
        self._shift, self._scale, mean = 0.0, 1.0, 0.0
        if self.normalize_y and type(likelihood).check is not check_reals:
            mean = float(likelihood.location(np.array([np.mean(y)]))[0])
        elif self.normalize_y:
            self._shift, self._scale = float(np.mean(y)), float(np.std(y)) or 1.0
        y = (y - self._shift) / self._scale
        model = GPModel(X, y, start_kernel(self), likelihood=likelihood, mean=mean)
        self.reference_ = fit(self, model)
        self.kernel_ = self.reference_.model.kernel
        self.likelihood_ = self.reference_.model.likelihood
        self.log_marginal_likelihood_value_ = self.reference_.logz
        return self

    def _predict(self, X: Array) -> Prediction:
        no_noise = Gaussian(1e-150)
        observed = None if self.alpha is None else no_noise
        return predict(self.reference_.model, X, posterior=self.reference_, likelihood=observed)

    def _latent_cov(self, X: Array) -> Array:
        """Posterior covariance k** - kᵀRk of the latent values at X."""
        k = self.kernel_(X, self.reference_.model.X)
        return self.kernel_(X) - k @ self.reference_.gaussian.inner_times(k.T)

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False
    ) -> Array | tuple[Array, Array]:
        """Mean of new observations, and their standard deviations or covariance if asked for.

        Both are those of observations, noise included, unless the noise is in ``alpha``. The
        covariance is there for normal and Student-t noise.
        """
        if return_std and return_cov:
            raise InputError("ask for one of return_std and return_cov, not both")
        X = self._inputs(X)
        if self.estimators_:
            each = [one.predict(X, return_std, return_cov) for one in self.estimators_]
            if not (return_std or return_cov):
                return np.stack(each, axis=-1)
            mean, spread = (np.stack(parts, axis=-1) for parts in zip(*each, strict=True))
            return mean, spread
        prediction = self._predict(X)
        mean = self._shift + self._scale * prediction.y_mean
        if return_std:
            return mean, self._scale * np.sqrt(prediction.y_var)
        if not return_cov:
            return mean
        if self.likelihood_.name not in ("gaussian", "student_t"):
            raise InputError(
                f"return_cov is for normal and Student-t noise, not {self.likelihood_.name}; "
                "see return_std and sample_y"
            )
        cov = self._latent_cov(X)
        np.fill_diagonal(cov, prediction.y_var)
        return mean, self._scale**2 * cov

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: object = 0) -> Array:
        """Draws of new observations at all rows of X together, shape (n, n_samples).

        Of several outputs, (n, outputs, n_samples).
        """
        check_count("n_samples", n_samples, 1, optional=False)
        X = self._inputs(X)
        state = check_random_state(random_state)
        if self.estimators_:
            each = [one.sample_y(X, n_samples, state) for one in self.estimators_]
            return np.stack(each, axis=1)
        prediction = self._predict(X)
        rng = np.random.default_rng(state.randint(2**31))
        x = rng.multivariate_normal(
            prediction.mean, self._latent_cov(X), n_samples, check_valid="ignore", method="eigh"
        )
        return self._shift + self._scale * prediction.likelihood.simulate(x, rng).T

    def predict_quantiles(self, X: ArrayLike, q: ArrayLike = (0.05, 0.5, 0.95)) -> Array:
        """Quantiles of a new observation, shape (n, Q) for Q probabilities ``q``.

        Of several outputs, (n, outputs, Q).
        """
        X = self._inputs(X)
        if self.estimators_:
            return np.stack([one.predict_quantiles(X, q) for one in self.estimators_], axis=1)
        quantiles = self._predict(X).quantiles(np.atleast_1d(q), of="y")
        return self._shift + self._scale * quantiles.T

    def log_evidence(self, **words: Any) -> EvidenceResult:
        """Estimate log Z (of the targets as they were fitted) at the learnt hyperparameters.

        Takes the words of :func:`evidence.log_evidence` and leaves ``log_evidence_`` and
        ``log_evidence_se_``. Of several outputs each of ``estimators_`` has its own.
        """
        check_is_fitted(self)
        if self.estimators_:
            raise InputError(
                f"log_evidence is that of one output, this has {len(self.estimators_)}: ask "
                "estimators_[0].log_evidence(), and so on; log Z of all is their sum"
            )
        return super().log_evidence(**words)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _known_noise(alpha: float | ArrayLike, likelihood: Likelihood, n: int) -> Gaussian:
    """One standard deviation for every datum, which is not learnt."""
    if likelihood.name != "gaussian":
        raise InputError(f"alpha is the variance of normal noise, not for {likelihood.name}")
    value = array("alpha", alpha, (), (n,))
    if value.min() <= 0.0:
        raise InputError(f"alpha must be positive, got {shown(alpha)}")
    return Gaussian(tuple(np.broadcast_to(np.sqrt(value), n).tolist()))
