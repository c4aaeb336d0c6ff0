"""What a problem is: a prior for each coordinate, a log likelihood of points, and log Z.

Log likelihoods are functions of an array module and of points (…, d), written so that NumPy, JAX
and :data:`COMPLEX` can run them: the last takes derivatives by steps along the imaginary axis,
f'(x) = Im f(x + ih) / h, to all digits (W. Squire and G. Trapp, SIAM Review 40 (1998) 110).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats
from scipy.special import gammaln, logsumexp

Array = Any  # of NumPy or JAX
LOG_2PI = math.log(2.0 * math.pi)
_GRID = 200_001  # nodes of an integral in one dimension, enough for peaks 1e-4 of its range wide
_AGREE = 1e-5  # of an integral and the same with every second node


class Prior(NamedTuple):
    """Of one coordinate, ``kind(a, b)``: uniform(low, high), normal(mean, sd), gamma(shape,
    scale), beta(a, b), half_cauchy(0, scale), half_normal(0, scale), student(degrees, scale) or
    flat, which is no prior.
    """

    kind: str
    a: float
    b: float

    @property
    def support(self) -> tuple[float, float]:
        if self.kind == "uniform":
            return self.a, self.b
        positive = ("gamma", "beta", "half_cauchy", "half_normal")
        low = 0.0 if self.kind in positive else -math.inf
        return low, 1.0 if self.kind == "beta" else math.inf

    def frozen(self, loc: float = 0.0, scale: float = 1.0) -> Any:
        """As a distribution of SciPy, of ``loc + scale * x``."""
        if self.kind == "uniform":
            return stats.uniform(loc + scale * self.a, scale * (self.b - self.a))
        if self.kind == "normal":
            return stats.norm(loc + scale * self.a, scale * self.b)
        if self.kind == "gamma":
            return stats.gamma(self.a, loc, scale * self.b)
        if self.kind == "beta":
            return stats.beta(self.a, self.b, loc, scale)
        if self.kind == "student":
            return stats.t(self.a, loc, scale * self.b)
        if self.kind == "half_normal":
            return stats.halfnorm(loc, scale * self.b)
        return stats.halfcauchy(loc, scale * self.b)

    def quantile(self, u: Array) -> Array:
        if self.kind == "uniform":
            return self.a + (self.b - self.a) * u
        if self.kind == "normal":
            return self.a + self.b * special.ndtri(u)
        if self.kind == "gamma":
            return self.b * special.gammaincinv(self.a, u)
        if self.kind == "beta":
            return special.betaincinv(self.a, self.b, u)
        if self.kind == "student":
            return self.b * special.stdtrit(self.a, u)
        if self.kind == "half_normal":
            return -self.b * special.ndtri(0.5 * (1.0 - u))
        return self.b * np.tan(0.5 * np.pi * u)

    def at(self, x: Array) -> Array:
        """The quantile that is as far out as x is for a standard normal distribution."""
        if self.kind == "normal":
            return self.a + self.b * x
        if self.kind == "student":
            return -np.sign(x) * self.quantile(special.ndtr(-np.abs(x)))
        return self.quantile(np.clip(special.ndtr(x), 1e-300, 1.0 - 2.0**-53))

    def log(self, x: Array, xp: Any = np) -> Array:
        """Log density."""
        a, b, (low, high) = self.a, self.b, self.support
        if self.kind == "flat":
            return 0.0 * x
        if self.kind == "normal":
            return log_normal(x, a, b)
        if self.kind == "student":
            constant = gammaln(0.5 * (a + 1)) - gammaln(0.5 * a) - 0.5 * math.log(a * math.pi)
            return constant - math.log(b) - 0.5 * (a + 1) * xp.log1p((x / b) ** 2 / a)
        inside = (x >= low) & (x <= high)
        if self.kind == "uniform":
            return xp.where(inside, -math.log(b - a), -xp.inf)
        safe = xp.where(inside, x, 0.5 * b if self.kind != "beta" else 0.5)
        if self.kind == "gamma":
            value = (a - 1.0) * xp.log(safe) - safe / b - gammaln(a) - a * math.log(b)
        elif self.kind == "beta":
            value = (a - 1.0) * xp.log(safe) + (b - 1.0) * xp.log1p(-safe) - special.betaln(a, b)
        elif self.kind == "half_normal":
            value = math.log(2.0) + log_normal(safe, 0.0, b)
        else:
            value = math.log(2.0 / (math.pi * b)) - xp.log1p((safe / b) ** 2)
        return xp.where(inside, value, -xp.inf)


class Problem(NamedTuple):
    prior: list[Prior]
    log_likelihood: Callable[[Any, Array], Array]
    """Of an array module and points."""
    truth: float
    truth_se: float = 0.0
    smooth: bool = True
    """Whether gradients mean something."""
    bare: bool = False
    """Whether it is a density, a prior being only a part of its formula."""

    @property
    def dim(self) -> int:
        return len(self.prior)

    def grouped(self) -> list[tuple[Prior, np.ndarray]]:
        """Priors and the coordinates that have them."""
        each = {p: np.array([i for i, q in enumerate(self.prior) if q == p]) for p in self.prior}
        return list(each.items())


def uniform(low: float, high: float) -> Prior:
    return Prior("uniform", low, high)


def normal(mean: float, sd: float) -> Prior:
    return Prior("normal", mean, sd)


def log_normal(x: Array, mean: Any, sd: Any) -> Array:
    return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * LOG_2PI


def log_sum(xp: Any, parts: Sequence[Array]) -> Array:
    """log Σ exp(parts)."""
    total = parts[0]
    for part in parts[1:]:
        total = xp.logaddexp(total, part)
    return total


def on_grid(log_f: Callable[[Array], Array], low: float, high: float, nodes: int = _GRID) -> float:
    """log ∫ exp(log_f) from low to high by Simpson's rule, refused if nodes are too few."""
    x, weight = np.linspace(low, high, nodes), np.ones(nodes)
    weight[[0, -1]] = 0.5
    with np.errstate(divide="ignore"):
        value = log_f(x)
    whole = float(logsumexp(value, b=weight)) + math.log(x[1] - x[0])
    half = float(logsumexp(value[::2], b=weight[::2])) + math.log(2.0 * (x[1] - x[0]))
    total = whole + math.log1p((1.0 - math.exp(half - whole)) / 3.0)
    if not abs(total - half) < _AGREE * max(1.0, abs(total)):
        raise ArithmeticError(f"{nodes} nodes are too few: {total} and {half}")
    return total


class _Complex:
    """NumPy for points with an imaginary part that carries a derivative."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def abs(self, x: Array) -> Array:
        return np.where(np.real(x) < 0.0, -x, x)

    def logaddexp(self, a: Array, b: Array) -> Array:
        top = np.maximum(np.real(a), np.real(b))
        top = np.where(np.isfinite(top), top, 0.0)
        return top + np.log(np.exp(a - top) + np.exp(b - top))


COMPLEX = _Complex()
