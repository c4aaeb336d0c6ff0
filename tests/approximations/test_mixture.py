"""Shares of a mixture: densities that sum to one, with their gradients."""

from __future__ import annotations

import numpy as np
import pytest
from mode_problems import two_groups, uneven_groups
from problems import small_model
from scipy import stats

from evidence import InputError, Mixture, fit_ep, fit_laplace
from evidence.approximations.gp.modes import fit_mixture
from evidence.approximations.reference import Marginals, prior_reference


@pytest.fixture(scope="module")
def mixture():
    model = small_model("student_t(df=4, scale=0.5)")
    return Mixture([fit_ep(model), fit_laplace(model), prior_reference(model)], [3.0, 2.0, 1.0])


@pytest.fixture
def x(mixture):
    rng = np.random.default_rng(0)
    return rng.multivariate_normal(mixture.model.mean, mixture.model.K, size=50)


def test_shares_are_those_of_their_claims(mixture, x):
    f = np.array([
        w * stats.t(12, c.mean, np.sqrt(c.var)).pdf(x).prod(axis=1)
        for w, c in zip(mixture.weights, mixture.components, strict=True)
    ])  # fmt: skip
    for c, component in enumerate(mixture.components):
        np.testing.assert_allclose(np.exp(component.share.log(x)), f[c] / f.sum(axis=0), 1e-7)


def test_claims_on_what_is_very_far_away():
    """Products of so many large factors would overflow."""
    n, t = 60, stats.t(12)
    x = np.linspace(1e8, 1e9, n)[None]
    claim = Marginals(np.zeros(n), np.ones(n))
    value, slope = claim.log_and_gradient(x)
    constant = n * t.logpdf(0.0)
    np.testing.assert_allclose(value, [t.logpdf(x).sum() - constant], 1e-12)
    np.testing.assert_allclose(slope, -13.0 * x / (12.0 + x * x), 1e-12)


def test_densities_are_those_of_its_gaussians(mixture, x):
    parts = mixture.log_parts(x) + mixture.model.log_prior(x)[:, None]
    q = np.array([
        w * stats.multivariate_normal(c.mean, c.cov).pdf(x)
        for w, c in zip(mixture.weights, mixture.components, strict=True)
    ])  # fmt: skip
    np.testing.assert_allclose(np.exp(parts), q.T, 1e-7)


def test_gradients_are_derivatives(mixture, x):
    for component in mixture.components:
        log_share, gradient = component.share.log_and_gradient(x)
        np.testing.assert_allclose(log_share, component.share.log(x), atol=1e-12)
        for i in range(x.shape[1]):
            step = 1e-6 * np.eye(x.shape[1])[i]
            ahead, behind = component.share.log(x + step), component.share.log(x - step)
            np.testing.assert_allclose(gradient[:, i], (ahead - behind) / 2e-6, atol=1e-6)


def test_weights_are_positive(mixture):
    with pytest.raises(InputError, match="weights"):
        Mixture(mixture.components, [1.0, 0.0, 1.0])
    with pytest.raises(InputError, match="weights"):
        Mixture(mixture.components, [1.0, 1.0])


def test_it_says_where_the_posterior_is():
    """Several modes: a doubt."""
    mixture = fit_mixture(two_groups().model)
    np.testing.assert_allclose(mixture.probable, [0.5, 0.5, 0.0], atol=1e-6)
    one, doubts = mixture.heaviest()
    assert one.share is None
    assert [doubt.code for doubt in doubts] == ["several-modes"]


@pytest.mark.slow
def test_one_mode_that_has_nearly_all_is_no_doubt():
    assert not fit_mixture(uneven_groups().model).heaviest()[1]
