r"""Cavities: a Gaussian approximation without the site of one datum, for every datum.

.. math:: \tau_c = 1/\Sigma_{nn} - \tau,\qquad \nu_c = \mu_n/\Sigma_{nn} - \nu

EP matches its sites in them, and they are what all other data say of :math:`x_n`: under normal
noise exactly, else as well as EP's sites stand for likelihoods.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...gaussians.base import Gaussian
from ...numerics.arrays import Array, Flags


class Cavities(NamedTuple):
    """N(mean, var) of every datum, shape (N,)."""

    mean: Array
    var: Array
    ok: Flags
    """Whether the variance is positive; elsewhere mean and variance are those with all data."""


def cavities(q: Gaussian) -> Cavities:
    """Of every site of q."""
    return without_sites(q.mean, q.variances, q.nu, q.tau)


def without_sites(mu: Array, var: Array, nu: Array, tau: Array) -> Cavities:
    """The same from means and variances of predictors, and the sites."""
    cavity_precision = 1.0 / var - tau
    ok = cavity_precision > 1e-12 / var
    v = np.where(ok, 1.0 / np.where(ok, cavity_precision, 1.0), var)
    m = np.where(ok, v * (mu / var - nu), mu)
    return Cavities(m, v, ok)
