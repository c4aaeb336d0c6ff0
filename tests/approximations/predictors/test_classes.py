"""Approximations for several classes, against dense linear algebra and the binary model."""

from __future__ import annotations

import numpy as np
import pytest
from problems import covariance
from scipy.special import expit
from softmax_problems import dense, dense_curvature, small_model

import evidence as ev
from evidence.approximations.predictors import reference as block_reference
from evidence.approximations.predictors.averaged import fit_averaged, normal_nodes
from evidence.approximations.predictors.ep import fit_block_ep
from evidence.approximations.predictors.laplace import tangent
from evidence.approximations.predictors.reference import block_prior_reference
from evidence.gaussians.blocks import BlockGaussian
from evidence.gaussians.fields import ContrastGaussian
from evidence.models.likelihoods.softmax import Softmax
from evidence.prediction.classes import expected_probabilities
from evidence.prediction.mixture import mixture_at
from evidence.prediction.points import Points

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("n", "classes"), [(1, 2), (2, 3), (9, 4)])
def test_mode_covariance_and_evidence(n, classes, shared):
    model = small_model(n, classes, shared)
    fit = ev.fit_laplace(model)
    K, centred = dense(model), fit.mean - model.mean
    value, gradient = model.likelihood.slopes(model.observed, fit.mean.reshape(classes, n))
    np.testing.assert_allclose(np.linalg.solve(K, centred), gradient.ravel(), atol=1e-9)
    W = dense_curvature(model.probabilities(fit.mean))
    logdet = np.linalg.slogdet(np.eye(model.n) + K @ W)[1]
    expected = value.sum() - 0.5 * centred @ np.linalg.solve(K, centred) - 0.5 * logdet
    assert fit.logz == pytest.approx(expected, abs=1e-9)
    cov = np.linalg.inv(np.linalg.inv(K) + W)
    np.testing.assert_allclose(fit.cov, cov, atol=1e-9)
    np.testing.assert_allclose(fit.var, np.diag(cov), atol=1e-9)
    assert fit.converged
    assert fit.warnings == ()


@pytest.mark.parametrize("s", [1.0, 0.4])
def test_sites_that_are_no_mode_are_normalised_too(s):
    """What is factorised class by class is what a matrix of all of them says."""
    model = small_model(4)
    x = np.random.default_rng(0).standard_normal(model.n)
    sites = tangent(model.prior, x, model.likelihood.expand(model.observed, x.reshape(3, 4)))
    sites = sites._replace(W=s * sites.W, pi=s * sites.pi)
    q, dense_q = model.prior.with_blocks(sites), BlockGaussian(model.prior, sites)
    assert isinstance(q, ContrastGaussian)
    for name in ("mean", "dual", "covariance", "blocks", "variances", "inner"):
        np.testing.assert_allclose(getattr(q, name), getattr(dense_q, name), atol=1e-9)
    assert q.log_normaliser(sites.c) == pytest.approx(dense_q.log_normaliser(sites.c), abs=1e-10)
    W = dense_curvature(model.probabilities(x) * s, s)
    np.testing.assert_allclose(sites.times_W(np.eye(12).reshape(12, 3, 4)).reshape(12, 12), W)
    if s == 1.0:  # the expansion has the likelihood's value and slope
        f, g = model.likelihood.slopes(model.observed, x.reshape(3, 4))
        assert sites.log(x.reshape(3, 4)).sum() == pytest.approx(f.sum(), abs=1e-12)
        np.testing.assert_allclose(sites.slope(x.reshape(3, 4)), g, atol=1e-13)


def test_averages_over_q_are_where_it_ends():
    """Slopes and traces of curvatures, by other nodes; and log Z is a bound that is close."""
    model = small_model(6, classes=4)
    q = fit_averaged(model)
    assert q.name == "averaged"
    assert q.converged
    z = np.random.default_rng(0).standard_normal((20_000, 4))
    root = np.linalg.cholesky(q.gaussian.blocks)
    eta = q.gaussian.mean.reshape(4, 6) + np.einsum("npq,mq->mpn", root, z)
    p = model.likelihood.probabilities(eta)
    slope = (np.arange(4)[:, None] == model.observed) - p.mean(axis=0)
    np.testing.assert_allclose(q.gaussian.dual.reshape(4, 6), slope, atol=0.02)
    trace = np.sum(p * (1.0 - p), axis=1).mean(axis=0)
    np.testing.assert_allclose(np.einsum("npp->n", q.sites.W), trace, atol=0.02)
    long = ev.log_evidence(model, n_particles=512, random_seed=0, progressbar=False)
    assert -0.5 < q.logz - long.logz < 3.0 * long.logz_se


def test_early_stop_is_told():
    fit = ev.fit_laplace(small_model(5), max_iterations=1)
    assert not fit.converged
    assert "did not converge in 1 iterations" in fit.warnings[0]
    with pytest.raises(ValueError, match="max_iterations must be"):
        ev.fit_laplace(small_model(2), max_iterations=0)


