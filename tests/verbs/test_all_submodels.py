"""All submodels of a formula: which they are, inclusion factors by enumeration, any executor."""

from __future__ import annotations

import os
import re
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import fakes
import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import evidence as ev
from evidence.results.comparison import in_figures
from evidence.verbs.all_submodels import _marginal

RNG = np.random.default_rng(4)
N = 40
DATA = pd.DataFrame({"x": RNG.normal(size=N), "z": RNG.normal(size=N), "w": RNG.normal(size=N)})
DATA["g"] = np.arange(N) % 5
DATA["y"] = 0.5 + 0.5 * DATA.x + 0.2 * DATA.x * DATA.z + RNG.normal(size=N)
HELD = dict.fromkeys(("Intercept", "x", "z", "w", "x:z"), "norm(0, 1)") | {"sigma": 1.0}
COLUMNS = {"x": DATA.x, "z": DATA.z, "w": DATA.w, "x:z": DATA.x * DATA.z}
QUIET = {"random_seed": 0, "progressbar": False}


def exact(terms):
    """log N(y; 0, I + XXᵀ), the intercept included."""
    X = np.column_stack([np.ones(N), *(COLUMNS[t] for t in terms)])
    return multivariate_normal(np.zeros(N), np.eye(N) + X @ X.T).logpdf(DATA.y)


@pytest.fixture(scope="module")
def found():
    return ev.all_submodels("y ~ x * z + w", DATA, priors=HELD, **QUIET)


def sets():
    """By hand: an interaction has both of its parts."""
    every = [(), ("x",), ("z",), ("x", "z"), ("x", "z", "x:z")]
    return [*map(frozenset, every), *(frozenset((*some, "w")) for some in every)]


def test_inclusion_is_that_of_enumerated_truths(found):
    truth = {some: exact(some) for some in sets()}
    assert len(found.table) == len(truth) == 10
    np.testing.assert_allclose(sorted(found.table.logz), sorted(truth.values()), atol=1e-6)
    Z = {some: np.exp(value - max(truth.values())) for some, value in truth.items()}
    for term, row in found.inclusion.iterrows():
        on, off = ([s for s in Z if (term in s) == has] for has in (True, False))
        total = sum(Z[s] for s in on) / sum(Z[s] for s in off)
        assert row.probability == pytest.approx(total / (1.0 + total), rel=1e-6)
        assert row.prior == pytest.approx(len(on) / 10.0)
        odds = len(on) / len(off)
        assert row.log_bayes_factor == pytest.approx(np.log(total / odds), abs=1e-6)
        alone = [s for s in on if s - {term} in Z]
        matched = sum(Z[s] for s in alone) / sum(Z[s - {term}] for s in alone)
        assert row.matched == pytest.approx(np.log(matched), abs=1e-6)
    assert set(found.inclusion.index) == {"x", "z", "x:z", "w"}


def test_effects_are_averaged(found):
    """Closed forms of every model, weighted."""
    truth = {some: exact(some) for some in sets()}
    share = {s: np.exp(v - np.logaddexp.reduce(list(truth.values()))) for s, v in truth.items()}
    total, first = 0.0, 0.0
    for some in (s for s in truth if "x" in s):
        terms = sorted(some, key=list(COLUMNS).index)
        X = np.column_stack([np.ones(N), *(COLUMNS[t] for t in terms)])
        mean = np.linalg.solve(np.eye(X.shape[1]) + X.T @ X, X.T @ DATA.y)
        total, first = total + share[some], first + share[some] * mean[1 + terms.index("x")]
    row = found.effects.loc["x"]
    np.testing.assert_allclose([row.probability, row.averaged], [total, first], rtol=1e-5)
    assert row["mean"] == pytest.approx(first / total, rel=1e-5)
    assert found.effects.probability["Intercept"] == pytest.approx(1.0)
    assert ev.predict(found, DATA.iloc[:2]).y_mean.shape == (2,)


@pytest.mark.slow
def test_prior_odds_are_taken_out(found):
    prior = dict.fromkeys(found.table.index, 1.0)
    prior = {name: 5.0 if "w" in name else 1.0 for name in prior}
    other = ev.all_submodels("y ~ x * z + w", DATA, priors=HELD, prior=prior, **QUIET)
    assert other.inclusion.prior["w"] == pytest.approx(5.0 / 6.0)
    got, want = other.inclusion.log_bayes_factor["w"], found.inclusion.log_bayes_factor["w"]
    assert got == pytest.approx(want, abs=1e-6)  # it is in no interaction
    assert other.table.probability.sum() == pytest.approx(1.0)


def test_errors_are_carried_through():
    """Against 100,000 draws of the errors of four models."""
    from evidence.results.submodels import inclusion

    names, rng = list("abcd"), np.random.default_rng(0)
    logz, se = np.array([0.0, -0.5, 0.3, -2.0]), np.array([0.02, 0.05, 0.03, 0.04])
    terms = dict(zip(names, map(frozenset, ((), "x", "z", "xz")), strict=True))
    prior = dict(zip(names, (1.0, 2.0, 1.0, 3.0), strict=True))
    frame = {"logz": logz, "logz_se": se, "probability": np.full(4, 0.25)}
    row = inclusion(pd.DataFrame(frame, index=names), prior, terms).loc["x"]
    Z = np.exp(logz + se * rng.normal(size=(100_000, 4))) * list(prior.values())
    drawn = np.log(Z[:, 1] + Z[:, 3]) - np.log(Z[:, 0] + Z[:, 2])
    assert row.log_bayes_factor_se == pytest.approx(drawn.std(), rel=0.02)


