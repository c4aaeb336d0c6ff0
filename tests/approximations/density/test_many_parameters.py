"""Fits in many dimensions, where no weights are even: what annealing starts from."""

from __future__ import annotations

import numpy as np
import pytest
from covering import seldom
from scipy.special import expit

import evidence as ev
from evidence.approximations.density.fit import TRIAL, _adapt, _near, _weights
from evidence.approximations.density.fitted import fit_density
from evidence.approximations.density.modes import fit_density_laplace
from evidence.approximations.density.policy import EFFORTS
from evidence.approximations.density.reference import DensityReference
from evidence.approximations.density.verdict import judged


def regression(dim: int, n: int) -> ev.DensityModel:
    """Logistic, coefficients N(0, 9)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, dim)) / np.sqrt(dim)
    y = np.where(rng.random(n) < expit(X @ rng.normal(0.0, 3.0, dim)), 1.0, -1.0)
    return ev.DensityModel(
        lambda b: -np.logaddexp(0.0, -y * (b @ X.T)).sum(axis=1), dim,
        grad=lambda b: (expit(-y * (b @ X.T)) * y) @ X,
        prior=ev.GaussianPrior(np.zeros(dim), 9.0), vectorized=True,
    )  # fmt: skip


def student(dim: int, nu: float) -> ev.DensityModel:
    """Multivariate t under a wide normal prior."""
    return ev.DensityModel(
        lambda x: -0.5 * (nu + dim) * np.log1p(np.sum(x * x, axis=1) / nu), dim,
        grad=lambda x: -(nu + dim) * x / (nu + np.sum(x * x, axis=1, keepdims=True)),
        prior=ev.GaussianPrior(np.zeros(dim), 100.0), vectorized=True,
    )  # fmt: skip


def one_heavy(dim: int) -> ev.DensityModel:
    """A Cauchy coordinate beside others with light tails."""

    def log_likelihood(x):
        rest = x[:, 1:]
        return -np.log1p(x[:, 0] ** 2) - 0.01 * np.sum(rest**4 + 50.0 * (rest - 1.0) ** 2, axis=1)

    def grad(x):
        rest = x[:, 1:]
        first = -2.0 * x[:, :1] / (1.0 + x[:, :1] ** 2)
        return np.column_stack([first, -0.04 * rest**3 - (rest - 1.0)])

    return ev.DensityModel(
        log_likelihood, dim, grad=grad, prior=ev.GaussianPrior(np.zeros(dim), 100.0),
        vectorized=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "near"),
    seldom(
        [(regression(80, 320), True), (student(50, 10.0), False), (one_heavy(40), False)], 0, 1
    ),
    ids=["regression", "heavy tails", "one heavy tail"],
)
def test_heavy_tails_are_not_a_little_in_each(model, near):
    q = fit_density_laplace(model)
    log_w, u = _weights(q, np.random.default_rng(0), 8192)
    assert log_w.std() < 5.0
    assert _near(q, log_w, u) == near


@pytest.mark.slow
def test_many_coefficients_are_annealed_from_their_mode():
    """Draws of Laplace's Gaussian are worth next to nothing, and the prior is far away."""
    fit = fit_density(regression(50, 100), policy=EFFORTS["frugal"])
    assert judged(_weights(fit, np.random.default_rng(0), TRIAL)[0]).share < 0.05
    assert fit.name == "fitted"
    assert not fit.warnings


@pytest.mark.slow
def test_many_children_are_learnt_some_at_a_time():
    """A funnel of twenty coordinates, of which no set of draws shows all children."""
    model = ev.examples.funnel(19).model
    start = DensityReference("fitted", model, np.zeros(20), 9.0 * np.eye(20), 0.0)
    fit = _adapt(start, np.random.default_rng(1))
    assert fit is not None
    assert fit.scales.parents.tolist() == [0]
    verdict = judged(_weights(fit, np.random.default_rng(2), TRIAL)[0])
    assert verdict.share > 0.5
    assert abs(verdict.logz) < 0.05
