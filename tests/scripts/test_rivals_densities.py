"""Rivals on densities: problems agree with their priors, and tables say who is ahead."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

from scripts.catalogue import hard
from scripts.catalogue.hard import PROBLEMS
from scripts.catalogue.problem import Prior
from scripts.rivals import densities

PRIORS = [
    Prior("uniform", -1.0, 3.0), Prior("normal", 2.0, 0.5), Prior("gamma", 2.0, 3.0),
    Prior("beta", 0.5, 2.0), Prior("half_cauchy", 0.0, 5.0), Prior("student", 3.0, 2.0),
    Prior("half_normal", 0.0, 3.0),
]  # fmt: skip


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.kind)
def test_a_prior_is_the_same_in_three_forms(prior: Prior) -> None:
    u, same = np.linspace(0.05, 0.95, 19), prior.frozen()
    x = prior.quantile(u)
    assert np.allclose(same.cdf(x), u)
    assert np.allclose(prior.log(x), same.logpdf(x))


@pytest.mark.parametrize(
    "name", ["double well 1", "pole 1", "counts 1", "no successes 1", "product 2", "rastrigin 2"]
)
def test_truths_are_integrals_over_the_cube(name: str) -> None:
    problem = PROBLEMS[name]()
    transform = densities.cube(problem)

    def value(*u: float) -> float:
        return float(np.exp(problem.log_likelihood(np, transform(np.array([u])))[0]))

    if problem.dim == 1:
        near = 0.5 + 0.5 * np.r_[-np.logspace(-8, -1, 8), 0.0, np.logspace(-8, -1, 8)]
        total, _ = integrate.quad(value, 0.0, 1.0, points=near, limit=500)
    else:
        u = (np.arange(1500) + 0.5) / 1500
        points = transform(np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2))
        total = np.exp(problem.log_likelihood(np, points)).mean()
    assert np.log(total) == pytest.approx(problem.truth, abs=2e-4)


@pytest.mark.slow
def test_likelihoods_are_finite_somewhere_and_rivals_see_no_nan(monkeypatch) -> None:
    monkeypatch.setattr(hard, "_chain", lambda *_, **__: 0.0)  # of truths, which are not looked at
    rng = np.random.default_rng(0)
    for name in set(PROBLEMS) - {"autoregressive 500", "logistic 13"}:
        problem = PROBLEMS[name]()
        points = densities.cube(problem)(rng.random((2000, problem.dim)))
        values = densities.finite(problem, -1e100)(points)
        assert values.shape == (2000,)
        assert np.isfinite(values).all()
        assert (values > -1e100).any() or name.startswith("small box")


def rows(package: str, problem: str, errors: list[float], **given: object) -> list[dict]:
    fixed = {"truth": 0.0, "truth_se": 0.0, "se": 0.1, "seconds": 1.0, "evaluations": 100}
    fixed |= {"told": np.nan, "failure": np.nan} | given
    return [
        fixed | {"package": package, "problem": problem, "seed": seed, "logz": e, "error": e}
        for seed, e in enumerate(errors)
    ]


def test_who_is_ahead_and_who_is_silent() -> None:
    table = pd.DataFrame([
        *rows("evidence", "a", [0.1, -0.1], seconds=2.0),
        *rows("rival", "a", [0.2, 0.2]),
        *rows("evidence", "b", [0.1, 0.1], seconds=9.0),
        *rows("rival", "b", [0.1, 1.0], evaluations=1),
        *rows("evidence", "c", [0.5, 0.5], told="modes-missed"),
        *rows("rival", "c", [np.nan, 0.0]),
    ])  # fmt: skip
    summed = densities.by_problem(table)
    found = densities.summary(summed, "evidence").iloc[0]
    assert (found.problems, found.unanswered, found.wrong, found.own_silent) == (3, 1, 1, 0)
    assert found.ahead_seconds == 1.0  # 4e-2 to 2e-2, .505 to .09, and no answer at all
    assert found.ahead_evaluations == pytest.approx(2.0 / 3.0)
    assert summed.wrong.tolist() == [0, 0, 0, 1, 2, 0]
    assert summed.silent.tolist() == [0, 0, 0, 1, 0, 0]


@pytest.mark.slow
def test_runs_are_kept(tmp_path, monkeypatch, capsys) -> None:
    """A row for this package, at once; a second call runs nothing and prints the table."""
    words = ["--fast", "--packages", "evidence, coarse", "--only", "double well 1"]
    monkeypatch.setattr("sys.argv", ["densities", *words, "--out", str(tmp_path)])
    densities.main()
    first = pd.read_csv(tmp_path / "runs.csv")
    assert first.problem.tolist() == ["double well 1"]
    assert abs(first.error[0]) < 1.0
    assert first.evaluations[0] > 100
    capsys.readouterr()
    densities.main()
    assert "double well" not in capsys.readouterr().out
    assert pd.read_csv(tmp_path / "runs.csv").equals(first)


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_ended(monkeypatch) -> None:
    monkeypatch.setattr(densities, "GRACE", 0.1)
    processes = densities.Processes()
    try:
        row = processes.measure("double well 1", "evidence", 0, 0.01)
    finally:
        processes.close()
    assert row["failure"].startswith("no answer within")
    assert np.isnan(row["logz"])
