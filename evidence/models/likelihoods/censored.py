r"""Data of which only a bound is known, or two: censored on the left, on the right, or between.

A datum that is beyond y has the likelihood :math:`P(Y > y|x)`, one that is below it
:math:`P(Y < y|x)`, one between two bounds :math:`P(y < Y < y_2|x)`. With
:math:`z = k\,(\log y - x - c)`, or :math:`(y - x)/s` for normal noise, these are distribution
functions of a standard normal, Gumbel or logistic number, all of them log-concave, whose
logarithms are evaluated in the tail where they are small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ...execution.arguments import array, shown
from ...messages import InputError
from ...numerics.jit import jit
from ...numerics.special import LOG_SQRT_2PI, log1p_exp, log_ndtr_derivatives, sigmoid
from . import times
from .base import Array, Likelihood, Observations
from .checks import stack
from .cloglog import bends
from .gaussian import Gaussian
from .pointwise import Pointwise

NONE, LEFT, RIGHT, INTERVAL = 0.0, -1.0, 1.0, 2.0
_WORDS = {"none": NONE, "left": LEFT, "right": RIGHT, "interval": INTERVAL}
_NARROW = 1e-3  # an interval whose probability is density times width, to 1e-12
_FAR = 40.0  # logarithm by which one end of an interval is less dense than the other, and nothing


@jit
def _in_x(f, k):
    """A function of z = k (c - x) and its derivatives."""
    return f[0], -k * f[1], k * k * f[2], -k * k * k * f[3]


@jit
def _normal_between(a, b):
    if a + b > 0.0:  # in the lower tail nothing cancels
        f = _normal_between(-b, -a)
        return f[0], -f[1], f[2], -f[3]
    width, middle = b - a, 0.5 * (a + b)
    below = log_ndtr_derivatives(b, 3)
    if 0.5 * (a * a - b * b) > _FAR:
        return below
    if width * (1.0 - middle) < _NARROW:
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
def _normal(x, t):
    if t[0] == NONE:
        return times.normal(x, t[1:])
    k, z, end = t[2], t[2] * (t[1] - x), t[2] * (t[4] - x)
    if t[0] == RIGHT:
        return _in_x(log_ndtr_derivatives(-z, 3), -k)
    return _in_x(log_ndtr_derivatives(z, 3) if t[0] == LEFT else _normal_between(z, end), k)


@jit
def _gumbel(x, t):
    if t[0] == NONE:
        return times.gumbel(x, t[1:])
    k, z, end = t[2], t[2] * (t[1] - x), t[2] * (t[4] - x)
    if t[0] == LEFT:
        return _in_x(_event(z), k)
    u = np.exp(z)
    if t[0] == RIGHT:
        return _in_x((-u, -u, -u, -u), k)
    f = _event(z + math.log(math.expm1(end - z)))
    return _in_x((f[0] - u, f[1] - u, f[2] - u, f[3] - u), k)


@jit
def _logistic(x, t):
    if t[0] == NONE:
        return times.logistic(x, t[1:])
    k, z, end = t[2], t[2] * (t[1] - x), t[2] * (t[4] - x)
    if t[0] == LEFT:
        return _in_x(_log_sigmoid(z), k)
    above = _in_x(_log_sigmoid(-z), -k)
    if t[0] == RIGHT:
        return above
    f, both = _in_x(_log_sigmoid(end), k), math.log(-math.expm1(z - end))
    return f[0] + above[0] + both, f[1] + above[1], f[2] + above[2], f[3] + above[3]


_KERNELS = {
    name: Pointwise(function, 5)
    for function, names in (
        (_normal, ("gaussian", "lognormal")),
        (_gumbel, ("exponential", "weibull")),
        (_logistic, ("log_logistic",)),
    )
    for name in names
}


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


@dataclass(frozen=True, repr=False)
class Censored(Likelihood):
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
    censored: Any = 0.0
    upper: Any = np.inf

    name: ClassVar[str] = "censored"

    def __post_init__(self) -> None:
        if getattr(self.of, "name", "") not in _KERNELS:
            raise InputError(
                f"of must be one of {', '.join(_KERNELS)}, got {shown(self.of)}; no others can be "
                "censored yet"
            )
        upper = np.asarray(self.upper, float)
        values = {
            "censored": codes(self.censored),
            "upper": np.where(np.isnan(upper), np.inf, upper),
        }
        for name, value in values.items():
            tidy = tuple(value.tolist()) if value.ndim else float(value)
            object.__setattr__(self, name, tidy)

    def __repr__(self) -> str:
        return f"Censored({self.of!r})"

    @property
    def kernel(self) -> Any:
        return _KERNELS[self.of.name].kernel

    @property
    def free(self) -> Mapping[str, tuple[float, float]]:  # type: ignore[override]
        return self.of.free

    @property
    def limits(self) -> Mapping[str, tuple[float, float]]:  # type: ignore[override]
        return self.of.limits

    @property
    def new(self) -> Likelihood:
        return self.of

    def value_of(self, name: str) -> Any:
        return self.of.value_of(name)

    def changed(self, values: Mapping[str, float]) -> Self:
        return replace(self, of=self.of.changed(values))

    def at(self, rows: Any) -> Self:
        cut = {
            name: np.asarray(value)[rows]
            for name, value in (("censored", self.censored), ("upper", self.upper))
            if isinstance(value, tuple)
        }
        return replace(self, of=self.of.at(rows), **cut)

    def _each(self, y: Array) -> tuple[Array, Array]:
        """Codes and upper ends, one for each datum."""
        for name, value in (("censored", self.censored), ("upper", self.upper)):
            if isinstance(value, tuple) and len(value) != y.shape[-1]:
                raise InputError(
                    f"{name} has {len(value)} values but there are {y.shape[-1]} data"
                )
        return np.broadcast_to(self.censored, y.shape), np.broadcast_to(self.upper, y.shape)

    def check(self, y: ArrayLike) -> Observations:
        seen = self.of.check(y)
        kind, upper = self._each(seen.y)
        bad = np.flatnonzero((kind == INTERVAL) & ~(upper > seen.y))
        if bad.size:
            n = bad[0]
            raise InputError(
                f"upper must be above y where data are intervals: upper[{n}] = {upper[n]:g}, "
                f"y[{n}] = {seen.y[n]:g}"
            )
        return seen

    def theta(self, y: Array) -> Array:
        kind, upper = self._each(y)
        kind = np.where((kind == INTERVAL) & np.isinf(upper), RIGHT, kind)
        end = np.where(kind == INTERVAL, upper, y)
        if isinstance(self.of, Gaussian):
            (s,) = self.of.parameters(y)
            return stack(y, kind, y, 1.0 / s, -np.log(s) - LOG_SQRT_2PI, end)
        own = self.of.theta(y)
        return np.array([kind, *own, self.of.theta(end)[0]])

    def strip(self, y: Array) -> Array | float:
        return self.of.strip(y)

    def location(self, y: Array) -> Array:
        return self.of.location(y)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        raise InputError(
            "data of a censored likelihood cannot be simulated: what is censored when is no part "
            f"of the model; simulate those of {self.of!r}, and censor them"
        )

    def cdf(self, y: Array, x: Array) -> Array:
        return self.of.cdf(y, x)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        return self.of.conditional_moments(x)
