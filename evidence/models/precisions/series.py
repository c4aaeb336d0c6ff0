r"""Matérn processes at irregular times as Markov chains: block-tridiagonal precisions.

A Matérn process of smoothness ν = d - 1/2 solves :math:`(1 + \frac{1}{\lambda}
\frac{\mathrm d}{\mathrm dt})^d f = W` with :math:`\lambda = \sqrt{2\nu}/l`. Its state
:math:`z = (f, f'/\lambda, …)`, d numbers, is a Markov chain with :math:`s = \lambda\,\Delta t`

.. math:: z_{t+1} = F z_t + N(0, \sigma^2 V),\quad
          F = e^{-s} \sum_{k<d} (A + I)^k \frac{s^k}{k!},\quad
          V_{ij} = \int_0^s h_i(u) h_j(u) e^{-2u} \mathrm du,

where A is the companion matrix of :math:`(1 + x)^d` and the h_i are polynomials. Integrals of
:math:`u^k e^{-2u}` are incomplete gamma functions: V keeps its digits for short gaps.

Reference: J. Hartikainen and S. Särkkä, Kalman filtering and smoothing solutions to temporal
Gaussian process regression models, MLSP (2010).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csc_array, csr_array

from ...execution.arguments import array, shown
from ...messages import InputError
from ...numerics.arrays import Array
from ..kernels.statespace import matern
from .base import WIDE, Bounds, Parameters, Precision, selection


@dataclass(frozen=True, eq=False, repr=False)
class MaternSeries(Precision):
    """See :func:`matern_series`."""

    gaps: Array
    """Between distinct times."""
    nu: float
    length: float
    sigma: float
    length_bounds: Bounds
    sigma_bounds: Bounds
    design: csr_array | None = None

    parameters: ClassVar[Parameters] = {"length": None, "sigma": None}

    @property
    def n(self) -> int:  # type: ignore[override]
        return (self.gaps.size + 1) * round(self.nu + 0.5)

    def matrix(self) -> csc_array:
        d = round(self.nu + 0.5)
        s = self.gaps * (math.sqrt(2.0 * self.nu) / self.length)
        stationary, F, V = matern(self.nu, s)
        W = _inverse(V)
        WF = W @ F
        diagonal = np.concatenate([_inverse(stationary[None]), W])
        diagonal[:-1] += np.swapaxes(F, 1, 2) @ WF
        diagonal = 0.5 * (diagonal + np.swapaxes(diagonal, 1, 2))
        at = np.arange(self.n).reshape(-1, d)
        blocks = [(diagonal, at, at), (-WF, at[1:], at[:-1])]
        blocks += [(-np.swapaxes(WF, 1, 2), at[:-1], at[1:])]
        entries = [np.broadcast_arrays(B, i[:, :, None], j[:, None, :]) for B, i, j in blocks]
        data, i, j = (np.concatenate([e[k].ravel() for e in entries]) for k in range(3))
        return coo_array((data / self.sigma**2, (i, j)), shape=(self.n, self.n)).tocsc()

    def __repr__(self) -> str:
        size = f"{self.gaps.size + 1} times"
        return self._described("matern_series", size, f"nu={self.nu:g}")


def _inverse(V: Array) -> Array:
    """V⁻¹ of matrices whose rows have very different sizes."""
    root = 1.0 / np.sqrt(np.diagonal(V, axis1=1, axis2=2))
    scale = root[:, :, None] * root[:, None, :]
    return scale * np.linalg.inv(V * scale)


def matern_series(
    times: ArrayLike,
    nu: float,
    length: float,
    sigma: float = 1.0,
    *,
    length_bounds: Bounds = WIDE,
    sigma_bounds: Bounds = WIDE,
) -> MaternSeries:
    """A Matérn process in time, exactly, at a cost that grows like the number of times.

    The same distribution of values as with scikit-learn's ``sigma**2 * Matern(length, nu=nu)``.
    There are ν + 1/2 latent values per distinct time, the process and its derivatives in units
    of √(2ν)/length; data at equal times share them. ``design`` picks the process for each datum.

    Precisions of smooth processes lose digits where times are close. For equal gaps, covariances
    are those of the kernel to 1e-9 at gaps of length/10, 3e-6 at length/50 and 6e-4 at length/100
    with nu = 5/2; to 5e-9 at length/100 with nu = 3/2; to all digits with nu = 1/2.

    Parameters
    ----------
    times : array (N,)
        Of the data, in order; equal ones are allowed.
    nu : float
        Smoothness: 1/2, 3/2 or 5/2.
    length : float
        Length scale, in the units of ``times``.
    sigma : float
        Standard deviation of the process.
    length_bounds, sigma_bounds : pair of float or "fixed"
        Where they are searched for, if at all.

    Examples
    --------
    >>> series = matern_series([0.0, 0.4, 0.4, 2.0], nu=1.5, length=0.7)
    >>> series, series.n, series.design.indices
    (matern_series(3 times, nu=1.5, length=0.7, sigma=1), 6, array([0, 2, 2, 4]))
    """
    at = array("times", times, ("N",))
    gaps = np.diff(at)
    if (gaps < 0.0).any():
        late = int(np.flatnonzero(gaps < 0.0)[0])
        raise InputError(
            f"times must be in order, got {at[late]:g} before {at[late + 1]:g}; sort the data"
        )
    if nu not in (0.5, 1.5, 2.5):
        raise InputError(f"nu must be 1/2, 3/2 or 5/2, got {shown(nu)}")
    d = round(nu + 0.5)
    state = np.concatenate([[0], np.cumsum(gaps > 0.0)])
    design = None if d == 1 and (gaps > 0.0).all() else selection(d * state, d * (state[-1] + 1))
    bounds = (length_bounds, sigma_bounds)
    return MaternSeries(gaps[gaps > 0.0], float(nu), length, sigma, *bounds, design)
