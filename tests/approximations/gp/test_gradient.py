"""The gradient of EP's log Z against finite differences of whole fits."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from problems import EVERY

import evidence as ev
from evidence.approximations.gp.gradient import log_evidence_gradient
from evidence.models.likelihoods import Gaussian

KERNELS = (
    "4.0 * RBF(1.5)",
    "4.0 * RBF([1.5, 0.8])",
    "2.0 * Matern([1.0, 2.0], nu=1.5) + WhiteKernel(0.3)",
    "2.0 * RBF(2.0) * Matern(1.3, nu=2.5) + 0.2 * DotProduct(0.5)",
    "(1.5 * RBF(1.2) + 0.4) ** 2 + 0.3 * Matern(2.0, nu=0.5)",
)
BAR = 1e-6


def build(likelihood, kernel, n=9, **words):
    X = np.random.default_rng(5).normal(size=(n, 2))
    y = np.resize(EVERY[likelihood], n) if likelihood in EVERY else X[:, 0]
    return ev.GPModel(X, y, kernel, likelihood=likelihood, **words)


def by_differences(model, h=0.01):
    """Fourth order: the error is h⁴/30 of a fifth derivative, and 1e-11/h."""
    theta = model.hyperparameters.theta
    rows = []
    for p in range(theta.size):
        e = h * np.eye(theta.size)[p]
        f = {j: ev.fit_ep(model.at(theta + j * e), tol=1e-11).logz for j in (-2, -1, 1, 2)}
        rows.append((f[-2] - 8 * f[-1] + 8 * f[1] - f[2]) / (12 * h))
    return np.array(rows)


def check(model):
    got = log_evidence_gradient(ev.fit_ep(model, tol=1e-11))
    exact = by_differences(model)
    assert got.shape == exact.shape
    assert np.max(np.abs(got - exact) / np.linalg.norm(exact)) < BAR


@pytest.mark.parametrize(
    ("likelihood", "kernel"), list(itertools.zip_longest(EVERY, KERNELS, fillvalue=KERNELS[0]))
)
def test_every_likelihood_and_every_kernel(likelihood, kernel):
    check(build(likelihood, kernel, mean=np.linspace(-0.5, 0.7, 9)))


@pytest.mark.slow
@pytest.mark.parametrize(("likelihood", "kernel"), list(itertools.product(EVERY, KERNELS)))
def test_every_likelihood_with_every_kernel(likelihood, kernel):
    check(build(likelihood, kernel, mean=np.linspace(-0.5, 0.7, 9)))


def test_negative_site_precisions():
    X = np.linspace(0.0, 3.0, 8)[:, None]
    y = [0.1, 0.2, 8.0, 0.1, 0.0, -0.1, 0.3, -5.0]
    kernel, robust = "2.0 * RBF(1.5) + WhiteKernel(0.1)", "student_t(df=3, scale=0.1)"
    model = ev.GPModel(X, y, kernel, likelihood=robust, mean=0.3)
    assert ev.fit_ep(model).sites.tau.min() < 0.0
    check(model)


def test_the_jitter_follows_the_kernel():
    """With a jitter of 0.3 leaving its dependence on θ out would show at once."""
    check(build("probit", "4.0 * RBF(1.5) + DotProduct(1.0)", jitter=0.3))


@pytest.mark.parametrize("noise", [0.7, 1e-5])
def test_gaussian_likelihood_has_a_closed_form(noise):
    """1e-5, whose sites are ten orders stronger than the prior, is scikit-learn's alpha."""
    model = build(
        f"gaussian(noise_std={noise})", "4.0 * RBF(1.5) + WhiteKernel(0.1)", n=30, jitter=0.0
    )
    R = np.linalg.inv(model.K + noise**2 * np.eye(30))
    a = R @ model.y
    exact = noise**2 * (a @ a - np.trace(R))
    got = log_evidence_gradient(ev.fit_ep(model))
    assert got[3] == pytest.approx(exact, rel=1e-8)
    dK = 0.1 * np.eye(30)
    assert got[2] == pytest.approx(0.5 * (a @ dK @ a - np.sum(R * dK)), rel=1e-8)


def test_fixed_kernel_and_given_covariance():
    fixed = build("gaussian(noise_std=0.7)", 'ConstantKernel(2.0, "fixed") * RBF(1.0, "fixed")')
    given = ev.GPModel(K=fixed.K, y=fixed.y, likelihood="gaussian(noise_std=0.7)")
    one = log_evidence_gradient(ev.fit_ep(fixed))
    assert one.shape == (1,)
    np.testing.assert_allclose(one, log_evidence_gradient(ev.fit_ep(given)), rtol=1e-10)
    check(given)


@dataclass(frozen=True)
class Steep(Gaussian):
    """A likelihood of the user's, with other names and quadrature in place of closed forms."""

    sharpness: float = 1.0

    name: ClassVar[str] = "steep"
    free: ClassVar[Mapping[str, tuple[float, float]]] = {"sharpness": (1e-3, 1e3)}

    def parameters(self, like):
        return (np.asarray(self.sharpness**-0.5),)

    def tilted(self, y, m, v):
        return super(Gaussian, self).tilted(y, m, v)


def test_a_likelihood_of_the_users_own():
    model = build(Steep(sharpness=2.0), "2.0 * RBF(1.0)")
    assert model.hyperparameters.names[-1] == "likelihood__sharpness"
    check(model)
    noise = build("gaussian", "2.0 * RBF(1.0)").at({"noise_std": 0.5**0.5})
    got = log_evidence_gradient(ev.fit_ep(noise))
    got[-1] *= -0.5
    np.testing.assert_allclose(log_evidence_gradient(ev.fit_ep(model)), got, rtol=1e-7)


def test_errors():
    model = build("probit", "2.0 * RBF(1.0)")
    with pytest.raises(ValueError, match="EP only, got the laplace"):
        log_evidence_gradient(ev.fit_laplace(model))
    with pytest.raises(ValueError, match="no free hyperparameters"):
        log_evidence_gradient(ev.fit_ep(ev.GPModel(K=np.eye(2), y=[1, -1])))
