"""Data that a formula fits exactly: refused where log Z is infinite, answered where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma

import evidence as ev
from evidence.hyper.direct import density_over
from evidence.models.formulas.ties import check_ties

rng = np.random.default_rng(0)
N = 24
X = np.linspace(-1.0, 1.0, N)
DATA = {"x": X, "g": np.repeat(list("abcd"), 6), "y": X + 0.5 * rng.normal(size=N)}
TIED = np.where(np.arange(N) < 6, 1.0, DATA["y"])
QUIET = {"random_seed": 0, "progressbar": False}


def made(y, formula="y ~ x", **words):
    return ev.from_formula(formula, DATA | {"y": y}, **words)


@pytest.mark.parametrize(
    ("y", "words", "match"),
    [
        (np.full(N, 2.0), {}, "without any noise"),
        (2.0 * X, {"formula": "y ~ x + (1 | g)"}, "without any noise"),
        (np.zeros(N), {"likelihood": "student_t"}, "without any noise"),
        (np.full(N, 2.0), {"likelihood": "gamma"}, "without any noise"),
        (np.full(N, 2.0), {"likelihood": "lognormal"}, "without any noise"),
        (np.full(N, 0.4), {"likelihood": "beta"}, "without any noise.* phi "),
        (TIED, {"formula": "y ~ 1", "predictors": {"sigma": "(1 | g)"}},
         r"in data 0, 1, 2, 3, ….*sigma:sd\(1\|g\) a prior"),
        (TIED, {"formula": "y ~ (1 | g)", "predictors": {"sigma": "(1 | g)"}}, "in data 0, 1, 2"),
        (np.full(N, 2.0), {"likelihood": "student_t", "predictors": {"sigma": "x"}}, "in data 0"),
        (np.full(N, 2.0), {"likelihood": "weibull", "predictors": {"shape": "(1 | g)"}},
         r"\(shape\)"),
    ],
)  # fmt: skip
def test_an_endless_evidence_is_one_line(y, words, match):
    with pytest.raises(ev.InputError, match=match):
        ev.log_evidence(made(y, **words), effort="frugal", **QUIET)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (DATA["y"], {"predictors": {"sigma": "(1 | g)"}}),
        (np.where(np.arange(N) < 3, 1.0, DATA["y"]), {"predictors": {"sigma": "(1 | g)"}}),
        (np.zeros(N), {"likelihood": "zero_inflated_poisson", "predictors": {"zi": "(1 | g)"}}),
        (np.full(N, 2.0), {"priors": {"sigma": "lognorm(0.5)"}}),
        (np.full(N, 2.0), {"priors": {"sigma": 0.5}}),
        (TIED, {"predictors": {"sigma": "(1 | g)"},
                "priors": {"sigma:sd(1|g)": "uniform(0, 0.5)"}}),
        (np.full(N, 2.0), {"formula": "y | cens(0 * x) ~ x"}),
    ],
)  # fmt: skip
def test_what_ends_is_not_refused(y, words):
    model = made(y, **words)
    priors = {} if model.priors is None else dict(model.priors.items())
    check_ties(model, priors)


def test_a_prior_that_vanishes_at_zero_makes_it_finite():
    """Constant data and sigma ~ lognormal: against a sum over sigma of closed forms."""
    y = np.full(6, 0.5)
    words = {"Intercept": "norm(0, 1)", "sigma": "lognorm(0.5)"}
    model = ev.from_formula("y ~ 1", {"y": y}, priors=words)
    found = ev.log_evidence(model, effort="frugal", target_se=0.01, **QUIET)
    z, w = np.polynomial.hermite_e.hermegauss(40)
    s2 = np.exp(2 * 0.5 * z)
    log_p = -0.5 * (6 * np.log(2 * np.pi) + 5 * np.log(s2) + np.log(s2 + 6.0))
    log_p += -0.75 / s2 + 4.5 / s2 / (s2 + 6.0)
    truth = np.logaddexp.reduce(log_p + np.log(w / w.sum()))
    assert abs(found.logz - truth) < 4.5 * found.logz_se + 1e-3


def test_tiny_responses_of_a_positive_family_are_no_exact_fit():
    """A density of 1e11 beside y = 1e-11 is one by the logarithm."""
    y = np.array([1e-11, 0.3, 2.0, 0.01])
    model = ev.from_formula("y ~ 1", {"y": y}, likelihood="gamma", predictors={"shape": "1"})
    other = ev.from_formula("y ~ 1", {"y": 1e3 * y}, likelihood="gamma", predictors={"shape": "1"})
    assert all(np.isfinite(ev.log_evidence(m, **QUIET).logz) for m in (model, other))


HALF = {"sigma": "halfnorm(0, 1)"}
LINE = {"x": [0.0, 1.0, 2.0], "y": [1.0, 2.0, 3.0]}
GROUPS = {"y": [1.0, 1.0, 2.0], "g": list("aab")}


@pytest.mark.parametrize(
    ("formula", "data", "words"),
    [
        ("y ~ x", LINE, {}),
        *(("y ~ 1", {"y": [1.0, 1.0]}, {"priors": {"sigma": prior}})
          for prior in ("halfnorm(0, 1)", "expon(0, 1)", "halfcauchy(0, 1)")),
        ("y ~ 1", {"y": [0.0, 0.0]}, {"priors": HALF}),
        ("y ~ 0 + x", {"x": [1.0, 2.0], "y": [1.0, 2.0]}, {"priors": HALF}),
        ("y ~ 1 + (1 | g)", GROUPS, {}),
        ("y ~ 1 + (1 | g)", {"y": [1.0, 1.0, 2.0, 2.0], "g": list("aabb")}, {"priors": HALF}),
        ("y ~ 1", {"y": [3.0, 3.0]}, {"priors": HALF, "likelihood": "asymmetric_laplace"}),
        ("y ~ 1", {"y": [3.0, 3.0]}, {"likelihood": "weibull"}),
    ],
)  # fmt: skip
def test_one_datum_more_than_effects_is_enough(formula, data, words):
    """∫ ds/s has no end at zero."""
    model = ev.from_formula(formula, data, **words)
    with pytest.raises(ev.InputError, match="without any noise"):
        density_over(model, model.priors)


@pytest.mark.parametrize(
    ("formula", "data", "words"),
    [
        *(("y ~ 1", {"y": [1.0, 1.0]}, {"priors": {"sigma": prior}})
          for prior in ("invgamma(0.4)", "lognorm(1)", "gamma(1.1)", "uniform(0.01, 1)")),
        ("y ~ 1", {"y": [1.0, 1.0, 1.0]}, {"priors": {"sigma": "gamma(2.2)"}}),
        ("y ~ 1", {"y": [1.0]}, {"priors": HALF}),
        ("y ~ x", {"x": [0.0, 1.0], "y": [1.0, 2.0]}, {}),
        ("y ~ x", LINE | {"y": [1.0, 2.0, 3.00000001]}, {}),
        ("y ~ 1 + (1 | g)", GROUPS | {"g": list("abc")}, {}),
        ("y ~ 1", {"y": [3.0, 4.0]}, {"likelihood": "asymmetric_laplace"}),
        ("y ~ 1", {"y": [2.0, 2.0, 5.0]}, {"likelihood": "student_t"}),
    ],
)  # fmt: skip
def test_one_datum_more_may_have_an_end(formula, data, words):
    model = ev.from_formula(formula, data, **words)
    density_over(model, model.priors)


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x", "y ~ x + (1 | g)", "y ~ (x | g) + (1 | h)"])
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t", "asymmetric_laplace"])
@pytest.mark.parametrize("n", [8, 40])
def test_data_with_noise_are_left_alone(formula, likelihood, n):
    """Where they are not fitted the last digits make a density 1e27 nats lower, or 1e31."""
    for seed in range(3):
        rng = np.random.default_rng([n, seed])
        table = {"x": rng.standard_normal(n), "g": np.arange(n) % 4, "h": np.arange(n) % 3}
        table["y"] = 2.0 + table["x"] + rng.standard_normal(4)[table["g"]] + rng.standard_normal(n)
        for name in "gh":
            table[name] = table[name].astype(str)
        model = ev.from_formula(formula, table, likelihood=likelihood)
        density_over(model, model.priors)


def test_a_prior_that_vanishes_as_a_power_makes_it_finite():
    """Two data alike, sigma ~ gamma(1.3): against a sum over log sigma of closed forms."""
    words = {"Intercept": "norm(0, 10)", "sigma": "gamma(1.3)"}
    model = ev.from_formula("y ~ 1", {"y": [1.0, 1.0]}, priors=words)
    found = ev.log_evidence(model, effort="frugal", target_se=0.01, **QUIET)
    u = np.linspace(-60.0, 5.0, 65_001)
    s2 = np.exp(2.0 * u)
    log_p = gamma(1.3).logpdf(np.exp(u)) + u - np.log(2.0 * np.pi) - 1.0 / (s2 + 200.0)
    truth = np.logaddexp.reduce(log_p - u - 0.5 * np.log(s2 + 200.0)) + np.log(1e-3)
    assert abs(found.logz - truth) < 4.5 * found.logz_se + 1e-3
