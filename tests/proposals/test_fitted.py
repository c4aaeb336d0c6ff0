"""Proposals fitted to draws are what they say: normalised, and drawn from as they are."""

import numpy as np
import pytest
from scipy import stats

from evidence.proposals.fitted import FAMILIES, Elliptical, student_t


def funnel(n, rng):
    v = 1.5 * rng.standard_normal(n)
    return np.column_stack([v, *(np.exp(v / 2) * rng.standard_normal((2, n)))])


@pytest.fixture(scope="module")
def rows():
    return funnel(3000, np.random.default_rng(1))


@pytest.mark.parametrize("family", FAMILIES)
def test_normalised(family, rows):
    """Importance sampling with draws of a wide t recovers 1, within 5 standard errors."""
    fit = FAMILIES[family](rows, 3000.0)
    wide = Elliptical(rows.mean(axis=0), 1.5 * np.linalg.cholesky(np.cov(rows.T)), 3.0)
    x = wide.draw(np.random.default_rng(0), 50_000)
    w = np.exp(fit.log_prob(x) - wide.log_prob(x))
    assert abs(w.mean() - 1.0) < 5.0 * w.std() / np.sqrt(w.size)
    assert w.std() / np.sqrt(w.size) < 0.05


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_are_of_the_density(family, rows):
    """E[h/g] over draws of g is 1 for a narrow normal h within g's reach."""
    fit = FAMILIES[family](rows, 3000.0)
    x = fit.draw(np.random.default_rng(0), 200_000)
    h = stats.multivariate_normal([0.3, 0.2, -0.1], 0.04 * np.eye(3)).logpdf(x)
    w = np.exp(h - fit.log_prob(x))
    assert abs(w.mean() - 1.0) < 5.0 * w.std() / np.sqrt(w.size)
    assert w.std() / np.sqrt(w.size) < 0.05


def test_student_t_against_scipy():
    rng = np.random.default_rng(0)
    shape = np.array([[2.0, 0.5], [0.5, 1.0]])
    rows = stats.multivariate_t([1.0, -1.0], shape, 5.0).rvs(20_000, random_state=rng)
    fit = student_t(rows, 20_000.0)
    assert fit.degrees == 5.0
    np.testing.assert_allclose(fit.mean, [1.0, -1.0], atol=0.05)
    np.testing.assert_allclose(fit.root @ fit.root.T, shape, atol=0.1)
    truth = stats.multivariate_t(fit.mean, fit.root @ fit.root.T, 5.0).logpdf(rows[:5])
    np.testing.assert_allclose(fit.log_prob(rows[:5]), truth)


def test_scaled_is_the_best_of_a_funnel(rows):
    unseen = funnel(3000, np.random.default_rng(2))
    score = {name: FAMILIES[name](rows, 3000.0).log_prob(unseen).mean() for name in FAMILIES}
    assert max(score, key=score.get) == "scaled"


def test_none_where_there_is_nothing_to_fit():
    x = np.random.default_rng(0).standard_normal((500, 4))
    assert FAMILIES["scaled"](x, 500.0) is None
    assert FAMILIES["mixture"](x, 20.0) is None
