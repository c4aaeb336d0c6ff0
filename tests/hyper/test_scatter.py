"""Data that other than normal likelihoods fit without any noise have no evidence."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import evidence as ev
from evidence.hyper.direct import density_over

X = np.random.default_rng(0).standard_normal(12)
G = np.repeat(np.arange(4), 3)
EQUAL = np.full(12, 3.0)
LOG_FAMILIES = ("gamma", "weibull", "lognormal", "log_logistic")


def density(formula, y, likelihood, **priors):
    priors = {"Intercept": stats.norm(0.0, 5.0)} | priors
    data = {"y": y, "x": X, "g": G}
    model = ev.from_formula(formula, data, likelihood=likelihood, priors=priors)
    return density_over(model, model.priors)


@pytest.mark.parametrize(
    ("formula", "y"),
    [
        ("y ~ 1", EQUAL), ("y ~ 1", 0.0 * EQUAL), ("y ~ 1", 1e-30 * EQUAL),
        ("y ~ x", 2.0 + X), ("y ~ 1 + (1|g)", G + 1.0),
    ],
)  # fmt: skip
def test_student_t(formula, y):
    """A density that rises for ever took minutes, and ended without an answer."""
    with pytest.raises(ev.InputError, match=r"without any noise.* scale .*near zero"):
        density(formula, y, "student_t")


@pytest.mark.parametrize(("formula", "y"), [("y ~ 1", EQUAL), ("y ~ 1 + (1|g)", G + 1.0)])
@pytest.mark.parametrize("likelihood", LOG_FAMILIES)
def test_positive_responses(likelihood, formula, y):
    """Where noise vanishes for large shapes, too."""
    where = "sigma .*near zero" if likelihood == "lognormal" else "shape .*large values"
    with pytest.raises(ev.InputError, match=f"without any noise.* {where}"):
        density(formula, y, likelihood)


@pytest.mark.parametrize(("formula", "y"), [("y ~ 1", EQUAL), ("y ~ 1 + (1|g)", G + 1.0)])
def test_shares(formula, y):
    """Whose density at a peak is rounding for large phi, long before the peak is as narrow."""
    with pytest.raises(ev.InputError, match=r"without any noise.* phi .*large values"):
        density(formula, 0.1 * y, "beta")


@pytest.mark.parametrize(
    ("likelihood", "y", "priors"),
    [
        ("beta", expit(X), {}),
        ("beta", 0.1 * EQUAL, {"phi": stats.gamma(2.0)}),
        ("student_t", EQUAL, {"scale": stats.invgamma(2.0)}),
        ("student_t", EQUAL, {"scale": stats.lognorm(1.0)}),
        ("student_t", EQUAL, {"scale": 0.1}),
        ("student_t", np.exp(X), {}),
        ("gamma", EQUAL, {"shape": stats.gamma(2.0)}),
        ("negative_binomial", EQUAL, {}),
        ("poisson", EQUAL, {"sd(1|g)": stats.halfcauchy(scale=25.0)}),
        *((name, np.exp(X), {}) for name in LOG_FAMILIES),
    ],
)
def test_what_has_an_evidence_is_not_refused(likelihood, y, priors):
    density("y ~ 1 + (1|g)" if likelihood == "poisson" else "y ~ 1", y, likelihood, **priors)


def test_parameters_that_data_have_of_their_own_are_passed_over():
    likelihood = ev.likelihoods.StudentT(df=tuple(np.linspace(3.0, 9.0, 12)))
    with pytest.raises(ev.InputError, match="scale a prior that rules out values near zero"):
        density("y ~ 1", EQUAL, likelihood, scale=stats.halfnorm())


def test_shapes_close_to_where_they_end():
    """A step of a difference led below 1, where a log-logistic has no mean: no formula with that
    likelihood had an evidence."""
    y, prior = np.array([1.5, 5.5, 0.5, 2.5, 7.5, 0.5]), stats.invgamma(0.4, loc=1.0, scale=0.3)
    priors = {"Intercept": stats.norm(0.0, 2.0), "shape": prior}
    model = ev.from_formula("y ~ 1", {"y": y}, likelihood="log_logistic", priors=priors)
    result = ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    x, u = np.linspace(-12.0, 12.0, 601), (np.arange(1000) + 0.5) / 1000
    k = np.minimum(prior.ppf(u), 1e3)[:, None, None]
    z = k * (np.log(y) - x[:, None] - np.log(np.sin(np.pi / k) * k / np.pi))
    each = np.sum(np.log(k / y) + z - 2.0 * np.logaddexp(0.0, z), axis=2)
    each += stats.norm.logpdf(x, 0.0, 2.0)
    truth = np.log(np.mean(np.sum(np.exp(each), axis=1)) * (x[1] - x[0]))
    assert abs(result.logz - truth) < 4.0 * result.logz_se < 0.1
