"""What an example is, and the form in which one is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...execution.arguments import array
from ...numerics.arrays import Array, Indices
from ..density.model import DensityModel
from ..density.priors import LOG_2PI as LOG_2PI
from ..density.priors import GaussianPrior


class Example(NamedTuple):
    """A model, and what is known of it."""

    model: DensityModel
    """Ready for :func:`evidence.log_evidence` and :func:`evidence.sample`."""
    logz: float | None
    """The exact log evidence, where there is one."""
    draws: Callable[[np.random.Generator, int], Array] | None
    """(rng, size) → independent exact draws of the parameters (size, d), where there are any."""
    about: str
    """In a line."""
    weights: Array | None = None
    """Of a mixture: the share of Z that each mode holds."""
    assign: Callable[[Array], Indices] | None = None
    """Of a mixture: parameters (M, d) → the mode that each row belongs to (M,)."""


class Smooth:
    """A log density of batches with its derivatives; subclasses write these by hand.

    Everything is a method, so that models can be sent to other processes.
    """

    dim: int
    tensor: Callable[[Array], Array] | None = None
    """All third derivatives (M, d, d, d), where they are easily had."""

    def __call__(self, x: Array) -> Array:
        """Log density of every row, (M,)."""
        return self.value_and_grad(x)[0]

    def value_and_grad(self, x: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def hessian(self, x: Array) -> Array:
        raise NotImplementedError

    def third(self, x: Array, W: Array) -> Array:
        """∇⟨W, hessian⟩."""
        raise NotImplementedError

    def along(self, x: Array, w: Array) -> Array:
        """∇(wᵀ hessian w)."""
        return self.third(x, w[:, :, None] * w[:, None, :])

    @property
    def __name__(self) -> str:
        return type(self).__qualname__.lower()

    def model(self, **words: Any) -> DensityModel:
        known = ("value_and_grad", "hessian", "third", "along", "tensor")
        functions: dict[str, Any] = {name: getattr(self, name) for name in known}
        return DensityModel(self, self.dim, vectorized=True, **functions, **words)


class Quadratic(Smooth):
    """A log density whose Hessian is the same everywhere."""

    precision: Array
    """The negative Hessian, (d, d)."""

    def hessian(self, x: Array) -> Array:
        return np.repeat(-self.precision[None], len(x), axis=0)

    def third(self, x: Array, W: Array) -> Array:
        return np.zeros_like(x)


def check_data(X: object, y: object) -> tuple[Array, Array]:
    """Inputs (N, d) and as many outputs."""
    X = array("X", X, ("N", "d"))
    return X, array("y", y, (len(X),))


def regression(density: Smooth, prior_sd: float) -> DensityModel:
    """The model of coefficients β with the prior N(0, s²I)."""
    prior = GaussianPrior(np.zeros(density.dim), prior_sd**2)
    names = [f"beta[{i}]" for i in range(density.dim)]
    return density.model(prior=prior, metric="hessian", names=names)
