"""Gaussian processes with several modes whose log Z is a one-dimensional integral.

x = u 1 + e with u ~ N(0, var) and e ~ N(0, own I): given u the data are independent, so that Z is
an integral over u of products of integrals over e, both done on fine grids.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from evidence import GPModel
from evidence.models.likelihoods.base import Likelihood


class Truth(NamedTuple):
    model: GPModel
    logz: float
    grid: np.ndarray
    """Values of u,"""
    density: np.ndarray
    """and p(u | y) there, which sums to one."""


def common_factor(
    y, likelihood: str | Likelihood, var: float, own: float, n=4001, nodes=0
) -> Truth:
    """One number measured many times, with noise of any kind, and its truth.

    Where noise is narrower than e, a plain sum over so many ``nodes`` takes the place of a rule.
    """
    e, w = np.polynomial.hermite_e.hermegauss(60)
    if nodes:
        e = np.linspace(-10.0, 10.0, nodes)
        w = np.exp(-0.5 * e**2)
    y = np.asarray(y, float)
    model = GPModel(K=var * np.ones((y.size, y.size)) + own * np.eye(y.size), y=y,
                    likelihood=likelihood)  # fmt: skip
    u = np.linspace(-8.0, 8.0, n) * np.sqrt(var)
    near = (np.linspace(-1.0, 1.0, n) * (1.0 + 6.0 * np.sqrt(own)) + c for c in np.unique(y))
    u = np.unique(np.concatenate([u, *near]))
    log_p = -0.5 * u**2 / var - 0.5 * np.log(2.0 * np.pi * var)
    for one in y:
        at = (u[:, None] + np.sqrt(own) * e).ravel()
        ell = model.likelihood.log_prob(at, np.full(at.size, one)).reshape(u.size, -1)
        log_p += logsumexp(ell, axis=1, b=w / w.sum())
    log_p += np.log(np.gradient(u))
    logz = float(logsumexp(log_p))
    return Truth(model, logz, u, np.exp(log_p - logz))


def two_groups() -> Truth:
    """Two groups of data that contradict each other, equally strong."""
    y = np.repeat([-8.0, 8.0], 5)
    return common_factor(y, "student_t(df=3, scale=0.5)", 100.0, 1e-3)


def uneven_groups() -> Truth:
    """Five data near zero and seven elsewhere: one mode has most of the mass."""
    y = [-0.3, 0.1, 0.4, -0.2, 0.2, 6.1, 6.4, 5.8, -5.5, -5.9, 9.8, 10.3]
    return common_factor(y, "student_t(df=4, scale=0.5)", 25.0, 1e-2)
