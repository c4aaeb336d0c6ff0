r"""Effects of groups: a level and slopes for each, with correlations between them.

The k effects of a group are :math:`b_g \sim N(0, D R D)` with standard deviations on the diagonal
of D. The correlation matrix R = L Lᵀ is made of partial correlations :math:`c_{ij}`, j < i, that
may be any numbers between -1 and 1: row i of L is

.. math:: L_{ij} = c_{ij} \prod_{l<j} \sqrt{1 - c_{il}^2},\qquad
          L_{ii} = \prod_{l<i} \sqrt{1 - c_{il}^2}.

Those of the first effect are correlations. Under the LKJ(η) density of R they are independent,
(c + 1)/2 ~ Beta(a, a) with a = η + (k - 2 - j)/2 for j = 0, 1, …

Lewandowski, Kurowicka and Joe (2009), Generating random correlation matrices based on vines and
extended onion method, Journal of Multivariate Analysis 100, 1989–2001.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array

from ...execution.arguments import array, check_size, shown
from ...messages import InputError
from ...numerics.arrays import Array
from ..scales import natural, to_line
from .base import WIDE, Bounds, Hyperparameter, Precision, check_bounds


@dataclass(frozen=True, eq=False, repr=False)
class Effects(Precision):
    """See :func:`effects`."""

    groups: int
    names: tuple[str, ...]
    sigmas: Array
    partials: Array
    """Below the diagonal of a (k, k) array, row by row."""
    sigma_bounds: Bounds = WIDE

    def __post_init__(self) -> None:
        check_bounds("sigma_bounds", self.sigma_bounds, None)

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.groups * len(self.names)

    def root(self) -> Array:
        """D L, the lower root of the covariance of a group's effects."""
        return _roots(self.sigmas[None], self.partials[None])[0]

    def roots(self, values: Array) -> Array:
        k = len(self.names)
        if not values.shape[1]:
            return np.broadcast_to(self.root(), (len(values), k, k))
        return _roots(values[:, :k], values[:, k:])

    def matrix(self) -> csc_array:
        half = np.linalg.inv(self.root())
        k, block = len(self.names), half.T @ half
        rows = k * np.repeat(np.arange(self.groups), k)[:, None] + np.arange(k)  # of each column
        starts = k * np.arange(self.n + 1)
        data = np.tile(block.ravel(), self.groups)
        return csc_array((data, rows.ravel(), starts), shape=(self.n, self.n))

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        pairs = zip(*np.tril_indices(len(self.names), -1), strict=True)
        fixed = self.sigma_bounds == "fixed"
        sds = [Hyperparameter(f"sd({name})", 1, fixed) for name in self.names]
        both = [f"cor({self.names[j]},{self.names[i]})" for i, j in pairs]
        return sds + [Hyperparameter(name, 1, fixed, -1.0) for name in both]

    @property
    def _lows(self) -> Array:
        free = self.sigma_bounds != "fixed"
        return np.repeat([np.nan, -1.0], [free * self.sigmas.size, free * self.partials.size])

    @property
    def theta(self) -> Array:
        if self.sigma_bounds == "fixed":
            return np.zeros(0)
        return to_line(np.concatenate([self.sigmas, self.partials]), self._lows)

    @property
    def bounds(self) -> Array:
        close = (-0.9999, 0.9999)  # where correlations are searched for
        ends = [close if low == low else self.sigma_bounds for low in self._lows]
        return to_line(np.reshape(np.array(ends, float), (-1, 2)), self._lows[:, None])

    def clone_with_theta(self, theta: ArrayLike) -> Self:
        values = natural(array("theta", theta, (self._lows.size,)), self._lows)
        k = len(self.names)
        return replace(self, sigmas=values[:k], partials=values[k:]) if values.size else self

    def __repr__(self) -> str:
        sizes = ", ".join(f"{sigma:.6g}" for sigma in self.sigmas)
        return f"effects({self.groups} groups, {', '.join(self.names)}; sigma={sizes})"


def _roots(sigmas: Array, partials: Array) -> Array:
    """D L of rows of standard deviations (B, k) and partial correlations."""
    k = sigmas.shape[1]
    c = np.zeros((len(sigmas), k, k))
    rows, columns = np.tril_indices(k, -1)
    c[:, rows, columns] = partials
    left = np.ones((len(sigmas), k, k))
    np.cumprod(np.sqrt(1.0 - c * c)[:, :, :-1], axis=2, out=left[:, :, 1:])
    return sigmas[:, :, None] * (c + np.eye(k)) * left


def effects(
    groups: int,
    names: Sequence[str] = ("1",),
    sigma: ArrayLike = 1.0,
    cor: ArrayLike = 0.0,
    *,
    sigma_bounds: Bounds = WIDE,
) -> Effects:
    r"""Levels and slopes of groups: independent between groups, correlated within.

    The effects of a group stand side by side among the latent values, group after group. Free
    hyperparameters are ``sd(name)`` of each effect and ``cor(a,b)`` of each pair; from the second
    row on the latter are partial correlations given the earlier effects.

    Parameters
    ----------
    groups : int
    names : sequence of str
        Of the effects that each group has; ``("1", "age")`` for a level and a slope.
    sigma : float or one for each
        Their standard deviations.
    cor : float or one for each pair
        (Partial) correlations.
    sigma_bounds : pair of float or "fixed"
        Where standard deviations are searched for; ``"fixed"`` holds correlations too.

    Examples
    --------
    >>> clinics = effects(2, ("1", "age"), sigma=(1.0, 0.5), cor=0.6)
    >>> (clinics.root() @ clinics.root().T).round(2).tolist()
    [[1.0, 0.3], [0.3, 0.25]]
    >>> [p.name for p in clinics.hyperparameters]
    ['sd(1)', 'sd(age)', 'cor(1,age)']
    """
    check_size("groups", groups, 4)
    if isinstance(names, str) or not len(names) or len(set(names)) < len(names):
        raise InputError(f"names must be a list of different texts, got {shown(names)}")
    k = len(names)
    sigmas = np.broadcast_to(array("sigma", sigma, (), (k,)), (k,)).copy()
    if sigmas.min() <= 0.0:
        raise InputError(f"sigma must be positive, got {shown(sigma)}")
    pairs = k * (k - 1) // 2
    partials = np.broadcast_to(array("cor", cor, (), (pairs,)), (pairs,)).copy()
    if np.abs(partials).max(initial=0.0) >= 1.0:
        raise InputError(f"cor must be between -1 and 1, got {shown(cor)}")
    return Effects(groups, tuple(names), sigmas, partials, sigma_bounds)
