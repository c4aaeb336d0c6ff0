"""Priors that a user names, and defaults for the rest, for every hyperparameter of a formula."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ...execution.arguments import number, shown
from ...messages import InputError
from ...numerics.arrays import Array
from ..hyperparameters import Hyperparameters
from ..precisions.base import WIDE
from ..priors import OnAnother, Priors
from .parse import compact


@dataclass(frozen=True)
class OfSquare(OnAnother):
    """The prior of a standard deviation whose square, the variance, has the prior given."""

    @property
    def of(self) -> str:
        """What follows its text."""
        return ", of the variance"

    def logpdf(self, value: ArrayLike) -> Array:
        v = np.asarray(value, float)
        return self.prior.logpdf(v * v) + np.log(2.0 * v)

    def ppf(self, q: ArrayLike) -> Array:
        return np.sqrt(self.prior.ppf(q))

    def isf(self, q: ArrayLike) -> Array:
        return np.sqrt(self.prior.isf(q))

    def cdf(self, value: ArrayLike) -> Array:
        return self.prior.cdf(np.square(value))

    def sf(self, value: ArrayLike) -> Array:
        return self.prior.sf(np.square(value))

    def rvs(self, size: object = None, random_state: object = None) -> Array:
        return np.sqrt(self.prior.rvs(size, random_state=random_state))

    def support(self) -> tuple[float, float]:
        low, high = self.prior.support()
        return float(np.copysign(np.sqrt(abs(low)), low)), float(np.sqrt(abs(high)))


class Chosen(NamedTuple):
    """What becomes of every hyperparameter."""

    priors: dict[str, Any]
    values: dict[str, float]
    """Of those that are held."""
    strange: set[str]
    """What is given of other names."""


def for_hyperparameters(
    free: Hyperparameters, defaults: Mapping[str, Any], given: Mapping[str, Any],
    effects: Sequence[str],
) -> Chosen:  # fmt: skip
    """A prior for every hyperparameter, or a value: what is ``given``, and ``defaults`` else.

    Correlations have LKJ(1) unless ``cor(g)`` says otherwise; see
    :mod:`evidence.models.precisions.correlated`. Given priors of common ``effects`` are left to
    these.
    """
    chosen, used = dict(defaults), {compact(name) for name in effects}
    given_to = dict[str, str]()
    for head, factor in dict.fromkeys(c for name in free.names if (c := _correlated(name))):
        names = [n for n in free.names if _correlated(n) == (head, factor)]
        key = f"{head}cor({factor})"
        chosen |= _correlations(names, given.get(key, "lkj(1)"), key)
        used.add(key)
    strange, values = set[str](), dict[str, float]()
    for key, prior in given.items():
        if key in used:
            continue
        name = re.sub(r"^(\w+:)?var\(", r"\1sd(", key)
        square = name != key
        if not free.meant_by(name):
            strange.add(key)
            continue
        name = free.names[free.index(name)]
        if name in given_to:
            both = f"{shown(given_to[name])} and {shown(key)}"
            raise InputError(f"priors: {both} are of the same; drop one")
        given_to[name] = key
        chosen[name] = OfSquare(prior) if square and not is_number(prior) else prior
    for name in [name for name, prior in chosen.items() if is_number(prior)]:
        key, low = given_to.get(name, name), float(free.lows[free.index(name)])
        ends = {"above": 0.0} if np.isnan(low) else {"above": low, "below": 1.0}
        value = number(f"priors[{shown(key)}]", chosen.pop(name), **ends)
        values[name] = value**0.5 if re.match(r"(\w+:)?var\(", key) else value
    return Chosen(chosen, values, strange)


def is_number(prior: object) -> bool:
    """Whether it is meant as a value, a bad one perhaps, and no distribution."""
    return isinstance(prior, Number) or (hasattr(prior, "dtype") and hasattr(prior, "shape"))


def with_bounds(free: Hyperparameters) -> Hyperparameters:
    """Wide bounds are about where the search starts, since data may have any unit."""
    wide = np.all(np.abs(free.bounds - np.log(WIDE)) < 1e-9, axis=1, keepdims=True)
    return replace(free, bounds=np.where(wide, free.theta[:, None] + np.log(WIDE), free.bounds))


def starts(priors: Priors, free: Hyperparameters, *, draws: int = 999) -> dict[str, float]:
    """Medians of the priors that exclude where the search would start.

    ``draws``: of a prior, for its median.
    """
    values = dict(zip(free.names, free.values, strict=True))
    away = {n: prior for n, prior in priors.items() if not np.isfinite(prior.logpdf(values[n]))}
    return {n: float(np.median(p.rvs(size=draws, random_state=0))) for n, p in away.items()}


def _correlated(name: str) -> tuple[str, str] | None:
    """Whose correlation it is: what stands before, of a predictor, and the group."""
    match = re.match(r"((?:\w+:)?)cor\(", name)
    return None if match is None else (match[1], name.rpartition("|")[2][:-1])


def _correlations(names: Sequence[str], prior: object, key: str) -> dict[str, Any]:
    """Priors of the (partial) correlations of one group's effects."""
    if not isinstance(prior, str):
        if len(names) == 1:
            return {names[0]: prior}
        raise InputError(
            f"priors[{shown(key)}]: {len(names)} correlations have one prior together, "
            f"'lkj(eta)'; one alone is {shown(names[0])}"
        )
    match = re.fullmatch(r"lkj\((\d+\.?\d*|\.\d+)\)", compact(prior))
    if match is None or float(match[1]) <= 0.0:
        raise InputError(
            f"priors[{shown(key)}] must be 'lkj(eta)' with eta > 0, got {shown(prior)}"
        )
    k = int((1 + np.sqrt(1 + 8 * len(names))) / 2)
    earlier = np.tril_indices(k, -1)[1]
    shapes = float(match[1]) + 0.5 * (k - 2 - earlier)
    pairs = zip(names, shapes, strict=True)
    return {name: stats.beta(a, a, loc=-1.0, scale=2.0) for name, a in pairs}
