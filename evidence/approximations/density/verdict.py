r"""What importance weights say of a density, and what they make of draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...numerics.arrays import Array, Flags
from ...statistics.weights import pareto_shape
from .policy import NORMAL

FEWEST = 10.0  # effective draws that say anything: of fewer the largest may be to come


class Verdict(NamedTuple):
    """What weights say: Pareto shape, effective share of the draws, logs of mean and maximum."""

    shape: float = np.inf
    share: float = 0.0
    logz: float = -np.inf
    top: float = np.inf

    @property
    def good(self) -> bool:
        shape, share = NORMAL.good
        return self.shape < shape and self.share > share

    def rank(self, otherwise: float) -> tuple[bool, float]:
        """Good ones come last, those with the most even weights at the end."""
        return self.good, self.share if self.good else otherwise


class Rough(NamedTuple):
    """What weighted draws say of log Z, and its standard error: infinite for too few."""

    logz: float
    se: float
    missing: float = np.inf
    """log of the part of Z that they may have missed in that case."""
    n: int = 0


def rough(log_w: Array, sound: float | None = None) -> Rough:
    """The logarithm of the mean weight, by the delta method; of weights whose Pareto shape is not
    ``sound``, where that is asked, without a standard error.

    >>> round(rough(np.log([1.0, 1.0, 2.0, 4.0])).logz, 3)
    0.693
    """
    n = log_w.size
    if n == 0 or not np.isfinite(log_w).any():
        return Rough(-np.inf, np.inf)
    worth = effective(log_w)
    told = worth > FEWEST and (sound is None or judged(log_w).shape < sound)
    se = np.sqrt(max(1.0 / worth - 1.0 / n, 0.0)) if told else np.inf
    return Rough(float(logsumexp(log_w) - np.log(n)), float(se), n=n)


def judged(log_w: Array) -> Verdict:
    """What log weights of draws say of the density that they were drawn from."""
    n, finite = log_w.size, log_w[np.isfinite(log_w)]
    if finite.size < max(n // 100, 1):
        return Verdict()
    shape, share = pareto_shape(np.sort(finite), n), effective(finite) / n
    return Verdict(shape, share, float(logsumexp(finite)) - np.log(n), float(finite.max()))


def usable(cov: Array) -> bool:
    """Whether a covariance is definite beyond rounding, whatever the units of its coordinates."""
    return bool(all_usable(cov[None])[0])


def all_usable(covs: Array) -> Flags:
    """The same of each of many, (K, d, d)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sd = np.sqrt(np.diagonal(covs, axis1=1, axis2=2).clip(0.0))
        correlations = covs / sd[:, :, None] / sd[:, None, :]
    fine = np.isfinite(correlations).all(axis=(1, 2))
    s = np.linalg.eigvalsh(np.where(fine[:, None, None], correlations, 0.0))
    return np.asarray(fine & (s[:, 0] > 1e-13 * s[:, -1]))


def moments(x: Array, w: Array, enough: float) -> tuple[Array, Array]:
    """Mean and covariance of weighted draws."""
    d = x.shape[1]
    mean = w @ x
    away = x - mean
    cov = (w[:, None] * away).T @ away
    # a few effective draws tell a large covariance badly: keep a share of the diagonal
    keep = d / (d + 0.5 * enough)
    return mean, (1.0 - keep) * cov + keep * np.diag(np.diag(cov))


def effective(log_w: Array) -> float:
    """How many draws weights are worth."""
    w = np.exp(log_w - log_w.max())
    return float(w.sum() ** 2 / (w @ w))


def temper(log_f: Array, enough: float, log_w: Array | float = 0.0) -> tuple[float, Array]:
    """The largest κ ≤ 1 for which weights w f^κ leave ``enough`` effective draws; their logs.

    >>> round(9.0 * temper(np.array([0.0, -9.0, -9.0]), 2.0)[0], 4)  # log 4
    1.3863
    """
    low, high = 1.0 if effective(log_w + log_f) >= enough else 0.0, 1.0
    for _ in range(40 if low < 1.0 else 0):
        middle = 0.5 * (low + high)
        fine = effective(log_w + middle * log_f) >= enough
        low, high = (middle, high) if fine else (low, middle)
    kappa = max(low, 1e-12)
    return kappa, log_w + kappa * log_f
