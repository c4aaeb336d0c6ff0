"""Models from formulas as models: held, integrated, told apart, sent to other processes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

import evidence as ev
from evidence.models.formulas import model as formulas
from evidence.results.base import fingerprint

from .cases import N, table

DATA = table()
FORMULA = "k ~ x + a + offset(log(e)) + (1 + x | g) + ar1(t)"
MODEL = ev.from_formula(FORMULA, DATA, likelihood="poisson")


def test_values_that_are_held():
    at = MODEL.at({"sd(1|g)": 2.0, "rho": -0.3})
    assert at.priors is None
    assert MODEL.priors is not None
    values = dict(zip(at.hyperparameters.names, at.hyperparameters.values, strict=True))
    assert values["sd(1|g)"] == pytest.approx(2.0)
    assert values["ar1(t)__rho"] == pytest.approx(-0.3)
    assert at.table.prior["sd(1|g)"] == "held at 2"
    assert at.table.prior["x"] == MODEL.table.prior["x"]
    np.testing.assert_array_equal(at.A.toarray(), MODEL.A.toarray())
    np.testing.assert_array_equal(at.offset, MODEL.offset)
    block = np.linalg.inv(at.Q.toarray()[at.slices["1+x|g"], at.slices["1+x|g"]])
    assert block[0, 0] == pytest.approx(4.0)


def test_priors_instead_of_the_defaults():
    own = stats.halfnorm(scale=0.5)
    held = ["sd(x|g)", "cor(1,x|g)", "ar1(t)__rho", "ar1(t)__sigma"]
    model = MODEL.with_priors({"sd(1|g)": own}, fixed=held)
    assert dict(model.priors.items()) == {"sd(1|g)": own}
    assert list(MODEL.priors.names) == list(MODEL.hyperparameters.names)
    assert MODEL.with_priors(None).priors is None
    with pytest.raises(ev.InputError, match="no prior for"):
        MODEL.with_priors({"sd(1|g)": own})


def test_table_has_a_row_for_every_effect_and_hyperparameter():
    table = MODEL.table
    assert list(table.index) == [*MODEL.names[:4], *MODEL.hyperparameters.names]
    assert table.kind.tolist() == ["common effect"] * 4 + ["hyperparameter"] * 5
    assert not table.prior.isna().any()
    assert "ar1(t)__rho ~ uniform(-1, 2)" in MODEL.describe()["priors"]


@pytest.mark.parametrize("bare", [False, True])
def test_models_travel(bare):
    """To other processes, without data and functions; with the same identity and density."""
    sent = MODEL.bare() if bare else MODEL
    back = pickle.loads(pickle.dumps(sent))
    assert fingerprint(back) == fingerprint(MODEL)
    x = np.random.default_rng(0).normal(size=(3, MODEL.n))
    np.testing.assert_allclose(back.log_prior(x), MODEL.log_prior(x))
    np.testing.assert_array_equal(back.y, MODEL.y)
    assert back.priors.names == MODEL.priors.names
    moved = back.at({"sd(1|g)": 0.3})
    np.testing.assert_allclose(moved.Q.toarray(), MODEL.at({"sd(1|g)": 0.3}).Q.toarray())
    assert back.describe()["formula"] == FORMULA
    assert MODEL.terms


def test_what_a_formula_does_not_mention_is_not_kept():
    """Neither in the model nor in its pickle: the caller's variables may be anything."""
    unpicklable = lambda x: x  # noqa: E731
    model = ev.from_formula("y ~ x", DATA.assign(large="x" * 100_000))
    assert len(pickle.dumps(model)) < 100_000
    assert unpicklable(1) == 1


def identity(formula=FORMULA, data=DATA, **words):
    return fingerprint(ev.from_formula(formula, data, likelihood="poisson", **words))


def test_identity_is_that_of_numbers_not_of_words():
    assert identity() == identity(FORMULA.replace(" ", ""))
    renamed = DATA.rename(columns={"x": "other name"})
    assert identity() == identity(FORMULA.replace("x", "`other name`"), renamed)
    assert identity() == identity(data=DATA.astype({"a": "category", "g": "category"}))
    others = [
        identity("k ~ x + a + offset(log(e)) + (1 + x || g) + ar1(t)"),
        identity("k ~ x + a + (1 + x | g) + ar1(t)"),
        identity("k ~ x + a + offset(log(e)) + (1 + x | h) + ar1(t)"),
        identity("k ~ x + a + offset(log(e)) + (1 + x | g) + rw1(t)"),
        identity(priors={"x": stats.norm(0.0, 1.0)}),
        identity(data=DATA.assign(k=DATA.k + 1)),
        identity(data=DATA.iloc[::-1]),
    ]
    assert len({identity(), *others}) == len(others) + 1


