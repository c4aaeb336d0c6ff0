"""Categorical responses in formulas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp, softmax

import evidence as ev
from evidence.cli import app

rng = np.random.default_rng(0)
N = 30
DATA = {"x": rng.normal(size=N), "g": [f"g{i % 5}" for i in range(N)]}
CODES = np.argmax(
    np.stack([np.zeros(N), 0.5 + DATA["x"], -0.5 * DATA["x"]]) + rng.gumbel(size=(3, N)), axis=0
)
DATA["y"] = np.array(["bus", "car", "walk"])[CODES]
PRIORS = {"Intercept": "norm(0, 1)", "x": "norm(0, 0.8)"}
QUIET = {"random_seed": 0, "progressbar": False}


def of(formula="y ~ x", data=DATA, **words):
    return ev.from_formula(formula, data, likelihood="softmax", **{"priors": PRIORS, **words})


def test_names_priors_and_notes():
    model = of("y ~ x + (1 | g)", priors={"x": "norm(0, 1)", "walk:x": "norm(0, 2)", "sd(1|g)": 1})
    assert model.names[:3] == ("car:Intercept", "car:x", "car:1|g[g0]")
    prior = model.table.prior
    assert (prior["car:x"], prior["walk:x"]) == ("norm(0, 1)", "norm(0, 2)")
    assert prior["car:sd(1|g)"] == prior["walk:sd(1|g)"] == "held at 1"
    assert "against bus" in model.notes[0]
    assert model.levels.tolist() == ["bus", "car", "walk"]
    ordered = pd.Categorical(DATA["y"], categories=["walk", "bus", "car"], ordered=True)
    assert of(data=DATA | {"y": ordered}).names[::2] == ("bus:Intercept", "car:Intercept")
    own = of(predictors={"walk": "1"})  # a prior of x is for those that have one
    assert own.names == ("car:Intercept", "car:x", "walk:Intercept")


@pytest.fixture(scope="module")
def exact():
    """Draws of effects (2, 2, M) from the prior, and log weights."""
    b = np.random.default_rng(1).normal(size=(2, 2, 60_000)) * np.array([1.0, 0.8])[:, None]
    eta = np.zeros((3, N, 60_000), np.float32)
    eta[1:] = b[:, :1] + b[:, 1:] * np.array(DATA["x"])[:, None]
    log_w = eta[CODES, np.arange(N)].sum(axis=0) - logsumexp(eta, axis=0).sum(axis=0)
    return b, log_w.astype(float)


def test_evidence_and_predictions_by_draws_from_the_prior(exact):
    """With an error of about .01 of theirs."""
    b, log_w = exact
    result = ev.log_evidence(of(), **QUIET)
    truth = float(logsumexp(log_w) - np.log(log_w.size))
    assert result.logz_se < 0.05
    assert abs(result.logz - truth) < 4.0 * result.logz_se + 0.03
    w = np.exp(log_w - logsumexp(log_w))
    eta = np.zeros((3, log_w.size))
    eta[1:] = b[:, 0] + 1.5 * b[:, 1]
    wanted = softmax(eta, axis=0) @ w
    found = ev.predict(of(), {"x": [1.5]}, posterior=result)
    assert found.classes.tolist() == ["bus", "car", "walk"]
    np.testing.assert_allclose(found.probability[0], wanted, atol=0.02)
    assert found.mean[0, 0] == found.var[0, 0] == 0.0
    model = of()
    mean = ev.summarise(model, ev.fit_ep(model)).table["mean"]
    np.testing.assert_allclose(mean, (b @ w).ravel(), atol=0.06)


def test_four_categories_have_ep_and_five_do_not():
    for count, name in ((4, "ep"), (5, "averaged")):
        y = [f"c{i % count}" for i in range(N)]
        model = of("y ~ x", DATA | {"y": y})
        result = ev.log_evidence(model, **QUIET)
        assert result.settings["reference"] == name
        long = ev.log_evidence(model, method="smc", **QUIET)
        assert abs(result.logz - long.logz) < 4.0 * np.hypot(result.logz_se, long.logz_se)
        assert len(ev.summarise(model).table) == 2 * count - 2
        assert ev.predict(model).probability.shape == (N, count)


def test_no_category_is_the_expected_one():
    with pytest.raises(ev.InputError, match=r"categories.*ev\.predict\(model, table\)"):
        ev.plot_effects(of(), DATA, "x")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"data": DATA | {"y": np.resize(["a", "b"], N)}}, "three or more categories, got 2"),
        ({"predictors": {"sigma": "x"}}, "no 'sigma'.*Categories beside the baseline: car, walk"),
        ({"priors": {"z": "norm(0, 1)"}}, "priors: there is no 'car:z'"),
        ({"priors": {"bus:x": "norm(0, 1)"}}, "priors: there is no"),
        ({"priors": "jzs"}, "one predictor"),
        ({"formula": "y | trials(3) ~ x"}, r"trials\(\) is for"),
        ({"formula": "y | cens(x) ~ x"}, "cens"),
    ],
)
def test_bad_input(words, message):
    with pytest.raises(ev.InputError, match=message):
        of(**words)


def test_in_the_shell(tmp_path):
    from typer.testing import CliRunner

    pd.DataFrame(DATA).to_csv(tmp_path / "trips.csv", index=False)
    words = [str(tmp_path / "trips.csv"), "y ~ x", "--family", "softmax"]
    found = CliRunner().invoke(app, ["fit", *words, "--levels", "walk,bus,car", "--seed", "0"])
    assert found.exit_code == 0, found.output
    assert "bus:x" in found.output
    new = CliRunner().invoke(app, ["predict", *words[:2], words[0], *words[2:], "--seed", "0"])
    assert new.exit_code == 0, new.output
    assert "p[walk]" in new.output
