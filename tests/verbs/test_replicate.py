"""Replicated data: from the prior with its hyperparameters, and from the posterior."""

from __future__ import annotations

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

import evidence as ev

pytestmark = pytest.mark.usefixtures("small_searches")

mpl.use("Agg")


@pytest.mark.slow
def test_prior_predictive_draws_hyperparameters():
    """Marginally y_i is N(0, s²), s half-normal: 400 draws, Kolmogorov's p > 1e-4."""
    model = ev.GPModel([[0.0]], [0.3], "1e-6 * RBF(1.0)", likelihood="gaussian(noise_std=1.0)")
    free = [n for n in model.hyperparameters.names if not n.startswith("likelihood")]
    prior = {"noise_std": stats.halfnorm(scale=6.0)}
    free = model.with_priors(prior, fixed=free)
    made = ev.replicate(free, draws=400, random_seed=0).replicated[:, 0]
    rng = np.random.default_rng(1)
    truth = 6.0 * np.abs(rng.standard_normal(20_000)) * rng.standard_normal(20_000)
    assert stats.ks_2samp(made, truth).pvalue > 1e-4
    held = ev.replicate(model, draws=400, random_seed=0).replicated[:, 0]
    assert stats.ks_2samp(held, truth).pvalue < 1e-4


def test_posterior_predictive_of_a_formula():
    """Normal responses: mean and variance of a replicated datum, by closed forms within 5 se."""
    pytest.importorskip("formulae")
    y = np.array([1.0, 2.0, 4.0, 3.0])
    priors = {"Intercept": "norm(0, 2)", "sigma": 0.5}
    model = ev.from_formula("y ~ 1", {"y": y}, priors=priors)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    found = ev.replicate(model, result, draws=1000, random_seed=1)
    var = 1.0 / (1 / 4.0 + 4 / 0.25)
    mean = var * y.sum() / 0.25
    assert abs(found.replicated.mean() - mean) < 5.0 * np.sqrt(var / 1000 + 0.25 / 4000)
    assert found.replicated[:, 0].var() == pytest.approx(var + 0.25, rel=5 * np.sqrt(2 / 1000))
    assert found.source == "posterior"
    low, high = found.plot().get_xlim()
    assert low < 1.0 < 4.0 < high
    free = ev.from_formula("y ~ 1", {"y": y}, priors={"sigma": "halfnorm(scale=1)"})
    result = ev.log_evidence(free, random_seed=0, progressbar=False)
    assert ev.replicate(free, result, draws=7, random_seed=1).replicated.shape == (7, 4)
    with pytest.raises(ev.InputError, match="made for another model"):
        ev.replicate(model, result)


def test_labels_have_the_share_of_each():
    """A step between -1 and 1 would say little: the band is that of the share of ones."""
    model = ev.GPModel(np.linspace(0, 1, 8)[:, None], [1, 1, 1, -1, 1, 1, -1, 1], "RBF(1.0)")
    made = ev.replicate(model, draws=400, random_seed=0)
    ax = made.plot()
    low, high = np.quantile((made.replicated > 0).mean(axis=1), [0.05, 0.95])
    ones = ax.patches[1].get_bbox()
    assert (ones.y0, ones.y1) == pytest.approx((low, high))
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.25, 0.75])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["-1", "1"]


def test_files(tmp_path):
    model = ev.GPModel([[0.0], [1.0]], [1, -1], "RBF(1.0)")
    made = ev.replicate(model, draws=3, random_seed=0)
    made.save(tmp_path / "r.npz")
    back = ev.Replicates.load(tmp_path / "r.npz")
    np.testing.assert_array_equal(back.replicated, made.replicated)
    assert set(np.unique(made.replicated)) <= {-1.0, 1.0}
    with pytest.raises(ev.InputError, match="draws must be a whole number"):
        ev.replicate(model, draws=0)


def test_a_result_without_draws_of_hyperparameters_says_so():
    data = {"g": np.arange(6) % 3, "y": [1, 0, 3, 2, 0, 1]}
    model = ev.from_formula("y ~ 1 + (1 | g)", data, likelihood="poisson")
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    cut = replace(result, theta=result.theta[:0])
    with pytest.raises(ev.InputError, match="no draws of hyperparameters"):
        ev.replicate(model, cut)
