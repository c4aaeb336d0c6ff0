"""Binomial: successes among a known number of trials, with a logistic link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, expit

from ...messages import InputError
from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp_parts, log, sigmoid
from .base import Array, Observations
from .checks import EXACT, Parametric, check_counts, stack
from .counts import log_peak
from .pointwise import Pointwise


@vector_loop
def _first_order(x, theta, step, out):
    """log p(y|x) and its slope, without branches: vector instructions if ``step`` is constant.

    As the docstring of the class has it for d ≤ 0; with y and n - y exchanged for d > 0. If only
    one of both outcomes was seen the formulas are those with p = q = 1, x in place of d, and
    exp(d) in place of expm1(d).
    """
    for i in range(x.size):
        j = np.uint64(i * step)
        y, rest = theta[0, j], theta[1, j]
        d = x[i] - theta[2, j]
        below, mixed = d <= 0.0, theta[3, j] > 0.0
        u, a, b = -abs(d), y if below else rest, rest if below else y
        p, q = a / (a + b) if mixed else 1.0, b / (a + b) if mixed else 1.0
        h, r, t = exp_parts(u, 0.0)
        e, less = 2.0 * (h * (r + t) + h), 2.0 * (h * (r + t) + (h - 0.5))
        rise = q + p * e
        log_rise = log(rise, p * (less if mixed else e))
        near = mixed and u > -600.0
        safe = e if near else 1.0
        log_fall = log(p + q / safe, -q * less / safe) if near else log_rise - u
        out[0, i] = theta[4, j] - b * log_rise - a * log_fall
        gain = -a * q * less if mixed else a - b * e
        out[1, i] = (gain if below else -gain) / rise


@jit
def _bends(x, theta):
    """The second and the third derivative."""
    curvature = (theta[0] + theta[1]) * sigmoid(x) * sigmoid(-x)
    return -curvature, curvature * np.tanh(0.5 * x)


class Trials(Parametric):
    """Successes among trials, whose number is the first parameter."""

    n: float | tuple[float, ...]

    counts: ClassVar[bool] = True
    poles = 0.5 * np.pi

    def __post_init__(self) -> None:
        super().__post_init__()
        trials = np.asarray(self.n)
        if (np.mod(trials, 1.0) > 0.0).any() or (trials > EXACT).any():
            raise InputError(
                f"n must be whole numbers of trials 1, 2, … (up to 2^53), got {self.n!r:.60}"
            )

    def check(self, y: ArrayLike) -> Observations:
        """Return counts 0, 1, …, n as floats."""
        values, notes = check_counts(self, y)
        (n,) = np.broadcast_arrays(self.parameters(values)[0], values)[:1]
        over = np.flatnonzero(np.ravel(values > n))
        if over.size:
            first = over[0]
            raise InputError(
                f"y must not exceed n, the number of trials: y[{first}] = "
                f"{np.ravel(values)[first]:g} of n = {np.ravel(n)[first]:g}, and so "
                f"{over.size} of {values.size} data"
            )
        return Observations(values, notes)

    def location(self, y: Array) -> Array:
        """log(y/(n - y)), with half a trial in the place of none."""
        return np.log(np.maximum(y, 0.5) / np.maximum(self.parameters(y)[0] - y, 0.5))


@dataclass(frozen=True)
class Binomial(Trials):
    r"""y successes among n trials, each with probability :math:`\sigma(x) = 1/(1 + e^{-x})`.

    .. math:: \log p(y|x) = \log\binom{n}{y} + y\,x - n \log(1 + e^x)

    The coefficient counts. With :math:`p = y/n`, :math:`q = 1 - p` and
    :math:`d = x - \log(y/(n-y))` it is evaluated relative to its maximum, where large terms
    would cancel otherwise, as
    :math:`C - (n - y) \log(1 + p\,\mathrm{expm1}(d)) - y \log(1 + q\,\mathrm{expm1}(-d))`; its
    slope is :math:`-n p q\, \mathrm{expm1}(d) / (q + p e^d)`.

    Parameters
    ----------
    n : int or array (N,)
        Trials behind each datum, 1, 2, …

    >>> Binomial(n=2).log_prob([0.0, 0.0], [0, 1]).round(6)
    array([-1.386294, -0.693147])
    """

    n: float | tuple[float, ...] = 1.0

    name: ClassVar[str] = "binomial"

    kernel = Pointwise(_bends, 5, _first_order)

    def theta(self, y: Array) -> Array:
        rest = self.parameters(y)[0] - y
        mixed = (y > 0.0) & (rest > 0.0)
        mode = np.where(mixed, self.location(y), 0.0)
        return stack(y, y, rest, mode, mixed, log_peak(y) + log_peak(rest) - log_peak(y + rest))

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        x = np.asarray(x, float)
        return rng.binomial(np.asarray(self.parameters(x)[0], np.int64), expit(x)).astype(float)

    def cdf(self, y: Array, x: Array) -> Array:
        (n,) = self.parameters(x)
        k = np.clip(np.floor(y), -1.0, n)
        inside = betainc(np.maximum(n - k, 0.5), np.maximum(k + 1.0, 0.5), expit(-x))
        return np.where(k < 0.0, 0.0, np.where(k < n, inside, 1.0))

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        x = np.asarray(x, float)
        mean = self.parameters(x)[0] * expit(x)
        return mean, mean * expit(-x)
