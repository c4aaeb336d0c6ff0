r"""What the count likelihoods share: accurate constants, rates and draws."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlogy

from ...messages import InputError
from .base import Array, Limits
from .checks import Parametric, check_counts


def log_peak(n: ArrayLike) -> Array:
    r"""The Poisson log probability at its own mean, :math:`n \log n - n - \log\Gamma(n+1)`.

    Evaluated by Stirling's series for large ``n``, where the three terms would cancel; zero
    at ``n = 0``. Differences of log-gamma functions become differences of these small numbers.
    """
    # Stirling: log Γ(n+1) = n log n - n + ½ log(2πn) + Σ_k S_k / n^(2k+1)
    stirling = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
    stirling_from = 16.0
    many = 10_000
    n = np.asarray(n, dtype=float)
    if (some := once(n)) is not n:
        return np.broadcast_to(log_peak(some), n.shape)
    if n.size > many and n.max() < 0.1 * n.size and (n.astype(np.intp) == n).all():
        return log_peak(np.arange(n.max() + 1.0))[n.astype(np.intp)]  # many are the same
    small = np.minimum(n, stirling_from)
    exact = xlogy(small, small) - small - gammaln(small + 1.0)
    large = np.maximum(n, stirling_from)
    inverse = 1.0 / large
    series = inverse * np.polynomial.polynomial.polyval(inverse * inverse, stirling)
    return np.where(n < stirling_from, exact, -0.5 * np.log(2.0 * np.pi * large) - series)


def once(y: Array) -> Array:
    """The first of rows that are all the same memory, as a row; any other array itself."""
    return y[:1] if y.ndim > 1 and len(y) > 1 and y.strides[0] == 0 else y


def lognormal_moments(log_mean: ArrayLike, var: ArrayLike) -> tuple[Array, Array]:
    """Mean and variance of ``exp(z)``, ``z ~ N(log_mean, var)``; inf where they overflow."""
    with np.errstate(over="ignore"):
        mean = np.exp(np.asarray(log_mean) + 0.5 * np.asarray(var))
        return mean, mean * (mean * np.expm1(var))


def draw_counts(rate: Array, rng: np.random.Generator, *, max_rate: float = 9e18) -> Array:
    """Poisson counts as floats.

    ``max_rate``: numpy draws Poisson counts as 64-bit integers.
    """
    largest = np.max(rate, initial=0.0)
    if not largest < max_rate:
        raise InputError(
            f"x: the rate reaches {largest:.3g}, too large to draw counts from (limit "
            f"{max_rate:.0e}); use a prior with a smaller amplitude or a lower mean"
        )
    return rng.poisson(rate).astype(float)


class CountLikelihood(Parametric):
    """Counts with mean ``exposure · exp(x + offset)``."""

    counts: ClassVar[bool] = True
    poles = 0.5 * np.pi
    limits: ClassVar[Limits] = {"offset": (-np.inf, np.inf)}

    def shift(self, like: Array) -> Array:
        """The known part of the log mean, ``offset + log exposure``."""
        *_, exposure, offset = self.parameters(like)
        return offset + np.log(exposure)

    def mean(self, x: ArrayLike) -> Array:
        """E[y|x]; inf where it overflows."""
        x = np.asarray(x, float)
        with np.errstate(over="ignore"):
            return np.exp(x + self.shift(x))

    check = check_counts

    def location(self, y: Array) -> Array:
        return np.log(np.maximum(y, 0.5)) - self.shift(y)
