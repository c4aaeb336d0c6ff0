"""Predictions of models whose data see several predictors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import evidence as ev
from evidence.approximations.predictors.ep import fit_block_ep
from evidence.prediction.mixture import mixture_at
from evidence.prediction.points import design_points, new_points

rng = np.random.default_rng(0)
N = 50
DATA = {"x": rng.normal(size=N), "g": [f"g{i % 5}" for i in range(N)]}
DATA["y"] = 1.0 + 0.5 * DATA["x"] + np.exp(-0.5 + 0.4 * DATA["x"]) * rng.normal(size=N)
NEW = {"x": [-1.5, 0.0, 2.0]}


@pytest.fixture(scope="module")
def formula():
    return ev.from_formula("y ~ x", DATA, predictors={"sigma": "x"})


@pytest.fixture(scope="module")
def dense():
    kernels = {"mu": "1.0 * RBF(0.5)", "sigma": "0.5 * RBF(1.0)"}
    x, y = np.array(DATA["x"])[:20], np.array(DATA["y"])[:20]
    return ev.PredictorsModel(x, y, kernels, mean={"sigma": -0.5})


def test_a_new_observation_by_simulation(formula):
    """Mean, variance, density and quantiles of y, of draws of both predictors under q."""
    prediction = ev.predict(formula, NEW, posterior="ep")
    q, X = fit_block_ep(formula).gaussian, np.column_stack([np.ones(3), NEW["x"]])
    none = np.zeros_like(X)
    A, draws = np.block([[X, none], [none, X]]), np.random.default_rng(1)
    u = q.latent[0] + q.root().draw(draws.standard_normal((4, 100_000))).T
    mu, sd = (u @ A.T)[:, :3], np.exp((u @ A.T)[:, 3:])
    y = mu + sd * draws.standard_normal(mu.shape)
    np.testing.assert_allclose(prediction.mean, mu.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(prediction.y_mean, y.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(np.sqrt(prediction.y_var), y.std(axis=0), rtol=0.02)
    density = norm.pdf([0.5, 0.5, 0.5], mu, sd).mean(axis=0)
    np.testing.assert_allclose(prediction.log_density([0.5] * 3), np.log(density), atol=0.02)
    levels = prediction.quantiles([0.1, 0.9], of="y")
    np.testing.assert_allclose(levels, np.quantile(y, [0.1, 0.9], axis=0), atol=0.04)


def test_draws_say_the_same(formula):
    result = ev.log_evidence(formula, random_seed=0, progressbar=False)
    one, other = (ev.predict(formula, NEW, posterior=p) for p in ("ep", result))
    np.testing.assert_allclose(other.mean, one.mean, atol=0.06)
    np.testing.assert_allclose(np.sqrt(other.y_var), np.sqrt(one.y_var), rtol=0.1)


def test_new_groups_are_wider():
    model = ev.from_formula(
        "y ~ x + (1 | g)", DATA, predictors={"sigma": "(1 | g)"},
        priors={"sd(1|g)": 0.5, "sigma:sd(1|g)": 0.7},
    )  # fmt: skip
    rows = {"x": [0.0, 0.0], "g": ["g0", "elsewhere"]}
    points = design_points(model, rows, None, "prior")
    known = fit_block_ep(model)
    mean, cov = mixture_at(model, known, points).at(slice(None))
    assert mean.shape == (2, 1, 2)
    assert cov.shape == (2, 2, 2)
    zero = mixture_at(model, known, design_points(model, rows, None, "zero")).at(slice(None))[1]
    np.testing.assert_allclose((cov - zero)[1].diagonal(), [0.25, 0.49], rtol=1e-6)
    np.testing.assert_allclose((cov - zero)[0], 0.0, atol=1e-12)
    assert ev.predict(model, rows, new_groups="prior").y_var.shape == (2,)


def test_dense_at_the_data_and_elsewhere(dense):
    """At the data's inputs new points are the data's own, but for the jitter."""
    q = fit_block_ep(dense)
    at = mixture_at(dense, q, new_points(dense, dense.X, None, None, [0.0, -0.5]))
    mean, cov = at.at(slice(None))
    np.testing.assert_allclose(mean[:, 0], q.predictors[0], atol=1e-3)
    np.testing.assert_allclose(cov, q.predictors[1], atol=1e-3)
    far = ev.predict(dense, [[50.0]], posterior=q, mean_new=[0.0, -0.5])
    np.testing.assert_allclose([far.mean[0], far.var[0]], [0.0, 1.0], atol=1e-6)
    own = ev.predict(dense, posterior=q)
    np.testing.assert_allclose(own.mean, q.predictors[0][0])


@pytest.mark.slow
def test_the_draws_of_a_dense_model(dense):
    result = ev.log_evidence(dense, random_seed=0, progressbar=False)
    words = {"mean_new": [0.0, -0.5]}
    one, other = (ev.predict(dense, [[0.3]], posterior=p, **words) for p in ("ep", result))
    np.testing.assert_allclose(other.mean, one.mean, atol=0.1)
    np.testing.assert_allclose(np.sqrt(other.y_var), np.sqrt(one.y_var), rtol=0.15)


def test_summaries(formula):
    table = ev.summarise(formula).table
    assert list(table.index) == ["Intercept", "x", "sigma:Intercept", "sigma:x"]
    assert ev.summarise(formula, ev.fit_ep(formula)).table["mean"]["sigma:x"] > 0.1
