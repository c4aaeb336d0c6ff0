"""log Z by halving the prior again and again: a referee that shares no line with the package.

Of N particles the worse half (by likelihood) goes, with its share X_k / N of the prior each; the
others are doubled and moved within the prior above the threshold, X_{k+1} = X_k / 2:
nested sampling in big steps (J. Skilling, Bayesian Analysis 1 (2006) 833). Its error is about
sqrt(halvings / N), and more where particles do not get from one mode to another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray
_LOG_REST = -7.0  # what is left of Z, at most, when it ends
_MOST = 400  # halvings
_SMALLEST = 1e-5  # step of an autoregression


class Halved(NamedTuple):
    """log Z, its standard error were moves perfect, and equally weighted posterior draws."""

    logz: float
    logz_se: float
    draws: Array
    calls: int


def halve(
    prior_sample: Callable[[np.random.Generator, int], Array],
    log_likelihood: Callable[[Array], Array],
    seed: int = 0,
    particles: int = 4000,
    steps: int = 200,
) -> Halved:
    """For a prior that is N(0, I)."""
    rng = np.random.default_rng(seed)
    x = prior_sample(rng, particles)
    value = log_likelihood(x)
    log_volume, total, calls, halvings = 0.0, -math.inf, particles, 0
    gone: list[tuple[Array, Array]] = []
    while halvings < _MOST:
        threshold = float(np.quantile(value, 0.5, method="lower"))
        alive = value > threshold
        rest = log_volume + float(value.max())
        if not alive.any() or rest < total + _LOG_REST:
            break
        weight = value[~alive] + log_volume - math.log(particles)
        gone.append((x[~alive], weight))
        total = float(np.logaddexp(total, logsumexp(weight)))
        log_volume += math.log(alive.mean())
        x, value = x[alive], value[alive]
        some = np.r_[np.arange(len(x)), rng.integers(len(x), size=particles - len(x))]
        x, value = x[some], value[some]
        for _ in range(steps):
            _move(rng, x, value, threshold, log_likelihood)
        calls, halvings = calls + steps * particles, halvings + 1
    gone.append((x, value + log_volume - math.log(particles)))
    points, weights = (np.concatenate(part) for part in zip(*gone, strict=True))
    logz = float(logsumexp(weights))
    if not math.isfinite(logz):  # nowhere
        return Halved(logz, math.nan, x[:0], calls)
    share = np.exp(weights - logz)
    draws = points[rng.choice(len(points), particles, p=share / share.sum())]
    return Halved(logz, math.sqrt(halvings / particles), draws, calls)


def _move(
    rng: np.random.Generator, x: Array, value: Array, threshold: float,
    log_likelihood: Callable[[Array], Array],
) -> None:  # fmt: skip
    """In place: every particle an autoregression's step, or along the difference of two others."""
    n, d = x.shape
    if rng.random() < 0.5:
        step = np.exp(rng.uniform(math.log(_SMALLEST), 0.0, (n, 1)))
        new = np.sqrt(1.0 - step**2) * x + step * rng.standard_normal((n, d))
        ratio: Any = np.zeros(n)
    else:
        length = np.where(rng.random((n, 1)) < 0.2, 1.0, 1.7 / math.sqrt(d) * rng.random((n, 1)))
        new = x + length * (x[rng.permutation(n)] - x[rng.permutation(n)])
        ratio = 0.5 * np.sum(x * x - new * new, axis=1)
    found = log_likelihood(new)
    accept = (found > threshold) & (np.log(rng.random(n)) < ratio)
    x[accept], value[accept] = new[accept], found[accept]
