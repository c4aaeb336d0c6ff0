"""Normal noise: the closed form, honest about rounding; impossible numbers are refused."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from problems import small_model
from scipy.stats import multivariate_normal

import evidence as ev
from evidence.approximations.gp.exact import draw_exact, fit_exact, log_evidence_of
from evidence.methods.base import Outcome
from evidence.methods.referee import refuse
from evidence.paths.families import family


def data(n, noise, scale=1.0, y_like_the_model=True):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 1))
    K = scale**2 * (np.exp(-0.5 * (X - X.T) ** 2) + 1e-6 * np.eye(n))
    y = np.linalg.cholesky(K + (noise * scale) ** 2 * np.eye(n)) @ rng.normal(size=n)
    if not y_like_the_model:
        y = scale * rng.normal(size=n)
    return ev.GPModel(K=K, y=y, likelihood=f"gaussian(noise_std={noise * scale})")


def truth(model):
    C = model.K + np.diag(model.theta[1] ** 2)
    return multivariate_normal(model.mean, C, allow_singular=True).logpdf(model.y)


@pytest.mark.parametrize("noise", [1e-5, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize("n", [1, 2, 30, 200])
def test_closed_form_within_its_rounding(n, noise, scale):
    """K nearly singular, scales wrong by a million, noise from nothing to everything."""
    model = data(n, noise, scale)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert result.method == "exact"
    assert abs(result.logz - truth(model)) < 20.0 * result.logz_se + 1e-9 * n
    assert result.logz_se < 1e-3
    assert abs(ev.fit_laplace(model).logz - result.logz) < 1e-3
    assert abs(ev.fit_ep(model).logz - result.logz) < 1e-3


def test_data_that_the_model_cannot_have_made():
    """log Z of minus many millions, of which rounding takes whole nats, and says so."""
    result = ev.log_evidence(data(100, 1e-5, 1.0, False), random_seed=0, progressbar=False)
    assert result.logz < -1e6
    assert result.logz_se > 1e-3
    assert "ep-rounding" in [warning.code for warning in result.warnings]


def test_other_methods_start_from_the_closed_form():
    model = data(20, 1e-5)
    result = ev.log_evidence(model, method="smc", random_seed=0, progressbar=False)
    assert abs(result.logz - truth(model)) < 5.0 * result.logz_se + 1e-6
    assert result.logz_se < 0.1


def test_moments_and_draws_are_those_of_the_posterior():
    model = data(8, 0.3)
    q = fit_exact(model, "ep")
    C = model.K + np.diag(model.theta[1] ** 2)
    gain = model.K @ np.linalg.inv(C)
    cov = model.K - gain @ model.K
    np.testing.assert_allclose(q.mean, gain @ model.y, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(q.var, cov.diagonal(), rtol=1e-6)
    x = draw_exact(model, 40_000, np.random.default_rng(0))
    np.testing.assert_allclose(x.mean(axis=0), q.mean, atol=0.01)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.01)


@pytest.mark.parametrize("likelihood", ["probit", "poisson(exposure=1.5)"])
def test_ordinary_error_bars_do_not_see_rounding(likelihood):
    assert ev.fit_ep(small_model(likelihood, 30)).lost < 1e-9


def test_impossible_numbers_are_refused():
    model = small_model("probit", 3)
    for logz, se in ((3.0, 0.1), (math.inf, 0.1), (-1.0, math.inf)):
        outcome = Outcome("smc", logz, se)
        refuse(outcome, family(model).ceiling(model), model)
        assert math.isnan(outcome.logz)
        assert math.isnan(outcome.logz_se)
        assert [warning.code for warning in outcome.warnings] == ["impossible"]
    outcome = Outcome("smc", 0.2, 0.1)  # an estimate of nearly zero
    refuse(outcome, family(model).ceiling(model), model)
    assert outcome.logz == 0.2
    noisy = ev.GPModel(K=np.eye(3), y=np.zeros(3), likelihood="gaussian(noise_std=0.01)")
    for logz, refused in ((8.0, False), (12.0, True)):  # 11.06 is what three densities have
        density = Outcome("smc", logz, 0.1)
        refuse(density, family(noisy).ceiling(noisy), noisy)
        assert math.isnan(density.logz) == refused


def in_many_digits(K, model):
    """log N(y; m, K + s²) in eighty of them."""
    n, (y, s) = model.y.size, model.theta[:2]
    C = K + mp.diag([mp.mpf(float(v)) ** 2 for v in s])
    r = mp.matrix(
        [mp.mpf(a) - mp.mpf(b) for a, b in zip(y.tolist(), model.prior.mean, strict=True)]
    )
    L = mp.cholesky(C)
    half = sum(mp.log(L[i, i]) for i in range(n)) + n * mp.log(2 * mp.pi) / 2
    return float(-(r.T * mp.lu_solve(C, r))[0] / 2 - half)


@pytest.mark.parametrize("ratio", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("structure", ["series", "markov", "vecchia"])
def test_no_ratio_of_noise_to_prior_costs_a_structure_its_digits(structure, ratio):
    """A level beside a series, whose posterior precision is singular to rounding where the noise
    is small; inputs that are repeated, whose data share a latent value."""
    rng, n = np.random.default_rng(1), 8
    with mp.workdps(80):
        if structure == "series":
            y = np.cumsum(rng.standard_normal(n)) + min(ratio, 1.0) * rng.standard_normal(n)
            model = ev.from_formula("y ~ ar1(t)", {"y": y, "t": np.arange(n)})
            model = model.at({"ar1(t)__sigma": 1.3, "rho": 0.7, "likelihood__noise_std": ratio})
            A = mp.matrix(model.A.toarray().tolist())
            K = A * mp.inverse(mp.matrix(model.Q.toarray().tolist())) * A.T
        else:
            X = np.sort(rng.uniform(0.0, 1.0, n))
            X[3], X[6] = X[2], X[5]
            y = np.sin(5.0 * X) + min(ratio, 1.0) * rng.standard_normal(n)
            words = {"likelihood": f"gaussian(noise_std={ratio})", "structure": structure}
            model = ev.GPModel(X, y, "1.0 * Matern(length_scale=0.5, nu=1.5)", **words)
            r = [[2 * mp.sqrt(3) * abs(mp.mpf(a) - mp.mpf(b)) for b in X] for a in X]
            jitter = model.relative_jitter
            K = mp.matrix([[(1 + d) * mp.exp(-d) + jitter * (d == 0) for d in row] for row in r])
        exact = in_many_digits(K, model)
    assert log_evidence_of(model) == pytest.approx(exact, rel=1e-9, abs=1e-6)
