"""Bounds instead of data: probabilities of tails and intervals, their slopes, and what follows."""

from __future__ import annotations

import pickle

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from covering import seldom
from scipy import integrate, stats

import evidence as ev
from evidence.models.likelihoods import (
    Censored,
    Exponential,
    Gamma,
    Gaussian,
    Likelihood,
    LogLogistic,
    LogNormal,
    Weibull,
)

from . import oracle

# the standard distribution and its complement, the factor of z, and z at y and x = 0
_NORMAL = lambda z: mp.ncdf(z), lambda z: mp.ncdf(-z)
_GUMBEL = lambda z: -mp.expm1(-mp.exp(z)), lambda z: mp.exp(-mp.exp(z))
_LOGISTIC = lambda z: 1 / (1 + mp.exp(-z)), lambda z: 1 / (1 + mp.exp(z))
FAMILIES = [
    (Gaussian(0.5), _NORMAL, 2, lambda y: mp.mpf(y)),
    (LogNormal(0.5), _NORMAL, 2, lambda y: mp.log(y)),
    (Exponential(), _GUMBEL, 1, lambda y: mp.log(y)),
    (Weibull(2.5), _GUMBEL, mp.mpf(2.5), lambda y: mp.log(y) + mp.loggamma(1 + 1 / mp.mpf(2.5))),
    (LogLogistic(3.0), _LOGISTIC, 3, lambda y: mp.log(y * mp.pi / 3 / mp.sin(mp.pi / 3))),
]
X = (-30.0, -4.0, -0.6, 0.0, 0.4, 1.3, 5.0, 30.0)


PLACES = [(1, 9.0), (-1, 9.0), (2, 1.9), (2, 0.71), (2, 50.0)]


