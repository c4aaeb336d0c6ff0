r"""Data of which only a bound is known, or two: censored on the left, on the right, or between.

A datum that is beyond y has the likelihood :math:`P(Y > y|x)`, one that is below it
:math:`P(Y < y|x)`, one between two bounds :math:`P(y < Y < y_2|x)`. With
:math:`z = k\,(\log y - x - c)`, or :math:`(y - x)/s` for normal noise, these are distribution
functions of a standard normal, Gumbel or logistic number, all of them log-concave, whose
logarithms are evaluated in the tail where they are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ...execution.arguments import array, shown
from ...messages import InputError
from ...numerics.jit import jit
from ...numerics.special import LOG_SQRT_2PI, log1p_exp, log_ndtr_derivatives, sigmoid
from ..borrowed import borrowed
from . import times
from .base import Array, Likelihood, Observations, Rows, family
from .checks import Parametric, stack
from .cloglog import bends
from .gaussian import Gaussian
from .pointwise import Pointwise

NONE, LEFT, RIGHT, INTERVAL = 0.0, -1.0, 1.0, 2.0
_WORDS = {"none": NONE, "left": LEFT, "right": RIGHT, "interval": INTERVAL}


@jit
def in_x(f, k):
    """A function of z = k (c - x) and its derivatives."""
    return f[0], -k * f[1], k * k * f[2], -k * k * k * f[3]


@jit
def _normal_between(a, b, width):
    narrow = 1e-3  # an interval whose probability is density times width, to 1e-12
    # logarithm by which one end of an interval is less dense than the other, and nothing
    far = 40.0
    if a + b > 0.0:  # in the lower tail nothing cancels
        f = _normal_between(-b, -a, width)
        return f[0], -f[1], f[2], -f[3]
    middle = 0.5 * (a + b)
    below = log_ndtr_derivatives(b, 3)
    if 0.5 * (a * a - b * b) > far:
        return below
    if width * (1.0 - middle) < narrow:
        w = width * width / 12.0
        bent = math.log1p(0.5 * w * (middle * middle - 1.0))
        value = math.log(width) - 0.5 * middle * middle - LOG_SQRT_2PI + bent
        return value, middle * (w - 1.0), w - 1.0, 0.0
    value = below[0] + math.log(-math.expm1(log_ndtr_derivatives(a, 1)[0] - below[0]))
    r = math.exp(-0.5 * a * a - LOG_SQRT_2PI - value)
    s = math.exp(-0.5 * b * b - LOG_SQRT_2PI - value)
    one, two, three = s - r, a * r - b * s, (b * b - 1.0) * s - (a * a - 1.0) * r
    return value, one, two - one * one, three - 3.0 * one * two + 2.0 * one**3


@jit
def _event(w):
    """log(1 - exp(-u)), w = log u."""
    u = math.exp(min(w, 6.5))
    g = u / math.expm1(u) if w > -40.0 else 1.0
    two, three = bends(g, u)
    return (math.log(-math.expm1(-u)) if w > -40.0 else w), g, two, three


@jit
def _log_sigmoid(z):
    p, q = sigmoid(z), sigmoid(-z)
    return -log1p_exp(-z), q, -p * q, -p * q * (q - p)


@jit
def normal(x, t):
    if t[0] == NONE:
        return times.normal(x, t[1:])
    k, z = t[2], t[2] * (t[1] - x)
    if t[0] == RIGHT:
        return in_x(log_ndtr_derivatives(-z, 3), -k)
    if t[0] == LEFT:
        return in_x(log_ndtr_derivatives(z, 3), k)
    return in_x(_normal_between(z, k * (t[4] - x), k * (t[4] - t[1])), k)


@jit
def gumbel(x, t):
    if t[0] == NONE:
        return times.gumbel(x, t[1:])
    k, z = t[2], t[2] * (t[1] - x)
    if t[0] == LEFT:
        return in_x(_event(z), k)
    u = np.exp(z)
    if t[0] == RIGHT:
        return in_x((-u, -u, -u, -u), k)
    width = k * (t[4] - t[1])
    f = _event(z + width + math.log(-math.expm1(-width)))
    return in_x((f[0] - u, f[1] - u, f[2] - u, f[3] - u), k)


@jit
def logistic(x, t):
    if t[0] == NONE:
        return times.logistic(x, t[1:])
    k, z, end = t[2], t[2] * (t[1] - x), t[2] * (t[4] - x)
    if t[0] == LEFT:
        return in_x(_log_sigmoid(z), k)
    above = in_x(_log_sigmoid(-z), -k)
    if t[0] == RIGHT:
        return above
    f, both = in_x(_log_sigmoid(end), k), math.log(-math.expm1(k * (t[1] - t[4])))
    return f[0] + above[0] + both, f[1] + above[1], f[2] + above[2], f[3] + above[3]


def of_families(rows: int, *compiled: Callable[..., Any]) -> dict[str, Pointwise]:
    """Kernels by the names of the likelihoods that have such a standard variable."""
    made = [Pointwise(function, rows) for function in compiled]
    names = ("gaussian", "lognormal"), ("exponential", "weibull"), ("log_logistic",)
    return {name: own for own, each in zip(made, names, strict=True) for name in each}


_KERNELS = of_families(5, normal, gumbel, logistic)


def rows_of(of: Likelihood, y: Array, kind: Array, end: Array) -> Array:
    """What kernels take of a datum: how it is seen, its place, factor and constant, and where an
    interval ends."""
    if isinstance(of, Gaussian):
        (s,) = of.parameters(y)
        return stack(y, kind, y, 1.0 / s, -np.log(s) - LOG_SQRT_2PI, end)
    own = of.theta(y)
    return np.array([np.broadcast_to(kind, y.shape), *own, of.theta(end)[0]])


def codes(censored: ArrayLike) -> Array:
    """How data are censored, as numbers: 0 not, 1 to the right, -1 to the left, 2 an interval."""
    values = np.asarray(censored)
    if values.dtype.kind in "UO":
        words = [str(word).strip().lower() for word in np.ravel(values)]
        if odd := sorted({word for word in words if word not in _WORDS}):
            raise InputError(
                f"censored must be 'none', 'left', 'right' or 'interval', got {shown(odd[0])}"
            )
        return np.array([_WORDS[word] for word in words]).reshape(values.shape)
    out = array("censored", values.astype(float) if values.dtype.kind == "b" else values)
    if odd := np.setdiff1d(out, list(_WORDS.values())).tolist():
        raise InputError(
            f"censored must be 0 (not), 1 (right), -1 (left) or 2 (interval), got {odd[0]:g}"
        )
    return out


class Bounded(Likelihood):
    """Another likelihood, of data with bounds; new observations have none."""

    of: Likelihood
    kernels: ClassVar[Mapping[str, Pointwise]]

    thetas = Parametric.thetas

    def _tidy(self, **values: Array) -> None:
        """Bounds as fields are, a number or a tuple, and what they are of checked."""
        of = self.of
        within = of.of if isinstance(of, Censored) and self.name != "censored" else of
        if getattr(within, "name", "") not in self.kernels:
            raise InputError(
                f"the likelihood of {self.name} data must be one of {', '.join(self.kernels)}, "
                f"got {shown(self.of)}; no others can be {self.name} yet"
            )
        for name, value in values.items():
            tidy = tuple(value.tolist()) if value.ndim else float(value)
            object.__setattr__(self, name, tidy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.of!r})"

    @property
    def kernel(self) -> Any:
        return self.kernels[family(self.of).name].kernel

    free = borrowed("of.free")
    limits = borrowed("of.limits")
    new = borrowed("of.new")
    value_of = borrowed("of.value_of")
    location = borrowed("of.location")
    cdf = borrowed("of.cdf")
    conditional_moments = borrowed("of.conditional_moments")

    def changed(self, values: Mapping[str, float]) -> Self:
        return replace(self, of=self.of.changed(values))  # type: ignore[type-var]

    def holding(self, values: Mapping[str, Array]) -> Self:
        return super().holding({"of": self.of.holding(values)})  # type: ignore[dict-item]

    def at(self, rows: Rows) -> Self:
        return replace(super().at(rows), of=self.of.at(rows))  # type: ignore[type-var]

    def _each(self, y: Array, *names: str) -> list[Array]:
        """Bounds, one for each datum."""
        for name in names:
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != y.shape[-1]:
                raise InputError(
                    f"{name} has {len(value)} values but there are {y.shape[-1]} data"
                )
        return [np.broadcast_to(getattr(self, name), y.shape) for name in names]


@dataclass(frozen=True, repr=False)
class Censored(Bounded):
    """Another likelihood, of data some of which are bounds only.

    New observations are not censored: predictions are those of the likelihood itself.

    Parameters
    ----------
    of : Likelihood
        Gaussian, log-normal, exponential, Weibull or log-logistic.
    censored : array (N,) or one for all
        ``"none"``, ``"right"`` (y is a lower bound), ``"left"`` (y is an upper bound) or
        ``"interval"`` (between y and ``upper``), or 0, 1, -1, 2; True is 1.
    upper : array (N,) or number, optional
        Upper ends of intervals; anything for other data.

    >>> from evidence.models.likelihoods import Weibull
    >>> Censored(Weibull(2.0), ["none", "right"]).log_prob([0.0, 0.0], [1.0, 1.0]).round(6)
    array([-0.333815, -0.785398])
    """

    of: Likelihood
    censored: ArrayLike = 0.0
    upper: ArrayLike = np.inf

    name: ClassVar[str] = "censored"
    kernels = _KERNELS

    def __post_init__(self) -> None:
        upper = np.asarray(self.upper, float)
        upper = np.where(np.isnan(upper), np.inf, upper)
        self._tidy(censored=codes(self.censored), upper=upper)

    def check(self, y: ArrayLike) -> Observations:
        seen = self.of.check(y)
        kind, upper = self._each(seen.y, "censored", "upper")
        bad = np.flatnonzero((kind == INTERVAL) & ~(upper > seen.y))
        if bad.size:
            n = bad[0]
            raise InputError(
                f"upper must be above y where data are intervals: upper[{n}] = {upper[n]:g}, "
                f"y[{n}] = {seen.y[n]:g}"
            )
        return seen

    def theta(self, y: Array) -> Array:
        return rows_of(self.of, y, *self.seen(y))

    def seen(self, y: Array) -> tuple[Array, Array]:
        """How each datum is seen, and where it ends."""
        kind, upper = self._each(y, "censored", "upper")
        kind = np.where((kind == INTERVAL) & np.isinf(upper), RIGHT, kind)
        return kind, np.where(kind == INTERVAL, upper, y)

    strip = borrowed("of.strip")

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        raise InputError(
            "data of a censored likelihood cannot be simulated: what is censored when is no part "
            f"of the model; simulate those of {self.of!r}, and censor them"
        )
