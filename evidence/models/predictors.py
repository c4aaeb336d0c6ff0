"""Dense models of several predictors: one latent Gaussian field for each of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import array, rows, shown
from ..execution.keywords import hinted
from ..gaussians.dense import DensePrior
from ..gaussians.fields import FieldsPrior
from ..messages import InputError
from ..numerics.arrays import Array, Indices
from . import likelihoods
from .base import DataModel
from .covariance import as_kernel, call_kernel, check_source, factorise
from .hyperparameters import free_parameters
from .identity import rounded, sketch
from .latent import check_mean, observations
from .likelihoods.base import Likelihood, family
from .likelihoods.predicted import Several, predicted
from .priors import Priors


class PredictorsModel(DataModel):
    r"""Data that see several latent Gaussian fields: noise that varies, say.

    .. math:: x_k \sim N(m_k, K_k),\qquad y_n \sim p(y_n|x_{1n}, …, x_{Pn})

    The first field, ``"mu"``, is what the likelihood sees in a :class:`.GPModel`; every further
    one is a parameter of the likelihood, positive numbers by their logarithm and shares by their
    log-odds. A state is flat, field by field.

    Parameters
    ----------
    X : array (N, D), optional
        Inputs. Not needed when ``K`` is given.
    y : array (N,)
        Observations, validated by the likelihood.
    kernel : mapping of str to scikit-learn kernel, callable or str
        One for every predictor, by its name: ``"mu"``, then parameters of the likelihood such as
        ``"sigma"``, ``"shape"``, ``"zi"``.
    likelihood : str or Likelihood
        As for :class:`.GPModel`.
    K : mapping of str to array (N, N), optional
        The prior covariances themselves, instead of ``kernel``.
    mean : mapping of str to float or array (N,), optional
        Fixed prior means; 0 for predictors that it leaves out.
    jitter : float, optional
        As for :class:`.GPModel`.

    Attributes
    ----------
    predictors : tuple of str
        Their names.
    kernels : tuple
        One kernel per predictor, or none where matrices were given.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0.0, 1.0, 20)
    >>> kernels = {"mu": "4.0 * RBF(0.3)", "sigma": "RBF(0.5)"}
    >>> model = PredictorsModel(x, np.sin(6 * x), kernels, mean={"sigma": -1.0})
    >>> model.n, model.likelihood
    (40, gaussian(noise_std=predicted))
    >>> model.hyperparameters.names[-1]
    'predictor[sigma]__length_scale'
    """

    word: ClassVar[str] = "predictor"
    """What a field is of."""
    kernels: tuple[Any, ...]
    likelihood: Any
    """Where it is not known from the kind of model."""

    @hinted
    def __init__(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        kernel: Mapping[str, Any] | None = None,
        *,
        likelihood: str | Likelihood = "gaussian",
        K: Mapping[str, ArrayLike] | None = None,
        mean: Mapping[str, float | ArrayLike] | None = None,
        jitter: float | None = None,
    ) -> None:
        base = likelihoods.get(likelihood)
        given = _by_predictor(kernel if K is None else K, base)
        self.predictors = tuple(given)
        self.likelihood = predicted(base, self.predictors[1:])
        self.y, notes = observations(self.likelihood, y)
        source = check_source(X, self.n_data, kernel, K, jitter)
        self.X, self.relative_jitter, more, _ = source
        self.notes = notes + more
        self.kernels = () if kernel is None else tuple(as_kernel(k) for k in given.values())
        n = self.n_data
        matrices = [array(f"K[{p!r}]", v, (n, n)) for p, v in given.items() if K is not None]
        self.mean: Array = self._means({} if mean is None else mean)
        self._set_prior(np.array(matrices) if matrices else None)
        check_mean("mean", *self.field_priors)
        self.hyperparameters = free_parameters(self.heads(self.predictors), self.likelihood)

    def _take(self, rest: Indices) -> None:
        self.y = self.y[rest]

    def _means(self, given: Mapping[str, Any]) -> Array:
        if not isinstance(given, Mapping) or set(given) - set(self.predictors):
            raise InputError(
                f"mean must map names of predictors ({', '.join(self.predictors)}) to numbers, "
                f"got {shown(given)}"
            )
        n = self.n_data
        each = [array(f"mean[{p!r}]", given.get(p, 0.0), (), (n,)) for p in self.predictors]
        return np.concatenate([np.broadcast_to(part, (n,)) for part in each])

    def __getstate__(self) -> dict[str, Any]:
        """Without what a copy, perhaps at other hyperparameters, makes anew."""
        return {name: value for name, value in vars(self).items() if name != "prior"}

    @property
    def n_fields(self) -> int:
        """Number of predictors, P."""
        return len(self.predictors)

    @property
    def n_data(self) -> int:
        """Number of data, N."""
        return int(self.y.size)

    n_predictors = n_fields

    @property
    def n(self) -> int:
        """Number of latent values, F·N."""
        return self.n_fields * self.n_data

    def _set_prior(self, given: Array | None) -> None:
        """Matrices as given, or what the kernels say, with jitter and Cholesky factors."""
        n = self.n_data
        if given is None:
            name, matrices = "kernel(X)", [call_kernel(k, self.X) for k in self._different()]
        else:
            name, matrices = "K", list(given.reshape(-1, n, n))
        names = [f"{name} of {self.word} {k}" for k in range(len(matrices))]
        named = zip(matrices, names if len(names) > 1 else [name], strict=True)
        made = [factorise(K, name, n, self.relative_jitter) for K, name in named]
        #: the different prior covariances, jitter included: shape (1, N, N) where fields share
        self.covariances: Array = np.stack([prior.K for prior in made])
        #: their lower Cholesky factors
        self.factors: Array = np.stack([prior.chol for prior in made])
        self.jitter: float = max(prior.jitter for prior in made)

    @property
    def shared(self) -> bool:
        """Whether all fields have one prior covariance."""
        return len(self.covariances) == 1

    @property
    def K(self) -> Array:
        """Prior covariances, shape (F, N, N); a view of one matrix where fields share."""
        return np.broadcast_to(self.covariances, (self.n_fields, *self.covariances.shape[1:]))

    @property
    def chol(self) -> Array:
        """Lower Cholesky factors of ``K``, likewise."""
        return np.broadcast_to(self.factors, (self.n_fields, *self.factors.shape[1:]))

    @property
    def field_priors(self) -> tuple[DensePrior, ...]:
        """Each field's own prior, with the mean of its latent values."""
        means = self.mean.reshape(self.n_fields, self.n_data)
        return tuple(map(DensePrior, means, self.K, self.chol))

    @cached_property
    def prior(self) -> FieldsPrior:
        """Of all predictors, flat."""
        return FieldsPrior(self.field_priors)

    # -- hyperparameters --------------------------------------------------------------------

    def heads(self, labels: Iterable[Any]) -> dict[str, Any]:
        """Kernels by what the names of their hyperparameters begin with."""
        names = [f"{self.word}[{label}]__" for label in labels]
        return dict(zip(names, self.kernels, strict=False))

    def at(self, theta: Sequence[float] | Array | Mapping[str, float]) -> Self:
        """The same data under other hyperparameters.

        Parameters
        ----------
        theta : array (P,) or mapping
            Their natural logarithms in the order of ``model.hyperparameters.names``, or natural
            *values* by name. A name without ``class[…]__`` means that parameter in all classes,
            and likewise for predictors.
        """
        if isinstance(theta, Mapping):
            theta = self.by_field(theta)
        model = self._moved(theta)
        model.kernels = model.hyperparameters.kernels
        if model.hyperparameters.n_kernel:
            model._set_prior(None)
        return model

    def without(self, rows: ArrayLike) -> Self:
        """The same priors without some of the data, given by their numbers."""
        rest, model = self._cut(rows, self.n_data)
        model._take(rest)
        model.mean = self.mean.reshape(-1, self.n_data)[:, rest].ravel()
        model._set_prior(None if self.kernels else self.covariances[:, rest][..., rest])
        return model

    def priors_of(self, priors: Mapping[str, Any], fixed: Iterable[str] = ()) -> Priors:
        """Priors by names, those without a field for every field."""
        if isinstance(priors, Mapping):
            priors = self.by_field(priors)
        if not isinstance(fixed, str):
            fixed = self.by_field(dict.fromkeys(fixed or ()))
        return super().priors_of(priors, fixed)

    def by_field(self, theta: Mapping[str, Any]) -> dict[str, Any]:
        """Names that say nothing of a field, for every field that has them."""
        names = self.hyperparameters.names
        spelled: dict[str, Any] = {}
        for name, value in theta.items():
            ends = [known for known in names if known.endswith(f"__{name}")]
            ends = [known for known in ends if known.endswith(f"]__{name}")] or ends
            owners = [known.partition("]__")[0] for known in ends]
            once = name not in names and len(set(owners)) == len(owners) > 1
            spelled |= dict.fromkeys(ends if once else [name], value)
        return spelled

    # -- the values --------------------------------------------------------------------------

    def _rows(self, x: ArrayLike) -> tuple[Array, tuple[int, ...]]:
        """A batch of flat states, checked: compiled code trusts its shape."""
        what = f"latent values ({self.n_fields} x {self.n_data}, {self.word} by {self.word})"
        return rows("x", x, self.n, what)

    def log_prior(self, x: ArrayLike) -> Array:
        """log Π_k N(x_k; m_k, K_k) for a batch ``x`` of shape (..., F·N)."""
        batch, shape = self._rows(x)
        fields = batch.reshape(-1, self.n_fields, self.n_data)
        value = sum(p.log_density(fields[:, k]) for k, p in enumerate(self.field_priors))
        return np.reshape(value, shape)

    def bare(self) -> Self:
        """The same model without inputs and kernels: all that computing needs, light to send."""
        model = copy.copy(self)
        model.kernels, model.X = (), None
        model.hyperparameters = free_parameters({}, self.hyperparameters.likelihood)
        return model

    def _kernel_in_words(self) -> str:
        if not self.kernels:
            return "K given"
        return " | ".join(str(kernel) for kernel in self._different())

    def _different(self) -> tuple[Any, ...]:
        """One kernel where all fields have the same."""
        first, *others = self.kernels
        return self.kernels if any(k is not first and k != first for k in others) else (first,)

    def log_likelihood(self, x: ArrayLike) -> Array:
        """log p(y|x) for a batch ``x`` of shape (..., P·N)."""
        batch, shape = self._rows(x)
        each = self.likelihood.log_probs(self.observed, self.likelihood.split(batch))
        return each.sum(axis=1).reshape(shape)

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model, in plain words and numbers."""
        return {
            "N": self.n_data,
            "predictors": ", ".join(self.predictors),
            "likelihood": repr(self.likelihood),
            "kernel": self._kernel_in_words(),
            "jitter": float(f"{self.jitter:.6g}"),
        }

    def identity(self) -> tuple[NDArray[Any], ...]:
        """Arrays that tell this model from others: see :mod:`evidence.models.identity`."""
        sd = np.sqrt(np.concatenate([prior.variances for prior in self.field_priors]))
        own = self.likelihood.identity(self.y, self.mean, sd)
        return *sketch(self.covariances), rounded(self.jitter), self.mean, self.y, *own

    def __repr__(self) -> str:
        kernels = self.kernels or ("K",) * self.n_fields
        pairs = zip(self.predictors, kernels, strict=True)
        words = ", ".join(f"{name} ~ {kernel}" for name, kernel in pairs)
        return f"PredictorsModel(N={self.n_data}, {words}, {family(self.likelihood).name})"


def _by_predictor(given: object, base: Likelihood) -> dict[str, Any]:
    """Kernels or matrices in the order in which the likelihood sees predictors."""
    own = base.predictors if isinstance(base, Several) else ("mu",)
    right = isinstance(given, Mapping) and len(given) > 1 and next(iter(given)) == own[0]
    if not isinstance(given, Mapping) or not (set(given) == {*own} if own[1:] else right):
        names = ", ".join(map(repr, own)) if own[1:] else "'mu' first"
        example = dict.fromkeys(own if own[1:] else ("mu", "sigma"), "…")
        raise InputError(
            f"kernel (or K) must map the names of predictors, {names}, to kernels (or matrices), "
            f"such as {example}, got {shown(given)}"
        )
    return {name: given[name] for name in (own if own[1:] else given)}
