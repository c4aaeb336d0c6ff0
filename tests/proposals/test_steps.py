"""Draws in steps resampled on the way: lines of descent stay whole, estimates unbiased."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy import stats
from scipy.special import gammaln
from sparse_problems import chain, filtered_log_z, ring

import evidence as ev
from evidence.drivers.weighted import Stepped, run_weighted
from evidence.proposals.steps import StepGuide, make_step_guide
from evidence.statistics.diagnostics import log_mean
from evidence.statistics.weights import Weights


def test_a_draw_is_one_line_of_descent():
    """Values sum to zero in every draw, whichever draws went on: mixed lines would not."""
    n = 400
    y = np.random.default_rng(0).poisson(2.0, n)
    model = ev.SparseModel(ring(n), y, likelihood="poisson", constraints=np.ones(n))
    rng, asked = np.random.default_rng(1), []

    def between(log_weight):
        asked.append(1)
        return rng.integers(0, log_weight.size, log_weight.size)

    drawn, _ = make_step_guide(ev.fit_ep(model)).draw(24, rng, between)
    assert len(asked) > 4
    u = drawn.take(np.arange(24))
    np.testing.assert_allclose(u.sum(axis=0), 0.0, atol=1e-8)
    assert u.std(axis=0).min() > 0.1


@pytest.mark.parametrize("threshold", [pytest.param(0.0, marks=pytest.mark.slow), 0.999])
def test_resampling_leaves_estimates_unbiased(threshold):
    """Of a chain that a filter knows, within four standard errors, whether resampled or not."""
    rng = np.random.default_rng(2)
    y = rng.poisson(1.0, 400)
    truth = filtered_log_z(
        lambda one, x: one * x - np.exp(x) - gammaln(one + 1.0), y, 0.95, 0.2, 1.0
    )
    model = ev.SparseModel(chain(400, 0.95, 0.2), y, likelihood="poisson")
    islands = run_weighted(
        Stepped.of(ev.fit_ep(model)), 64, 64, np.random.SeedSequence(0),
        resampling="systematic", threshold=threshold,
    )  # fmt: skip
    estimate = log_mean(islands.log_z[-1])
    assert estimate.se < 0.1
    assert abs(estimate.value - truth) < 4.0 * estimate.se + 2e-6  # the filter's own error


@pytest.mark.parametrize("groups", [2, 5, 8, 12])
def test_what_all_groups_share_is_drawn_before_them(groups):
    """Separated groups under a wide prior: given their mean, each is integrated over exactly. With
    the mean drawn last, weights had a variance of 5 for five groups."""
    g = np.repeat(np.arange(groups), 4)
    priors = {"Intercept": stats.norm(0.0, 1.0), "sd(1|g)": 10.0}
    model = ev.from_formula(
        "y ~ 1 + (1|g)", {"y": g % 2, "g": g.astype(str)}, likelihood="probit", priors=priors
    )
    guide = make_step_guide(ev.fit_ep(model))
    assert guide.steps.order[0] == 0
    weights = Weights(guide.draw(1024, np.random.default_rng(0))[1])
    assert weights.relative_variance < 0.01


@pytest.mark.parametrize("likelihood", ["poisson", "binomial(n=20)"])
def test_data_of_determined_values_belong_to_the_last_free_one(likelihood, monkeypatch):
    """Two constraints on three values leave a line, and one integral: no draw differs. (Compiled
    for values of one datum too, as others are, of which there is none.)"""
    monkeypatch.setattr(StepGuide, "kinds", (True, True, None, True))
    rng = np.random.default_rng(0)
    C, r, A = rng.normal(size=(2, 3)), np.array([0.4, -0.2]), rng.normal(size=(5, 3))
    Q, y = np.diag([1.0, 0.5, 2.0]) + 0.2, rng.poisson(2.0, 5)
    model = ev.SparseModel(sp.csc_array(Q), y, likelihood=likelihood, A=A, constraints=(C, r))
    (way,) = scipy.linalg.null_space(C).T
    s = np.linspace(-12.0, 12.0, 4001)[:, None]
    u = np.linalg.pinv(C) @ r + s * way
    prior = np.exp(-0.5 * np.einsum("mi,ij,mj->m", u, Q, u))
    eta = (u @ A.T).ravel()
    log_l = model.likelihood.log_prob(eta, np.tile(y, len(u))).reshape(-1, 5).sum(axis=1)
    truth = np.log(prior @ np.exp(log_l) / prior.sum())
    found = ev.log_evidence(model, method="guided", random_seed=0, progressbar=False)
    assert found.logz == pytest.approx(truth, abs=1e-5)
    assert found.logz_se < 1e-5


@pytest.mark.parametrize("hold", [1.0, 100.0])
def test_how_firmly_null_vectors_are_held_does_not_matter(monkeypatch, hold):
    """Within four standard errors; held as firmly as that, draws are loosened by nats."""
    y, n = np.random.default_rng(5).poisson(2.0, 12), 12
    C = np.ones((2, n))
    C[0, 1:-1] = C[1, 2:] = 0.1  # which see what is held more than the rest
    D = np.diff(np.eye(n), 2, axis=0)
    words = {"likelihood": "poisson", "constraints": C}
    estimates = []
    for strength in (1e-5, hold):
        monkeypatch.setattr("evidence.gaussians.sparse._HOLD", strength)
        model = ev.SparseModel(sp.csc_array(D.T @ D), y, **words)
        found = ev.log_evidence(
            model, method="guided", target_se=0.01, random_seed=0, progressbar=False
        )
        estimates.append((ev.fit_ep(model).logz, found.logz, found.logz_se))
    (one, logz, se), (two, again, its_se) = estimates
    assert one == pytest.approx(two, abs=1e-7)
    assert abs(logz - again) < 4.0 * np.hypot(se, its_se)
    assert its_se < 0.02
