"""Laplace and EP of several predictors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

from evidence import PredictorsModel, SparseModel, fit_ep, fit_laplace
from evidence.approximations.gp.gradient import log_evidence_gradient
from evidence.approximations.predictors.ep import fit_block_ep, match
from evidence.approximations.predictors.laplace import fit_block_laplace
from evidence.models.likelihoods import Gaussian
from evidence.models.likelihoods.predicted import Predicted


def noisy():
    rng = np.random.default_rng(1)
    x = np.linspace(0.0, 1.0, 6)
    y = np.sin(5 * x) + np.exp(-1.0 + x) * rng.normal(size=6)
    kernels = {"mu": "2.0 * RBF(0.3)", "sigma": "0.5 * RBF(0.5)"}
    return PredictorsModel(x, y, kernels, mean={"sigma": -0.5})


def test_laplace_is_at_the_mode():
    model = noisy()
    fit = fit_block_laplace(model)
    assert fit.converged
    assert not fit.warnings
    eta = fit.mean.reshape(1, 2, 6)
    slope = model.likelihood.slopes(model.y, eta)[1].ravel()
    pull = model.prior.solve(fit.mean - model.mean)
    np.testing.assert_allclose(slope, pull, atol=1e-4)
    # a curvature with a negative eigenvalue, and a posterior that has a maximum nevertheless
    assert np.linalg.eigvalsh(fit.sites.W).min() < -0.01
    height = model.log_likelihood(fit.mean) + model.log_prior(fit.mean)
    half = 0.5 * np.linalg.slogdet(fit.cov)[1] + 0.5 * fit.mean.size * np.log(2 * np.pi)
    assert fit.logz == pytest.approx(float(height + half), abs=1e-5)


def test_moments_match_where_ep_ends():
    model = noisy()
    fit = fit_block_ep(model)
    assert fit.converged
    assert match(model, fit.gaussian)[1] < 1e-4
    assert fit_block_ep(model, start=fit.sites).n_sweeps <= 2
    early = fit_block_ep(model, max_sweeps=2)  # whose constants are those of its sites, too
    for q in (fit, early):
        np.testing.assert_allclose(q.sites.c, match(model, q.gaussian)[0].c, atol=1e-4)


def test_ep_without_moments_has_not_converged():
    """All weight of the nodes was on one of them: that was called a fixed point. And whose number
    it is that nobody should trust."""
    model = PredictorsModel(y=[3.0], K={"mu": [[1e4]], "sigma": [[25.0]]})
    fit = fit_block_ep(model)
    assert not fit.converged
    assert "EP's own log Z is not to be trusted" in fit.warnings[0]
    assert fit.logz < 0.0
    assert fit.lost < 1e-6


def test_gradient_in_hyperparameters():
    """Of kernels and of what is left of the likelihood, against fits beside it."""
    x = np.linspace(0.0, 1.0, 6)
    kernels = {"mu": "1.0 * RBF(0.3)", "zi": "0.5 * RBF(0.5, 'fixed')"}
    lik = "zero_inflated_negative_binomial"
    model = PredictorsModel(x, [0, 3, 0, 5, 2, 9], kernels, likelihood=lik)
    found, theta = log_evidence_gradient(fit_ep(model)), model.hyperparameters.theta
    assert model.hyperparameters.names[-1] == "likelihood__shape"
    for i, step in enumerate(0.05 * np.eye(theta.size)):
        up, down = (fit_block_ep(model.at(theta + s), tol=1e-6).logz for s in (step, -step))
        assert found[i] == pytest.approx((up - down) / 0.1, abs=5e-3)


@pytest.mark.parametrize("fit", [fit_laplace, fit_ep])
def test_public_fits_take_these_models(fit):
    reference = fit(noisy())
    assert reference.converged
    assert reference.mean.shape == (12,)


def test_noise_that_is_known_leaves_a_closed_form():
    rng = np.random.default_rng(0)
    N, s = 5, 0.3
    X = rng.normal(size=(N, 2))
    designs = [np.column_stack([X, np.zeros(N)]), np.column_stack([np.zeros((N, 2)), np.ones(N)])]
    y = X @ [1.0, -0.5] + s * rng.normal(size=N)
    offset = np.log([[1.0], [s]]) * np.ones((2, N))
    Q = sp.diags_array([1.0, 1.0, 1e10], format="csc")
    lik = Predicted(Gaussian(), ("noise_std",))
    model = SparseModel(Q, y, A=designs, likelihood=lik, offset=offset)
    truth = multivariate_normal(np.zeros(N), X @ X.T + s**2 * np.eye(N)).logpdf(y)
    for fit in (fit_laplace(model), fit_ep(model)):
        assert fit.converged
        assert fit.logz == pytest.approx(truth, abs=1e-5)
        np.testing.assert_allclose(fit.mean[2], 0.0, atol=1e-6)
