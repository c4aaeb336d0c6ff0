from __future__ import annotations

import numpy as np
import pytest
from problems import EVERY, covariance, small_model

import evidence as ev
from evidence.gaussians.dense import DensePrior


@pytest.mark.parametrize("likelihood", EVERY)
def test_mode_and_log_z_from_their_definitions(likelihood):
    model = small_model(likelihood, 8)
    fit = ev.fit_laplace(model)
    assert fit.converged
    assert not fit.warnings
    f, d1, d2, _ = model.likelihood.derivatives(fit.mean, model.y)
    precision = np.linalg.inv(model.K)
    gradient = d1 - precision @ (fit.mean - model.mean)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)
    hessian = precision - np.diag(d2)
    expected = (
        f.sum()
        + model.log_prior(fit.mean)
        + 0.5 * model.n * np.log(2 * np.pi)
        - 0.5 * np.linalg.slogdet(hessian)[1]
    )
    assert fit.logz == pytest.approx(expected, abs=1e-8)
    np.testing.assert_allclose(fit.cov, np.linalg.inv(hessian), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("likelihood", ["probit", "poisson(exposure=1.5)"])
def test_last_steps_make_no_new_factor(likelihood, monkeypatch):
    """The mode is as exact with the curvature of a step before; the mode's own is factorised."""
    model, taus = small_model(likelihood, 8), []
    make = DensePrior.with_sites

    def counting(prior, nu, tau, reuse=None):
        taus.append(tau)
        return make(prior, nu, tau, reuse)

    monkeypatch.setattr(DensePrior, "with_sites", counting)
    fit = ev.fit_laplace(model)
    assert len(taus) < fit.n_sweeps
    np.testing.assert_allclose(taus[-1], -model.likelihood.derivatives(fit.mean, model.y)[2])
    uphill = np.linalg.solve(model.K, fit.mean - model.mean)
    np.testing.assert_allclose(
        model.likelihood.derivatives(fit.mean, model.y)[1], uphill, atol=1e-6
    )


def test_large_amplitude_needs_the_line_search():
    model = ev.GPModel(K=1e6 * covariance(10), y=np.resize([1, -1, -1], 10))
    assert ev.fit_laplace(model).converged


def test_running_out_of_iterations_is_said():
    fit = ev.fit_laplace(small_model("poisson(exposure=1.5)", 8), max_iterations=1)
    assert not fit.converged
    assert "did not converge" in fit.warnings[0]


@pytest.mark.parametrize(
    ("likelihood", "mean"),
    [("poisson", 50.0), ("poisson", 720.0), ("gamma(shape=2)", -200.0), ("cloglog", 300.0)],
)
def test_a_prior_mean_far_from_all_data(likelihood, mean):
    """From where the likelihood is up to 1e300 times as curved as the prior: EP finds the same."""
    y = [1, -1, 1, -1] if likelihood == "cloglog" else [1, 2, 1, 3]
    model = ev.GPModel(
        [[0.0], [1.0], [2.0], [3.0]], y, "RBF(1.0)", likelihood=likelihood, mean=mean
    )
    fit = ev.fit_laplace(model)
    assert fit.converged
    assert not fit.warnings
    slope = model.likelihood.derivatives(fit.mean, model.y)[1]
    np.testing.assert_allclose(
        slope, np.linalg.solve(model.K, fit.mean - mean), rtol=1e-4, atol=1e-8
    )
    assert fit.logz == pytest.approx(ev.fit_ep(model).logz, abs=0.1)
