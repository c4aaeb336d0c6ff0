"""Laplace's method for several classes, against dense linear algebra and the binary model."""

from __future__ import annotations

import numpy as np
import pytest
from problems import covariance
from scipy.special import expit
from softmax_problems import dense, dense_curvature, small_model

import evidence as ev
from evidence.approximations.classes import reference as softmax_reference
from evidence.approximations.classes.laplace import expand
from evidence.approximations.classes.probabilities import expected_softmax, normal_nodes
from evidence.approximations.classes.reference import (
    factorise_curvature,
    log_normaliser,
    softmax_prior_reference,
    solve_mean,
)

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("n", "classes"), [(1, 2), (2, 3), (9, 4)])
def test_mode_covariance_and_evidence(n, classes, shared):
    model = small_model(n, classes, shared)
    fit = ev.fit_laplace(model)
    K, centred = dense(model), fit.mean - model.mean
    value, gradient = model.log_likelihood_gradient(fit.mean)
    np.testing.assert_allclose(np.linalg.solve(K, centred), gradient, atol=1e-9)
    W = dense_curvature(model.probabilities(fit.mean))
    logdet = np.linalg.slogdet(np.eye(model.n) + K @ W)[1]
    expected = value - 0.5 * centred @ np.linalg.solve(K, centred) - 0.5 * logdet
    assert fit.logz == pytest.approx(expected, abs=1e-9)
    cov = np.linalg.inv(np.linalg.inv(K) + W)
    np.testing.assert_allclose(fit.cov, cov, atol=1e-9)
    np.testing.assert_allclose(fit.var, np.diag(cov), atol=1e-9)
    assert fit.converged
    assert fit.warnings == ()


@pytest.mark.parametrize("s", [1.0, 0.4])
def test_sites_that_are_no_mode_are_normalised_too(s):
    """What stays exact where Newton stops early: mean and integral of prior times sites."""
    model = small_model(4)
    x = np.random.default_rng(0).standard_normal(model.n)
    sites = expand(model, x, s)
    factors = factorise_curvature(model, sites)
    mean, a = solve_mean(model, sites, factors)
    K, W, m = dense(model), dense_curvature(sites.pi, s), model.mean
    b = sites.b.ravel()
    np.testing.assert_allclose(sites.curvature(np.eye(model.n)), W, atol=1e-15)
    expected = np.linalg.solve(np.linalg.inv(K) + W, np.linalg.solve(K, m) + b)
    np.testing.assert_allclose(mean, expected, atol=1e-10)
    np.testing.assert_allclose(a, np.linalg.solve(K, mean - m), atol=1e-10)
    quadratic = b @ mean - m @ np.linalg.solve(K, m) + m @ np.linalg.solve(K, mean)
    logdet = np.linalg.slogdet(np.eye(model.n) + K @ W)[1]
    logz = log_normaliser(model, sites, mean, factors.half_logdet)
    assert logz == pytest.approx(sites.c + 0.5 * quadratic - 0.5 * logdet, abs=1e-10)
    f, g = model.log_likelihood_gradient(x)  # the expansion has the likelihood's value and slope
    assert sites.c + b @ x - 0.5 * x @ W @ x == pytest.approx(f, abs=1e-12)
    np.testing.assert_allclose(b - W @ x, g, atol=1e-13)


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


def test_two_classes_are_the_logistic_model():
    two, logistic = binary_pair()
    fit, binary = ev.fit_laplace(two), ev.fit_laplace(logistic)
    assert fit.logz == pytest.approx(binary.logz, abs=1e-8)
    first, second = fit.mean.reshape(2, -1)
    np.testing.assert_allclose(second - first, binary.mean, atol=1e-8)
    D = np.hstack([-np.eye(30), np.eye(30)])
    np.testing.assert_allclose(D @ fit.cov @ D.T, binary.cov, atol=1e-8)


def predicted(fit, k_star, k_diag, mean_new=0.0):
    """Moments of new latent values, (C, N*) and (N*, C, C), as ev.predict puts them together."""
    C = fit.model.n_classes
    cross = np.broadcast_to(k_star, (C, *k_star.shape[-2:]))
    diagonal = np.broadcast_to(k_diag, cross.shape[:2])
    mean = mean_new + np.einsum("ksn,kn->ks", cross, fit.dual)
    return mean, diagonal.T[:, :, None] * np.eye(C) - fit.explained(cross)


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
    fit = ev.fit_laplace(model)
    mean, cov = predicted(fit, model.K[0], np.diag(model.K[0]), model.mean.reshape(3, 5))
    np.testing.assert_allclose(mean.ravel(), fit.mean, atol=1e-9)
    np.testing.assert_allclose(np.einsum("nkk->kn", cov).ravel(), fit.var, atol=1e-9)
    mean, cov = predicted(softmax_prior_reference(model), model.K[0], np.diag(model.K[0]))
    assert not mean.any()
    np.testing.assert_allclose(cov[2], model.K[0, 2, 2] * np.eye(3))


def test_class_probabilities():
    """Two classes against Gauss–Hermite; the rule's own error is a few 1e-4."""
    rng = np.random.default_rng(3)
    mean, A = rng.standard_normal((2, 5)), rng.standard_normal((5, 2, 2))
    cov = A @ np.swapaxes(A, 1, 2)
    t, w = np.polynomial.hermite_e.hermegauss(100)
    d = np.array([1.0, -1.0])
    sd = np.sqrt(np.einsum("i,nij,j->n", d, cov, d))
    expected = expit((d @ mean)[:, None] + sd[:, None] * t) @ (w / w.sum())
    p = expected_softmax(mean.T[None], cov, normal_nodes(2, 1024))
    np.testing.assert_allclose(p[:, 0], expected, atol=2e-3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    finer = expected_softmax(mean.T[None], cov, normal_nodes(2, 2**14))
    np.testing.assert_allclose(finer[:, 0], expected, atol=2e-4)


def test_a_dense_covariance_has_its_limit(monkeypatch):
    monkeypatch.setattr(softmax_reference, "LARGEST_DENSE", 5)
    with pytest.raises(ValueError, match=r"all 3 x 2 = 6 latent values.*reference='prior'"):
        ev.fit_laplace(small_model(2)).eigh  # noqa: B018
