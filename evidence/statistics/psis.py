r"""Pareto smoothed importance sampling: the largest weights become what their tail says.

The M largest of S weights follow a generalised Pareto distribution of shape k; they become its
quantiles :math:`F^{-1}((m - 1/2)/M)`, cut at the largest weight there was. Above k = 0.7 no
number of draws that is affordable makes an average reliable.

Reference: A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, J. Mach. Learn. Res. 25 (2024)
72; for leave-one-out A. Vehtari, A. Gelman and J. Gabry, Stat. Comput. 27 (2017) 1413.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import boxcox1p

from ..numerics.arrays import Array
from .weights import LIMIT as LIMIT
from .weights import pareto_fit

_TINY = float(np.log(np.finfo(float).tiny))


def smoothed(log_weights: Array, efficiency: float = 1.0, fewest: int = 5) -> tuple[Array, float]:
    """Smoothed log weights (S,), normalised, and the shape k of their tail.

    ``efficiency`` is the number of independent draws over S, which decides the length of the tail.
    The shape is -inf of equal weights, and inf where the tail has less than the
    ``fewest`` that say anything.

    >>> rng = np.random.default_rng(0)
    >>> log_w, k = smoothed(rng.standard_exponential(4000) / 2.0)
    >>> bool(0.3 < k < 0.7), round(float(np.exp(log_w).sum()), 9)
    (True, 1.0)
    """
    S = log_weights.size
    log_w = log_weights - log_weights.max()
    order = np.argsort(log_w, kind="stable")
    size = math.ceil(min(S / 5.0, 3.0 * math.sqrt(S / efficiency)))
    cutoff = max(float(log_w[order[max(S - size - 1, 0)]]), _TINY)
    tail = order[log_w[order] > cutoff]
    if np.ptp(log_w) < 1e-12:
        shape = -math.inf
    elif tail.size < fewest:
        shape = math.inf
    else:
        least = math.exp(cutoff)
        shape, scale = pareto_fit(np.exp(log_w[tail]) - least)
        if math.isfinite(shape):
            p = (np.arange(tail.size) + 0.5) / tail.size
            beyond = -scale * boxcox1p(-p, -shape)  # quantiles of the Pareto distribution
            log_w[tail] = np.minimum(np.log(least + beyond), 0.0)
    return log_w - np.logaddexp.reduce(log_w), shape
