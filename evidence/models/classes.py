"""Several classes: one latent Gaussian field per class and a softmax likelihood."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import array
from ..messages import InputError
from ..numerics.arrays import Array, Indices
from .covariance import as_kernel, check_source
from .hyperparameters import free_parameters
from .identity import rounded, sketch
from .labels import check_labels
from .latent import check_mean
from .likelihoods.softmax import Softmax
from .predictors import PredictorsModel


class SoftmaxModel(PredictorsModel):
    r"""Classification into C classes with a latent Gaussian field for each of them.

    .. math:: x_k \sim N(m_k, K_k),\qquad
              p(y|x) = \prod_n \frac{e^{x_{y_n n}}}{\sum_k e^{x_{kn}}}

    A state is flat, class by class: ``x.reshape(C, N)`` has one row per class, in the order of
    ``model.classes``.

    Parameters
    ----------
    X : array (N, D), optional
        Inputs. Not needed when ``K`` is given.
    y : array (N,)
        Labels: numbers or strings.
    kernel : scikit-learn kernel, callable or str, or a list of them
        One for every class (each then has its own copy of the hyperparameters), or one per
        class in the order of ``model.classes``.
    K : array (N, N) or (C, N, N), optional
        The prior covariance itself, of every class or of each, instead of ``kernel``.
    classes : array (C,), optional
        All labels there are, where ``y`` may lack some; by default those of ``y``. At least two.
    mean : float, array (C,) or array (C, N)
        Fixed prior mean.
    jitter : float, optional
        As for :class:`~evidence.models.gp.GPModel`.

    Attributes
    ----------
    classes : array (C,)
        The labels in sorted order.
    codes : array (N,)
        The place of each datum's label in ``classes``.
    kernels : tuple
        One kernel per class, or none where matrices were given.
    jitter : float
        What was added to the diagonals, the largest.
    relative_jitter : float
        The same relative to the mean of the diagonal.
    notes : tuple of str
        What a careful reader should know about the data, in words.

    Notes
    -----
    Classes with the same prior share one matrix and one factor.

    Examples
    --------
    >>> model = SoftmaxModel([[0.0], [0.5], [2.0], [3.0]], ["a", "a", "b", "c"], "4.0 * RBF(1.0)")
    >>> model.n, model.n_data, model.classes.tolist(), model.K.shape, model.shared
    (12, 4, ['a', 'b', 'c'], (3, 4, 4), True)
    >>> model.hyperparameters.names[:2]
    ('class[a]__k1__constant_value', 'class[a]__k2__length_scale')
    >>> other = model.at({"class[b]__k2__length_scale": 2.0})
    >>> other.shared, other.kernels[1]
    (False, 2**2 * RBF(length_scale=2))
    >>> model.at({"length_scale": 3.0}).shared  # of every class
    True
    """

    word: ClassVar[str] = "class"
    likelihood: Softmax

    def __init__(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        kernel: Callable[..., Any] | str | Sequence[Any] | None = None,
        *,
        K: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        mean: float | ArrayLike = 0.0,
        jitter: float | None = None,
    ) -> None:
        self.classes, self.codes = check_labels(y, classes)
        self.levels, self.likelihood = self.classes, Softmax(self.predictors)
        source = check_source(X, self.n_data, kernel, K, jitter)
        self.X, self.relative_jitter, self.notes, _ = source
        self.kernels = () if kernel is None else _check_kernels(kernel, self.classes)
        count, n = self.n_classes, self.n_data
        mean = array("mean", mean, (), (count,), (count, n))
        means = mean[:, None] if mean.ndim == 1 else mean
        self.mean: Array = np.broadcast_to(means, (count, n)).ravel()
        self._set_prior(None if K is None else array("K", K, (n, n), (count, n, n)))
        check_mean("mean", *self.field_priors)
        self.hyperparameters = free_parameters(self.heads(self.classes))

    def with_data(self, y: Array) -> Self:
        new = copy.copy(self)
        new.codes = self.likelihood.check(y).y.astype(np.intp)
        return new

    def _take(self, rest: Indices) -> None:
        self.codes = self.codes[rest]

    @property
    def n_classes(self) -> int:
        """Number of classes, C."""
        return int(self.classes.size)

    @property
    def predictors(self) -> tuple[str, ...]:  # type: ignore[override]
        """The classes, as text."""
        return tuple(map(str, self.classes))

    @property
    def y(self) -> NDArray[Any]:  # type: ignore[override]
        """The labels."""
        return self.classes[self.codes]

    @property
    def observed(self) -> Array:
        return self.codes.astype(float)

    def probabilities(self, x: ArrayLike) -> Array:
        """p(class k | x_n), shape (..., C, N)."""
        return self.likelihood.probabilities(self.likelihood.split(x))

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> NDArray[Any]:
        """Labels given latent values: (..., C·N) to (..., N)."""
        return self.classes[self.likelihood.simulate(x, rng).astype(np.intp)]

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model, in plain words and numbers."""
        words = super().describe() | {"classes": self.n_classes, "likelihood": "softmax"}
        del words["predictors"]
        return words

    def identity(self) -> tuple[NDArray[Any], ...]:
        """Arrays that tell this model from others: see :mod:`evidence.models.identity`."""
        sizes = np.array([self.n_classes, self.n_data])
        return *sketch(self.covariances), rounded(self.jitter), self.mean, self.codes, sizes

    def __repr__(self) -> str:
        kernel = self._kernel_in_words() if self.kernels else "K"
        return f"SoftmaxModel(N={self.n_data}, C={self.n_classes}, {kernel})"


def _check_kernels(kernel: object, classes: NDArray[Any]) -> tuple[Any, ...]:
    """One kernel per class."""
    if not isinstance(kernel, list | tuple):
        return (as_kernel(kernel),) * classes.size
    if len(kernel) != classes.size:
        raise InputError(
            f"kernel must be one kernel or a list of one per class, got {len(kernel)} kernels "
            f"for {classes.size} classes"
        )
    return tuple(as_kernel(k) for k in kernel)
