"""What all models of data answer, so that nobody needs to ask which kind they are."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import shown
from ..gaussians.base import Prior
from ..messages import InputError
from ..numerics.arrays import Array, Indices
from .hyperparameters import Hyperparameters
from .likelihoods.base import Likelihood
from .notebooks import InNotebooks
from .precisions.base import Precision
from .priors import Priors


class DataModel(InNotebooks, ABC):
    """Latent values with a Gaussian prior, and a likelihood of data that see them."""

    y: Array
    likelihood: Likelihood
    notes: tuple[str, ...]
    hyperparameters: Hyperparameters
    priors: Priors | None = None
    """Of hyperparameters that are integrated out; None where they stay as they are."""
    X: Array | None = None
    """Inputs, where the prior has any."""
    precision: Precision | None = None
    """What the prior is made of, where that is sparse, and"""
    constraints: tuple[Array, Array] | None = None
    """what it is held to."""
    levels: NDArray[Any] | None = None
    """The classes of a response as the data have them."""

    @property
    @abstractmethod
    def prior(self) -> Prior:
        """Of what the likelihoods see."""

    @property
    def n_predictors(self) -> int:
        """How many linear predictors a datum sees."""
        return len(getattr(self.likelihood, "predictors", ("mu",)))

    @property
    def suspect(self) -> str:
        """The datum that is to blame where numbers fail, where one can be named."""
        return ""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the latent values, where they have any."""
        return ()

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of latent values."""

    @property
    def observed(self) -> Array:
        """The data as the likelihood takes them."""
        return self.y

    @property
    def field_priors(self) -> tuple[Prior, ...]:
        """Of every latent field."""
        return (self.prior,)

    @property
    def shared(self) -> bool:
        """Whether all fields have one prior covariance."""
        return True

    @property
    def stepped(self) -> bool:
        """Whether latent values have a sparse order in which they are drawn."""
        return self.prior.design is not None

    @property
    def orthant(self) -> bool:
        """Whether Z is an orthant probability."""
        return False

    def with_data(self, y: Array) -> Self:
        """The same model of other data; nothing is factorised again."""
        new = copy.copy(self)
        new.y, new.notes = self.likelihood.check(y)
        return new

    def _moved(self, theta: Sequence[float] | Array | Mapping[str, float]) -> Self:
        """The same data under other hyperparameters, with the prior yet to be made."""
        model = copy.copy(self)
        model.priors = None
        model.hyperparameters = self.hyperparameters.moved(theta)
        model.likelihood = model.hyperparameters.likelihood or self.likelihood
        return model

    def _cut(self, rows: ArrayLike, count: int) -> tuple[Indices, Self]:
        """Numbers of the data that are left of so many without some rows, and the same model but
        for its likelihood, which is theirs; its data and prior are yet to be cut."""
        try:
            rest = np.delete(np.arange(count), rows)  # type: ignore[arg-type]
        except (IndexError, TypeError, ValueError):
            raise InputError(
                f"rows must be numbers of data from 0 to {count - 1}, got {shown(rows)}"
            ) from None
        if not rest.size:
            raise InputError(f"rows are all of the {count} data; one at least must be left")
        model = copy.copy(self)
        model.likelihood = self.likelihood.at(rest)
        model.hyperparameters = self.hyperparameters.of_data(rest)
        if self.X is not None:
            model.X = self.X[rest]
        return rest, model

    def without_matrices(self) -> Self:
        """The same model but for what it builds anew elsewhere: itself, where that is small."""
        return self

    def seen(self, x: Array) -> Array:
        """What likelihoods see of rows of latent values."""
        return x

    def from_prior(self, rng: np.random.Generator) -> Array:
        """One draw of the latent values."""
        return self.prior.draw(rng)

    def with_priors(self, priors: Mapping[str, Any] | None, fixed: Iterable[str] = ()) -> Self:
        """The same model with priors of its hyperparameters, which are integrated out then.

        Parameters
        ----------
        priors : mapping of str to frozen scipy.stats distribution, its text or "flat", or None
            Of natural values, by name or unambiguous ending; None for a model without. A name
            without ``class[…]__`` means that parameter in all classes, each with a value of its
            own, and likewise for predictors.
        fixed : list of str
            Hyperparameters held at the model's values; all others need a prior.
        """
        model = copy.copy(self)
        model.priors = None if priors is None else self.priors_of(priors, fixed)
        return model

    def priors_of(self, priors: Mapping[str, Any], fixed: Iterable[str] = ()) -> Priors:
        """Priors of hyperparameters by their names, as :meth:`with_priors` takes them."""
        return Priors.of(self.hyperparameters, priors, fixed)

    def new_words(self, data: object) -> dict[str, Any]:
        """What a table of new data says of their likelihood."""
        return {}
