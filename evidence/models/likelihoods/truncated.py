r"""Data that are there only because they are within bounds.

What is outside was not recorded, nor how often: :math:`p(y|x) / P(a < Y < b|x)`. Logarithms of
both are those of :mod:`.censored`. Their difference loses digits where a window is z standard
deviations out, :math:`10^{-16} z^2`; where lifetimes are seen from their bound on, hazards are
subtracted instead, :math:`e^{z_y} - e^{z_a}`, which are infinite for short scales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri_exp

from ...messages import InputError
from ...numerics.jit import jit
from . import censored
from .base import Array, Likelihood, Observations, family
from .censored import INTERVAL, LEFT, NONE, RIGHT, Bounded, Censored, of_families, rows_of
from .gaussian import Gaussian

#: cumulative hazards -log P(Z > z) of standard variables, and what they are of
_HAZARDS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "gaussian": (lambda z: -log_ndtr(-z), lambda h: -ndtri_exp(-h)),
    "weibull": (np.exp, np.log),
    "log_logistic": (lambda z: np.logaddexp(0.0, z), lambda h: np.log(np.expm1(h))),
}
_HAZARDS |= {"lognormal": _HAZARDS["gaussian"], "exponential": _HAZARDS["weibull"]}


@jit
def _over(f, g):
    if not abs(g[0]) < 1e12:  # the difference is rounding, 1e-4 nats and more
        return -np.inf, 0.0, 0.0, 0.0
    return f[0] - g[0], f[1] - g[1], f[2] - g[2], f[3] - g[3]


@jit
def _normal(x, t):
    f = censored.normal(x, t)
    return f if t[5] == NONE else _over(f, censored.normal(x, t[5:]))


@jit
def _gumbel(x, t):
    seen, window = t[0], t[5]
    if window == RIGHT and seen in (NONE, RIGHT):  # by what hazard the bound leaves
        z, left = t[2] * (t[1] - x), -np.expm1(t[2] * (t[6] - t[1]))
        h = np.exp(z) * left if left > 0.0 else 0.0
        if seen == RIGHT:
            return censored.in_x((-h, -h, -h, -h), t[2])
        return censored.in_x((t[3] + 1.0 + z - h, 1.0 - h, -h, -h), t[2])
    f = censored.gumbel(x, t)
    return f if window == NONE else _over(f, censored.gumbel(x, t[5:]))


@jit
def _logistic(x, t):
    f = censored.logistic(x, t)
    return f if t[5] == NONE else _over(f, censored.logistic(x, t[5:]))


@dataclass(frozen=True, repr=False)
class Truncated(Bounded):
    """Another likelihood, given that data are within bounds.

    New observations are not truncated: predictions are those of the likelihood itself.

    Parameters
    ----------
    of : Likelihood
        Gaussian, log-normal, exponential, Weibull or log-logistic, or one of these
        :class:`.Censored`.
    lower, upper : array (N,) or number
        Bounds of each datum or of all; infinite where there are none.

    >>> from evidence.models.likelihoods import Gaussian
    >>> Truncated(Gaussian(), 0.0).log_prob([0.0, -9.0], [0.5, 0.5]).round(6)
    array([-0.350791, -2.415789])
    """

    of: Likelihood
    lower: ArrayLike = -np.inf
    upper: ArrayLike = np.inf

    name: ClassVar[str] = "truncated"
    kernels = of_families(10, _normal, _gumbel, _logistic)

    def __post_init__(self) -> None:
        ends = {name: np.asarray(getattr(self, name), float) for name in ("lower", "upper")}
        for name, values in ends.items():
            if np.isnan(values).any():
                raise InputError(f"{name} must be numbers, infinite where there is no bound")
        self._tidy(**ends)

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        """Where x is the parameter of an exponential family: variances are less in a part."""
        return family(self.of).name in ("gaussian", "lognormal")

    def check(self, y: ArrayLike) -> Observations:
        seen = self.of.check(y)
        lower, upper = self._each(seen.y, "lower", "upper")
        if (bad := np.flatnonzero(~(lower < upper))).size:
            n = bad[0]
            raise InputError(
                f"lower must be below upper, got lower = {lower[n]:g} and upper = {upper[n]:g} "
                f"for y[{n}]"
            )
        if (bad := np.flatnonzero((seen.y < lower) | (seen.y > upper))).size:
            n = bad[0]
            raise InputError(
                f"y must be within its bounds, and {bad.size} of {seen.y.size} are not: y[{n}] = "
                f"{seen.y[n]:g}, where lower = {lower[n]:g} and upper = {upper[n]:g}"
            )
        kind = self.of.seen(seen.y)[0] if isinstance(self.of, Censored) else NONE
        empty = ((kind == LEFT) & (seen.y == lower)) | ((kind > NONE) & (seen.y == upper))
        if (bad := np.flatnonzero(empty)).size:
            raise InputError(
                f"y[{bad[0]}] = {seen.y[bad[0]]:g} is censored where its bounds end: nothing is "
                "left"
            )
        return seen

    def fisher(self, y: Array) -> Array:
        """Of data without bounds, about."""
        return self.theta(y)[2] ** 2

    def ceiling(self, y: Array) -> float:
        return np.inf

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """By the inverse of cumulative hazards, which are exact in both tails."""
        least = 2.0**-53  # of shares: no draw is where there is no bound
        x, base = np.asarray(x, float), self.of
        if isinstance(base, Censored):
            return base.simulate(x, rng)
        lower, upper = self._each(x, "lower", "upper")
        hazard, inverse = _HAZARDS[base.name]
        if isinstance(base, Gaussian):
            (s,) = base.parameters(x)
            ends, k, c = (lower, upper), 1.0 / s, 0.0
        else:
            k, c, *_ = base.shape_of(x)  # type: ignore[attr-defined]
            with np.errstate(divide="ignore"):
                ends = np.log(np.maximum(lower, 0.0)), np.log(upper)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            low, high = (hazard(k * (end - x - c)) for end in ends)
            share = rng.uniform(least, 1.0 - least, x.shape)
            y = x + c + inverse(low - np.log1p(share * np.expm1(low - high))) / k
            y = y if isinstance(base, Gaussian) else np.exp(y)
        return np.fmin(np.fmax(y, lower), upper)

    def theta(self, y: Array) -> Array:
        lower, upper = self._each(y, "lower", "upper")
        base = family(self.of)
        if not isinstance(base, Gaussian):
            lower = np.where(lower > 0.0, lower, -np.inf)
        low, high = lower > -np.inf, upper < np.inf
        window = np.select([low & high, low, high], [INTERVAL, RIGHT, LEFT], NONE)
        start, end = np.where(low, lower, np.where(high, upper, y)), np.where(high, upper, y)
        kind, seen, until = np.full(y.shape, NONE), y, y
        if isinstance(self.of, Censored):  # to one side, which the window ends
            kind, until = self.of.seen(y)
            left, right = (kind == LEFT) & low, (kind == RIGHT) & high
            seen = np.where(left, lower, y)
            until = np.where(right, upper, np.where(kind == INTERVAL, np.minimum(until, upper), y))
            kind = np.where(left | right, INTERVAL, kind)
        of_window = rows_of(base, start, window, end)
        return np.concatenate([rows_of(base, seen, kind, until), of_window])
