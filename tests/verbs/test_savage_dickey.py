"""Savage and Dickey's ratio: against conjugate truths and the direct ratio, errors over seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from covering import seldom
from scipy import stats

import evidence as ev
from evidence.verbs.savage_dickey import log_density_at

RNG = np.random.default_rng(6)
N = 30
X, G = RNG.normal(size=N), np.arange(N) % 6
DATA = {"x": X, "g": G, "y": 0.3 * X + RNG.normal(size=N)}
DATA["b"] = (DATA["y"] > 0.2).astype(int)
pytestmark = pytest.mark.usefixtures("small_searches")
QUIET = {"random_seed": 0, "progressbar": False}
FREE = {"x": "norm(0.1, 1)", "Intercept": "norm(0, 2)"}


@pytest.mark.parametrize("point", [0.0, 0.4, -3.0])
def test_a_conjugate_effect(point):
    """Both rows are exact, in the tail as in the middle."""
    model = ev.from_formula("y ~ x", DATA, priors=FREE | {"sigma": 1.0})
    result = ev.log_evidence(model, **QUIET)
    A = np.column_stack([np.ones(N), X])
    cov = np.linalg.inv(np.diag([0.25, 1.0]) + A.T @ A)
    mean = cov @ (A.T @ DATA["y"] + np.array([0.0, 0.1]))
    truth = stats.norm.logpdf(point, mean[1], cov[1, 1] ** 0.5) - stats.norm.logpdf(point, 0.1)
    table = ev.savage_dickey(result, "x", point, model=model)
    np.testing.assert_allclose(table.log_bayes_factor, truth, atol=1e-5)
    np.testing.assert_allclose(table.se, 0.0, atol=1e-9)


def agree(table):
    gap = table.log_bayes_factor["draws"] - table.log_bayes_factor["direct"]
    return abs(gap) < 3.5 * np.hypot(*table.se) and table.se["draws"] < 0.2


def test_effects_and_hyperparameters_of_a_normal_response():
    result = ev.log_evidence(ev.from_formula("y ~ x", DATA, priors=FREE), **QUIET)
    assert agree(ev.savage_dickey(result, "x", random_seed=0))
    assert agree(ev.savage_dickey(result, "sigma", 1.1, random_seed=0))


def test_effects_and_hyperparameters_of_labels():
    """A few labels, whose posterior is skew: EP's evidences err less than its normal ones."""
    held = {"sd(1|g)": 0.5}
    model = ev.from_formula("b ~ x + (1 | g)", DATA, family="bernoulli", priors=FREE | held)
    result = ev.log_evidence(model, target_se=0.01, **QUIET)
    table = ev.savage_dickey(result, "x", -1.0, model=model, random_seed=0)
    assert table.log_bayes_factor["draws"] == pytest.approx(
        table.log_bayes_factor["direct"], abs=0.06
    )


