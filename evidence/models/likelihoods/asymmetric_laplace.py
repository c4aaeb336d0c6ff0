r"""Asymmetric Laplace: x is a quantile of y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...numerics.jit import jit
from ...numerics.special import LOG_SQRT_2PI
from .base import Array, Limits
from .checks import Noisy, stack
from .pointwise import Pointwise
from .quadrature import evaluate

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)  # more than its digits take
_NODES, _WEIGHTS = 0.5 + 0.5 * _NODES, 0.5 * _WEIGHTS


@jit
def _tent(x, t):
    """Straight lines; the peak has the slope to its right."""
    slope = t[1] if x < t[0] else -t[2]
    return t[3] + slope * (x - t[0]), slope, 0.0, 0.0


@dataclass(frozen=True)
class AsymmetricLaplace(Noisy):
    r"""Real targets of which x is the quantile τ: quantile regression.

    .. math:: \log p(y|x) = \log\frac{\tau(1 - \tau)}{\sigma} - \rho_\tau\Big(\frac{y - x}
              {\sigma}\Big), \quad \rho_\tau(u) = u\,(\tau - [u < 0])

    It has a kink at y, where derivatives are those to the right.

    Parameters
    ----------
    quantile : float or array (N,)
        The quantile τ, between 0 and 1.
    sigma : float or array (N,)
        Scale σ of the noise, in the units of ``y``.

    References
    ----------
    K. Yu and R. A. Moyeed, Bayesian quantile regression, Statistics & Probability Letters 54
    (2001) 437.

    >>> AsymmetricLaplace(quantile=0.9).log_prob([0.0, 1.0], [1.0, 0.0]).round(6)
    array([-3.307946, -2.507946])
    """

    quantile: float | tuple[float, ...] = 0.5
    sigma: float | tuple[float, ...] = 1.0

    name: ClassVar[str] = "asymmetric_laplace"
    free: ClassVar[Limits] = {"quantile": (1e-3, 1.0 - 1e-3), "sigma": (1e-5, 1e5)}
    limits: ClassVar[Limits] = {"quantile": (0.0, 1.0)}

    kinks: ClassVar[bool] = True

    kernel = Pointwise(_tent, 4)

    def theta(self, y: Array) -> Array:
        tau, sigma = self.parameters(y)
        top = np.log(tau) + np.log1p(-tau) - np.log(sigma)
        return stack(y, y, tau / sigma, (1.0 - tau) / sigma, top)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """A difference of exponential numbers."""
        x = np.asarray(x, float)
        tau, sigma = self.parameters(x)
        up, down = rng.standard_exponential((2, *x.shape))
        return x + sigma * (up / tau - down / (1.0 - tau))

    def cdf(self, y: Array, x: Array) -> Array:
        tau, sigma = self.parameters(np.asarray(x))
        z = (y - x) / sigma
        below = tau * np.exp((1.0 - tau) * np.minimum(z, 0.0))
        return np.where(z < 0.0, below, 1.0 - (1.0 - tau) * np.exp(-tau * np.maximum(z, 0.0)))

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        x = np.asarray(x, float)
        tau, sigma = self.parameters(x)
        up, down = sigma / tau, sigma / (1.0 - tau)
        return x + up - down, np.broadcast_to(up * up + down * down, x.shape)

    @np.errstate(invalid="ignore")
    def _tilted_moments(self, y: Array, m: Array, v: Array, order: int) -> Array:
        r"""On either side of the kink a Gaussian that is cut off, by a rule of Gauss and Legendre.

        With :math:`x = y \pm t \sqrt v` the logarithm is that at y and :math:`c t - t^2/2`.
        """
        beyond = 9.0  # standard deviations beyond which a Gaussian is nothing
        top, root = self.theta(y)[3], np.sqrt(np.where(v > 0.0, v, np.nan))
        d = (y - m) / root
        c = np.array([d, -d]) - self.theta(y)[1:3] * root
        far = np.where(c > 0.0, c + beyond, beyond**2 / (np.hypot(c, beyond) - c))
        near = np.maximum(c - beyond, 0.0)
        t = near + (far - near) * _NODES[:, None, None]
        log_p = (c - 0.5 * t) * t
        highest = log_p.max(axis=(0, 1))
        p = np.exp(log_p - highest) * (far - near) * _WEIGHTS[:, None, None]
        mass, away = p.sum(axis=(0, 1)), t * (root * [[-1.0], [1.0]])
        mean = (p * away).sum(axis=(0, 1)) / mass
        central = [(p * (away - mean) ** k).sum(axis=(0, 1)) / mass for k in range(2, order + 1)]
        log_z = top + highest - 0.5 * d * d + np.log(mass) - LOG_SQRT_2PI
        point = np.zeros((order + 1, y.size))
        point[0], point[1] = evaluate(self.kernel, self.theta(y), m)[0], m
        return np.where(v == 0.0, point, np.array([log_z, y + mean, *central]))
