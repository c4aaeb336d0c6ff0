"""The variance of an island's Ẑ from that island alone."""

from __future__ import annotations

import numpy as np

from ..numerics.arrays import Array, Flags, Indices


class Genealogy:
    r"""Each particle's ancestor at β = 0, for an island's own variance estimate.

    With W_e the share of the final weight that descends from ancestor e of M,

    .. math:: \widehat{\operatorname{var}}(\log\hat Z)
              = 1 - \Big(\frac{M}{M-1}\Big)^{n+1} \Big(1 - \sum_e W_e^2\Big),

    where n is the number of multinomial resamplings, whose own noise is thus taken out (without
    bias: Lee and Whiteley 2018). Systematic, stratified and residual resampling add little
    noise, n is zero for them and what they add is left in. Where nothing is ever resampled it is
    the variance of a mean; where a single family is left it is 1: the island cannot know.

    References
    ----------
    A. Lee and N. Whiteley, Variance estimation in the particle filter, Biometrika 105 (2018)
    609.
    """

    def __init__(self, n_islands: int, n_particles: int, resampling: str) -> None:
        self.ancestor = np.tile(np.arange(n_particles), (n_islands, 1))
        self.noisy = resampling == "multinomial"
        self.times = np.ones(n_islands)

    def resample(self, index: Indices, which: Flags) -> None:
        self.ancestor = self.ancestor.ravel()[index]
        if self.noisy:
            self.times += which

    def variance(self, w: Array) -> Array:
        """Relative variance per island, given the final weights (islands, particles).

        NaN where too few families are left to tell.
        """
        g, m = w.shape
        if m < 2:
            return np.full(g, np.nan)
        shares = np.zeros((g, m))
        np.add.at(shares, (np.arange(g)[:, None], self.ancestor), w / w.sum(axis=1)[:, None])
        kept = (m / (m - 1.0)) ** self.times * (1.0 - np.sum(shares**2, axis=1))
        return np.where(kept < 1.0, 1.0 - kept, np.nan)
