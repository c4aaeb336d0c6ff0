"""Probit: p(y|x) = Φ(y x), y = ±1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import carray
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from ...numerics.jit import kernel
from ...numerics.special import LOG_SQRT_2PI, log_ndtr_derivatives, log_ndtr_slopes
from .base import Array
from .checks import Labels
from .quadrature import evaluate


@kernel
def _kernel(x_, theta_, n, stride, step, order, out_):
    x, y, out = carray(x_, n), carray(theta_, stride), carray(out_, (4, n))
    if order == 1:
        for i in range(n):
            out[2, i] = y[np.uint64(i * step)] * x[i]
        log_ndtr_slopes(out[2], out[0], out[1])
        for i in range(n):
            out[1, i] *= y[np.uint64(i * step)]
        return
    for i in range(n):
        s = y[i * step]
        f, f1, f2, f3 = log_ndtr_derivatives(s * x[i], order)
        out[0, i], out[1, i], out[2, i], out[3, i] = f, s * f1, f2, s * f3


@dataclass(frozen=True)
class Probit(Labels):
    r"""Binary labels with a normal link, :math:`p(y|x) = \Phi(y x)`.

    >>> import numpy as np
    >>> Probit().log_prob([0.0, 5.0], [1, -1]).round(6)
    array([ -0.693147, -15.064998])
    """

    name: ClassVar[str] = "probit"
    poles = 0.5 * np.pi

    kernel = staticmethod(_kernel)

    link = staticmethod(ndtr)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        return ndtr(x) - ndtr(-x), 4.0 * ndtr(x) * ndtr(-x)

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        wide = 1.0 + v  # variance of a utility
        log_z, slope, curvature, _ = evaluate(self.kernel, y[None], m / np.sqrt(wide))
        return log_z, m + v * slope / np.sqrt(wide), v + v * v * curvature / wide

    def tilted_cumulants(self, y: Array, m: Array, v: Array, order: int) -> Array:
        r"""Of order l ≥ 3 :math:`(y v/\sqrt{1+v})^l\, (\log\Phi)^{(l)}(y m/\sqrt{1+v})`."""
        far = -2.5  # below it differences cancel in high derivatives of log Φ
        out = np.empty((order + 1, y.size))
        z = y * m / np.sqrt(1.0 + v)
        near = (z > far) & (v > 0.0)
        if not near.all():
            out[:, ~near] = super().tilted_cumulants(y[~near], m[~near], v[~near], order)
        y, m, v, z = y[near], m[near], v[near], z[near]
        slopes = [np.exp(-0.5 * z * z - LOG_SQRT_2PI - log_ndtr(z))]  # h' = -h (z + h)
        for k in range(order - 1):
            below = k * slopes[k - 1] if k else 0.0
            pairs = sum(math.comb(k, j) * slopes[j] * slopes[k - j] for j in range(k + 1))
            slopes.append(-z * slopes[k] - below - pairs)
        scale = y * v / np.sqrt(1.0 + v)
        out[:3, near] = self.tilted(y, m, v)
        out[3:, near] = [scale**l * slopes[l - 1] for l in range(3, order + 1)]
        return out

    def probability(self, mean: ArrayLike, var: ArrayLike, label: float = 1.0) -> Array:
        """P(y = label) under ``x ~ N(mean, var)``."""
        return ndtr(label * np.asarray(mean) / np.sqrt(1.0 + np.asarray(var)))