def test_marginality():
    every = _marginal(["Intercept", "a", "b", "c", "a:b", "a:c", "b:c", "a:b:c"])
    assert len(every) == 19  # hierarchical models of three factors
    assert all({"a", "b"} <= s for s in every if "a:b" in s)
    assert len(_marginal(["a:b", "c"])) == 4  # of parts that the formula has


@pytest.mark.slow
def test_names_and_calls_are_spelt_as_formulas_do():
    data = DATA.assign(a=np.array(list("pq"))[np.arange(N) % 2]).rename(columns={"z": "my col"})
    formula = "y ~ `my col` * a + I(x**2) + C(g):np.exp(x)"
    held = ev.all_submodels(formula, data, priors={"sigma": 1.0}, **QUIET)
    assert "y ~ 1 + `my col` + a + `my col`:a + I(x ** 2) + C(g):np.exp(x)" in held.table.index
    assert len(held.table) == 5 * 2 * 2
    model = ev.from_formula(formula, data, priors="jzs")
    assert model.hyperparameters.names == (
        "sd(a)", "sd(mycol:a)", "sd(C(g):np.exp(x))", "sd(mycol+I(x**2))", "sigma"
    )  # fmt: skip


def test_everything_else_is_kept():
    data = DATA.assign(k=RNG.poisson(2.0, N), n=9, e=1.0 + np.arange(N), t=np.arange(N) % 4)
    formula = "k | trials(n) ~ 0 + x + offset(log(e)) + (1 + z || g) + rw1(t)"
    held = dict.fromkeys(("sd(1|g)", "sd(z|g)", "rw1(t)__sigma"), 0.5)
    found = ev.all_submodels(formula, data, likelihood="binomial", priors=held, **QUIET)
    left, kept = "k | trials(n) ~ 0 + ", "offset(log(e)) + (1 + z || g) + rw1(t)"
    assert set(found.table.index) == {f"{left}x + {kept}", f"{left}{kept}"}


@pytest.mark.slow
def test_the_same_numbers_whatever_runs_them(tmp_path):
    """Of hyperparameters that are integrated, and of one mean that has none: on threads, and in
    another process, to which the model's functions do not go."""
    formula, words = (
        "y ~ np.abs(x)",
        {"priors": "jzs", "effort": "frugal", "target_se": 0.1, **QUIET},
    )
    found = ev.all_submodels(formula, DATA, **words)
    assert list(found.table.index) == ["y ~ 1", "y ~ 1 + np.abs(x)"]
    with ProcessPoolExecutor(1, mp_context=fakes.FORK) as executor:
        other = ev.all_submodels(formula, DATA, executor=executor, **words)
    pd.testing.assert_frame_equal(
        *(f.table.drop(columns="seconds") for f in (other, found)), check_like=True
    )
    pd.testing.assert_frame_equal(other.effects, found.effects)
    pd.testing.assert_frame_equal(other.inclusion, found.inclusion)
    other.save(tmp_path / "found.npz")
    back = ev.Submodels.load(tmp_path / "found.npz")
    assert back.summary() == other.summary()
    assert "matched" in str(back.summary())


def test_models_and_terms_are_printed_as_tables(found):
    """One after the other, in every format."""
    marked, latex = found.to_markdown(), found.to_latex()
    about, models, terms = str(found).split("\n\n")
    assert "BF: Bayes factor against" in about
    assert len(models.splitlines()) == 1 + len(found.table)
    assert list(found.inclusion.index) == [row.split()[0] for row in terms.splitlines()[1:]]
    x = found.inclusion.loc["x"]
    for text in (terms, marked.split("\n\n")[1], latex.split("\n\n")[1]):
        (row,) = [line for line in text.splitlines() if re.match(r"(\| )?`?x\b[^:]*$", line)]
        assert in_figures(x.log_bayes_factor) in row
        assert in_figures(x.matched) in row
    (note,) = [line for line in marked.splitlines() if line.startswith("- ")]
    assert "P: probability of the model" in note
    assert latex.count(r"\begin{tabular}") == 2


@pytest.mark.slow
def test_an_interrupt_leaves_the_models_finished_by_then(monkeypatch):
    from evidence.verbs import _several

    run, calls = _several.log_evidence, []

    def interrupted(**words):
        result = run(**words)
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)  # until it is heard
        return result

    monkeypatch.setattr(_several, "log_evidence", interrupted)
    with ThreadPoolExecutor(1) as executor:
        found = ev.all_submodels("y ~ x * z + w", DATA, priors=HELD, executor=executor, **QUIET)
    assert len(found.table) in (2, 3)
    assert "interrupted" in [warning.code for warning in found.warnings]
    assert set(found.models) == set(found.table.index)


@pytest.mark.parametrize(
    ("formula", "words", "message"),
    [
        ("y ~ x + q", {}, "no column 'q'"),
        ("y ~ x", {"prior": {"y ~ x": 1.0}}, "prior must give one number for each"),
        ("y ~ x", {"checkpoint": "file"}, "checkpoint= is for one run"),
        (" + ".join(["y ~ x", *(f"I(x**{i})" for i in range(2, 13))]), {}, "more than 1024"),
    ],
)
def test_bad_input(formula, words, message):
    with pytest.raises(ev.InputError, match=message):
        ev.all_submodels(formula, DATA, **words, **QUIET)
