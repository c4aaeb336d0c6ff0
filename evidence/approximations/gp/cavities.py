r"""Cavities: a Gaussian approximation without the site of one datum, for every datum.

.. math:: \tau_c = 1/\Sigma_{nn} - \tau,\qquad \nu_c = \mu_n/\Sigma_{nn} - \nu

EP matches its sites in them, and they are what all other data say of :math:`x_n`: under normal
noise exactly, else as well as EP's sites stand for likelihoods. With :math:`\log \hat Z_i` the log
normaliser of a tilted distribution, EP's log Z of all data minus its log Z without datum i is

.. math:: \log p(y_i | y_{-i}) \approx \log \hat Z_i - \sum_{n \ne i} \log \int
          \frac{p(y_n|x_n)}{t_n(x_n)}\, q_{-i}(x_n)\, dx_n

where the other sites stay as they are. EP's log Z is stationary there, so what is missing is of
second order in how far they would move. The sum vanishes under normal noise.

Reference: M. Opper and O. Winther, Neural Comput. 12 (2000) 2655 (leave-one-out from cavities).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...gaussians.base import Gaussian, Sites
from ...models.latent import LatentModel
from ...numerics.arrays import Array, Flags, Indices


class Cavities(NamedTuple):
    """N(mean, var) of every datum, shape (N,)."""

    mean: Array
    var: Array
    ok: Flags
    """Whether the variance is positive; elsewhere mean and variance are those with all data."""


def cavities(mu: Array, var: Array, nu: Array, tau: Array) -> Cavities:
    """From means and variances of what the likelihoods see, and the sites."""
    cavity_precision = 1.0 / var - tau
    ok = cavity_precision > 1e-12 / var
    v = np.where(ok, 1.0 / np.where(ok, cavity_precision, 1.0), var)
    m = np.where(ok, v * (mu / var - nu), mu)
    return Cavities(m, v, ok)


def log_site(m: Array, v: Array, nu: Array, tau: Array) -> Array:
    """log of the integral of N(x; m, v) times the site exp(ν x - τ x²/2)."""
    spread = 1.0 + v * tau
    return 0.5 * (v * nu * nu + 2.0 * m * nu - tau * m * m) / spread - 0.5 * np.log(spread)


def changes_of_others(model: LatentModel, q: Gaussian, sites: Sites) -> Array:
    """The sum over all other data, for every datum, shape (N,)."""
    out, (c, nu, tau) = np.zeros(model.y.size), sites
    for i, n, covariance in _pairs(q):
        mu, var = q.mean, q.variances
        left = 1.0 - tau[i] * var[i]
        mean = mu[n] + covariance * (tau[i] * mu[i] - nu[i]) / left
        wider = var[n] + covariance**2 * tau[i] / left
        m, v, ok = cavities(mean, wider, nu[n], tau[n])
        log_z = model.likelihood.at(n).tilted(model.y[n], m, v)[0]
        each = log_z - c[n] - log_site(m, v, nu[n], tau[n])
        np.add.at(out, i, np.where(ok & (left > 0.0), each, 0.0))
    return out


def _pairs(
    q: Gaussian, *, alone: float = 0.03, together: int = 200_000
) -> Iterator[tuple[Indices, Indices, Array]]:
    """Data i, others n that depend on them, and their covariances, a block at a time.

    ``alone``: correlation below which data do not change each other's sites; ``together``: pairs
    of data at a time.
    """
    N, sd = q.tau.size, np.sqrt(q.variances)
    step = max(1, together // N)
    whole = None if q.prior.covariance is None else q.covariance
    for first in range(0, N, step):
        rows = np.arange(first, min(first + step, N))
        if whole is None:
            units = np.zeros((rows.size, N))
            units[np.arange(rows.size), rows] = 1.0
            block = np.array([q.solve(unit) for unit in units])
        else:
            block = whole[rows]
        near = np.abs(block) > alone * sd[rows, None] * sd
        near[np.arange(rows.size), rows] = False
        i, n = np.nonzero(near)
        yield rows[i], n, block[i, n]
