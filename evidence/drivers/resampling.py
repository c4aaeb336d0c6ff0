"""Resampling schemes: which particles survive."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def systematic(weights: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Ancestors with expected counts proportional to ``weights``, from one uniform.

    >>> systematic(np.array([0.0, 1.0, 1.0, 2.0]), np.random.default_rng(0)).tolist()
    [1, 2, 3, 3]
    """
    m = weights.size
    cumulative = np.cumsum(weights)
    points = (np.arange(m) + rng.random()) * (cumulative[-1] / m)
    return np.minimum(np.searchsorted(cumulative, points, side="right"), m - 1)
