r"""Random walks: smooth functions of a covariate, up to what their differences do not see.

With k-th differences D and k-fold sums S, D S = I, the matrix S Sᵀ is a generalised inverse of
R = DᵀD; with an orthonormal basis B of the null space and P = I - B Bᵀ, R⁺ = P S Sᵀ P: its
diagonal costs O(n).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array, diags_array

from ...execution.arguments import array, check_size
from ...messages import InputError
from ...numerics.arrays import Array
from .base import WIDE, Bounds
from .scaled import Scaled


def rw1(positions: int | ArrayLike, sigma: float = 1.0, *, sigma_bounds: Bounds = WIDE) -> Scaled:
    r"""A random walk of first order with sum zero: neighbours differ by N(0, c σ² gap).

    The constant c makes the geometric mean of the marginal variances 1 at ``sigma=1``, on the
    constraint :math:`\sum_i x_i = 0` (Sørbye and Rue 2014): ``sigma`` is the typical size of the
    values, not of their steps.

    Parameters
    ----------
    positions : int or array (n,)
        How many, with equal gaps; or increasing positions.
    sigma : float
        Standard deviation of a typical value.
    sigma_bounds : pair of float or "fixed"
        Where it is searched for, if at all.

    Examples
    --------
    >>> rw1(100), rw1([0.0, 0.3, 2.0], sigma=0.5)
    (rw1(100, sigma=1), rw1(3, sigma=0.5))
    """
    if np.ndim(positions) == 0:
        check_size("positions", positions, 4, least=2)
        at = np.arange(float(positions))  # type: ignore[arg-type]
    else:
        at = array("positions", positions, ("n",))
        if at.size < 2 or (np.diff(at) <= 0.0).any():
            raise InputError("positions must be at least 2 and increase; join equal ones first")
    step = np.sqrt(np.diff(at))
    D = diags_array([-1.0 / step, 1.0 / step], offsets=(0, 1), shape=(at.size - 1, at.size))
    basis = np.full((at.size, 1), 1.0 / math.sqrt(at.size))

    def sums(v: Array) -> Array:
        return _sum(step[:, None] ** 2 * _sum_transposed(v))

    return _walk("rw1", D, basis, at - at[0], sums(basis), sigma, sigma_bounds)


def rw2(n: int, sigma: float = 1.0, *, sigma_bounds: Bounds = WIDE) -> Scaled:
    r"""A random walk of second order, with neither sum nor trend: second differences are iid.

    A discrete cubic spline. Constants and straight lines are its null space; it is constrained
    to be orthogonal to both, so that they may be fixed effects. Scaled as :func:`rw1`.

    Parameters
    ----------
    n : int
        Values, at equal distances.
    sigma : float
        Standard deviation of a typical value.
    sigma_bounds : pair of float or "fixed"
        Where it is searched for, if at all.

    Examples
    --------
    >>> rw2(100), rw2(100).constraints[0].shape
    (rw2(100, sigma=1), (2, 100))
    """
    check_size("n", n, 4, least=3)
    one = np.ones(n - 2)
    D = diags_array([one, one, -2.0 * one], offsets=(0, 2, 1), shape=(n - 2, n))
    i = np.arange(float(n))
    line = i - i.mean()
    basis = np.stack([np.full(n, 1.0 / math.sqrt(n)), line / np.linalg.norm(line)], axis=1)
    twice = _sum(_sum(_sum_transposed(_sum_transposed(basis))))
    return _walk("rw2", D, basis, (i - 1) * i * (2 * i - 1) / 6, twice, sigma, sigma_bounds)


def _sum(v: Array) -> Array:
    """Sums of all before each row, one row more."""
    return np.vstack([np.zeros((1, v.shape[1])), np.cumsum(v, axis=0)])


def _sum_transposed(v: Array) -> Array:
    return np.cumsum(v[:0:-1], axis=0)[::-1]


def _walk(
    name: str, D: diags_array, B: Array, diagonal: Array, GB: Array, sigma: float, bounds: Bounds
) -> Scaled:
    """R = DᵀD, scaled, from G = S Sᵀ by its diagonal and by G B."""
    variances = diagonal - 2.0 * (B * GB).sum(axis=1) + (B * (B @ (B.T @ GB))).sum(axis=1)
    R = csc_array(D.T @ D) * np.exp(np.log(variances).mean())
    return Scaled(name, str(len(B)), R, csc_array(B), sigma, bounds)
