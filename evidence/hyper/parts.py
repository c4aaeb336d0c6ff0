"""Latent values that are independent groups a priori, for many hyperparameters at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..models.base import DataModel
from ..models.precisions.base import Precision
from ..models.precisions.joint import Blocks
from ..models.priors import Priors
from ..numerics.arrays import Array, Indices


class Parts(NamedTuple):
    """The terms of a model, each of groups of values that depend on each other alone."""

    precisions: tuple[Precision, ...]
    sizes: Indices
    """How many values depend on each other, term by term."""
    standing: Array
    """Natural values of all hyperparameters as the model has them."""
    free: Indices
    """Those that have a prior."""
    lows: Array
    """Where the intervals of all begin, NaN for positive ones."""
    n_kernel: int

    def values(self, free: Array) -> Array:
        """Natural values of all hyperparameters, for rows of those that are free."""
        out = np.tile(self.standing, (len(free), 1))
        out[:, self.free] = free
        return out

    def roots(self, values: Array) -> list[Array]:
        """Lower roots of the covariance of a group's values, (B, k, k), term by term."""
        ends = np.cumsum([part.theta.size for part in self.precisions])
        own = np.split(values[:, : self.n_kernel], ends[:-1], axis=1)
        return [part.roots(v) for part, v in zip(self.precisions, own, strict=True)]  # type: ignore[misc]

    def coloured(self, roots: list[Array], z: Array) -> Array:
        """Roots times rows of standard normal values."""
        ends = np.cumsum([part.n for part in self.precisions])
        each = np.split(z, ends[:-1], axis=1)
        grouped = (own.reshape(len(z), -1, r.shape[1]) for r, own in zip(roots, each, strict=True))
        parts = [np.einsum("bij,bgj->bgi", r, g) for r, g in zip(roots, grouped, strict=True)]
        return np.hstack([part.reshape(len(z), -1) for part in parts])

    @property
    def counts(self) -> Indices:
        """How many such groups there are, term by term."""
        return np.array([part.n for part in self.precisions]) // self.sizes

    @property
    def terms(self) -> Indices:
        """The term of every latent value."""
        return np.repeat(np.arange(len(self.precisions)), [part.n for part in self.precisions])

    @property
    def groups(self) -> Indices:
        """The group of every latent value, a number of its own for each."""
        return np.repeat(np.arange(self.counts.sum()), np.repeat(self.sizes, self.counts))


def parts_of(model: DataModel, priors: Priors) -> Parts | None:
    """None where a prior, or a constraint, makes more depend on each other, or is not sparse."""
    precision = model.precision
    if precision is None or model.constraints is not None:
        return None
    every = tuple(precision.parts.values()) if isinstance(precision, Blocks) else (precision,)
    roots = [part.roots(np.full((1, part.theta.size), 0.5)) for part in every]
    if any(root is None for root in roots):
        return None
    sizes = np.array([root.shape[1] for root in roots])  # type: ignore[union-attr]
    free = model.hyperparameters
    return Parts(every, sizes, free.values, priors.free, free.lows, free.n_kernel)
