"""Summaries of regressions against linear algebra, and what they are drawn as."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import evidence as ev
from evidence.results.summary import of_mixture

pytest.importorskip("formulae")
pytestmark = pytest.mark.usefixtures("small_searches")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    group, x = np.repeat(np.arange(6), 10), rng.normal(size=60)
    y = 1.0 + 0.5 * x + 0.7 * rng.normal(size=6)[group] + 0.4 * rng.normal(size=60)
    return {"y": y, "x": x, "g": group}


def test_a_normal_regression_has_the_posterior_of_linear_algebra(data):
    model = ev.from_formula(
        "y ~ x + (1 | g)", data, priors={"Intercept": "norm(0, 2)", "x": "norm(1, 3)"}
    ).at({"sd(1|g)": 0.7, "noise_std": 0.4})
    summary = ev.summarise(model)
    A = np.column_stack([np.ones(60), data["x"], np.eye(6)[data["g"]]])
    prior = np.array([2.0, 3.0, *[0.7] * 6])
    P = np.diag(prior**-2) + A.T @ A / 0.4**2
    mean = np.linalg.solve(P, A.T @ data["y"] / 0.4**2 + np.array([0, 1, *[0] * 6]) / prior**2)
    sd = np.sqrt(np.diag(np.linalg.inv(P)))
    every = np.concatenate([summary.common["mean"], summary.groups["mean"]])
    np.testing.assert_allclose(every, mean, atol=1e-7)
    np.testing.assert_allclose(
        np.concatenate([summary.common.sd, summary.groups.sd]), sd, rtol=1e-7
    )
    np.testing.assert_allclose(summary.common.q95, (mean + stats.norm.ppf(0.95) * sd)[:2])
    assert not len(summary.hyperparameters)
    assert list(summary.groups.index[:2]) == ["1|g[0]", "1|g[1]"]
    result = ev.log_evidence(model, method="ep", progressbar=False)
    assert ev.summarise(model, result).table.equals(summary.table)
    with pytest.raises(ev.InputError, match="must be a result of this model"):
        ev.summarise(model.at({"sd(1|g)": 0.6}), result)


def test_hyperparameters_are_averaged_over(data, tmp_path):
    model = ev.from_formula("y ~ x + (1 | g)", data)
    result = ev.log_evidence(model, target_se=0.1, random_seed=0, progressbar=False)
    summary = ev.summarise(model, result)
    assert list(summary.table.index) == ["Intercept", "x", "sd(1|g)", "sigma"]
    assert summary.table["mean"]["sigma"] == pytest.approx(0.4, abs=0.1)
    held = ev.summarise(model.at({"sd(1|g)": 0.7, "noise_std": 0.4}))
    assert summary.common.sd["Intercept"] > 1.05 * held.common.sd["Intercept"]
    summary.save(tmp_path / "s.npz")
    assert ev.Summary.load(tmp_path / "s.npz").table.equals(summary.table)
    assert len(summary.plot().get_yticks()) == 4
    assert summary.plot_groups("1|g").get_title() == "1|g"
    assert summary.plot_groups().get_title() == "1|g"
    with pytest.raises(ev.InputError, match="term"):
        summary.plot_groups("1|h")
    with pytest.raises(ev.InputError, match="posterior"):
        ev.summarise(model, 3)


@pytest.mark.slow
def test_every_effect_of_groups_has_a_panel(data):
    model = ev.from_formula("y ~ 1 + (1 + x | g)", data)
    summary = ev.summarise(model)
    first = summary.plot_groups()
    assert [ax.get_title() for ax in first.figure.axes] == ["1|g", "x|g"]
    assert [ax.get_title() for ax in summary.plot_groups("1+x|g").figure.axes] == ["1|g", "x|g"]
    assert [ax.get_title() for ax in summary.plot_groups("x|g").figure.axes] == ["x|g"]
    rows = [tick.get_text() for tick in summary.plot_groups("x|g").get_yticklabels()]
    assert all(row.startswith("x|g[") for row in rows)


def test_quantiles_of_mixtures():
    mean, var = np.array([[0.0, -1.0], [3.0, 1.0]]), np.array([[1.0, 0.1], [4.0, 0.2]])
    columns = of_mixture(mean, var)
    for name, q in (("q5", 0.05), ("median", 0.5), ("q95", 0.95)):
        cdf = stats.norm.cdf(columns[name], mean, np.sqrt(var)).mean(axis=0)
        np.testing.assert_allclose(cdf, q, atol=1e-9)
    assert [*of_mixture(mean, var, 0.95)] == ["mean", "sd", "q2.5", "median", "q97.5"]
    rng = np.random.default_rng(0)
    draws = rng.normal(mean[:, 0], np.sqrt(var[:, 0]), size=(200_000, 2)).ravel()
    assert columns["sd"][0] == pytest.approx(draws.std(), rel=0.01)


@pytest.mark.slow
def test_intervals_of_another_level():
    data = {"y": [1.2, 0.4, 2.2, 1.9], "x": [0.0, 1.0, 2.0, 3.0], "g": list("aabb")}
    model = ev.from_formula("y ~ x + (1 | g)", data)
    usual, wide = (ev.summarise(model, level=level).table for level in (0.9, 0.95))
    assert (wide["q2.5"] < usual.q5).all()
    assert (wide["q97.5"] > usual.q95).all()
    with pytest.raises(ev.InputError, match="level must be a number above 0 and below 1, got 95"):
        ev.summarise(model, level=95)


def test_a_figure_of_no_common_effects_says_so():
    data = {"y": [1.0, 0.2, 0.4, 1.3], "g": list("aabb")}
    priors = {"sigma": 1.0, "sd(1|g)": 1.0}
    summary = ev.summarise(ev.from_formula("y ~ 0 + (1 | g)", data, priors=priors))
    assert summary.plot().texts[0].get_text() == "no common effects or hyperparameters to draw"


def test_a_parameter_with_a_prior_is_told_without_where_a_search_starts():
    data = {"y": [1.0, 0.2, 0.4, 1.3], "x": [0.0, 1.0, 2.0, 4.0]}
    for given, told in ({}, "gaussian(noise_std)"), ({"sigma": 0.5}, "gaussian(noise_std=0.5)"):
        assert ev.from_formula("y ~ x", data, priors=given).describe()["likelihood"] == told
    robust = ev.from_formula("y ~ x", data, likelihood="student_t", priors={"df": 4.0})
    assert robust.describe()["likelihood"] == "student_t(df=4, scale)"
