r"""Hyperparameters on the real line: θ = log v of positive numbers, log-odds of correlations.

A parameter of an interval (a, 1) has :math:`\theta = \log\frac{v - a}{1 - v}`. Arrays of the
beginnings a say which is which; they are NaN for positive numbers.

>>> lows = np.array([np.nan, -1.0])
>>> natural(np.log([2.0, 3.0]), lows).tolist()
[2.0, 0.5]
>>> np.exp(to_line([2.0, 0.5], lows)).round(9).tolist()
[2.0, 3.0]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit

from ..numerics.arrays import Array


def natural(theta: ArrayLike, lows: ArrayLike, *, margin: float = 1e-15) -> Array:
    """Values whose places on the line are ``theta``, shape (..., P).

    Those of intervals reach the ends at infinity only, where densities may be infinite.

    ``margin``: between values and the ends of their intervals, so that they differ.
    """
    theta, lows = np.asarray(theta, float), np.asarray(lows, float)
    between = lows + (1.0 - lows) * expit(theta)
    inside = np.clip(between, lows + margin, 1.0 - margin)
    return np.where(np.isnan(lows), np.exp(theta), np.where(np.isinf(theta), between, inside))


def to_line(values: ArrayLike, lows: ArrayLike) -> Array:
    """The inverse of :func:`natural`; ends of intervals are at infinity."""
    values, lows = np.asarray(values, float), np.asarray(lows, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = (values - lows) / (1.0 - values)
        return np.log(np.where(np.isnan(lows), values, odds))


def log_slope(theta: ArrayLike, lows: ArrayLike) -> Array:
    """log dv/dθ."""
    theta, lows = np.asarray(theta, float), np.asarray(lows, float)
    inside = np.log1p(-lows) + log_expit(theta) + log_expit(-theta)
    return np.where(np.isnan(lows), theta, inside)
