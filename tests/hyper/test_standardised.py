"""Closed forms of standardised effects: dense algebra, quadrature, and the noise drawn after."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

import evidence as ev
from evidence.hyper.standardised import StandardisedEvidence

RNG = np.random.default_rng(3)
N = 18
DATA = pd.DataFrame(
    {
        "a": np.array(list("pqr"))[np.arange(N) % 3],
        "g": np.arange(N) // 3,
        "h": RNG.integers(0, 3, N),
        "x": RNG.normal(size=N),
        "o": RNG.normal(size=N),
    }
)
DATA["y"] = 1e3 + 40.0 * (DATA.a == "p") + 30.0 * RNG.normal(size=N)


def dense(model, ratios):
    """log Z given √g: generalised least squares with one mean, by its formula."""
    A, y = model.A.toarray(), model.y - model.offset
    V = np.eye(N)
    for ratio, (_, where) in zip(ratios, list(model.slices.items())[1:], strict=True):
        V += ratio**2 * A[:, where] @ A[:, where].T
    solved = np.linalg.solve(V, np.column_stack([y, np.ones(N)]))
    precision = solved[:, 1].sum()
    S = y @ solved[:, 0] - solved[:, 0].sum() ** 2 / precision
    nu = N - 1
    return (
        gammaln(nu / 2) - nu / 2 * np.log(np.pi * S)
        - 0.5 * np.linalg.slogdet(V)[1] - 0.5 * np.log(precision)
    )  # fmt: skip


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ a",
        "y ~ a * x",
        "y ~ x + (1 | g)",
        "y ~ a + offset(30 * o) + (a | g)",
        "y ~ a + (1 | g) + (1 | h)",
    ],
)
@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
def test_against_dense_algebra(formula, unit):
    data = DATA.assign(y=unit * DATA.y, o=unit * DATA.o)
    model = ev.from_formula(formula, data, priors="jzs")
    ratios = np.exp(np.random.default_rng(0).normal(size=(4, len(model.priors) - 1)))
    got = StandardisedEvidence(model, model.priors)(ratios)
    np.testing.assert_allclose(got, [dense(model, row) for row in ratios], atol=1e-6)


def test_a_mean_that_is_compared():
    y = RNG.normal(0.6, 1.0, 12)
    known = [ev.from_formula(f"y ~ {c}", {"y": y}, priors="jzs") for c in "10"]
    flat, zero = (StandardisedEvidence(m, m.priors)(np.zeros((1, 0)))[0] for m in known)
    S = y @ y
    np.testing.assert_allclose(zero, gammaln(6.0) - 6.0 * np.log(np.pi * S), atol=1e-6)
    S -= 12 * y.mean() ** 2
    np.testing.assert_allclose(
        flat, gammaln(5.5) - 5.5 * np.log(np.pi * S) - 0.5 * np.log(12.0), atol=1e-6
    )


@pytest.fixture(scope="module")
def run():
    model = ev.from_formula("y ~ a", DATA, priors="jzs")
    words = {"target_se": 0.01, "effort": "frugal", "random_seed": 0, "progressbar": False}
    return model, ev.log_evidence(model, **words)


def test_evidence_and_draws_by_quadrature(run):
    """Integrals over g and, by hand, over the noise given it; 1000 draws of a mean."""
    model, result = run
    evidence = StandardisedEvidence(model, model.priors)
    t = np.linspace(-6.0, 8.0, 4001)
    log_z, S = evidence.parted(np.exp(t)[:, None])
    prior = stats.invgamma(0.5, scale=0.125).logpdf(np.exp(2.0 * t)) + np.log(2.0) + 2.0 * t
    w = np.exp(log_z + prior - log_z.max())
    total = integrate.trapezoid(w, t)
    assert abs(np.log(total) + log_z.max() - result.logz) < 4.0 * result.logz_se
    assert result.logz_se < 0.01
    nu = N - 1
    sigma = np.sqrt(S / 2.0) * np.exp(gammaln((nu - 1) / 2) - gammaln(nu / 2))
    for value, want in (
        (result.samples[:, 1], integrate.trapezoid(w * sigma, t) / total),
        (
            np.log(result.samples[:, 0] / result.samples[:, 1]),
            integrate.trapezoid(w * t, t) / total,
        ),
    ):
        assert abs(value.mean() - want) < 4.0 * value.std() / len(value) ** 0.5
    assert result.names == ("sd(a)", "sigma")


def test_what_follows_from_a_result(run):
    """Effects, predictions and leave-one-out need nothing of their own."""
    model, result = run
    table = ev.summarise(model, result).table
    cells = DATA.groupby("a").y.mean()
    predicted = ev.predict(model, DATA.iloc[:3], posterior=result).y_mean
    middle = DATA.y.mean()
    assert table["mean"]["Intercept"] == pytest.approx(middle, abs=0.1)
    levels = table.loc[["a[p]", "a[q]", "a[r]"], "mean"]
    np.testing.assert_allclose(levels, predicted - middle, rtol=0.05)
    shrunk = (predicted - middle) / (cells[list("pqr")].to_numpy() - middle)
    g = (result.samples[:, 0] / result.samples[:, 1]) ** 2
    np.testing.assert_allclose(shrunk, np.mean(6.0 * g / (1.0 + 6.0 * g)), atol=0.15)
    assert np.isfinite(ev.loo(model, posterior=result, progressbar=False).elpd)


@pytest.mark.parametrize(("formula", "y"), [("y ~ x", "x"), ("y ~ 1", "one"), ("y ~ a + x", "x")])
def test_no_evidence_without_scatter(formula, y):
    data = DATA.assign(y=7.0 if y == "one" else 3.0 + 2.0 * DATA.x)
    model = ev.from_formula(formula, data, priors="jzs")
    with pytest.raises(ev.InputError, match="without any scatter"):
        ev.log_evidence(model, progressbar=False)


def test_effects_that_explain_all_but_are_many():
    """As many effects as data: the prior of their variance leaves scatter."""
    data = DATA.assign(each=np.arange(N))
    model = ev.from_formula("y ~ 1 + (1 | each)", data, priors="jzs")
    evidence = StandardisedEvidence(model, model.priors)
    evidence.check_scatter()
    assert np.isfinite(evidence(np.array([[1e-9], [1.0], [1e9]]))).all()


def test_priors_stay_together(run):
    model, result = run
    for refused in (
        lambda: ev.integrated_evidence(model, fixed=["sigma"]),
        lambda: ev.prior_sensitivity(model, result),
    ):
        with pytest.raises(ev.InputError, match="in units of sigma, all together"):
            refused()
    words = {"effort": "frugal", "random_seed": 0, "progressbar": False}
    assert ev.integrated_evidence(model, **words).logz
    held = model.at({"sigma": 30.0})
    assert held.measure == "a flat mean"
    assert model.measure == "a flat mean and Jeffreys' variance"


def test_slopes_are_those_of_columns():
    """A summary has effects of levels that sum to zero, and slopes in the units of data."""
    model = ev.from_formula("y ~ a + x + o", DATA, priors="jzs")
    at = dict.fromkeys(model.hyperparameters.names, 30.0)
    held = model.at(at | {"sd(x+o)": 1e4, "sd(a)": 1e4})
    table = ev.summarise(held).table
    X = np.column_stack([DATA.x, DATA.o, *(DATA.a == level for level in "pqr")])
    slopes = np.linalg.lstsq(X, DATA.y, rcond=None)[0]
    np.testing.assert_allclose(table["mean"][["x", "o"]], slopes[:2], rtol=1e-3)
    levels = slopes[2:] - slopes[2:].mean()
    np.testing.assert_allclose(table["mean"][["a[p]", "a[q]", "a[r]"]], levels, rtol=1e-2)
    cov = np.linalg.inv(X.T @ X) * 30.0**2
    np.testing.assert_allclose(table.sd[["x", "o"]], np.sqrt(np.diag(cov)[:2]), rtol=1e-3)
