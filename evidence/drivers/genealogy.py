"""The variance of an island's Ẑ from that island alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Genealogy:
    r"""Each particle's ancestor at β = 0, for an island's own variance estimate.

    With n resamplings, M particles and W_e the share of the final weight that descends from
    ancestor e, the relative variance of Ẑ is estimated by

    .. math:: 1 - \Big(\frac{M}{M-1}\Big)^{n+1} \Big(1 - \sum_e W_e^2\Big),

    without bias for multinomial resampling (Lee and Whiteley 2018); schemes of lower variance
    leave it on the safe side. Where nothing is ever resampled it is the variance of a mean.

    References
    ----------
    A. Lee and N. Whiteley, Variance estimation in the particle filter, Biometrika 105 (2018)
    609.
    """

    def __init__(self, n_islands: int, n_particles: int) -> None:
        self.ancestor = np.tile(np.arange(n_particles), (n_islands, 1))
        self.times = np.ones(n_islands)

    def resample(self, index: NDArray[np.intp], which: NDArray[np.bool_]) -> None:
        self.ancestor = self.ancestor.ravel()[index]
        self.times += which

    def variance(self, w: Array) -> Array:
        """Relative variance per island, given the final weights (islands, particles)."""
        g, m = w.shape
        if m < 2:
            return np.full(g, np.nan)
        shares = np.zeros((g, m))
        np.add.at(shares, (np.arange(g)[:, None], self.ancestor), w / w.sum(axis=1)[:, None])
        kept = (m / (m - 1.0)) ** self.times * (1.0 - np.sum(shares**2, axis=1))
        return np.maximum(1.0 - kept, 0.0)
