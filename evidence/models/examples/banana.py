r"""A Gaussian bent into a banana.

.. math:: x_0 \sim N(0, 10^2),\qquad x_1 \mid x_0 \sim N\big(b\,(x_0^2 - 100),\, 1\big)

Normalised: log Z = 0.
"""

from __future__ import annotations

import numpy as np

from ...execution.arguments import number
from ...numerics.arrays import Array
from .example import Example, Smooth

_SD = 10.0
_CONSTANT = -float(np.log(2.0 * np.pi * _SD))


class Banana(Smooth):
    """log p(x₀, x₁)."""

    dim = 2

    def __init__(self, curvature: float) -> None:
        self.b = curvature

    def _residual(self, x: Array) -> Array:
        return x[:, 1] - self.b * (x[:, 0] ** 2 - _SD**2)

    def value_and_grad(self, x: Array) -> tuple[Array, Array]:
        u, first = self._residual(x), x[:, 0] / _SD
        value = _CONSTANT - 0.5 * (first * first + u * u)
        return value, np.stack([2.0 * self.b * x[:, 0] * u - first / _SD, -u], axis=1)

    def hessian(self, x: Array) -> Array:
        b, u = self.b, self._residual(x)
        H = np.full((len(x), 2, 2), -1.0)
        H[:, 0, 0] = 2.0 * b * u - (2.0 * b * x[:, 0]) ** 2 - 1.0 / _SD**2
        H[:, 0, 1] = H[:, 1, 0] = 2.0 * b * x[:, 0]
        return H

    def third(self, x: Array, W: Array) -> Array:
        b, corner = self.b, W[:, 0, 0]
        first = 4.0 * b * W[:, 0, 1] - 12.0 * b * b * x[:, 0] * corner
        return np.stack([first, 2.0 * b * corner], axis=1)

    def draws(self, rng: np.random.Generator, size: int) -> Array:
        x = rng.standard_normal((size, 2)) * (_SD, 1.0)
        x[:, 1] += self.b * (x[:, 0] ** 2 - _SD**2)
        return x


def banana(curvature: float = 0.1) -> Example:
    """The banana; 0.03 bends it a little, 0.1 much.

    Examples
    --------
    >>> example = banana()
    >>> example.logz, example.model.n
    (0.0, 2)
    """
    density = Banana(number("curvature", curvature, above=0.0))
    about = f"banana in 2 dimensions, curvature {curvature:g}"
    return Example(density.model(), 0.0, density.draws, about)
