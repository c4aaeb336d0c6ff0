"""Moves with a metric that depends on the position; this file: how their steps may end.

:mod:`.base` is the shell of all of them. What their steps solve is written twice, because it
pays: :mod:`.separable` runs row by row in compiled code and factorises G = K⁻¹ + diag(d) as
rarely as it can, :mod:`.dense` takes a batch of full matrices through the functions of a density.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

OK, NO_METRIC, NO_FIXED_POINT, IRREVERSIBLE = range(4)
MAX_ITERATIONS = 60  # of a fixed point


class End(NamedTuple):
    """Where transitions end; a row whose code is not OK is to be rejected."""

    y: NDArray[np.float64]
    h: NDArray[np.float64]
    """Tilts."""
    log_ratio: NDArray[np.float64]
    """Log acceptance ratios, NaN for rows that are lost."""
    code: NDArray[np.int64]
    evaluations: int
    """Factorisations, or evaluations of the metric."""


Ends = list[End] | None
