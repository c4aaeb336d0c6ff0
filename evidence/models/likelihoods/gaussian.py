"""Gaussian: y = x + noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ...numerics.jit import jit
from ...numerics.special import LOG_SQRT_2PI
from .base import Array, Limits
from .checks import Noisy, stack
from .pointwise import Pointwise


@jit
def _parabola(x, theta):
    std = theta[1]
    z = (theta[0] - x) / std
    return -0.5 * z * z - np.log(std) - LOG_SQRT_2PI, z / std, -1.0 / (std * std), 0.0


@dataclass(frozen=True)
class Gaussian(Noisy):
    r"""Real targets with normal noise, :math:`p(y|x) = N(y; x, s^2)`.

    Parameters
    ----------
    noise_std : float or array (N,)
        The standard deviation ``s`` of the noise, in the units of ``y``.

    >>> Gaussian(noise_std=0.5).log_prob([0.0, 1.0], [0.0, 0.0]).round(6)
    array([-0.225791, -2.225791])
    """

    noise_std: float | tuple[float, ...] = 1.0

    name: ClassVar[str] = "gaussian"
    free: ClassVar[Limits] = {"noise_std": (1e-5, 1e5)}

    kernel = Pointwise(_parabola, 2)

    def theta(self, y: Array) -> Array:
        return stack(y, y, self.parameters(y)[0])

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        x = np.asarray(x, float)
        return x + self.parameters(x)[0] * rng.standard_normal(x.shape)

    def cdf(self, y: Array, x: Array) -> Array:
        return ndtr((y - x) / self.parameters(x)[0])

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        x = np.asarray(x, float)
        return x, np.broadcast_to(self.parameters(x)[0] ** 2, x.shape)

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        noise = self.parameters(y)[0] ** 2
        total = v + noise
        log_z = -0.5 * (y - m) ** 2 / total - 0.5 * np.log(total) - LOG_SQRT_2PI
        return log_z, m + v * (y - m) / total, v * noise / total

    def tilted_cumulants(self, y: Array, m: Array, v: Array, order: int) -> Array:
        cumulants = np.zeros((order + 1, y.size))
        cumulants[0], cumulants[1], cumulants[2] = self.tilted(y, m, v)
        return cumulants
