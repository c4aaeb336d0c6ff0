"""Public functions, of models whose data see several predictors."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import numpy as np
import pytest
from covering import seldom

import evidence as ev

rng = np.random.default_rng(0)
N = 12
X = np.linspace(-1.5, 1.5, N)
DATA = {"x": X, "y": 1.0 + X + np.exp(-0.4 + 0.3 * X) * rng.normal(size=N)}
DATA["c"] = np.array(["a", "b", "c"])[rng.integers(0, 3, N)]
QUIET = {"random_seed": 0, "progressbar": False}
MODELS = {
    "sigma": lambda: ev.from_formula("y ~ x", DATA, predictors={"sigma": "x"}),
    "categories": lambda: ev.from_formula("c ~ x", DATA, likelihood="softmax"),
    "fields": lambda: ev.PredictorsModel(
        X, DATA["y"], {"mu": "1.0 * RBF(1.0)", "sigma": "0.3 * RBF(1.0)"}
    ),
    "classes": lambda: ev.SoftmaxModel(X, DATA["c"], "1.0 * RBF(1.0)"),
}


@pytest.fixture(params=seldom(MODELS, 0, 1, 3))  # of fields each takes a second
def model(request):
    return MODELS[request.param]()


@pytest.mark.slow
def test_leave_one_out_is_a_ratio_of_evidences():
    kept = {name: np.delete(column, 3) for name, column in DATA.items()}
    words = {"priors": {"Intercept": "norm(0, 2)", "x": "norm(0, 2)"}, "likelihood": "softmax"}
    whole, less = (ev.from_formula("c ~ x", data, **words) for data in (DATA, kept))
    found = ev.loo(whole, posterior=ev.sample(whole, draws=500, **QUIET), random_seed=0)
    both = [ev.log_evidence(m, target_se=0.01, **QUIET).logz for m in (whole, less)]
    assert abs(found.pointwise[3] - (both[0] - both[1])) < 0.06


def test_leave_one_out_needs_draws(model, monkeypatch):
    few = partial(ev.sample, draws=200, tune=200)
    monkeypatch.setattr(import_module("evidence.verbs.loo"), "sample", few)
    found = ev.loo(model, **QUIET)
    assert found.pointwise.shape == (N,)
    assert np.isfinite(found.elpd)
    with pytest.raises(ev.InputError, match="method='psis'"):
        ev.loo(model, method="ep")


def test_data_are_simulated_and_replicated(model):
    drawn = ev.simulate(model, random_seed=0)
    assert type(drawn.model) is type(model)
    assert set(drawn.y) <= set(DATA["c"]) if model.y.dtype.kind == "U" else drawn.y.size == N
    found = ev.replicate(model, draws=20, random_seed=0)
    assert found.replicated.shape == (20, N)
    assert len(np.unique(found.replicated)) > 2
    posterior = ev.log_evidence(model, **QUIET)
    assert ev.replicate(model, posterior, draws=20, random_seed=0).replicated.shape == (20, N)


@pytest.mark.parametrize("kind", [pytest.param("fields", marks=pytest.mark.slow), "classes"])
def test_a_surface_has_the_evidence_of_every_place(kind):
    model = MODELS[kind]()
    name = model.hyperparameters.names[1]
    surface = ev.evidence_surface(model, {name: [0.5, 2.0]}, **QUIET)
    one = ev.log_evidence(model.at({name: 2.0}), **QUIET)
    row = surface.table.iloc[1]
    assert abs(row.logz - one.logz) < 4.0 * np.hypot(row.logz_se, one.logz_se)
    assert ev.sample_hyperparameters(
        model.with_priors({"length_scale": "flat"}, fixed=["constant_value"]),
        draws=20, tune=20, **QUIET,
    ).theta.shape[2] == model.n_predictors  # fmt: skip


def test_an_effect_at_zero_against_it_free():
    model = MODELS["categories"]()
    table = ev.savage_dickey(ev.log_evidence(model, **QUIET), "b:x", 0.0, model=model)
    found = table.log_bayes_factor
    assert abs(found["draws"] - found["direct"]) < 4.0 * table.se["direct"] + 0.05
    assert np.isnan(table.se["draws"])  # EP's own error, of which nothing tells


LINE = {"x": X, "g": list("aaaabbbbcccc")}


@pytest.mark.parametrize(
    ("formula", "y", "sigma", "family"),
    [
        ("y ~ x", np.full(N, 2.0), "1", "gaussian"),
        ("y ~ x", np.full(N, 2.0), "x", "lognormal"),
        ("y ~ x", 1.0 + 2.0 * X, "x", "gaussian"),
        ("y ~ 0 + g", np.r_[np.ones(4), rng.normal(size=8)], "0 + g", "gaussian"),
    ],
)
def test_exact_fits_are_refused_in_one_line(formula, y, sigma, family):
    model = ev.from_formula(
        formula, LINE | {"y": y}, predictors={"sigma": sigma}, likelihood=family
    )
    with pytest.raises(ev.InputError, match=r"fits data exactly, such as datum \d+ .*sigma from"):
        ev.log_evidence(model, **QUIET)


@pytest.mark.parametrize("offset", [1e5, -1e8])
def test_small_noise_is_no_exact_fit(offset):
    """Far from zero digits are left, as sites count from the prior's mean."""
    y = 1.0 + X + np.exp(0.3 * X) * rng.normal(size=N)
    model = ev.from_formula("y ~ x", {"x": X, "y": y}, predictors={"sigma": "x"})
    far = ev.from_formula("y ~ x", {"x": X, "y": y + offset}, predictors={"sigma": "x"})
    one, other = (ev.log_evidence(m, **QUIET) for m in (model, far))
    assert abs(one.logz - other.logz) < 1e-6
    assert not other.warnings
