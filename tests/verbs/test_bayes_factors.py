"""Bayes factors that R's BayesFactor reports: to half a percent, with an error of at most that.

Truths are by quadrature; BayesFactor's own, by Monte Carlo for several groups of effects, agree.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import evidence as ev

SLEEP = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])  # hours more, of ten people
ATTITUDE = pd.DataFrame(
    np.reshape(
        np.loadtxt(
            """
        43 51 30 39 61 63 64 51 54 63 71 70 68 69 76 61 63 45 47 54 81 78 56 66 71 43 55 49 44 54
        58 67 42 56 66 71 75 50 55 70 72 82 72 67 71 67 61 45 47 62 64 53 53 58 58 67 60 47 39 59
        69 62 57 42 55 68 83 83 45 59 77 77 54 72 79 81 90 50 72 60 74 85 64 69 79 65 60 65 75 55
        65 70 46 57 75 50 58 68 54 64 50 40 33 34 43 64 61 52 62 66 53 66 52 50 63 40 37 42 58 50
        63 54 42 48 66 66 77 66 63 88 78 75 58 74 80 48 57 44 45 51 85 85 71 71 77 82 82 39 59 64
        """.splitlines()
        ),
        (30, 5),
    ),
    columns=["rating", "complaints", "privileges", "learning", "raises"],
)  # of a clerical organisation, Chatterjee and Price (1977)
SCORES = np.reshape(
    np.loadtxt(
        """
    52.0 52.8 53.1 51.8 52.8 53.1 60.0 60.2 58.4 51.1 52.3 50.3 50.9 51.8 51.4 46.4 44.8 49.2
    67.5 67.2 66.9 61.5 61.7 62.3 70.8 70.6 71.0 64.1 66.2 64.0 72.1 72.0 71.1 62.0 61.4 60.5
    """.splitlines()
    ),
    (2, 6, 3),
)  # on machines A and C, of six workers, three times: Pinheiro and Bates (2000)


FEW = {"effort": "frugal", "target_se": 0.002}


def log_factor(formulas, data, **words):
    """That of the first formula against the second, and its error."""
    comparison = ev.compare(
        formulas, data, priors="jzs", random_seed=0, progressbar=False, **words
    )
    assert not comparison.warnings
    first, second = (comparison.table.loc[f] for f in formulas)
    return first.logz - second.logz, math.hypot(first.logz_se, second.logz_se)


def check(formulas, data, truth, **words):
    factor, se = log_factor(formulas, data, **words)
    assert se <= 0.005
    assert math.exp(factor) == pytest.approx(truth, rel=0.005)


def test_one_sample():
    check(["d ~ 1", "d ~ 0"], {"d": SLEEP}, 17.2589, **FEW)


@pytest.mark.slow
def test_regressions():
    check(["rating ~ complaints", "rating ~ 1"], ATTITUDE, 417_938.6)


@pytest.mark.slow
def test_regressions_of_several_covariates():
    others = "privileges + learning + raises"
    check([f"rating ~ complaints + {others}", f"rating ~ {others}"], ATTITUDE, 351.26)


@pytest.mark.slow
def test_random_slopes_and_a_paired_test():
    machine, worker, _ = np.indices(SCORES.shape)
    data = {"score": SCORES.ravel(), "machine": np.array(list("AC"))[machine.ravel()]}
    data["worker"] = worker.ravel()
    formulas = [f"score ~ {common} + (machine | worker)" for common in ("machine", "1")]
    check(formulas, data, 99.35)
    check(["d ~ 1", "d ~ 0"], {"d": np.diff(SCORES.mean(axis=2), axis=0)[0]}, 108.28)


@pytest.mark.slow
def test_repeated_measures(research_data):
    data = pd.read_csv(research_data / "published" / "puzzles.csv")
    for common, truth in (
        ("shape", 2.8648), ("color", 2.8648), ("shape + color", 11.888), ("shape * color", 4.436)
    ):  # fmt: skip
        check([f"RT ~ {common} + (1 | ID)", "RT ~ 1 + (1 | ID)"], data, truth)


def test_two_samples_are_a_factor_of_two_levels():
    """Contrasts of two levels with r = 1/2 are a difference with √2/2: by quadrature over its
    variance, of the t statistic alone."""
    rng = np.random.default_rng(1)
    y, group = rng.normal(size=20) + np.repeat([0.0, 0.9], 10), np.repeat([0, 1], 10)
    factor, se = log_factor(["y ~ C(g)", "y ~ 1"], {"y": y, "g": group}, **FEW)
    pooled = (y[:10].var() + y[10:].var()) * 10 / 18
    t2 = (y[:10].mean() - y[10:].mean()) ** 2 / pooled * 5.0
    log_g = np.linspace(-12.0, 20.0, 8001)
    g = np.exp(log_g)
    terms = -0.5 * np.log1p(5.0 * g) - 9.5 * np.log1p(t2 / ((1.0 + 5.0 * g) * 18.0))
    prior = np.sqrt(0.25 / np.pi) * g**-0.5 * np.exp(-0.25 / g)
    truth = np.log(np.trapezoid(np.exp(terms) * prior, log_g)) + 9.5 * np.log1p(t2 / 18.0)
    assert abs(factor - truth) < 4.0 * se + 1e-3
    assert se < 0.005


def test_labels_by_quadrature():
    """A Cauchy effect of two levels, in units of the information at the mean, over a grid."""
    y, sign = np.array([1] * 7 + [0] * 3 + [1] * 2 + [0] * 8), np.repeat([1.0, -1.0], 10)
    words = {
        "likelihood": "bernoulli",
        "priors": "jzs",
        "random_seed": 0,
        "progressbar": False,
    } | FEW
    comparison = ev.compare(["y ~ C(g)", "y ~ 1"], {"y": y, "g": sign}, **words)
    mean, b = np.linspace(-12.0, 12.0, 161), np.tan(np.linspace(-1.57, 1.57, 801))
    r = 0.5 / math.sqrt(y.mean() * (1.0 - y.mean()))
    eta = mean[:, None, None] + b[None, :, None] * sign[None, None] / math.sqrt(2.0)
    log_p = -np.logaddexp(0.0, -np.where(y == 1, 1.0, -1.0) * eta).sum(axis=2)
    prior = np.exp(-0.5 * (mean / 2.5) ** 2)[:, None] * (r / np.pi / (r**2 + b**2))
    both = np.trapezoid(np.trapezoid(np.exp(log_p) * prior, b, axis=1), mean)
    null = np.trapezoid(np.exp(log_p[:, 400]) * np.exp(-0.5 * (mean / 2.5) ** 2), mean)
    logz, se = comparison.table.logz, comparison.table.logz_se
    gap = logz["y ~ C(g)"] - logz["y ~ 1"] - math.log(both / null)
    assert abs(gap) < 4.0 * np.hypot(*se) + 2e-3


def test_kinds_of_priors_are_not_mixed():
    data = {"y": SLEEP, "x": np.arange(10.0)}
    made = {p: ev.from_formula("y ~ x", data, priors=p) for p in ("jzs", "scaled")}
    with pytest.raises(ev.InputError, match=r"different constants.*proper priors"):
        ev.compare(made)
    means = {c: ev.from_formula(f"y ~ {c}", data, priors="jzs") for c in "01"}
    with pytest.raises(ev.InputError, match="formulas in one call"):
        ev.compare(means)
