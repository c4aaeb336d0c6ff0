r"""A Gaussian of any condition number, in directions that no coordinate has.

.. math:: \log p(x) = -\tfrac12 (x - m)^T \Sigma^{-1} (x - m),\qquad
          \log Z = \tfrac12 \log|2\pi\Sigma|

The eigenvalues of Σ run from 1 to the condition number, evenly in their logarithm.
"""

from __future__ import annotations

import numpy as np

from ...execution.arguments import check_size, number
from ...numerics.arrays import Array
from .example import LOG_2PI, Example, Quadratic


class Gaussian(Quadratic):
    """The log density, without its constant."""

    def __init__(self, mean: Array, variances: Array, axes: Array) -> None:
        self.mean, self.dim = mean, mean.size
        self.root = axes * np.sqrt(variances)
        self.precision = (axes / variances) @ axes.T
        self.precision = 0.5 * (self.precision + self.precision.T)
        self.logz = 0.5 * float(np.log(variances).sum() + self.dim * LOG_2PI)

    def value_and_grad(self, x: Array) -> tuple[Array, Array]:
        away = x - self.mean
        slope = -away @ self.precision
        return 0.5 * np.einsum("mi,mi->m", away, slope), slope

    def draws(self, rng: np.random.Generator, size: int) -> Array:
        return self.mean + rng.standard_normal((size, self.dim)) @ self.root.T


def rotation(rng: np.random.Generator, dim: int) -> Array:
    """A random orthogonal matrix."""
    return np.linalg.qr(rng.standard_normal((dim, dim)))[0]


def gaussian(dim: int = 2, condition: float = 1e4) -> Example:
    """A rotated Gaussian; directions and mean are the same every time.

    Examples
    --------
    >>> example = gaussian(dim=2, condition=100.0)
    >>> round(example.logz, 4)  # log 2π + log 10
    4.1405
    """
    seed = 271
    check_size("dim", dim, dim)
    condition = number("condition", condition, above=0.0)
    rng = np.random.default_rng(seed)
    variances = np.geomspace(1.0, condition, dim)
    density = Gaussian(rng.standard_normal(dim), variances, rotation(rng, dim))
    about = f"Gaussian in {dim} dimensions, condition number {condition:g}"
    return Example(density.model(), density.logz, density.draws, about)