@pytest.mark.parametrize(
    ("family", "kind", "upper"),
    seldom(
        [(family, *PLACES[(i + j) % 5]) for j in range(5) for i, family in enumerate(FAMILIES)],
        *range(len(FAMILIES)),
    ),
    ids=lambda f: f[0].name if isinstance(f, tuple) else None,
)
def test_logarithms_of_tails_and_intervals(family, kind, upper):
    """Relative errors of log P below 1e-10, of its derivatives below 1e-7, in tails too."""
    likelihood, (below, above), k, centre = family
    got = Censored(likelihood, kind, upper).derivatives(X, np.full(len(X), 0.7))
    for x, column in zip(X, got.T, strict=True):

        def log_p(u):
            z, end = k * (centre(mp.mpf(0.7)) - u), k * (centre(mp.mpf(upper)) - u)
            if kind == 2:
                return mp.log(above(z) - above(end) if z > 0 else below(end) - below(z))
            return mp.log(above(z) if kind == 1 else below(z))

        with mp.workdps(60):
            want = np.array([float(d) for d in oracle.derivatives(log_p, x)])
        assert column[0] == pytest.approx(want[0], rel=1e-10)
        np.testing.assert_allclose(column[1:], want[1:], rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("likelihood", [f[0] for f in FAMILIES], ids=lambda f: f.name)
def test_below_between_and_above_are_all_there_is(likelihood):
    x = np.linspace(-2.0, 2.0, 9)
    parts = [Censored(likelihood, kind, 2.0) for kind in (-1, 2)]
    p = [np.exp(part.log_prob(x, np.full(9, 0.8))) for part in parts]
    p.append(np.exp(Censored(likelihood, "right").log_prob(x, np.full(9, 2.0))))
    np.testing.assert_allclose(np.sum(p, axis=0), 1.0, rtol=1e-13)
    np.testing.assert_allclose(p[0], likelihood.cdf(np.full(9, 0.8), x), rtol=1e-12)
    open_end = Censored(likelihood, "interval", np.inf).log_prob(x, np.full(9, 2.0))
    np.testing.assert_allclose(np.exp(open_end), p[2], rtol=1e-13)
    far = np.linspace(-600.0, 600.0, 401)
    for part in (*parts, Censored(likelihood, 1)):
        assert (part.derivatives(far, np.full(401, 0.8))[2] <= 1e-9).all()


@pytest.mark.parametrize("likelihood", [f[0] for f in FAMILIES], ids=lambda f: f.name)
def test_data_that_are_not_censored_are_what_they_were(likelihood):
    x, y = np.linspace(-2.0, 2.0, 5), np.array([0.3, 2.0, 0.8, 1.0, 5.0])
    own = Censored(likelihood, [0, 1, 0, 0, 2], [1, 1, 1, 1, 6.0])
    got, want = own.derivatives(x, y), likelihood.derivatives(x, y)
    np.testing.assert_allclose(got[:, [0, 2, 3]], want[:, [0, 2, 3]], rtol=1e-14, atol=1e-300)
    assert own.ceiling(y) >= own.log_prob(x, y).sum()
    m, v = np.full(5, 0.2), np.array([0.1, 1.0, 10.0, 1.0, 3.0])
    log_z = own.tilted(y, m, v)[0]
    t = np.linspace(-20.0, 20.0, 40_001)
    for n in (1, 4):
        p = np.exp(own.at([n] * t.size).log_prob(t, np.full(t.size, y[n])))
        value = integrate.trapezoid(p * stats.norm.pdf(t, m[n], v[n] ** 0.5), t)
        assert log_z[n] == pytest.approx(np.log(value), rel=1e-7)


def test_a_lifetime_study_by_formula():
    """Rates of an exponential: with d deaths in a time T the posterior of μ is known on a grid."""
    data = pd.DataFrame({
        "t": [0.5, 2.0, 3.0, 1.0, 3.0, 0.2], "state": ["none", "none", "right", "left", "right",
        "interval"], "end": [np.nan] * 5 + [0.9], "x": np.arange(6.0),
    })  # fmt: skip
    prior = {"Intercept": stats.norm(0.0, 1.0)}
    model = ev.from_formula(
        "t | cens(state, end) ~ 1", data, likelihood="exponential", priors=prior
    )
    assert model.y.size == 6
    m = np.linspace(-8.0, 8.0, 4001)
    rate = np.exp(-m)
    log_p = 2 * np.log(rate) - rate * (0.5 + 2.0 + 3.0 + 3.0) + np.log(-np.expm1(-rate))
    log_p += np.log(np.exp(-0.2 * rate) - np.exp(-0.9 * rate)) + stats.norm.logpdf(m)
    truth = np.log(integrate.trapezoid(np.exp(log_p), m))
    result = ev.log_evidence(model, random_seed=0, target_se=0.01, progressbar=False)
    assert abs(result.logz - truth) < 4.5 * result.logz_se + 1e-6
    prediction = ev.predict(model, data)
    assert prediction.likelihood == Exponential()
    assert (prediction.y_mean > 0.0).all()
    by_number = data.assign(state=[0, 0, 1, -1, 1, 2])
    again = ev.from_formula(
        "t | cens(state, end) ~ 1", by_number, likelihood="exponential", priors=prior
    )
    assert again.likelihood == model.likelihood
    dead = data.assign(dead=[1, 1, 0, 1, 0, 1])
    right = ev.from_formula("t | cens(1 - dead) ~ 1", dead, likelihood="weibull")
    assert right.likelihood.censored == (0.0, 0.0, 1.0, 0.0, 1.0, 0.0)
    assert list(right.hyperparameters.names) == ["shape"]
    assert right.at({"shape": 3.0}).likelihood.of.shape == pytest.approx(3.0)


def test_pickled_and_cut():
    own = Censored(Weibull(np.array([1.0, 2.0])), [True, False])
    assert pickle.loads(pickle.dumps(own)) == own
    assert own.at([1]) == Censored(Weibull([2.0]), [0.0], np.inf)
    assert own.new is own.of
    assert type(own).tilted is Likelihood.tilted


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Censored(Gamma(2.0)), r"data must be one of gaussian, lognormal, .*got Gamma"),
        (lambda: Censored(Gaussian(), "upper"), r"'none', 'left', 'right' or 'interval', got 'up"),
        (lambda: Censored(Gaussian(), [0, 3]), r"censored must be 0 \(not\), .*, got 3$"),
        (lambda: Censored(Gaussian(), [0, 1]).check([1.0]), r"censored has 2 values but there "),
        (lambda: Censored(Gaussian(), 2, [1.0, 0.5]).check([0.0, 0.5]),
         r"upper must be above y .*: upper\[1\] = 0\.5, y\[1\] = 0\.5$"),
        (lambda: Censored(Weibull(), 1).check([-1.0]), r"weibull likelihood wants positive"),
        (lambda: Censored(Weibull(), 1).simulate([0.0], np.random.default_rng(0)),
         r"cannot be simulated: what is censored when"),
        (lambda: ev.from_formula("y | cens(c) ~ 1", {"y": [1, 2], "c": [0, 1]},
                                 likelihood="poisson"), r"data must be one of .*got Poisson"),
        (lambda: ev.from_formula("y | cense(c) ~ 1", {"y": [1, 2], "c": [0, 1]}),
         r"may have trials\(n\), weights\(w\), cens\(c\) or"),
    ],
)  # fmt: skip
def test_what_cannot_be_censored(make, message):
    with pytest.raises(ev.InputError, match=message):
        make()
