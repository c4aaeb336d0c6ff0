"""Evidences of mixed models, hyperparameters integrated out, against truths and each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from covering import seldom
from scipy import stats

import evidence as ev
from scripts.benchmarks import formulas

from .cases import table

DATA = formulas.table()
QUICK = ("gaussian",)
SLOW = [name for name in formulas.PROBLEMS if name not in QUICK]


def estimate(model, seed=0, target_se=0.02, **words):
    result = ev.log_evidence(
        model, target_se=target_se, random_seed=seed, progressbar=False, **words
    )
    return result.logz, result.logz_se


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_evidence_is_that_of_quadrature(name):
    """Within four standard errors: of four seeded tests one in four thousand would fail."""
    exact, error = formulas.truth(formulas.PROBLEMS[name], DATA)
    assert error < 1e-3
    logz, se = estimate(formulas.model(formulas.PROBLEMS[name], DATA), effort="frugal")
    assert se < 0.05
    assert abs(logz - exact) < 4.0 * se + error


@pytest.mark.parametrize(
    ("terms", "exact"), seldom([("1", -156.47859), ("1 + (1 | clutch)", -156.71973)], 0)
)
def test_turtles(research_data, terms, exact):
    """Survival of 244 turtles in 31 clutches: Sinharay and Stern (2005), exact by quadrature."""
    stored = np.load(research_data / "turtles.npz")
    data = pd.DataFrame({name: stored[name] for name in ("y", "x", "clutch")})
    given = {"Intercept": stats.norm(0, 10**0.5), "x": stats.norm(0, 10**0.5)}
    if "clutch" in terms:
        given["var(1|clutch)"] = stats.betaprime(1, 1)
    model = ev.from_formula(f"y ~ x + {terms}", data, likelihood="probit", priors=given)
    logz, se = estimate(model)
    assert se < 0.05
    assert abs(logz - exact) < 4.0 * se + 1e-3


@pytest.mark.slow
def test_units_and_order_do_not_matter():
    """Rescaled covariates with rescaled priors, shuffled rows, other names of groups."""
    given = {"x": stats.norm(0, 1), "sd(x|g)": stats.expon()}
    words = {"likelihood": "poisson"}
    base = ev.from_formula("k ~ x + (0 + x | g)", DATA, priors=given, **words)
    unit = 1e4
    scaled = {"x": stats.norm(0, 1 / unit), "sd(x|g)": stats.expon(scale=1 / unit)}
    new = DATA.assign(
        x=unit * DATA.x, g=DATA.g.map(dict(zip("abcde", [5, 3, 1, 2, 4], strict=True)))
    )
    new = new.sample(frac=1.0, random_state=1)
    other = ev.from_formula("k ~ x + (0 + x | g)", new, priors=scaled, **words)
    quick = {"target_se": 0.05, "effort": "frugal"}
    one, two = estimate(base, **quick), estimate(other, seed=1, **quick)
    assert abs(one[0] - two[0]) < 4.0 * np.hypot(one[1], two[1])


def test_perfect_separation_has_an_evidence():
    """Of an intercept and a slope, by a grid over both."""
    x = np.linspace(-1.0, 1.0, 12)
    data = {"x": x, "b": (x > 0).astype(int)}
    given = {"Intercept": stats.norm(0, 2), "x": stats.norm(0, 5)}
    model = ev.from_formula("b ~ x", data, likelihood="bernoulli", priors=given)
    grid = np.linspace(-9.0, 9.0, 401)
    a, b = 2.0 * grid[:, None, None], 5.0 * grid[:, None]
    total = -np.logaddexp(0.0, -np.sign(x) * (a + b * x)).sum(axis=-1)
    total += stats.norm.logpdf(grid)[:, None] + stats.norm.logpdf(grid)
    exact = np.logaddexp.reduce(total.ravel()) + 2.0 * np.log(grid[1] - grid[0])
    assert any("separate" in note for note in model.notes)
    logz, se = estimate(model)
    assert abs(logz - exact) < 4.0 * se + 1e-4


def test_groups_that_do_not_differ():
    """A posterior that piles up at σ = 0: Gaussian data, by a grid over σ and the noise."""
    rng = np.random.default_rng(5)
    g = np.repeat(np.arange(6), 4)
    y = rng.normal(size=24)
    y -= np.array([y[g == i].mean() for i in range(6)])[g]
    given = {"Intercept": stats.norm(), "sd(1|g)": stats.expon(), "noise_std": stats.expon()}
    model = ev.from_formula("y ~ 1 + (1 | g)", {"y": y, "g": g}, priors=given)
    u, w = np.polynomial.legendre.leggauss(60)
    sd, noise = (stats.expon.ppf((u + 1) / 2) for _ in range(2))
    same = (g[:, None] == g).astype(float)
    K = 1.0 + sd[:, None, None, None] ** 2 * same + noise[:, None, None] ** 2 * np.eye(24)
    log_p = -0.5 * (np.linalg.solve(K, y[:, None])[..., 0] @ y + np.linalg.slogdet(K)[1])
    log_p += np.log(w[:, None] / 2) + np.log(w / 2) - 12.0 * np.log(2 * np.pi)
    exact = np.logaddexp.reduce(log_p.ravel())
    logz, se = estimate(model, target_se=0.004, effort="frugal")
    assert se < 0.01
    assert abs(logz - exact) < 4.0 * se + 1e-3


def test_a_prior_that_excludes_where_the_search_would_begin():
    given = {"noise_std": stats.uniform(20.0, 5.0)}
    model = ev.from_formula("y ~ x", table(), priors=given)
    logz, se = estimate(model)
    assert np.isfinite(logz)
    assert se < 0.05
