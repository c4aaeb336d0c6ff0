"""What the likelihoods accept as observations and parameters, and what they say otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...execution.arguments import array, number
from ...messages import InputError
from ...numerics.arrays import Array
from .base import Likelihood, Observations, Predictive

EXACT = 2.0**53  # whole numbers up to which doubles hold them all


def check_labels(self: Likelihood, y: ArrayLike) -> Observations:
    """Return labels as ±1. Labels 0/1 (or booleans) are taken as -1/+1, with a note."""
    values = array("y", y)
    found = np.unique(values)
    if np.isin(found, (-1.0, 1.0)).all():
        return Observations(values)
    if np.isin(found, (0.0, 1.0)).all():
        return Observations(2.0 * values - 1.0, ("y: labels 0/1 were taken as -1/+1",))
    raise InputError(
        f"y: the {self.name} likelihood wants labels -1 and +1 (or 0 and 1), got {_listed(found)}"
    )


def check_counts(self: Likelihood, y: ArrayLike) -> Observations:
    """Return counts 0, 1, 2, … as floats."""
    values = array("y", y)
    bad = (values < 0.0) | (values != np.floor(values)) | (values > EXACT)
    return _accepted(self, values, bad, "counts 0, 1, 2, … (up to 2^53)")


def check_positives(self: Likelihood, y: ArrayLike) -> Observations:
    """Return positive real targets as floats."""
    values = array("y", y)
    return _accepted(self, values, values <= 0.0, "positive numbers")


def check_between(self: Likelihood, y: ArrayLike) -> Observations:
    """Return numbers between 0 and 1, both excluded."""
    values = array("y", y)
    bad = (values <= 0.0) | (values >= 1.0)
    return _accepted(self, values, bad, "numbers above 0 and below 1")


def check_reals(self: Likelihood, y: ArrayLike) -> Observations:
    """Return any finite real targets as floats."""
    return Observations(array("y", y))


def _accepted(self: Likelihood, values: Array, bad: NDArray[Any], wanted: str) -> Observations:
    """Observations, or an error that lists the ``bad`` ones and says where the first is."""
    if bad.any():
        listed, first = _listed(np.unique(values[bad])), f" at y[{np.argmax(bad)}]"
        where = "" if values.ndim == 0 else f"{', first' if bad.sum() > 1 else ''}{first}"
        raise InputError(f"y: the {self.name} likelihood wants {wanted}, got {listed}{where}")
    return Observations(values)


def _listed(values: Array) -> str:
    return ", ".join(f"{v:.12g}" for v in values[:6]) + (", …" if values.size > 6 else "")


class Labels(Likelihood):
    """Labels ±1 with P(y = +1 | x) = link(x)."""

    link: ClassVar[Callable[..., Array]]
    check = check_labels

    def theta(self, y: Array) -> Array:
        return stack(y, y)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        x = np.asarray(x, float)
        return np.where(rng.random(x.shape) < self.link(x), 1.0, -1.0)

    def probability(self, mean: ArrayLike, var: ArrayLike, label: float = 1.0) -> Array:
        """P(y = label) under ``x ~ N(mean, var)``, by quadrature."""
        mean, var = np.broadcast_arrays(np.asarray(mean, float), np.asarray(var, float))
        log_z = self.tilted(np.full(mean.size, label), mean.ravel(), var.ravel())[0]
        return np.exp(log_z).reshape(mean.shape)

    def _predictive(self, mean: Array, var: Array) -> Predictive:
        p, q = self.probability(mean, var), self.probability(mean, var, -1.0)
        return Predictive(p - q, 4.0 * p * q)


class Parametric(Likelihood):
    """A likelihood whose fields are parameters: a number, or one per datum."""

    def __post_init__(self) -> None:
        for name, value in self._values():
            limits = self.limits.get(name, (0.0, np.inf))
            object.__setattr__(self, name, check_parameter(name, value, *limits))

    def _values(self) -> list[tuple[str, Any]]:
        return [(f.name, getattr(self, f.name)) for f in fields(self)]  # type: ignore[arg-type]

    def parameters(self, like: Array) -> tuple[Array, ...]:
        """All of them, as arrays that broadcast with the last axis of ``like``."""
        return tuple(align(name, value, like) for name, value in self._values())

    def thetas(self, y: Array, values: Mapping[str, Array]) -> Array:
        many, rows = _at_each(self, y, values)
        return many.theta(rows)

    def locations_at(self, y: Array, values: Mapping[str, Array]) -> Array:
        many, rows = _at_each(self, y, values)
        return many.location(rows)


def _at_each(
    likelihood: Likelihood, y: Array, values: Mapping[str, Array]
) -> tuple[Likelihood, Array]:
    """The likelihood with rows of values, and data for each of them."""
    size = len(next(iter(values.values())))
    rows = {name: value.reshape(size, -1) for name, value in values.items()}
    return likelihood.holding(rows), np.broadcast_to(y, (size, y.size))


class Noisy(Parametric):
    """Real targets with noise about x that no x changes."""

    check = check_reals

    def _predictive(self, mean: Array, var: Array) -> Predictive:
        expected, noise = self.conditional_moments(mean)
        return Predictive(expected, var + noise)


def check_parameter(
    name: str, value: ArrayLike, above: float = 0.0, below: float = np.inf
) -> float | tuple[float, ...]:
    """Return a finite scalar as float, a vector with one value per datum as tuple.

    Tuples, unlike arrays, let likelihoods be compared, hashed and printed.
    """
    values = array(name, value, (), ("N",))
    if values.ndim == 0:
        return number(name, value, above=above, below=below)
    for worst in (values.min(), values.max()):
        if not above < worst < below:
            wanted = f"above {above:g}" if above else "positive"
            wanted += f" and below {below:g}" if below < np.inf else ""
            raise InputError(f"{name} must be {wanted}, got {worst:g}")
    return tuple(values.tolist())


def align(name: str, value: float | tuple[float, ...], like: Array) -> Array:
    """Return the parameter as an array that broadcasts with the last axis of ``like``."""
    array = np.asarray(value, dtype=float)
    if array.ndim == 1 and np.ndim(like) and like.shape[-1] != array.size:
        raise InputError(
            f"{name} has {array.size} values but there are {like.shape[-1]} data; "
            "give a number or one value per datum"
        )
    return array


def stack(y: Array, *rows: ArrayLike) -> Array:
    """Kernel parameters as a C-contiguous (P, N) array; every row is broadcast to ``y``."""
    return np.array([np.broadcast_to(row, y.shape) for row in rows], dtype=float)
