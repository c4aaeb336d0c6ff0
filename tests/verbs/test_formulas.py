"""Formulas through the verbs: compare, predict, draws of hyperparameters, and the shell."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import evidence as ev
from evidence.cli import app

pytest.importorskip("formulae")
QUICK = {"target_se": 0.1, "random_seed": 0, "progressbar": False}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    group, x = np.repeat(np.arange(8), 12), rng.normal(size=96)
    y = 0.3 + x + 0.8 * rng.normal(size=8)[group] + 0.5 * rng.normal(size=96)
    text = np.where(y > 0.0, "yes", "no")
    return pd.DataFrame({"y": y, "x": x, "g": group, "label": text, "z": rng.normal(size=96)})


def test_formulas_are_compared_on_common_rows(frame):
    holes = frame.copy()
    holes.loc[3, "z"] = np.nan
    comparison = ev.compare(["y ~ x", "y ~ x + z"], holes, **QUICK)
    alone = ev.log_evidence(ev.from_formula("y ~ x", holes.dropna()), **QUICK)
    assert comparison.table.logz["y ~ x"] == pytest.approx(alone.logz, abs=1e-3 + 4 * 0.14)
    notes = comparison.results["y ~ x"].notes
    assert any("1 of 96 rows" in note for note in notes)


def test_a_prior_is_for_the_formulas_that_have_its_name(frame):
    formulas = {"without": "y ~ x", "with": "y ~ x + (1 | g)"}
    priors = {"sd(1|g)": "halfnorm(scale=1)", "x": "norm(0, 1)"}
    comparison = ev.compare(formulas, frame, priors=priors, **QUICK)
    assert comparison.best == "with"
    model = comparison.results["with"].model
    assert "sd(1|g) ~ halfnorm" in model["priors"]
    with pytest.raises(ev.InputError, match=r"sd\(1\|h\)"):
        ev.compare(formulas, frame, priors={"sd(1|h)": "halfnorm(scale=1)"}, **QUICK)
    with pytest.raises(ev.InputError, match="data"):
        ev.compare(["y ~ x"])
    with pytest.raises(ev.InputError, match="likelihood"):
        ev.compare({"a": ev.GPModel(K=np.eye(2), y=[1, -1])}, likelihood="poisson")


def test_predictions_average_over_hyperparameters(frame):
    model = ev.from_formula("y ~ x + (1 | g)", frame)
    result = ev.log_evidence(model, **QUICK)
    new = pd.DataFrame({"x": [0.0, 1.0], "g": [0, 7]})
    prediction = ev.predict(model, new, posterior=result)
    best = ev.predict(result.optimum.model, model.design(new), posterior=result.optimum.reference)
    np.testing.assert_allclose(prediction.mean, best.mean, atol=0.3 * np.sqrt(best.var).max())
    assert (prediction.var > 0.9 * best.var).all()
    np.testing.assert_allclose(ev.predict(model, new).mean, prediction.mean, atol=0.1)
    with pytest.raises(ev.InputError, match="g has 1 level"):
        ev.predict(model, {"x": [0.0], "g": [99]}, posterior=result)
    with pytest.raises(ev.InputError, match="another model"):
        ev.predict(ev.from_formula("y ~ x + z + (1 | g)", frame), posterior=result)


def test_draws_of_hyperparameters_and_effects(frame, tmp_path):
    model = ev.from_formula("y ~ x + (1 | g)", frame)
    draws = ev.sample_hyperparameters(model, draws=300, random_seed=0, progressbar=False)
    assert draws.theta.shape == (2, 300, 2)
    assert draws.x.shape == (2, 300, model.n)
    summary = ev.summarise(model)
    for i, name in enumerate(["Intercept", "x"]):
        x, row = draws.x[..., i].ravel(), summary.common.loc[name]
        assert x.mean() == pytest.approx(row["mean"], abs=0.35 * row.sd)
        assert x.std() == pytest.approx(row.sd, rel=0.35)
    again = ev.sample_hyperparameters(model, draws=300, random_seed=0, progressbar=False)
    np.testing.assert_array_equal(draws.x, again.x)
    draws.save(tmp_path / "d.npz")
    loaded = ev.HyperDraws.load(tmp_path / "d.npz")
    np.testing.assert_array_equal(loaded.values, draws.values)
    assert ev.predict(model, posterior=draws).mean.shape == (96,)
    with pytest.raises(ev.InputError, match="model has priors"):
        ev.sample(model)
    with pytest.raises(ev.InputError, match="priors"):
        ev.sample_hyperparameters(model.at({"sd(1|g)": 1.0}))


def test_options_that_a_model_with_priors_leaves_no_choice_of(frame):
    model = ev.from_formula("y ~ x + (1 | g)", frame)
    for words in ({"method": "smc"}, {"reference": "prior"}, {"move": "pcn"}, {"betas": 3}):
        with pytest.raises(ev.InputError, match=next(iter(words))):
            ev.log_evidence(model, **words)
    with pytest.raises(ev.InputError, match="priors"):
        ev.integrated_evidence(model.with_priors(None))


# -- the shell ------------------------------------------------------------------------------


@pytest.fixture
def csv(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_shell_compares_and_fits(csv, tmp_path):
    plot = tmp_path / "c.png"
    words = ("--target-se", 0.1, "--json", "--plot", plot)
    got = run("compare", csv, "y ~ 1", "y ~ x", *words)
    assert got.exit_code == 0, got.output
    table = json.loads(got.stdout)["models"]
    assert [row["model"] for row in table] == ["y ~ x", "y ~ 1"]
    assert plot.read_bytes()[:4] == b"\x89PNG"
    formula = "label ~ x + (1 | g)"
    prior = ("--prior", "sd(1|g)=halfnorm(scale=1)", "--prior", "x=norm(0, 2)")
    got = run(
        "fit", csv, formula, "--family", "bernoulli", "--positive", "yes", *prior,
        "--target-se", 0.1, "--out", tmp_path / "r.npz",
    )  # fmt: skip
    assert got.exit_code in (0, 3), got.output
    assert "sd(1|g)" in got.stdout
    assert "halfnorm(" in got.stdout
    frame = pd.read_csv(csv)
    model = ev.from_formula(formula, frame, likelihood="bernoulli")
    assert model.y.sum() == 2.0 * (frame.label == "yes").sum() - 96


def test_shell_predicts(csv, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("x,g\n0.0,1\n1.0,2\n")
    got = run("predict", csv, "y ~ x + (1 | g)", new)
    assert got.exit_code == 0, got.output
    lines = got.stdout.splitlines()
    assert lines[0].startswith("mean,sd")
    assert len(lines) == 3
    new.write_text("x,g\n0.0,99\n")
    assert "--new" in run("predict", "--help").stdout
    assert "99" in run("predict", csv, "y ~ x + (1 | g)", new).stderr
    assert run("predict", csv, "y ~ x + (1 | g)", new, "--new-groups", "prior").exit_code == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("fit", "y ~ w"), "'w'"),
        (("fit", "y ~ x", "--family", "gausian"), "gaussian"),
        (("fit", "y ~ x", "--prior", "x"), "--prior"),
        (("fit", "y ~ x", "--prior", "x=flat"), "flat"),
        (("fit", "label ~ x", "--family", "bernoulli", "--positive", "maybe"), "--positive"),
        (("compare", "y ~ x", "label ~ x"), "label"),
    ],
)
def test_shell_says_what_is_wrong(csv, words, text):
    command, *rest = words
    got = run(command, csv, *rest)
    assert got.exit_code == 2
    assert text in got.output
    assert got.output.count("\n") == 1