def test_names_of_groups_do_not_matter():
    """As long as their order is the same."""
    new = DATA.assign(g=DATA.g.map({"a": "k1", "b": "k2", "c": "k3", "d": "k4"}))
    assert identity() == identity(data=new)


def test_notes():
    data = DATA.assign(g=[*"ab" * 19, "c", "d"])
    data.loc[0, "x"] = np.nan
    model = ev.from_formula("y ~ x + (1 | g)", data)
    assert f"1 of {N} rows have missing values (x): left out" in model.notes
    assert "2 of 4 groups of g have one row of data" in model.notes
    assert not ev.from_formula("y ~ x + (1 | g)", DATA).notes
    series = DATA.assign(t=np.arange(N) % 9)
    assert any("+ t" in note for note in ev.from_formula("y ~ rw2(t)", series).notes)
    assert not ev.from_formula("y ~ t + rw2(t)", series).notes


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_separation_is_noted(link):
    apart = DATA.assign(b=(DATA.x > 0.5).astype(int))
    model = ev.from_formula("b ~ x + z", apart, likelihood=link)
    assert any("separate the outcomes perfectly" in note for note in model.notes)
    touching = apart.assign(b=np.where(DATA.index == DATA.x.argmax(), 0, apart.b))
    model = ev.from_formula("b ~ x", touching, likelihood=link)
    assert not any("separate" in note for note in model.notes)


def test_several_formulas_have_the_same_rows():
    """Those that every formula has; priors are for whom they concern."""
    data = DATA.copy()
    data.loc[3, "x"], data.loc[5, "z"] = np.nan, np.nan
    pair = {"one": "y ~ x", "two": "y ~ z + (1 | g)"}
    given = {"x": stats.norm(0, 1), "sd(1|g)": stats.halfnorm()}
    models = formulas.from_formulas(pair, data, namespace={}, priors=given)
    np.testing.assert_array_equal(models["one"].y, models["two"].y)
    assert models["one"].y.size == N - 2
    assert models["one"].table.prior["x"] == "norm(0, 1)"
    assert models["two"].table.prior["sd(1|g)"] == "halfnorm()"
    with pytest.raises(ev.InputError, match="there is no 'w'"):
        formulas.from_formulas(pair, data, namespace={}, priors={"w": stats.norm()})
    with pytest.raises(ev.InputError, match="weights must be the same"):
        formulas.from_formulas({"one": "y ~ x", "two": "y | weights(w) ~ x"}, DATA, namespace={})


def test_sums_over_rows_may_come_in_any_order():
    """EP's log Z of shuffled rows, of groups with other names and types."""
    model = ev.from_formula("k ~ x + (1 | g)", DATA, likelihood="poisson").at({"sd(1|g)": 0.6})
    exact = ev.fit_ep(model).logz
    shuffled = DATA.sample(frac=1.0, random_state=0)
    names = {"a": 7, "b": 3, "c": 12, "d": -1}
    for data in (shuffled, DATA.assign(g=DATA.g.map(names)), DATA.assign(g=DATA.g.astype(object))):
        other = ev.from_formula("k ~ x + (1 | g)", data, likelihood="poisson")
        assert ev.fit_ep(other.at({"sd(1|g)": 0.6})).logz == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1e3])
def test_default_priors_know_no_units(unit):
    """Neither those of covariates nor, but for the density's own, those of the response."""
    at = {"sd(1|g)": 0.4, "sd(x|g)": 0.2, "noise_std": 0.7}
    model = ev.from_formula("y ~ x + (1 + x | g)", DATA)
    exact = ev.fit_ep(model.at(at)).logz
    longer = ev.from_formula("y ~ x + (1 + x | g)", DATA.assign(x=unit * DATA.x))
    moved = at | {"sd(x|g)": 0.2 / unit}
    assert ev.fit_ep(longer.at(moved)).logz == pytest.approx(exact, abs=1e-5)
    larger = ev.from_formula("y ~ x + (1 + x | g)", DATA.assign(y=unit * DATA.y))
    moved = {name: unit * value for name, value in at.items()}
    logz = ev.fit_ep(larger.at(moved)).logz + N * np.log(unit)
    assert logz == pytest.approx(exact, abs=1e-5)
    theta, new = model.hyperparameters.theta, larger.hyperparameters.theta
    scales = np.isnan(model.hyperparameters.lows)
    np.testing.assert_allclose(
        larger.priors.log_density(new), model.priors.log_density(theta), atol=1e-8
    )
    np.testing.assert_allclose(new - theta, np.log(unit) * scales, atol=1e-9)
