"""Formulas through the verbs: compare, predict, draws of hyperparameters, and the shell."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import evidence as ev
from evidence.cli import app

pytest.importorskip("formulae")
pytestmark = pytest.mark.usefixtures("small_searches")
QUICK = {"target_se": 0.1, "effort": "frugal", "random_seed": 0, "progressbar": False}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    group, x = np.repeat(np.arange(8), 12), rng.normal(size=96)
    y = 0.3 + x + 0.8 * rng.normal(size=8)[group] + 0.5 * rng.normal(size=96)
    text = np.where(y > 0.0, "yes", "no")
    data = pd.DataFrame({"y": y, "x": x, "g": group, "label": text, "z": rng.normal(size=96)})
    pain = np.array(["none", "some", "much"])[np.searchsorted([-0.5, 1.0], y)]
    return data.assign(pain=pain, bit=(y > 0.0).astype(int), one=1, zero=0, same="yes")


@pytest.fixture(scope="module")
def grouped(frame):
    """A model with two hyperparameters, and its evidence."""
    model = ev.from_formula("y ~ x + (1 | g)", frame)
    return model, ev.log_evidence(model, **QUICK)


def test_formulas_are_compared_on_common_rows(frame):
    holes = frame.copy()
    holes.loc[3, "z"] = np.nan
    priors = {"sigma": 0.5}
    comparison = ev.compare(["y ~ x", "y ~ x + z"], holes, priors=priors, **QUICK)
    alone = ev.log_evidence(ev.from_formula("y ~ x", holes.dropna(), priors=priors), **QUICK)
    assert comparison.table.logz["y ~ x"] == pytest.approx(alone.logz, abs=1e-9)
    notes = comparison.results["y ~ x"].notes
    assert any("1 of 96 rows" in note for note in notes)


def test_a_prior_is_for_the_formulas_that_have_its_name(frame):
    formulas = {"without": "y ~ x", "with": "y ~ x + (1 | g)"}
    priors = {"sd(1|g)": "halfnorm(scale=1)", "x": "norm(0, 1)", "sigma": 0.5}
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


def test_predictions_average_over_hyperparameters(frame, grouped):
    model, result = grouped
    new = pd.DataFrame({"x": [0.0, 1.0], "g": [0, 7]})
    prediction = ev.predict(model, new, posterior=result)
    best = ev.predict(result.optimum.model, model.design(new), posterior=result.optimum.reference)
    np.testing.assert_allclose(prediction.mean, best.mean, atol=0.3 * np.sqrt(best.var).max())
    assert (prediction.var > 0.9 * best.var).all()
    with pytest.raises(ev.InputError, match="g has 1 level"):
        ev.predict(model, {"x": [0.0], "g": [99]}, posterior=result)
    with pytest.raises(ev.InputError, match="another model"):
        ev.predict(ev.from_formula("y ~ x + z + (1 | g)", frame), posterior=result)


@pytest.mark.slow
def test_draws_of_hyperparameters_and_effects(grouped, tmp_path):
    model, result = grouped
    draws = ev.sample_hyperparameters(model, draws=75, random_seed=0, progressbar=False)
    assert draws.theta.shape == (2, 75, 2)
    assert draws.x.shape == (2, 75, model.n)
    summary = ev.summarise(model, result)
    for i, name in enumerate(["Intercept", "x"]):
        x, row = draws.x[..., i].ravel(), summary.common.loc[name]
        assert x.mean() == pytest.approx(row["mean"], abs=0.35 * row.sd)
        assert x.std() == pytest.approx(row.sd, rel=0.35)
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


def test_family_is_taken_for_likelihood(frame):
    """Where formulas are, and there nothing but the name differs; also what the caller sees."""

    def double(values):
        return 2.0 * values

    a = ev.from_formula("bit ~ double(x)", frame, family="bernoulli", link="probit")
    b = ev.from_formula("bit ~ double(x)", frame, likelihood="bernoulli", link="probit")
    assert a.likelihood.name == b.likelihood.name == "probit"
    np.testing.assert_array_equal(a.A.toarray(), b.A.toarray())
    comparison = ev.compare(["bit ~ double(x)", "bit ~ 1"], frame, family="probit", **QUICK)
    assert comparison.models["bit ~ 1"].likelihood.name == "probit"
    for likelihood in ("probit", "poisson"):
        words = {"family": "probit", "likelihood": likelihood}
        with pytest.raises(ev.InputError, match="are the same; give one of them"):
            ev.from_formula("bit ~ x", frame, **words)
        with pytest.raises(ev.InputError, match="are the same; give one of them"):
            ev.compare(["bit ~ x", "bit ~ 1"], frame, **words)
    with pytest.raises(ev.InputError, match="unknown family 'probti'"):
        ev.from_formula("bit ~ x", frame, family="probti")
    with pytest.raises(ev.InputError, match="models have their own"):
        ev.compare({"a": ev.GPModel(K=np.eye(2), y=[1, -1])}, family="poisson")


@pytest.mark.slow
def test_held_hyperparameters_are_no_longer_integrated_out(frame):
    """One held: the integral over the other, by sums along it."""
    held = ev.from_formula("y ~ x + (1 | g)", frame, priors={"sigma": 0.5})
    result = ev.log_evidence(held, **QUICK)
    assert list(result.table.index) == ["sd(1|g)"]
    sd = np.geomspace(1e-2, 20.0, 30)
    free = ev.from_formula("y ~ x + (1 | g)", frame)
    prior = dict(free.priors.items())["sd(1|g)"]
    logz = [ev.fit_ep(free.at({"sigma": 0.5, "sd(1|g)": s})).logz for s in sd]
    integrand = np.exp(logz - np.max(logz)) * prior.pdf(sd) * sd
    truth = np.log(np.trapezoid(integrand, np.log(sd))) + np.max(logz)
    assert result.logz == pytest.approx(truth, abs=4 * result.logz_se + 0.01)
    draws = ev.sample_hyperparameters(held, draws=10, random_seed=0, progressbar=False)
    assert draws.names == ("sd(1|g)",)
    table = ev.prior_sensitivity(held, result, scale=[1e-3], random_seed=0).table
    assert table.how["sd(1|g)"] == "anew"  # draws do not reach so far


def test_a_comparison_tells_what_all_its_models_tell_of_the_data(frame, tmp_path):
    comparison = ev.compare(["bit ~ 1", "bit ~ x"], frame, priors={"sigma": 0.4}, **QUICK)
    (note,) = comparison.notes
    assert "or 1 in every row, here a number with normal noise" in note
    assert f"note: {note}" in comparison.summary()
    comparison.save(tmp_path / "c.npz")
    assert ev.load(tmp_path / "c.npz").notes == comparison.notes


# -- the shell ------------------------------------------------------------------------------


@pytest.fixture
def csv(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.slow
def test_shell_compares_and_fits(csv, tmp_path):
    plot = tmp_path / "c.png"
    words = ("--prior", "sigma=0.5", "--json", "--plot", plot)
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
    assert "1 where it is yes" in got.stdout
    frame = pd.read_csv(csv)
    model = ev.from_formula(formula, frame, likelihood="bernoulli")
    assert model.y.sum() == 2.0 * (frame.label == "yes").sum() - 96


@pytest.mark.slow
def test_shell_compares_by_standardised_effects(csv, frame):
    formulas, words = ("y ~ 1", "y ~ x"), ("--seed", 0, "--json")
    got = run("compare", csv, *formulas, "--priors", "jzs", *words)
    assert got.exit_code == 0, got.output
    rows = {row["model"]: row for row in json.loads(got.stdout)["models"]}
    same = ev.compare(list(formulas), frame, priors="jzs", random_seed=0, progressbar=False)
    expected = same.table.log_bayes_factor["y ~ 1"]
    assert rows["y ~ 1"]["log_bayes_factor"] == pytest.approx(expected, abs=0.02)
    one = json.loads(run("fit", csv, "y ~ x", "--priors", "jzs", *words).stdout)
    assert one["logz"] == pytest.approx(same.table.logz["y ~ x"], abs=0.02)
    both = ("jzs", "--prior", "x=norm(0, 1)")
    for more, told in (("jsz",), "did you mean 'jzs'"), (both, "all of the priors"):
        got = run("compare", csv, *formulas, "--priors", *more)
        assert got.exit_code == 2
        assert told in got.output


def test_shell_prints_what_people_report(csv):
    words = ("compare", csv, "bit ~ 1", "bit ~ x", "--family", "bernoulli")
    got = run(*words, "--baseline", "bit ~ 1", "--loo")
    assert got.exit_code == 0
    assert "Bayes factor against bit ~ 1" in got.stdout
    assert "stacking" in got.stdout
    got = run(*words, "--markdown", "--report")
    assert got.stdout.startswith("| model | log Z | BF |")
    assert "Priors of bit ~ x: Intercept ~ norm(" in got.stdout
    assert run(*words, "--baseline", "y ~ 1").exit_code == 2


def test_shell_predicts(csv, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("x,g\n0.0,1\n1.0,2\n")
    got = run("predict", csv, "y ~ x + (1 | g)", new, "--prior", "sigma=0.5")
    assert got.exit_code == 0, got.output
    lines = got.stdout.splitlines()
    assert lines[0].startswith("x,g,mean,sd")
    assert len(lines) == 3
    new.write_text("x,g\n0.0,99\n")
    assert "--new" in run("predict", "--help").stdout
    held = ("--prior", "sigma=0.5", "--prior", "sd(1|g)=1")  # or they would be integrated out
    assert "99" in run("predict", csv, "y ~ x + (1 | g)", new, *held).stderr
    got = run("predict", csv, "y ~ x + (1 | g)", new, *held, "--new-groups", "prior")
    assert got.exit_code == 0


LEVELS = "none,some,much"
PAIN = ("fit", "pain ~ x", "--family", "ordinal")


@pytest.mark.parametrize("command", ["fit", "compare", "predict"])
def test_shell_takes_the_order_of_categories(csv, tmp_path, command):
    """And says the same as Python of an ordered column."""
    new = tmp_path / "new.csv"
    new.write_text("x\n-1.0\n1.0\n")
    words = {
        "fit": ("pain ~ x",),
        "compare": ("pain ~ x", "pain ~ 1"),
        "predict": ("pain ~ x", new, "--out", tmp_path / "all_digits.csv"),
    }
    ordinal = ("--family", "ordinal", "--levels", "none, some,much", "--prior", "gap_1=1.5")
    got = run(command, csv, *words[command], *ordinal)
    assert got.exit_code == 0, got.output
    assert "note: categories in order: none, some, much" in got.output
    if command == "predict":
        frame = pd.read_csv(csv)
        frame["pain"] = pd.Categorical(frame.pain, ["none", "some", "much"], ordered=True)
        model = ev.from_formula("pain ~ x", frame, family="ordinal", priors={"gap_1": 1.5})
        table = pd.read_csv(tmp_path / "all_digits.csv")
        assert list(table)[-3:] == ["p[none]", "p[some]", "p[much]"]
        table = table.drop(columns="x")
        expected = ev.predict(model, pd.read_csv(new)).to_frame()
        np.testing.assert_allclose(table, expected, rtol=1e-9)


def test_shell_orders_labels_of_two_kinds_and_numbers(csv, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("x\n1.0\n")
    bernoulli = ("--family", "bernoulli", "--levels")
    share = []
    for levels in ("no,yes", "yes,no"):
        got = run("predict", csv, "label ~ x", new, *bernoulli, levels)
        share.append(pd.read_csv(io.StringIO(got.stdout)).probability[0])
    assert share[0] == pytest.approx(1.0 - share[1])
    holes = pd.read_csv(csv)
    holes["rank"] = (1 + holes.bit).where(holes.index > 0)
    holes.to_csv(csv, index=False)
    got = run("predict", csv, "rank ~ x", new, "--family", "ordinal", "--levels", "2,1")
    assert list(pd.read_csv(io.StringIO(got.stdout)))[-2:] == ["p[2]", "p[1]"]
    assert "1 of 96 rows have missing values (rank)" in got.stderr


@pytest.mark.parametrize("command", ["fit", "compare", "predict"])
def test_shell_remarks_outcomes_with_normal_noise(csv, tmp_path, command):
    new = tmp_path / "new.csv"
    new.write_text("x\n-1.0\n1.0\n")
    words = {"fit": ("bit ~ x",), "compare": ("bit ~ x", "bit ~ 1"), "predict": ("bit ~ x", new)}
    told = "the response is 0 or 1 in every row, here a number with normal noise"
    got = run(command, csv, *words[command], "--prior", "sigma=0.4")
    assert got.exit_code == 0
    assert told in got.output
    binary = run(command, csv, *words[command], "--family", "bernoulli")
    assert told not in binary.output
    if command == "fit":
        as_json = run(command, csv, *words[command], "--prior", "sigma=0.4", "--json")
        assert told in " ".join(json.loads(as_json.stdout)["notes"])


@pytest.mark.parametrize(
    ("column", "words", "note"),
    [
        ("one", (), "is 1 in every row, which counts as 1"),
        ("zero", (), "is 0 in every row, which counts as 0"),
        ("same", (), "is yes in every row, which counts as 1"),
        ("same", ("--positive", "yes"), "is yes in every row, which counts as 1"),
        ("same", ("--levels", "yes"), "is yes in every row, which counts as 1"),
    ],
)
def test_shell_takes_outcomes_that_are_all_equal(csv, column, words, note):
    got = run("fit", csv, f"{column} ~ x", "--family", "bernoulli", *words)
    assert got.exit_code == 0, got.output
    assert note in got.stdout
    logz = float(got.stdout.split()[3])
    assert logz == pytest.approx(-4.2, abs=0.3)


def test_shell_holds_hyperparameters(csv):
    priors = ("--prior", "sigma=0.5", "--prior", "sd(1|g) = 1")
    got = run("fit", csv, "y ~ x + (1 | g)", *priors, "--json")
    assert got.exit_code == 0
    found = json.loads(got.stdout)
    assert "sd(1|g) ~ held at 1; sigma ~ held at 0.5" in found["model"]["priors"]
    model = ev.from_formula("y ~ x + (1 | g)", pd.read_csv(csv)).at({"sigma": 0.5, "sd(1|g)": 1.0})
    assert found["logz"] == pytest.approx(ev.fit_ep(model).logz, abs=1e-6)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("fit", "y ~ w"), "'w'"),
        (("fit", "y ~ x", "--family", "gausian"), "gaussian"),
        (("fit", "y ~ x", "--prior", "x"), "--prior"),
        (("fit", "y ~ x", "--prior", "x=flat"), "flat"),
        (("fit", "label ~ x", "--family", "bernoulli", "--positive", "maybe"), "--positive"),
        (("compare", "y ~ x", "label ~ x"), "label"),
        (("fit", "y ~ x", "--prior", "sigma=-1"), "priors['sigma'] must be a positive number"),
        (("fit", "y ~ x", "--prior", "sigma=half_normal(1)"), "halfnorm(scale=…)"),
        (("fit", "y ~ x", "--prior", "x=3"), "held by an offset"),
        (("fit", "y ~ s(x)"), "bs(x, df=5)"),
        (("fit", "cbind(bit, one) ~ x", "--family", "binomial"), "y | trials(n)"),
        (("fit", "pain ~ x", "--family", "ordinal"), "--levels none,some,"),
        (("fit", "y ~ x", "--levels", LEVELS), "ordinal, softmax or bernoulli, not gaussian"),
        (("fit", "y ~ x", "--levels", LEVELS, "--family", "odrinal"), "did you mean 'ordinal'"),
        ((*PAIN, "--levels", "none,some"), "--levels lacks 'much', which column pain has"),
        ((*PAIN, "--levels", "none,some,muhc"), "column pain has no 'muhc'; did you mean 'much'"),
        ((*PAIN, "--levels", f"{LEVELS},extreme"), "column pain has no 'extreme'"),
        ((*PAIN, "--levels", f"{LEVELS},some"), "--levels has 'some' twice"),
        ((*PAIN, "--levels", ""), "--levels lacks"),
        ((*PAIN, "--levels", LEVELS, "--positive", "much"), "--positive and --levels both"),
        (("fit", "log(x) ~ z", "--family", "ordinal", "--levels", LEVELS), "'log(x)'"),
    ],
)
def test_shell_says_what_is_wrong(csv, words, text):
    command, *rest = words
    got = run(command, csv, *rest)
    assert got.exit_code == 2
    assert text in got.output
    assert got.output.count("\n") == 1
