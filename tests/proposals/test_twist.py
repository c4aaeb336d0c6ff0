"""Guides that learn: unbiased whatever they have learnt, and better where there was much."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import LIKELIHOODS, exact_draws, log_z_by_quadrature, small_model

import evidence as ev
from evidence.proposals.guide import CannotGuide, make_guide
from evidence.proposals.twist import twisted
from evidence.statistics.weights import Weights

rng_of = np.random.default_rng


def taught(guide, bent, drift, seed=0):
    """A guide told that log weights are a polynomial along two of the model's latent values."""
    drawn, _ = guide.draw(200, rng_of(seed))
    s = (drawn - drawn.mean(axis=1, keepdims=True)) / drawn.std(axis=1, keepdims=True)
    return twisted(guide, drawn, drift * s[0] - bent * s[1] ** 2 + 0.1 * s[0] * s[1])


@pytest.mark.parametrize(("bent", "drift"), [(0.4, -0.5), (-0.05, 0.3)])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_unbiased_whatever_was_learnt(likelihood, bent, drift):
    """z-score below 4.5 (false alarm 7e-6 a case); the twist itself is far from none."""
    model = small_model(likelihood)
    guide = make_guide(ev.fit_ep(model))
    other = taught(guide, bent, drift)
    assert np.abs([*other.twist.slope, *other.twist.curvature]).max() > 0.04
    assert np.abs(other.gaussian.mean - guide.gaussian.mean).max() > 0.05
    weights = Weights()
    weights.add(other.draw(40_000, rng_of(1))[1])
    error = other.log_z0 + weights.log_mean - log_z_by_quadrature(model)
    assert weights.se < 0.02
    assert abs(error) < 4.5 * weights.se


@pytest.mark.parametrize("likelihood", [name for name in LIKELIHOODS if name != "probit"])
def test_draws_remain_those_of_the_posterior(likelihood):
    """Weighted means and second moments against exact draws: z-scores below 5.

    (Of probit, utilities are drawn, which test_guided turns into latent values.)
    """
    ep = ev.fit_ep(small_model(likelihood))
    x, log_w = taught(make_guide(ep), 0.4, -0.5).draw(40_000, rng_of(1))
    exact = exact_draws(rng_of(2), ep, 1.0, 5000).T
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    centre = exact.mean(axis=1, keepdims=True)
    for power in (1, 2):
        mine, theirs = (x - centre) ** power, (exact - centre) ** power
        mean = mine @ w
        variance = ((mine - mean[:, None]) ** 2) @ w**2 + theirs.var(axis=1) / exact.shape[1]
        assert (np.abs(mean - theirs.mean(axis=1)) < 5.0 * np.sqrt(variance)).all()


def test_what_is_learnt_is_the_density_that_the_twist_stands_for():
    """q' / q is h over its mean: everywhere, to rounding."""
    guide = make_guide(ev.fit_ep(small_model("poisson(exposure=1.5)", 30)))
    other = taught(guide, 0.3, 0.4)
    x = guide.gaussian.mean[:, None] + 2.0 * rng_of(3).standard_normal((30, 5))

    def log_density(g):
        white = np.linalg.solve(g.gaussian.factor, x - g.gaussian.mean[:, None])
        return -0.5 * np.sum(white**2, axis=0) - np.log(g.gaussian.factor.diagonal()).sum()

    got = log_density(other) + other.log_z0 - log_density(guide) - guide.log_z0
    np.testing.assert_allclose(got, other.twist.log(x), rtol=1e-8, atol=1e-8)


@pytest.mark.interpreted
def test_nothing_is_changed_where_weights_are_even():
    guide = make_guide(ev.fit_ep(small_model("gaussian(noise_std=0.7)", 12)))
    drawn, log_w = guide.draw(300, rng_of(0))
    other = twisted(guide, drawn, log_w)
    np.testing.assert_allclose(other.gaussian.mean, guide.gaussian.mean, atol=1e-8)
    np.testing.assert_allclose(other.gaussian.factor, guide.gaussian.factor, atol=1e-8)


def _noisy_labels():
    rng = rng_of(0)
    X = rng.normal(size=(120, 2))
    flipped = np.where(rng.random(120) < 0.1, -1, 1)
    return ev.GPModel(X, np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1) * flipped, "400.0 * RBF(1.0)")


def test_learning_makes_weights_more_even():
    guide = make_guide(ev.fit_ep(_noisy_labels()))
    before, after = Weights(), Weights()
    drawn, log_w = guide.draw(1024, rng_of(0))
    before.add(guide.draw(8192, rng_of(1))[1])
    other = twisted(guide, drawn, log_w)
    after.add(other.draw(8192, rng_of(2))[1])
    assert after.relative_variance < 0.75 * before.relative_variance
    difference = other.log_z0 + after.log_mean - guide.log_z0 - before.log_mean
    assert abs(difference) < 4.5 * np.hypot(before.se, after.se)


def test_the_result_says_that_it_has_learnt():
    result = ev.log_evidence(_noisy_labels(), random_seed=0, progressbar=False)
    assert result.settings["twisted"]
    assert any("a learnt twist" in note for note in result.notes)
    even = ev.log_evidence(
        small_model("probit", 20), method="guided", random_seed=0, progressbar=False
    )
    assert not even.settings["twisted"]


def test_what_cannot_be_learnt():
    guide = make_guide(ev.fit_ep(small_model("probit", 5)))
    drawn, log_w = guide.draw(200, rng_of(0))
    uneven = np.where(np.arange(200) < 10, 0.0, -np.inf)
    with pytest.raises(CannotGuide, match="10 effective draws are too few"):
        twisted(guide, drawn, uneven)
    with pytest.raises(ValueError, match="learns once"):
        twisted(twisted(guide, drawn, log_w), drawn, log_w)
    wide = dataclasses.replace(
        guide, sites=guide.sites._replace(tau=0.999 / guide.gaussian.factor.diagonal() ** 2)
    )
    grows = 2.0 * np.sum(
        ((drawn - drawn.mean(axis=1, keepdims=True))[guide.gaussian.order]) ** 2, axis=0
    )
    with pytest.raises(CannotGuide, match="without one of the sites"):
        twisted(wide, drawn, np.minimum(grows, 5.0))
