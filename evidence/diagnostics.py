"""Averages of estimates of Z, and their error bars."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class LogMean(NamedTuple):
    """log of a mean of positive estimates, its standard error, and how uneven they were."""

    value: float
    se: float
    relative_sd: float
    largest_share: float


def log_mean(log_values: ArrayLike) -> LogMean:
    r"""``log mean exp`` of independent log estimates with a delta-method standard error.

    Each :math:`\hat Z_i` is unbiased for Z, so :math:`\hat Z_i` are averaged, not their logs.
    The error bar is the standard error of the mean in relative terms; with one estimate it is
    NaN.

    >>> estimate = log_mean([0.0, 0.1, -0.1, 0.05])
    >>> round(estimate.value, 4), round(estimate.se, 4)
    (0.0152, 0.042)
    """
    log_values = np.asarray(log_values, dtype=float)
    k = log_values.size
    peak = log_values.max()
    if not np.isfinite(peak):
        return LogMean(float(peak), np.nan, np.nan, 1.0)
    z = np.exp(log_values - peak)
    mean = z.mean()
    relative_sd = float(z.std(ddof=1) / mean) if k > 1 else np.nan
    return LogMean(
        float(peak + np.log(mean)),
        float(relative_sd / np.sqrt(k)),
        relative_sd,
        float(z.max() / z.sum()),
    )
