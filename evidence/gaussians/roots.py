"""Square roots of Gaussians whose values are drawn in steps: white coordinates, no matrix."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ..numerics.arrays import Array
from ..numerics.jit import jit
from .base import Root, Steps


class StepRoot(Root):
    r"""Of :math:`u = \mu + (I - B)^{-1} \mathrm{diag}(s)\,\xi`, B strictly lower triangular."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.mean = np.empty_like(steps.mean)
        self.mean[steps.order] = steps.mean

    def draw(self, z: Array) -> Array:
        steps = self.steps
        out, x = np.empty_like(z), z * steps.sd[:, None]
        _forwards(steps.indptr, steps.indices, steps.weights, x)
        out[steps.order] = x
        return out

    def draw_transposed(self, v: Array) -> Array:
        steps = self.steps
        x = np.ascontiguousarray(v[steps.order])
        _backwards(steps.indptr, steps.indices, steps.weights, x)
        return x * steps.sd[:, None]

    def whiten(self, away: Array) -> Array:
        steps = self.steps
        x = away[steps.order]
        x -= csr_array((steps.weights, steps.indices, steps.indptr), shape=2 * (len(x),)) @ x
        sd = steps.sd[:, None]
        return np.divide(x, sd, out=np.zeros_like(x), where=sd > 0.0)


@jit
def _forwards(indptr, indices, weights, x):
    for k in range(x.shape[0]):
        for p in range(indptr[k], indptr[k + 1]):
            for m in range(x.shape[1]):
                x[k, m] += weights[p] * x[indices[p], m]


@jit
def _backwards(indptr, indices, weights, x):
    for k in range(x.shape[0] - 1, -1, -1):
        for p in range(indptr[k], indptr[k + 1]):
            for m in range(x.shape[1]):
                x[indices[p], m] += weights[p] * x[k, m]
