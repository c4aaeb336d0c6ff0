"""Student-t: y = x + heavy-tailed noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr

from ...numerics.jit import jit, vector_loop
from ...numerics.special import LOG_SQRT_2PI, log
from .base import Array, Limits
from .checks import Noisy, stack
from .counts import log_peak
from .pointwise import Pointwise

_FAR = 1e150  # widths from a datum beyond which the square of a number has none


@vector_loop
def _first_order(x, theta, step, out):
    """log p(y|x) and its slope; with a constant ``step`` the loop becomes vector instructions."""
    for i in range(x.size):
        j = np.uint64(i * step)
        df, width = theta[1, j], theta[2, j]
        away = x[i] - theta[0, j]
        z = away / width
        square, far = z * z, abs(z) > _FAR
        u, f = (abs(z), abs(z)) if far else (1.0 + square, square)
        out[0, i] = theta[3, j] - 0.5 * (df + 1.0) * (2.0 if far else 1.0) * log(u, f)
        slope = -(df + 1.0) / width * z / (1.0 + square)
        out[1, i] = -(df + 1.0) / away if far else slope


@jit
def _bends(x, theta):
    """The second and the third derivative."""
    df, width, away = theta[1], theta[2], x - theta[0]
    z = away / width
    if abs(z) > _FAR:
        r = 1.0 / away
        return (df + 1.0) * r * r, -2.0 * (df + 1.0) * r * r * r
    h, a = 1.0 / (1.0 + z * z), (df + 1.0) / width
    second = -a / width * (1.0 - z) * (1.0 + z) * h * h
    return second, 2.0 * a / (width * width) * z * (3.0 - z * z) * h * h * h


def _log_normaliser(df: Array) -> Array:
    r"""``log Γ((d+1)/2) - log Γ(d/2) - ½ log(π d)``, to full precision for every d."""
    a = 0.5 * df
    ratio = (a - 0.5) * np.log1p(0.5 / a) - 0.5
    return ratio + log_peak(a) - log_peak(a + 0.5) - LOG_SQRT_2PI


@dataclass(frozen=True)
class StudentT(Noisy):
    r"""Real targets with outliers: ``y = x + scale · t``, ``t`` Student-t with ``df`` degrees.

    .. math:: \log p(y|x) = C - \tfrac{d+1}{2} \log(1 + z^2), \quad
              z = \frac{x - y}{s \sqrt d}

    Not log-concave: the tilted density can have two modes, one at the cavity and one at the
    datum, and EP may need negative site precisions. ``E[y|x]`` is NaN for ``df <= 1`` and the
    variance inf for ``df <= 2``.

    Parameters
    ----------
    df : float or array (N,)
        Degrees of freedom ``d`` > 0; large values approach :class:`.Gaussian`.
    scale : float or array (N,)
        Scale ``s`` of the noise, in the units of ``y``.

    >>> StudentT(df=4.0, scale=0.5).log_prob([0.0, 3.0], [0.0, 0.0]).round(6)
    array([-0.287682, -6.044145])
    """

    df: float | tuple[float, ...] = 4.0
    scale: float | tuple[float, ...] = 1.0

    name: ClassVar[str] = "student_t"
    free: ClassVar[Limits] = {"df": (0.5, 1e3), "scale": (1e-5, 1e5)}
    log_concave: ClassVar[bool] = False
    unimodal: ClassVar[bool] = True

    kernel = Pointwise(_bends, 4, _first_order)

    def theta(self, y: Array) -> Array:
        df, scale = self.parameters(y)
        return stack(y, y, df, scale * np.sqrt(df), _log_normaliser(df) - np.log(scale))

    def strip(self, y: Array) -> Array:
        """Half as far as the poles, whose order makes the transform fall off more slowly."""
        df, scale = self.parameters(y)
        return np.broadcast_to(0.5 * scale * np.sqrt(df), y.shape)

    def fisher(self, y: Array) -> Array:
        """``(d + 1) / ((d + 3) s²)`` per datum."""
        df, scale = self.parameters(y)
        return np.broadcast_to((df + 1.0) / ((df + 3.0) * scale**2), y.shape)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        x = np.asarray(x, float)
        df, scale = self.parameters(x)
        return x + scale * rng.standard_t(df, size=x.shape)

    def cdf(self, y: Array, x: Array) -> Array:
        df, scale = self.parameters(np.asarray(x))
        return stdtr(df, (y - x) / scale)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        x = np.asarray(x, float)
        df, scale = self.parameters(x)
        excess = np.where(df > 2.0, df - 2.0, np.nan)
        var = np.where(df > 2.0, scale**2 * df / excess, np.inf)
        return np.where(df > 1.0, x, np.nan), np.broadcast_to(var, x.shape)
