r"""Autoregressive series of first order, :math:`x_t = \rho x_{t-1} + N(0, \sigma^2)`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csc_array, diags_array

from ...execution.arguments import check_size, number, shown
from ...messages import InputError
from ...numerics.arrays import Array
from .base import WIDE, Bounds, Combination, Combined, Parameters


@dataclass(frozen=True, eq=False, repr=False)
class AR1(Combined):
    """See :func:`ar1`."""

    parts: Combination
    """The first value, all values but the first, all but the last, neighbours."""
    rho: float
    sigma: float
    initial: float | str
    rho_bounds: Bounds
    sigma_bounds: Bounds

    parameters: ClassVar[Parameters] = {"rho": -1.0, "sigma": None}

    def __post_init__(self) -> None:
        if isinstance(self.initial, str) and self.initial != "stationary":
            raise InputError(
                f"initial must be 'stationary' or a variance, got {shown(self.initial)}"
            )
        if not isinstance(self.initial, str):
            number("initial", self.initial, above=0.0)
        super().__post_init__()

    def _checked(self, name: str, low: float | None) -> float:
        if name != "rho" or abs(number("rho", self.rho)) < 1.0:
            return super()._checked(name, low)
        if self.initial == "stationary" or not self._fixed("rho"):
            raise InputError(
                f"rho must be between -1 and 1, got {shown(self.rho)}; beyond, initial= must be a "
                'variance, and rho_bounds="fixed"'
            )
        return float(self.rho)

    def matrix(self) -> csc_array:
        noise = 1.0 / self.sigma**2
        stationary = self.initial == "stationary"
        first = noise * (1.0 - self.rho**2) if stationary else 1.0 / float(self.initial)
        return self.parts(first, noise, noise * self.rho**2, -noise * self.rho)

    def roots(self, values: Array, most: int = 64) -> Array | None:
        """Of all values together, up to so many: x_i is Σ_j ρ^(i-j) s_j z_j over j ≤ i."""
        if self.n > most:
            return None
        own = dict(zip(self._free[0], values.T, strict=True))
        rho, sigma = (own.get(n, np.full(len(values), getattr(self, n))) for n in self.parameters)
        scale = np.repeat(sigma[:, None], self.n, axis=1)
        if self.initial == "stationary":
            scale[:, 0] /= np.sqrt((1.0 - rho) * (1.0 + rho))
        else:
            scale[:, 0] = math.sqrt(float(self.initial))
        apart = np.abs(np.subtract.outer(np.arange(self.n), np.arange(self.n)))
        return np.tril(rho[:, None, None] ** apart) * scale[:, None]

    def __repr__(self) -> str:
        return self._described("ar1", str(self.n))


def ar1(
    n: int,
    rho: float,
    sigma: float = 1.0,
    initial: float | str = "stationary",
    *,
    rho_bounds: Bounds = (-0.9999, 0.9999),
    sigma_bounds: Bounds = WIDE,
) -> AR1:
    r"""A series :math:`x_t = \rho\, x_{t-1} + \sigma \varepsilon_t` with normal innovations.

    Its precision is tridiagonal. The free hyperparameters are ``rho`` and ``sigma``.

    Parameters
    ----------
    n : int
        Values.
    rho : float
        Correlation of neighbours (of a stationary series).
    sigma : float
        Standard deviation of the innovations, not of the values: the latter have
        :math:`\sigma/\sqrt{1-\rho^2}` in the long run.
    initial : "stationary" or float
        Variance of the first value; by default that of the long run.
    rho_bounds, sigma_bounds : pair of float or "fixed"
        Where they are searched for, if at all; those of ``rho`` are between -1 and 1.

    Examples
    --------
    >>> series = ar1(3000, rho=0.99, sigma=0.11**0.5, initial=1.0, rho_bounds="fixed")
    >>> series, [p.name for p in series.hyperparameters if not p.fixed]
    (ar1(3000, rho=0.99, sigma=0.331662), ['sigma'])
    """
    check_size("n", n, 4)
    first = np.arange(n) == 0
    neighbours = diags_array([np.ones(n - 1)] * 2, offsets=(-1, 1), shape=(n, n))
    diagonals = [diags_array(kept.astype(float)) for kept in (first, ~first, ~first[::-1])]
    parts = Combination.of(*diagonals, neighbours)
    return AR1(parts, rho, sigma, initial, rho_bounds, sigma_bounds)
