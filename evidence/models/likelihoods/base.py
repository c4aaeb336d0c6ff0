"""What a likelihood is: log p(y|x), its derivatives, and what follows from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...execution.arguments import array
from ...numerics.arrays import Array, Indices
from ..identity import rounded
from . import quadrature

Rows = Indices | list[int] | slice  # which of the data
Limits = Mapping[str, tuple[float, float]]  # of parameters, by their names

PLACES = (-2.3, -1.1, -0.37, 0.13, 0.71, 1.9)  # where a likelihood is asked what it is


class Observations(NamedTuple):
    """Data as a likelihood sees them, and what was changed on the way in."""

    y: Array
    notes: tuple[str, ...] = ()


class Predictive(NamedTuple):
    """Mean and variance of a new observation ``y`` given ``x ~ N(mean, var)``."""

    mean: Array
    var: Array


class Likelihood(ABC):
    r"""A factorising likelihood :math:`p(y|x) = \prod_n p(y_n|x_n)`.

    A subclass names itself, validates ``y``, packs everything its compiled kernel needs per
    datum into an array ``theta`` of shape (P, N), and can simulate. The rest (derivatives,
    tilted moments for EP, cumulants, predictive densities) follows from the kernel.

    Subclasses with a closed form override :meth:`tilted`. One that is not log-concave sets
    ``log_concave = False`` and gives :meth:`fisher`, the expected curvature, as a positive
    stand-in for :math:`-\ell''` in metrics.
    """

    name: ClassVar[str]
    """As in ``likelihood="…"`` of a model."""
    log_concave: ClassVar[bool] = True
    """Whether -l'' is nowhere negative."""
    unimodal: ClassVar[bool] = False
    """Whether p(y|·) rises to its ``location`` and falls beyond, where it is not log-concave; it
    may go on rising, but not by much."""
    kinks: ClassVar[bool] = False
    """Whether the slope jumps, and the curvature says nothing."""
    counts: ClassVar[bool] = False
    """Whether observations are 0, 1, 2, …"""
    categories: ClassVar[bool] = False
    """Whether observations are classes without an order, which have no mean."""
    free: ClassVar[Limits] = MappingProxyType({})
    """Parameters that may be learnt, with default bounds."""
    limits: ClassVar[Limits] = MappingProxyType({})
    """What parameters lie between, where these are not just positive."""
    poles: ClassVar[float] = 0.0
    """What :meth:`strip` is of all data alike."""

    # -- what a subclass provides -------------------------------------------------------

    kernel: ClassVar[Any]
    """The compiled function; see :func:`evidence.numerics.jit.kernel`."""

    @abstractmethod
    def check(self, y: ArrayLike) -> Observations:
        """Validate ``y``, or raise ``ValueError`` saying what came and what is wanted."""

    @abstractmethod
    def theta(self, y: Array) -> Array:
        """Per-datum parameters of the kernel, shape (P, N), C-contiguous."""

    def location(self, y: Array) -> Array:
        """A latent value per datum near which p(y_n|·) is largest (a hint for quadrature)."""
        return y

    def locations(self, y: Array) -> Array:
        """All such values, shape (K, N), where p(y_n|·) may have several maxima."""
        return np.atleast_2d(np.asarray(self.location(y), dtype=float))

    def ceiling(self, y: Array) -> float:
        """What log p(y|x) is at most: zero for probabilities, and of densities their maxima."""
        peaks = [self.log_prob(x, y) for x in self.locations(y)]
        return float(np.maximum(np.max(peaks, axis=0), 0.0).sum())

    def strip(self, y: Array) -> Array | float:
        """Half-width of a strip around the real axis in which p(y_n|·) is analytic and tame.

        So that its Fourier transform falls off like ``exp(-strip |ω|)`` or faster: sums over
        lattices need fewer nodes. 0 where nothing is known, kinks included.
        """
        return self.poles

    @abstractmethod
    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw ``y ~ p(y|x)``; leading axes of ``x`` are a batch."""

    @abstractmethod
    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        """E[y|x] and var[y|x], elementwise."""

    def fisher(self, y: Array) -> Array:
        """Expected curvature per datum; needed only where ``log_concave`` is False."""
        raise NotImplementedError(f"{self.name} has no Fisher information")

    def cdf(self, y: Array, x: Array) -> Array:
        """P(Y ≤ y | x), elementwise; only quantiles of new observations need it."""
        raise NotImplementedError(f"{self.name} has no distribution function")

    @property
    def new(self) -> Likelihood:
        """What new observations follow."""
        return self

    def value_of(self, name: str) -> Any:
        """One of the ``free`` parameters; a tuple where there is one per datum."""
        return getattr(self, name)

    def changed(self, values: Mapping[str, float]) -> Self:
        """The same likelihood with other values of some of its ``free`` parameters."""
        return replace(self, **values)  # type: ignore[type-var]

    def holding(self, values: Mapping[str, Array]) -> Self:
        """The same with arrays for some parameters, as they are: for computing at many of them."""
        many = copy(self)
        for name, value in values.items():
            object.__setattr__(many, name, value)
        return many

    def thetas(self, y: Array, values: Mapping[str, Array]) -> Array:
        """:meth:`theta` for B values of some ``free`` parameters, (B,) or (B, N): (K, B, N)."""
        return np.stack([one.theta(y) for one in self._by_value(values)], axis=1)

    def locations_at(self, y: Array, values: Mapping[str, Array]) -> Array:
        """:meth:`location` for the same, (B, N)."""
        return np.stack([one.location(y) for one in self._by_value(values)])

    def _by_value(self, values: Mapping[str, Array]) -> Iterator[Self]:
        for row in zip(*values.values(), strict=True):
            yield self.changed(dict(zip(values, row, strict=True)))

    def of_family(self, other: Likelihood) -> Likelihood:
        """Another of the base's family, with what is predicted here."""
        return other

    # -- what follows -------------------------------------------------------------------

    def at(self, rows: Rows) -> Self:
        """The likelihood of some of the data: parameters that are one per datum are cut."""
        if not is_dataclass(self):
            return self
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        several = {name: v for name, v in values.items() if isinstance(v, tuple) and v}
        long = {name: v for name, v in several.items() if isinstance(v[0], float)}
        cut = {name: np.asarray(value)[rows] for name, value in long.items()}
        return replace(self, **cut) if cut else self

    def identity(self, y: Array, mean: Array, sd: Array) -> tuple[NDArray[Any], ...]:
        """What this likelihood computes of the data: see :mod:`evidence.models.identity`.

        log p(y_n|x) and three derivatives for every datum, at its ``location`` and at some places
        of its prior N(mean_n, sd_n²), in units of ``sd``; the hint and the curvature that
        quadrature and metrics use.
        """
        theta, hints = self.theta(y), self.locations(y)
        points = [*hints, *(mean + place * sd for place in PLACES)]
        values = np.array([quadrature.evaluate(self.kernel, theta, x) for x in points])
        with np.errstate(all="ignore"):
            parts = [rounded(values * sd ** np.arange(4)[:, None], 1.0), rounded(hints / sd, 1.0)]
            with suppress(NotImplementedError):
                if not self.log_concave:
                    parts.append(rounded(self.fisher(y) * sd**2, 1.0))
        return np.array([type(self).__name__, self.log_concave]), *parts

    def derivatives(self, x: ArrayLike, y: ArrayLike) -> Array:
        """log p(y|x) and its first three derivatives, shape (4, N)."""
        y = array("y", np.atleast_1d(self.check(y).y), ("N",))
        x = array("x", x, y.shape, finite=False)
        return quadrature.evaluate(self.kernel, self.theta(y), x)

    def log_prob(self, x: ArrayLike, y: ArrayLike) -> Array:
        """log p(y_n|x_n), shape (N,)."""
        return self.derivatives(x, y)[0]

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """``log Ẑ``, mean and variance of p(y_n|x) N(x; m_n, v_n) for every n."""
        out = self._tilted_moments(y, m, v, 2)
        return out[0], out[1], out[2]

    def tilted_cumulants(self, y: Array, m: Array, v: Array, order: int) -> Array:
        """Cumulants of the tilted distributions, shape (order + 1, N).

        Row 0 holds ``log Ẑ``, row l the l-th cumulant.
        """
        return quadrature.cumulants(self._tilted_moments(y, m, v, order))

    def _tilted_moments(self, y: Array, m: Array, v: Array, order: int) -> Array:
        return quadrature.tilted_moments(
            self.kernel, self.theta(y), m, v, self.locations(y), order,
            log_concave=self.log_concave, unimodal=self.unimodal, strip=self.strip(y),
        )  # fmt: skip

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> Predictive:
        """Mean and variance of a new ``y`` under ``x ~ N(mean, var)``."""
        mean, var = np.broadcast_arrays(np.asarray(mean, float), np.asarray(var, float))
        return self._predictive(mean, var)

    def _predictive(self, mean: Array, var: Array) -> Predictive:
        """By 64-point quadrature."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(64)
        weights = weights / weights.sum()
        column = (-1,) + (1,) * mean.ndim
        nodes, weights = nodes.reshape(column), weights.reshape(column)
        m, v = self.conditional_moments(mean + np.sqrt(var) * nodes)
        expected = (weights * m).sum(axis=0)
        return Predictive(expected, (weights * (v + (m - expected) ** 2)).sum(axis=0))


def family(likelihood: object) -> Any:
    """What is predicted, bounded or both, without that."""
    while inner := getattr(likelihood, "base", None) or getattr(likelihood, "of", None):
        likelihood = inner
    return likelihood
