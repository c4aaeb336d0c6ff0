"""Several classes: one latent Gaussian field per class and a softmax likelihood."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import array, rows
from ..gaussians.dense import DensePrior
from ..messages import InputError
from ..numerics.arrays import Array
from .covariance import as_kernel, call_kernel, check_source, factorise
from .hyperparameters import Hyperparameters, free_parameters
from .identity import rounded, sketch
from .labels import check_labels
from .latent import check_mean
from .likelihoods import softmax as _softmax
from .likelihoods.softmax import SoftmaxSites
from .notebooks import InNotebooks
from .priors import Priors


class SoftmaxModel(InNotebooks):
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
        #: of hyperparameters that are integrated out; None where they stay as they are
        self.priors: Priors | None = None
        source = check_source(X, self.n_data, kernel, K, jitter)
        self.X, self.relative_jitter, self.notes, _ = source
        self.kernels = () if kernel is None else _check_kernels(kernel, self.classes)
        count, n = self.n_classes, self.n_data
        self._set_prior(None if K is None else array("K", K, (n, n), (count, n, n)))
        mean = array("mean", mean, (), (count,), (count, n))
        means = mean[:, None] if mean.ndim == 1 else mean
        self.mean: Array = np.broadcast_to(means, (count, n)).ravel()
        check_mean("mean", *self.class_priors)
        #: what is free in the kernels: names, logs, bounds, class by class
        heads = [f"class[{label}]__" for label in self.classes]
        self.hyperparameters: Hyperparameters = free_parameters(
            dict(zip(heads, self.kernels, strict=False))
        )

    def _set_prior(self, given: Array | None) -> None:
        """Matrices as given, or what the kernels say, with jitter and Cholesky factors."""
        n = self.n_data
        if given is None:
            name, matrices = "kernel(X)", [call_kernel(k, self.X) for k in self._different()]
        else:
            name, matrices = "K", list(given.reshape(-1, n, n))
        names = [f"{name} of class {k}" for k in range(len(matrices))]
        named = zip(matrices, names if len(names) > 1 else [name], strict=True)
        made = [factorise(K, name, n, self.relative_jitter) for K, name in named]
        #: the different prior covariances, jitter included: shape (1, N, N) where classes share
        self.covariances: Array = np.stack([prior.K for prior in made])
        #: their lower Cholesky factors
        self.factors: Array = np.stack([prior.chol for prior in made])
        self.jitter: float = max(prior.jitter for prior in made)

    # -- sizes and matrices -----------------------------------------------------------------

    @property
    def n_classes(self) -> int:
        """Number of classes, C."""
        return int(self.classes.size)

    @property
    def n_data(self) -> int:
        """Number of data, N."""
        return int(self.codes.size)

    @property
    def n(self) -> int:
        """Number of latent values, C·N."""
        return self.n_classes * self.n_data

    @property
    def shared(self) -> bool:
        """Whether all classes have one prior covariance."""
        return len(self.covariances) == 1

    @property
    def K(self) -> Array:
        """Prior covariances, shape (C, N, N); a view of one matrix where classes share."""
        return np.broadcast_to(self.covariances, (self.n_classes, *self.covariances.shape[1:]))

    @property
    def chol(self) -> Array:
        """Lower Cholesky factors of ``K``, likewise."""
        return np.broadcast_to(self.factors, (self.n_classes, *self.factors.shape[1:]))

    @property
    def class_priors(self) -> tuple[DensePrior, ...]:
        """Each class's own prior, with the mean of its latent values."""
        means = self.mean.reshape(self.n_classes, self.n_data)
        return tuple(map(DensePrior, means, self.K, self.chol))

    @property
    def y(self) -> NDArray[Any]:
        """The labels."""
        return self.classes[self.codes]

    # -- hyperparameters --------------------------------------------------------------------

    def at(self, theta: ArrayLike | Mapping[str, float]) -> SoftmaxModel:
        """The same data under other hyperparameters.

        Parameters
        ----------
        theta : array (P,) or mapping
            Their natural logarithms in the order of ``model.hyperparameters.names``, or natural
            *values* by name. A name without ``class[…]__`` means that parameter in all classes.
        """
        if isinstance(theta, Mapping):
            theta = self.by_class(theta)
        model = copy.copy(self)
        model.priors = None
        model.hyperparameters = self.hyperparameters.moved(theta)
        model.kernels = model.hyperparameters.kernels
        if len(model.hyperparameters):
            model._set_prior(None)
        return model

    def with_priors(
        self, priors: Mapping[str, Any] | None, fixed: Iterable[str] = ()
    ) -> SoftmaxModel:
        """The same model with priors of its hyperparameters, which are integrated out then.

        Parameters
        ----------
        priors : mapping of str to frozen scipy.stats distribution or "flat", or None
            Of natural values. A name without ``class[…]__`` means that parameter in all classes,
            each with a value of its own.
        fixed : list of str
            Hyperparameters held at the model's values; all others need a prior.
        """
        model = copy.copy(self)
        model.priors = None if priors is None else self.priors_of(priors, fixed)
        return model

    def priors_of(self, priors: Mapping[str, Any], fixed: Iterable[str] = ()) -> Priors:
        """Priors by names, those without a class for every class."""
        if isinstance(priors, Mapping):
            priors = self.by_class(priors)
        if not isinstance(fixed, str):
            fixed = self.by_class(dict.fromkeys(fixed or ()))
        return Priors.of(self.hyperparameters, priors, fixed)

    def by_class(self, theta: Mapping[str, Any]) -> dict[str, Any]:
        """Names that say nothing of a class, for every class that has them."""
        names = self.hyperparameters.names
        spelled: dict[str, Any] = {}
        for name, value in theta.items():
            ends = [known for known in names if known.endswith(f"]__{name}")] or [
                known for known in names if known.endswith(f"__{name}")
            ]
            owners = [known.partition("]__")[0] for known in ends]
            once = name not in names and len(set(owners)) == len(owners) > 1
            spelled |= dict.fromkeys(ends if once else [name], value)
        return spelled

    # -- the densities ----------------------------------------------------------------------

    @property
    def no_sites(self) -> SoftmaxSites:
        """Sites that say nothing."""
        zero = np.zeros((self.n_classes, self.n_data))
        return SoftmaxSites(0.0, zero, zero)

    def log_likelihood(self, x: ArrayLike) -> Array:
        """log p(y|x) for a batch ``x`` of shape (..., C·N)."""
        batch, shape = self._rows(x)
        total = np.empty(len(batch))
        _softmax.tilt(self.codes, *self.no_sites, batch, total)
        return total.reshape(shape)

    def log_likelihood_gradient(self, x: ArrayLike) -> tuple[Array, Array]:
        """log p(y|x) and its gradient in x, shapes (...,) and (..., C·N)."""
        batch, shape = self._rows(x)
        total, gradient = np.empty(len(batch)), np.empty_like(batch)
        _softmax.tilt(self.codes, *self.no_sites, batch, total, gradient)
        return total.reshape(shape), gradient.reshape(*shape, self.n)

    def _rows(self, x: ArrayLike) -> tuple[Array, tuple[int, ...]]:
        """A batch of flat states, checked: compiled code trusts its shape."""
        what = f"latent values ({self.n_classes} x {self.n_data}, class by class)"
        return rows("x", x, self.n, what)

    def log_prior(self, x: ArrayLike) -> Array:
        """log Π_k N(x_k; m_k, K_k) for a batch ``x`` of shape (..., C·N)."""
        batch, shape = self._rows(x)
        fields = batch.reshape(-1, self.n_classes, self.n_data)
        value = sum(p.log_density(fields[:, k]) for k, p in enumerate(self.class_priors))
        return np.reshape(value, shape)

    def probabilities(self, x: ArrayLike) -> Array:
        """p(class k | x_n), shape (..., C, N)."""
        from scipy.special import softmax

        fields = np.asarray(x, dtype=float)
        return softmax(fields.reshape(*fields.shape[:-1], self.n_classes, -1), axis=-2)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> NDArray[Any]:
        """Labels given latent values: (..., C·N) to (..., N)."""
        fields = np.asarray(x, dtype=float)
        fields = fields.reshape(*fields.shape[:-1], self.n_classes, -1)
        return self.classes[np.argmax(fields + rng.gumbel(size=fields.shape), axis=-2)]

    # -- what results, checkpoints and other processes need -----------------------------------

    def bare(self) -> SoftmaxModel:
        """The same model without inputs and kernels: all that computing needs, light to send."""
        model = copy.copy(self)
        model.kernels, model.X = (), None
        model.hyperparameters = free_parameters({})
        return model

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model, in plain words and numbers."""
        return {
            "N": self.n_data,
            "classes": self.n_classes,
            "likelihood": "softmax",
            "kernel": self._kernel_in_words(),
            "jitter": float(f"{self.jitter:.6g}"),
        }

    def identity(self) -> tuple[NDArray[Any], ...]:
        """Arrays that tell this model from others: see :mod:`evidence.models.identity`."""
        sizes = np.array([self.n_classes, self.n_data])
        return *sketch(self.covariances), rounded(self.jitter), self.mean, self.codes, sizes

    def _kernel_in_words(self) -> str:
        if not self.kernels:
            return "K given"
        return " | ".join(str(kernel) for kernel in self._different())

    def _different(self) -> tuple[Any, ...]:
        """One kernel where all classes have the same."""
        first, *others = self.kernels
        return self.kernels if any(k is not first and k != first for k in others) else (first,)

    def __repr__(self) -> str:
        kernel = self._kernel_in_words() if self.kernels else "K"
        return f"SoftmaxModel(N={self.n_data}, C={self.n_classes}, {kernel})"


def _check_kernels(kernel: Any, classes: NDArray[Any]) -> tuple[Any, ...]:
    """One kernel per class."""
    if not isinstance(kernel, list | tuple):
        return (as_kernel(kernel),) * classes.size
    if len(kernel) != classes.size:
        raise InputError(
            f"kernel must be one kernel or a list of one per class, got {len(kernel)} kernels "
            f"for {classes.size} classes"
        )
    return tuple(as_kernel(k) for k in kernel)
