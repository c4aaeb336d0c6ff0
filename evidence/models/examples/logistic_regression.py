r"""Bayesian logistic regression with a Gaussian prior.

.. math:: p(y_n = \pm 1 \mid \theta) = \frac{1}{1 + e^{-y_n x_n^T\theta}},\qquad
          \theta \sim N(0, s^2 I)

The log likelihood is concave, and its negative Hessian is its Fisher information: the metric.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...execution.arguments import check_count, check_size, number, seed_sequence
from ...messages import InputError
from ...numerics.arrays import Array
from ...numerics.jit import vector_loop
from .example import Example, Smooth, check_data, regression


class Logistic(Smooth):
    """The log likelihood. ``pairs`` holds each x_n x_nᵀ, its upper triangle as a row."""

    def __init__(self, X: Array, y: Array) -> None:
        self.X, self.dim = X, X.shape[1]
        self.yX = y[:, None] * X
        i, j = np.triu_indices(self.dim)
        self.pairs = X[:, i] * X[:, j]
        self.doubled = self.pairs * np.where(i == j, 1.0, 2.0)
        self.upper = i * self.dim + j  # of a flat matrix
        back = np.empty((self.dim, self.dim), dtype=np.intp)
        back[i, j] = back[j, i] = np.arange(i.size)
        self.back = back.ravel()

    def __call__(self, x: Array) -> Array:
        margin = x @ self.yX.T
        return (np.minimum(margin, 0.0) - np.log1p(np.exp(-np.abs(margin)))).sum(axis=1)

    def value_and_grad(self, x: Array) -> tuple[Array, Array]:
        margin = x @ self.yX.T
        e = np.exp(-np.abs(margin))
        wrong = np.where(margin > 0.0, e, 1.0) / (1.0 + e)  # the probability of the other class
        return (np.minimum(margin, 0.0) - np.log1p(e)).sum(axis=1), wrong @ self.yX

    def hessian(self, x: Array) -> Array:
        margin = x @ self.yX.T
        _second_terms(margin)
        packed = margin @ self.pairs
        return packed.take(self.back, axis=1).reshape(-1, self.dim, self.dim)

    def third(self, x: Array, W: Array) -> Array:
        quadratic = W.reshape(len(W), -1).take(self.upper, axis=1) @ self.doubled.T
        _third_terms(x @ self.yX.T, quadratic)
        return quadratic @ self.yX

    def tensor(self, x: Array) -> Array:
        slopes = np.ones((len(x), len(self.X)))
        _third_terms(x @ self.yX.T, slopes)
        packed = np.matmul(self.pairs.T, slopes[:, :, None] * self.yX)
        return packed.take(self.back, axis=1).reshape(-1, *3 * (self.dim,))

    def along(self, x: Array, w: Array) -> Array:
        projected = w @ self.X.T
        projected *= projected
        _third_terms(x @ self.yX.T, projected)
        return projected @ self.yX


@vector_loop
def _second_terms(margin):
    """d² log p(y_n) / d margin², in place: one pass over what may not fit the cache."""
    for m in range(margin.shape[0]):
        for n in range(margin.shape[1]):
            e = np.exp(-abs(margin[m, n]))
            margin[m, n] = -e / ((1.0 + e) * (1.0 + e))


@vector_loop
def _third_terms(margin, weight):
    """weight *= d³ log p(y_n) / d margin³, without the sign y_n that ``yX`` brings."""
    for m in range(margin.shape[0]):
        for n in range(margin.shape[1]):
            e = np.exp(-abs(margin[m, n]))
            slope = e * (1.0 - e) / ((1.0 + e) * (1.0 + e) * (1.0 + e))
            weight[m, n] *= slope if margin[m, n] > 0.0 else -slope


def logistic_regression(X: ArrayLike, y: ArrayLike, prior_sd: float = 10.0) -> Example:
    """Logistic regression of labels ``y`` (-1 and 1, or 0 and 1) on the columns of ``X``.

    An intercept is a column of ones.

    Examples
    --------
    >>> data = simulated_logistic(dim=2, n=100, seed=0)
    >>> logistic_regression(data.X, data.y).model
    DensityModel(logistic, dim=2, prior=Gaussian)
    """
    X, labels = check_data(X, y)
    if not (np.isin(labels, (-1, 1)).all() or np.isin(labels, (0, 1)).all()):
        raise InputError(f"y must hold -1 and 1, or 0 and 1, got {np.unique(labels)[:5]}")
    prior_sd = number("prior_sd", prior_sd, above=0.0)
    model = regression(Logistic(X, np.where(labels == 1, 1.0, -1.0)), prior_sd)
    about = (
        f"logistic regression of {len(X)} labels on {X.shape[1]} inputs, prior N(0, {prior_sd:g}²)"
    )
    return Example(model, None, None, about)


class SimulatedLogistic(NamedTuple):
    """Data and the coefficients they are from."""

    X: Array
    y: NDArray[np.int_]
    beta: Array


def simulated_logistic(dim: int = 2, n: int = 100, seed: int = 0) -> SimulatedLogistic:
    """Labels ±1 of a logistic model: an intercept, inputs and coefficients from N(0, 1).

    Examples
    --------
    >>> data = simulated_logistic(dim=10, n=500)
    >>> data.X.shape, sorted(set(data.y.tolist()))
    ((500, 10), [-1, 1])
    """
    check_count("dim", dim, optional=False)
    check_size("n", n, dim)
    rng = np.random.default_rng(seed_sequence(seed))
    beta = rng.standard_normal(dim)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, dim - 1))])
    y = np.where(rng.random(n) * (1.0 + np.exp(-X @ beta)) < 1.0, 1, -1)
    return SimulatedLogistic(X, y, beta)
