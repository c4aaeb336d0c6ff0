"""Predictions of models from formulas: new groups, trials of new rows, averages over models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evidence as ev

pytest.importorskip("formulae")
QUICK = {"target_se": 0.1, "random_seed": 0, "progressbar": False}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    group, x = np.repeat(np.arange(8), 10), rng.normal(size=80)
    eta = 0.5 * x + rng.normal(size=8)[group]
    n = rng.integers(2, 9, 80)
    s = rng.binomial(n, 1.0 / (1.0 + np.exp(-eta)))
    kind = rng.choice(["red", "blue"], 80)
    return pd.DataFrame({"s": s, "n": n, "x": x, "g": group, "kind": kind, "t": np.arange(80) % 6})


def test_effects_of_new_groups_have_their_prior(frame):
    """The variance is that of common effects and zᵀΣz, Σ made by hand from its parameters."""
    model = ev.from_formula("s ~ x + (1 + x | g)", frame, likelihood="poisson")
    model = model.at({"sd(1|g)": 0.7, "sd(x|g)": 0.4, "cor(1,x|g)": -0.5})
    q = ev.fit_ep(model)
    new = pd.DataFrame({"x": [0.0, 2.0, -1.0], "g": [77, 77, 3]})
    zero = ev.predict(model, new, posterior=q, new_groups="zero")
    prior = ev.predict(model, new, posterior=q, new_groups="prior")
    cov = np.array([[0.49, -0.14], [-0.14, 0.16]])
    Z = np.column_stack([np.ones(2), new.x[:2]])
    np.testing.assert_allclose(prior.mean, zero.mean, rtol=1e-12)
    np.testing.assert_allclose((prior.var - zero.var)[:2], np.sum((Z @ cov) * Z, axis=1))
    known = ev.predict(model, new.iloc[2:], posterior=q)
    np.testing.assert_allclose(prior.var[2], known.var[0], rtol=1e-10)
    np.testing.assert_allclose(prior.mean[2], known.mean[0], rtol=1e-10)


def test_new_groups_are_refused_unless_asked_for(frame):
    model = ev.from_formula("s ~ x + (1 | g) + ar1(t)", frame, likelihood="poisson")
    with pytest.raises(ev.InputError, match="new_groups='prior'"):
        ev.predict(model, {"x": [0.0], "g": [77], "t": [1]}, posterior="ep")
    with pytest.raises(ev.InputError, match="unknown new_groups"):
        ev.predict(model, {"x": [0.0], "g": [77], "t": [1]}, posterior="ep", new_groups="guess")
    with pytest.raises(ev.InputError, match=r"ar1\(t\) has 1 level"):  # a series has no groups
        ev.predict(model, {"x": [0.0], "g": [77], "t": [99]}, posterior="ep", new_groups="prior")


def test_new_rows_bring_their_trials(frame):
    model = ev.from_formula("s | trials(n) ~ x", frame, likelihood="binomial")
    new = frame.iloc[:4]
    many = ev.predict(model, new.assign(n=[1, 2, 10, 100]), posterior="ep")
    one = ev.predict(
        model, new.drop(columns="n"), posterior="ep", likelihood=ev.likelihoods.Binomial(n=1)
    )
    np.testing.assert_allclose(many.y_mean, one.y_mean * [1, 2, 10, 100], rtol=1e-9)
    with pytest.raises(ev.InputError, match="no column 'n'"):
        ev.predict(model, new.drop(columns="n"), posterior="ep")


def test_a_comparison_predicts_the_mixture_of_its_models(frame, tmp_path):
    formulas = ["s ~ x", "s ~ x + kind"]
    comparison = ev.compare(formulas, frame, likelihood="poisson", **QUICK)
    new = frame.iloc[:3]
    mixed = ev.predict(comparison, new)
    each = [ev.predict(comparison.models[name], new) for name in formulas]
    p = comparison.table.probability[formulas].to_numpy()
    np.testing.assert_allclose(mixed.mean, p @ [one.mean for one in each])
    np.testing.assert_allclose(mixed.y_mean, p @ [one.y_mean for one in each])
    with pytest.raises(ev.InputError, match="posterior"):
        ev.predict(comparison, new, posterior="ep")
    comparison.save(tmp_path / "c.npz")
    again = ev.Comparison.load(tmp_path / "c.npz")
    with pytest.raises(ev.InputError, match="read from a file"):
        ev.predict(again, new)


def test_a_comparison_of_integrals_is_read_back(frame, tmp_path):
    comparison = ev.compare(["s ~ x", "s ~ x + (1 | g)"], frame, likelihood="poisson", **QUICK)
    comparison.save(tmp_path / "c.npz")
    again = ev.Comparison.load(tmp_path / "c.npz")
    pd.testing.assert_frame_equal(again.table, comparison.table)
    assert comparison.results["s ~ x + (1 | g)"].optimum is not None


def test_effects_along_numbers_and_of_categories(frame):
    model = ev.from_formula(
        "s | trials(n) ~ x + kind + (1 | g) + ar1(t)", frame, likelihood="binomial"
    )
    q = ev.fit_ep(model.at({}))
    ax = ev.plot_effects(q.model, frame, "x", q, points=7)
    (line,) = ax.get_lines()
    held = {"kind": frame.kind.mode()[0], "t": np.sort(frame.t)[40], "n": 1, "g": "nobody"}
    rows = pd.DataFrame({"x": np.linspace(frame.x.min(), frame.x.max(), 7), **held})
    expected = ev.predict(q.model, rows, posterior=q, new_groups="zero").y_mean
    np.testing.assert_allclose(line.get_ydata(), expected)
    ax = ev.plot_effects(q.model, frame, "kind", q, at={"x": 1.0})
    assert [text.get_text() for text in ax.get_xticklabels()] == ["blue", "red"]
    assert len(ev.plot_effects(q.model, frame, "g", q).get_xticklabels()) == 8
    assert len(ev.plot_effects(q.model, frame, "t", q).get_lines()[0].get_xdata()) == 6
    with pytest.raises(ev.InputError, match=r"'kinds' is none; did you mean"):
        ev.plot_effects(q.model, frame, "kinds", q)
    with pytest.raises(ev.InputError, match="no column 'x'"):
        ev.plot_effects(q.model, frame.drop(columns="x"), "x", q)


@pytest.mark.parametrize(
    ("name", "at", "told"),
    [
        (3, None, "name must be a column of the formula, as text, got 3"),
        (["x"], None, r"name must be a column of the formula, as text, got \['x'\]"),
        (None, None, "name must be a column"),
        ("x", "kind", "at must map columns to values, such as .*, got 'kind'"),
        ("x", [("kind", "red")], "at must map columns to values"),
        ("x", 0, "at must map columns to values"),
        ("x", {"kin": "red"}, "'kin' is none; did you mean 'kind'"),
        ("x", {3: "red"}, "3 is none"),
        ("x", {"x": 1.0}, "at holds 'x', which is drawn along"),
        ("x", {"kind": "bleu"}, r"at\['kind'\] must be .*, got 'bleu'; did you mean 'blue'"),
        ("x", {"kind": 3}, r"at\['kind'\] must be one of the values of the column, got 3"),
        ("x", {"kind": ["red"]}, r"at\['kind'\] must be one of the values of the column, got \["),
        ("x", {"g": 99}, r"at\['g'\] must be one of the values of the column, got 99"),
        ("kind", {"x": "one"}, r"at\['x'\] must be a finite number, got 'one'"),
        ("kind", {"x": [1.0, 2.0]}, r"at\['x'\] must be a finite number"),
        ("kind", {"x": np.nan}, r"at\['x'\] must be a finite number, got nan"),
    ],
)  # fmt: skip
def test_what_effects_are_drawn_of_is_checked(frame, name, at, told):
    model = ev.from_formula("s ~ x + kind + (1 | g)", frame, likelihood="poisson").at({})
    with pytest.raises(ev.InputError, match=told):
        ev.plot_effects(model, frame, name, "ep", at=at)