def binary_pair(n=30):
    """Two classes with prior K each, and the logistic model of their difference."""
    K = covariance(n, 3.0, 2.0)
    y = np.where(np.random.default_rng(1).random(n) < 0.5, 1, -1)
    two = ev.SoftmaxModel(K=K, y=y, mean=[0.1, 0.4])
    return two, ev.GPModel(K=2.0 * K, y=y, likelihood="logit", mean=0.3)


def test_ep_of_two_classes_is_that_of_the_logistic_model():
    two, logistic = binary_pair()
    assert fit_block_ep(two).logz == pytest.approx(ev.fit_ep(logistic).logz, abs=2e-3)


def test_two_classes_are_the_logistic_model():
    two, logistic = binary_pair()
    fit, binary = ev.fit_laplace(two), ev.fit_laplace(logistic)
    assert fit.logz == pytest.approx(binary.logz, abs=1e-8)
    first, second = fit.mean.reshape(2, -1)
    np.testing.assert_allclose(second - first, binary.mean, atol=1e-8)
    D = np.hstack([-np.eye(30), np.eye(30)])
    np.testing.assert_allclose(D @ fit.cov @ D.T, binary.cov, atol=1e-8)


def predicted(fit, k_star, k_diag, mean_new):
    """Moments of new latent values, (C, N*) and (N*, C, C), as ev.predict puts them together."""
    C = fit.model.n_classes
    n = k_star.shape[-2]
    points = Points(np.broadcast_to(mean_new, (C, n)), None, k_star, k_diag)
    mean, cov = mixture_at(fit.model, fit, points).at(slice(None))
    return mean[:, 0], cov


def test_prediction_of_new_points():
    model = small_model(7)
    rng = np.random.default_rng(2)
    fit, n_new, C = ev.fit_laplace(model), 3, 3
    k_star, k_diag = rng.standard_normal((C, n_new, 7)), 30.0 + rng.random((C, n_new))
    found_mean, found_cov = predicted(fit, k_star, k_diag, np.arange(3.0)[:, None])
    K = dense(model)
    R = np.linalg.inv(K) - np.linalg.inv(K) @ fit.cov @ np.linalg.inv(K)
    for s in range(n_new):
        cross = np.zeros((C, C, 7))
        cross[np.arange(C), np.arange(C)] = k_star[:, s]
        cross = cross.reshape(C, -1)
        mean = np.arange(3.0) + cross @ np.linalg.solve(K, fit.mean - model.mean)
        np.testing.assert_allclose(found_mean[:, s], mean, atol=1e-9)
        cov = np.diag(k_diag[:, s]) - cross @ R @ cross.T
        np.testing.assert_allclose(found_cov[s], cov, atol=1e-9)


def test_prediction_at_the_data_is_the_posterior():
    model = small_model(5, shared=True)
    fit, K = ev.fit_laplace(model), model.covariances
    diag = np.diagonal(K, axis1=1, axis2=2)
    mean, cov = predicted(fit, K, diag, model.mean.reshape(3, 5))
    np.testing.assert_allclose(mean.ravel(), fit.mean, atol=1e-9)
    np.testing.assert_allclose(np.einsum("nkk->kn", cov).ravel(), fit.var, atol=1e-9)
    mean, cov = predicted(block_prior_reference(model), K, diag, 0.0)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(cov[2], model.K[0, 2, 2] * np.eye(3), atol=1e-12)


def test_class_probabilities():
    """Two classes against Gauss–Hermite; the rule's own error is a few 1e-4."""
    rng = np.random.default_rng(3)
    mean, A = rng.standard_normal((2, 5)), rng.standard_normal((5, 2, 2))
    cov = A @ np.swapaxes(A, 1, 2)
    lik = Softmax(("a", "b"))
    t, w = np.polynomial.hermite_e.hermegauss(100)
    d = np.array([1.0, -1.0])
    sd = np.sqrt(np.einsum("i,nij,j->n", d, cov, d))
    expected = expit((d @ mean)[:, None] + sd[:, None] * t) @ (w / w.sum())
    p = expected_probabilities(lik, mean[:, None], cov, normal_nodes(2, 1024))
    np.testing.assert_allclose(p[:, 0], expected, atol=2e-3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    finer = expected_probabilities(lik, mean[:, None], cov, normal_nodes(2, 2**14))
    np.testing.assert_allclose(finer[:, 0], expected, atol=2e-4)


def test_a_dense_covariance_has_its_limit(monkeypatch):
    monkeypatch.setattr(block_reference, "LARGEST_DENSE", 5)
    with pytest.raises(ValueError, match=r"couples 6 latent values.*reference='prior'"):
        ev.fit_laplace(small_model(2)).eigh  # noqa: B018
