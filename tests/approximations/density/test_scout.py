"""The look from the prior: its log Z, its points, and what is made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import evidence as ev
from evidence.approximations.density.cloud import Cloud, resolution
from evidence.approximations.density.modes import peaks
from evidence.approximations.density.policy import NORMAL
from evidence.approximations.density.reference import Scouted
from evidence.approximations.density.scout import _Half
from evidence.approximations.density.scout import scout as climb
from evidence.methods.base import Outcome, widen
from evidence.methods.density import compare
from scripts.catalogue import random_density


def scout(model, rng, n=128, highest=-np.inf, budget=500_000):
    cloud = Cloud(model).screen(rng, replace(NORMAL, screened_in_batches=2**14))
    return climb(cloud, rng, n, highest, budget=budget)


def correlated(d=6, rho=0.95):
    """A case in which moves along differences matter; log Z in closed form."""
    S = (1.0 - rho) * np.eye(d) + rho
    prior = ev.GaussianPrior(np.zeros(d), 9.0)
    likelihood = stats.multivariate_normal(np.zeros(d), S)
    truth = stats.multivariate_normal(np.zeros(d), S + 9.0 * np.eye(d)).logpdf(np.zeros(d))

    def log_likelihood(x):
        return np.atleast_1d(likelihood.logpdf(x))

    return ev.DensityModel(log_likelihood, dim=d, prior=prior, vectorized=True), truth


def core_on_slab(d=10, core=0.05, weight=0.05):
    """A phase transition; log Z in closed form."""
    prior = ev.GaussianPrior(np.zeros(d), 1.0)

    def log_likelihood(x):
        square = np.sum(x * x, axis=1)
        narrow = np.log(weight) - 0.5 * square / core**2 - d * np.log(core)
        return np.logaddexp(narrow, np.log1p(-weight) - 0.5 * square)

    truth = np.logaddexp(
        np.log(weight) - 0.5 * d * np.log1p(core**2),
        np.log1p(-weight) - 0.5 * d * np.log(2.0),
    )
    return (
        ev.DensityModel(log_likelihood, dim=d, prior=prior, vectorized=True),
        truth,
        narrow_top(d, core, weight),
    )


def narrow_top(d, core, weight):
    return np.log(weight) - d * np.log(core)


def test_log_z_of_a_correlated_gaussian():
    """Six looks: their mean within 3.5 of its standard error, each error bar of the right size."""
    model, truth = correlated()
    looks = [scout(model, np.random.default_rng(seed)) for seed in range(6)]
    z = np.array([(look.logz - truth) / look.se for look in looks])
    assert abs(z.mean()) < 3.5 / np.sqrt(6.0)
    assert np.sqrt(np.mean(z**2)) < 1.8
    assert all(look.se < 1.5 for look in looks)


def test_a_population_moves_along_the_other_ones_differences():
    """Along its own it would contract: 7 standard errors too high."""
    model, truth = correlated(12, 0.99)
    look = scout(model, np.random.default_rng(0))
    assert abs(look.logz - truth) < 3.5 * look.se < 5.0


def test_it_passes_a_phase_transition():
    model, truth, top = core_on_slab()
    look = scout(model, np.random.default_rng(0), 128, top)
    assert abs(look.logz - truth) < 4.0 * look.se
    inner = np.sum(look.x**2, axis=1) < 10 * 0.1**2
    assert np.exp(logsumexp(look.log_w[inner])) > 0.5


def test_points_stand_for_the_posterior():
    prior = ev.GaussianPrior(np.zeros(2), 4.0)
    model = ev.DensityModel(
        lambda x: -0.5 * np.sum((x - 2.0) ** 2, axis=1), dim=2, prior=prior, vectorized=True
    )
    look = scout(model, np.random.default_rng(3), 512)
    w = np.exp(look.log_w)
    assert w.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(w @ look.x, 1.6, atol=0.2)
    np.testing.assert_allclose(w @ (look.x - 1.6) ** 2, 0.8, rtol=0.25)


def test_a_plateau_has_the_mass_it_has():
    model = ev.DensityModel(
        lambda x: np.where(np.all(x < 0.2, axis=1), 1.0, 0.0), dim=3,
        prior=[stats.uniform()] * 3, vectorized=True,
    )  # fmt: skip
    look = scout(model, np.random.default_rng(0), 512)
    assert abs(look.logz - np.log(1.0 + (np.e - 1.0) * 0.008)) < 4.0 * look.se


def test_nobody_is_moved_where_there_are_no_copies():
    """Points of a half that is at its top from the beginning are more than it would keep."""
    half = _Half(np.zeros((50, 2)), np.zeros(50), 16)
    assert not half.climb(np.random.default_rng(0), 0.0)
    assert len(half.z[half.copied]) == 0


def test_peaks_are_higher_than_their_neighbours():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal((500, 2)), 8.0 + 0.1 * rng.standard_normal((20, 2))])
    height = np.logaddexp(-0.5 * np.sum(x**2, axis=1), -50.0 * np.sum((x - 8.0) ** 2, axis=1))
    tops = x[peaks(x, height, rng)]
    for centre, width in ((0.0, 0.5), (8.0, 0.2)):
        assert np.linalg.norm(tops - centre, axis=1).min() < width


@pytest.mark.parametrize(("logz", "warned"), [(-3.0, True), (-0.2, False), (2.0, False)])
def test_an_answer_below_the_scouts_is_warned_about(logz, warned):
    outcome = Outcome("smc", logz, 0.01)
    compare(Scouted(0.0, 0.3), outcome)
    widen(outcome)
    assert [w.code for w in outcome.warnings] == ["scout-saw-more"] * warned
    assert outcome.logz_se == (3.0 if warned else 0.01)


def test_a_scout_that_did_not_finish_forbids_certainty():
    """Log Z lies between what it summed and what it may be if all that is left is at the top."""
    model, truth, top = core_on_slab()
    cut = scout(model, np.random.default_rng(0), 128, top, budget=2000)
    assert cut.se == np.inf
    assert cut.logz < truth < cut.most
    outcome = Outcome("importance", truth - 0.8, 1e-8)
    compare(Scouted(cut.logz, cut.se, cut.most), outcome)
    widen(outcome)
    assert [w.code for w in outcome.warnings] == ["search-unfinished"]
    assert outcome.logz_se == pytest.approx(np.logaddexp(0.0, cut.most - outcome.logz))
    explained = Outcome("importance", truth, 1e-8)  # by a fit, at all points that were left
    compare(Scouted(cut.logz, cut.se, -700.0), explained)
    assert explained.warnings == explained.doubts == []


def test_regions_of_the_resolution_are_met_with_95_percent():
    """Of 4000 searches for a region of that mass between 94 and 96 % meet it: 2.9 sd."""
    n = 200
    u = np.random.default_rng(0).random((4000, n))
    assert abs(np.mean((u < resolution(n)).any(axis=1)) - 0.95) < 0.01


def test_where_nothing_has_a_likelihood_there_is_no_answer():
    prior = ev.GaussianPrior(np.zeros(2))
    model = ev.DensityModel(
        lambda x: np.where(x[:, 0] > 30.0, 0.0, -np.inf), 2, prior=prior, vectorized=True
    )
    with pytest.raises(ev.InputError, match="-inf at all"):
        ev.log_evidence(model, random_seed=0, progressbar=False)


def test_a_mode_uphill_of_a_hundred_thousandth_of_the_prior_is_met():
    """It holds 15 %: with a quarter of the looks this seed leaves it out."""
    case = random_density(26)
    result = ev.log_evidence(case.model, random_seed=0, progressbar=False)
    assert abs(result.logz - case.truth) < 4.0 * result.logz_se < 0.1
    assert result.resolution < 1e-5
