r"""Class probabilities under Gaussian latent values, :math:`E[\mathrm{softmax}(x)]`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MEMORY = 2**22  # numbers held at a time


class LatentPrediction(NamedTuple):
    """Latent values of C classes at N* points: mean (C, N*) and cov (N*, C, C)."""

    mean: Array
    cov: Array

    def probabilities(self, n_points: int = 1024) -> Array:
        """p(class k) at every point, shape (N*, C).

        The mean over ``n_points`` (a power of two) quasi-Monte-Carlo draws, always the same
        ones: the error is a few 1e-4 at 1024.

        >>> even = LatentPrediction(np.zeros((3, 1)), np.eye(3)[None])
        >>> even.probabilities().round(2).tolist()
        [[0.33, 0.33, 0.33]]
        """
        from scipy.special import ndtri, softmax
        from scipy.stats import qmc

        C, n_new = self.mean.shape
        u = qmc.Sobol(C, seed=0).random(n_points)
        z = ndtri(np.clip(u, 1e-12, 1.0 - 1e-12))
        s, U = np.linalg.eigh(self.cov)  # covariances may be singular
        root = U * np.sqrt(np.maximum(s, 0.0))[:, None, :]
        out = np.empty((n_new, C))
        size = max(1, _MEMORY // (n_points * C))
        for first in range(0, n_new, size):
            rows = slice(first, first + size)
            x = self.mean.T[rows, None, :] + np.matmul(z, np.swapaxes(root[rows], 1, 2))
            out[rows] = softmax(x, axis=-1).mean(axis=1)
        return out
