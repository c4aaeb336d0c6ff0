"""Probit: p(y|x) = Φ(y x), y = ±1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import carray
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ...numerics.jit import jit, kernel
from ...numerics.special import log_ndtr_derivatives, log_ndtr_slopes
from .base import Array
from .checks import Labels


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


@jit
def _tilted(y, m, v, log_z, mean, var):
    for i in range(y.size):
        scale = np.sqrt(1.0 + v[i])
        f, f1, f2, _ = log_ndtr_derivatives(y[i] * m[i] / scale, 3)
        log_z[i] = f
        mean[i] = m[i] + v[i] * y[i] * f1 / scale
        var[i] = v[i] + v[i] * v[i] * f2 / (1.0 + v[i])


@dataclass(frozen=True)
class Probit(Labels):
    r"""Binary labels with a normal link, :math:`p(y|x) = \Phi(y x)`.

    >>> import numpy as np
    >>> Probit().log_prob([0.0, 5.0], [1, -1]).round(6)
    array([ -0.693147, -15.064998])
    """

    name: ClassVar[str] = "probit"

    kernel = staticmethod(_kernel)

    link = staticmethod(ndtr)

    def strip(self, y: Array) -> float:
        return 0.5 * np.pi

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        return ndtr(x) - ndtr(-x), 4.0 * ndtr(x) * ndtr(-x)

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        out = np.empty((3, y.size))
        _tilted(y, m, v, out[0], out[1], out[2])
        return out[0], out[1], out[2]

    def probability(self, mean: ArrayLike, var: ArrayLike, label: float = 1.0) -> Array:
        """P(y = label) under ``x ~ N(mean, var)``."""
        return ndtr(label * np.asarray(mean) / np.sqrt(1.0 + np.asarray(var)))