@pytest.mark.parametrize(("name", "point"), [("x", 0.3), ("Intercept", -2.0)])
def test_effects_that_depend_on_each_other(name, point):
    """By default the intercept is independent at the mean of x: a normal model in closed form."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(5.0, 1.0, 12), rng.normal(size=12)
    model = ev.from_formula("y ~ x", {"x": x, "y": y}, priors={"sigma": 1.0})
    result = ev.log_evidence(model, **QUIET)
    table = ev.savage_dickey(result, name, point, model=model, random_seed=0)
    m, C = model.prior.latent_mean, np.linalg.inv(model.Q.toarray())
    j = model.names.index(name)
    A = np.column_stack([np.ones(12), x])
    held = C - np.outer(C[j], C[j]) / C[j, j]
    given = m + C[j] / C[j, j] * (point - m[j])
    log_p = [
        stats.multivariate_normal(A @ mean, A @ cov @ A.T + np.eye(12)).logpdf(y)
        for mean, cov in [(given, held), (m, C)]
    ]
    np.testing.assert_allclose(table.log_bayes_factor, log_p[0] - log_p[1], atol=1e-4)


def test_the_error_of_ep_is_counted():
    """Eight labels with a strong slope, nothing integrated: no draw differs, EP is off."""
    data = {"x": np.linspace(-2.0, 2.0, 8), "y": [0, 0, 0, 1, 0, 1, 1, 1]}
    model = ev.from_formula("y ~ x", data, likelihood="bernoulli", priors={"x": stats.norm(0, 5)})
    result = ev.log_evidence(model, target_se=0.01, **QUIET)
    table = ev.savage_dickey(result, "x", 0.0, model=model, random_seed=0)
    gap = table.log_bayes_factor["draws"] - table.log_bayes_factor["direct"]
    assert abs(gap) > 4.0 * table.se["direct"]
    assert abs(gap) < 2.0 * np.hypot(*table.se)


def test_parameters_of_a_density():
    y = np.array([0.4, 1.2, 0.9, 1.7])

    def loglik(theta):
        return stats.norm.logpdf(y, theta[:, :1], 1.0).sum(axis=1) - 0.5 * theta[:, 1] ** 2

    prior = {"mu": stats.norm(0.0, 2.0), "other": stats.gamma(2.0)}
    model = ev.DensityModel(loglik, prior=prior, vectorized=True)
    result = ev.log_evidence(model, **QUIET)
    v = 1.0 / (0.25 + y.size)
    truth = stats.norm.logpdf(0.0, v * y.sum(), v**0.5) - stats.norm.logpdf(0.0, 0.0, 2.0)
    table = ev.savage_dickey(result, "mu", 0.0, model=model, random_seed=0)
    np.testing.assert_array_less(abs(table.log_bayes_factor - truth), 3.5 * table.se)
    assert agree(table)
    far = ev.savage_dickey(result, "mu", -4.0, model=model, random_seed=0)
    assert np.isnan(far.log_bayes_factor["draws"])
    assert np.isfinite(far.log_bayes_factor["direct"])


@pytest.mark.parametrize(
    "posterior",
    seldom([stats.norm(1.0, 0.5), stats.t(4), stats.gamma(4.0), stats.skewnorm(5.0)], 2),
)
def test_errors_of_densities_are_what_they_say(posterior):
    """1000 draws, a hundred times, from the middle to the tail: 1.35 is four standard errors of
    that root mean square for errors as large as their bars."""
    rng = np.random.default_rng(0)
    for share in (0.5, 0.9, 0.1):
        at = float(posterior.ppf(share))
        pairs = [log_density_at(posterior.rvs(1000, random_state=rng), at) for _ in range(100)]
        found, se = np.array(pairs).T
        z = (found - posterior.logpdf(at)) / se
        assert np.sqrt(np.mean(z**2)) < 1.35
        assert np.median(se) < 0.13


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("q", {}, "no draws of 'q'"),
        ("1|g[0]", {}, "did you mean"),
        ("sd(1|g)", {"point": 0.0}, "must be a positive number"),
        ("x", {"point": np.nan}, "point must be a finite number"),
        ("x", {"model": 3}, "model must be"),
        ("x", {"model": ev.from_formula("y ~ x", DATA)}, "model is another one"),
    ],
)
def test_bad_input(name, words, message):
    model = ev.from_formula("y ~ x + (1 | g)", DATA)
    result = ev.IntegratedEvidence(
        "integrated", 0.0, 0.1, (), names=model.priors.names, theta=np.zeros((50, 2)),
        lows=np.full(2, np.nan), source=model, model=model.describe(),
    )  # fmt: skip
    with pytest.raises(ev.InputError, match=message):
        ev.savage_dickey(result, name, **words)
    with pytest.raises(ev.InputError, match=r"model is needed.*pass model="):
        ev.savage_dickey(replace(result, source=None), name)


def test_standardised_effects_are_compared_directly():
    model = ev.from_formula("y ~ x", DATA, priors="jzs")
    result = ev.IntegratedEvidence(
        "integrated", 0.0, 0.1, (), names=model.priors.names, theta=np.zeros((50, 2)),
        lows=np.full(2, np.nan), source=model, model=model.describe(),
    )  # fmt: skip
    with pytest.raises(ev.InputError, match="no draws of 'x'"):
        ev.savage_dickey(result, "x")


def test_a_parameter_without_a_prior_is_named():
    model = ev.from_formula("b ~ x + (1 | g)", DATA, likelihood="probit", priors={"sd(1|g)": 1.0})
    result = ev.log_evidence(model, **QUIET)
    name = next(name for name in result.names if name.startswith("1|g"))
    with pytest.raises(ev.InputError, match="no hyperparameter with a prior"):
        ev.savage_dickey(result, name, 0.0, model=model)
