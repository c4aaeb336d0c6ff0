"""Several latent fields at the same inputs, each with a Gaussian prior of its own."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ..execution.arguments import rows
from ..gaussians.dense import DensePrior
from ..numerics.arrays import Array, Indices
from .base import DataModel
from .covariance import call_kernel, factorise
from .hyperparameters import free_parameters
from .latent import rest_of
from .priors import Priors


class FieldsModel(DataModel):
    """F independent fields of N latent values; a state is flat, field by field."""

    word: ClassVar[str]
    """What a field is of."""
    kernels: tuple[Any, ...]
    """One per field, or none where matrices were given."""
    mean: Array
    relative_jitter: float
    likelihood: Any
    """Where it is not known from the kind of model."""

    @property
    @abstractmethod
    def n_fields(self) -> int:
        """Number of fields, F."""

    @property
    @abstractmethod
    def n_data(self) -> int:
        """Number of data, N."""

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
        model = copy.copy(self)
        model.priors = None
        model.hyperparameters = self.hyperparameters.moved(theta)
        model.kernels = model.hyperparameters.kernels
        if model.hyperparameters.likelihood is not None:
            model.likelihood = model.hyperparameters.likelihood
        if model.hyperparameters.n_kernel:
            model._set_prior(None)
        return model

    def without(self, rows: ArrayLike) -> Self:
        """The same priors without some of the data, given by their numbers."""
        rest, model = rest_of(rows, self.n_data), copy.copy(self)
        model._take(rest)
        model.mean = self.mean.reshape(-1, self.n_data)[:, rest].ravel()
        model.likelihood = self.likelihood.at(rest)
        model.hyperparameters = self.hyperparameters.of_data(rest)
        model.X = None if self.X is None else self.X[rest]
        model._set_prior(None if self.kernels else self.covariances[:, rest][..., rest])
        return model

    @abstractmethod
    def _take(self, rest: Indices) -> None:
        """Keep some of what was observed."""

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
            ends = [known for known in names if known.endswith(f"]__{name}")] or [
                known for known in names if known.endswith(f"__{name}")
            ]
            owners = [known.partition("]__")[0] for known in ends]
            once = name not in names and len(set(owners)) == len(owners) > 1
            spelled |= dict.fromkeys(ends if once else [name], value)
        return spelled

    # -- the prior --------------------------------------------------------------------------

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
        vars(model).pop("prior", None)
        model.hyperparameters = free_parameters({}, self.hyperparameters.likelihood)
        return model

    def without_matrices(self) -> Self:
        """The same model."""
        return self

    def _kernel_in_words(self) -> str:
        if not self.kernels:
            return "K given"
        return " | ".join(str(kernel) for kernel in self._different())

    def _different(self) -> tuple[Any, ...]:
        """One kernel where all fields have the same."""
        first, *others = self.kernels
        return self.kernels if any(k is not first and k != first for k in others) else (first,)
