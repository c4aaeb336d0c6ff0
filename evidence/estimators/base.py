"""What both estimators share: parameters, inputs, and the evidence by Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted, validate_data

from ..execution.arguments import array, check_choice, check_count, shown
from ..execution.keywords import hinted
from ..messages import InputError
from ..numerics.arrays import Array
from ..verbs.estimate import log_evidence

if TYPE_CHECKING:
    from ..results.evidence import EvidenceResult

_E = TypeVar("_E", bound=type)


def with_hints(estimator: _E) -> _E:
    """The class, whose constructor says which of its arguments may have been meant."""
    estimator.__init__ = hinted(estimator.__init__)  # type: ignore[misc]
    return estimator


@dataclass(eq=False, repr=False)
class GaussianProcess(BaseEstimator):
    """An estimator with a kernel that is learnt; its docstring describes the parameters."""

    kernel: Kernel | str | None = None
    _: KW_ONLY
    approximation: str = "ep"
    optimizer: str | Callable[..., Any] | None = "fmin_l_bfgs_b"
    n_restarts_optimizer: int = 0
    warm_start: bool = False
    copy_X_train: bool = True
    random_state: int | np.random.RandomState | None = None

    def _check_parameters(self) -> None:
        check_choice("approximation", self.approximation, ("ep", "laplace"))
        check_count("n_restarts_optimizer", self.n_restarts_optimizer, 0, optional=False)
        given = self.optimizer
        by_name = isinstance(given, str) and given == "fmin_l_bfgs_b"
        called = callable(given) and not isinstance(given, type)
        if not (given is None or by_name or called):
            raise InputError(
                f"optimizer must be 'fmin_l_bfgs_b', a callable or None, got {shown(given)}"
            )

    def _inputs(self, X: ArrayLike) -> Array:
        """Checked as those of ``fit`` were."""
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)

    @staticmethod
    def _counted(
        data: tuple[Array, NDArray[Any]], sample_weight: ArrayLike | None
    ) -> tuple[Array, NDArray[Any]]:
        """Rows as often as their weights say, which count what they are: whole numbers."""
        X, y = data
        if sample_weight is None:
            return X, y
        times = array("sample_weight", sample_weight, (len(X),))
        if (times < 0.0).any() or (times % 1.0 > 0.0).any():
            raise InputError(
                "sample_weight says how often a row counts, in whole numbers; got "
                f"{shown(sample_weight)}"
            )
        if not times.any():
            raise InputError("sample_weight is zero in every row")
        rows = np.repeat(np.arange(len(X)), times.astype(int))
        return X[rows], y[rows]

    @property
    def feature_importances_(self) -> Array:
        """Relevance of the inputs, with the sum one: squares of what an input's standard deviation
        is in units of its length scale, over all parts of the kernel that have one for each."""
        check_is_fitted(self, "reference_")
        scales = self.kernel_.get_params().items()
        each = [np.asarray(value) for name, value in scales if name.endswith("length_scale")]
        each = [value for value in each if value.size == self.n_features_in_]
        if not each:
            raise AttributeError(
                "feature_importances_ needs a length scale for each input, as in RBF([1, 1])"
            )
        relevance = sum((self.reference_.model.X.std(axis=0) / value) ** 2 for value in each)
        return relevance / np.sum(relevance)

    def log_evidence(self, **words: Any) -> EvidenceResult:
        """Estimate log Z (of the targets as they were fitted) at the learnt hyperparameters.

        Takes the words of :func:`evidence.log_evidence` and leaves ``log_evidence_`` and
        ``log_evidence_se_``.
        """
        check_is_fitted(self)
        words = {"progressbar": False, **words}
        if self.reference_.name == "ep":
            words.setdefault("reference", self.reference_)
        result = log_evidence(self.reference_.model, **words)
        self.log_evidence_, self.log_evidence_se_ = result.logz, result.logz_se
        return result
