r"""Linear regression with known noise: the posterior is Gaussian, the evidence exact.

.. math:: y = X\beta + \epsilon,\quad \epsilon \sim N(0, \sigma^2 I),\quad \beta \sim N(0, s^2 I)
          \quad\Rightarrow\quad Z = N(y; 0, s^2 X X^T + \sigma^2 I)
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from ...execution.arguments import number
from ...messages import InputError
from ...numerics.arrays import Array
from .example import LOG_2PI, Example, Quadratic, check_data, regression


class Linear(Quadratic):
    """The log likelihood, from what is sufficient: XᵀX, Xᵀy and yᵀy over σ²."""

    def __init__(self, X: Array, y: Array, noise: float) -> None:
        self.dim = X.shape[1]
        self.precision, self.cross = X.T @ X / noise**2, X.T @ y / noise**2
        self.constant = -0.5 * (y @ y / noise**2 + len(y) * (LOG_2PI + 2.0 * np.log(noise)))

    def value_and_grad(self, x: Array) -> tuple[Array, Array]:
        Gx = x @ self.precision
        value = self.constant + np.einsum("mi,mi->m", x, self.cross - 0.5 * Gx)
        return value, self.cross - Gx


def _draws(mean: Array, root: Array, rng: np.random.Generator, size: int) -> Array:
    """Of a Gaussian whose covariance has this root."""
    return mean + rng.standard_normal((size, mean.size)) @ root.T


def linear_regression(
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    noise: float = 1.0,
    prior_sd: float = 10.0,
) -> Example:
    """Regression of ``y`` on the columns of ``X``; without data, on 50 simulated points.

    Examples
    --------
    >>> example = linear_regression([[1.0], [2.0]], [1.0, 3.0], prior_sd=1.0)
    >>> from scipy import stats
    >>> exact = stats.multivariate_normal([0, 0], [[2.0, 2.0], [2.0, 5.0]]).logpdf([1.0, 3.0])
    >>> bool(abs(example.logz - exact) < 1e-12)
    True
    """
    seed = 5
    n = 50
    dim = 5
    noise, prior_sd = number("noise", noise, above=0.0), number("prior_sd", prior_sd, above=0.0)
    if (X is None) != (y is None):
        raise InputError("X and y go together: give both or neither")
    if X is None:
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, dim))
        y = X @ rng.standard_normal(dim) + noise * rng.standard_normal(n)
    X, y = check_data(X, y)
    density = Linear(X, y, noise)
    L = np.linalg.cholesky(prior_sd**2 * X @ X.T + noise**2 * np.eye(len(y)))
    z = np.linalg.solve(L, y)
    logz = -0.5 * float(z @ z + len(y) * LOG_2PI) - float(np.log(np.diag(L)).sum())
    precision = density.precision + np.eye(density.dim) / prior_sd**2
    root = np.linalg.inv(np.linalg.cholesky(precision)).T
    mean = np.asarray(np.linalg.solve(precision, density.cross), float)
    about = f"linear regression of {len(y)} numbers on {X.shape[1]} inputs, noise {noise:g}"
    return Example(regression(density, prior_sd), logz, partial(_draws, mean, root), about)
