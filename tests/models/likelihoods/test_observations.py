"""New observations: normalisation, simulation, predictive moments and densities."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from covering import seldom

from evidence.models.likelihoods import (
    AsymmetricLaplace,
    Beta,
    BetaBinomial,
    Binomial,
    Cloglog,
    Exponential,
    Gamma,
    Gaussian,
    Geometric,
    HurdleNegativeBinomial,
    HurdlePoisson,
    Likelihood,
    Logit,
    LogLogistic,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    Weibull,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
    describe,
)
from evidence.models.likelihoods.negative_binomial import Sized
from evidence.models.likelihoods.poisson import Rates

from . import oracle

ALL = [
    Probit(),
    Logit(),
    Gaussian(0.7),
    StudentT(12.0, 0.7),
    Poisson(exposure=2.0, offset=0.3),
    NegativeBinomial(1.7, exposure=2.0, offset=0.3),
    Binomial(30),
    Ordinal((0.4, 1.5)),
    Cloglog(),
    Gamma(3.0),
    Geometric(exposure=2.0, offset=0.3),
    ZeroInflatedPoisson(0.3, exposure=2.0, offset=0.3),
    ZeroInflatedNegativeBinomial(1.7, 0.3, exposure=2.0, offset=0.3),
    HurdlePoisson(0.3, exposure=2.0, offset=0.3),
    HurdleNegativeBinomial(1.7, 0.3, exposure=2.0, offset=0.3),
    BetaBinomial(30, 4.0),
    Beta(12.0),
    Exponential(),
    Weibull(2.0),
    LogNormal(0.5),
    LogLogistic(12.0),
    AsymmetricLaplace(0.8, 0.5),
]
BINARY, COUNTS = [*ALL[:2], Cloglog()], [*ALL[4:8], *ALL[10:16]]
TIMES = (Gamma, Exponential, Weibull, LogNormal, LogLogistic)


def _id(likelihood):
    return describe(likelihood)


def _support(likelihood):
    """Every possible observation and its weight in a sum or an integral."""
    if likelihood in BINARY:
        return np.array([-1.0, 1.0]), 1.0
    if likelihood in COUNTS:
        if isinstance(likelihood, Binomial | BetaBinomial):
            return np.arange(31.0), 1.0
        if isinstance(likelihood, Ordinal):
            return np.arange(4.0), 1.0
        return np.arange(4000.0), 1.0
    if isinstance(likelihood, TIMES):  # steps in the logarithm
        y = np.exp(np.linspace(-40.0, 12.0, 20_001))
        return y, y * np.log(y[1] / y[0])
    if isinstance(likelihood, Beta):  # and in the log-odds
        u = np.linspace(-36.0, 36.0, 20_001)
        y = scipy.special.expit(u)
        return y, (u[1] - u[0]) * y * scipy.special.expit(-u)
    y = np.linspace(-200.0, 200.0, 800_001)
    return y, y[1] - y[0]


@pytest.mark.parametrize("likelihood", ALL, ids=_id)
def test_log_prob_is_normalised_with_the_stated_moments(likelihood):
    y, weight = _support(likelihood)
    for x in (-1.3, 0.0, 2.0):
        p = np.exp(likelihood.log_prob(np.full(y.size, x), y)) * weight
        mean = p @ y
        want_mean, want_var = likelihood.conditional_moments(np.array([x]))
        tol = 1e-7 if isinstance(likelihood, AsymmetricLaplace) else 1e-10  # a kink
        assert p.sum() == pytest.approx(1.0, rel=tol)
        assert mean == pytest.approx(want_mean[0], rel=tol, abs=tol)
        assert p @ (y - mean) ** 2 == pytest.approx(want_var[0], rel=100 * tol)


@pytest.mark.parametrize("likelihood", ALL, ids=_id)
def test_simulate_has_the_conditional_moments(likelihood):
    """42 z-scores beyond 5.5 in all tests together: false alarm below 2e-6 for normal ones."""
    rng = np.random.default_rng(20)
    x = np.array([-1.3, 0.0, 2.0])
    n = 60_000
    y = likelihood.simulate(np.broadcast_to(x, (n, 3)), rng)
    assert y.shape == (n, 3)
    assert y.dtype == float
    mean, var = likelihood.conditional_moments(x)
    square = (y - mean) ** 2
    assert (np.abs(y.mean(axis=0) - mean) < 5.5 * np.sqrt(var / n)).all()
    spread = square.std(axis=0) / np.sqrt(n)
    assert (np.abs(square.mean(axis=0) - var) < 5.5 * spread + 1e-12).all()


@pytest.mark.parametrize("likelihood", ALL, ids=_id)
def test_simulate_repeats_with_its_seed_and_passes_check(likelihood):
    x = np.linspace(-2, 2, 7)
    first, second = (likelihood.simulate(x, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(likelihood.check(first).y, first)


@pytest.mark.parametrize("likelihood", ALL, ids=_id)
@pytest.mark.parametrize(("mean", "var"), [(0.4, 0.8), (-1.5, 0.05)])
def test_predictive_matches_brute_force(likelihood, mean, var):
    x = mean + np.sqrt(var) * np.linspace(-12, 12, 4001)
    p = np.exp(-0.5 * (x - mean) ** 2 / var)
    p /= p.sum()
    m, v = likelihood.conditional_moments(x)
    want_mean = p @ m
    got = likelihood.predictive(mean, var)
    assert got.mean == pytest.approx(want_mean, rel=1e-10, abs=1e-12)
    assert got.var == pytest.approx(p @ v + p @ (m - want_mean) ** 2, rel=1e-9)
    if likelihood not in (*BINARY, *COUNTS):
        return
    y, _ = _support(likelihood)
    m, v = np.full((2, y[:400].size), [[mean], [var]])
    q = np.exp(likelihood.tilted(y[:400], m, v)[0])
    want = np.exp(likelihood.log_prob(np.repeat(x, 2), np.tile(y[:2], x.size)))
    np.testing.assert_allclose(q[:2], p @ want.reshape(-1, 2), rtol=1e-10)
    assert q.sum() == pytest.approx(1.0, abs=1e-4 if likelihood in COUNTS else 1e-12)


@pytest.mark.parametrize("likelihood", ALL, ids=_id)
def test_generic_predictive_agrees(likelihood):
    """The 64-point rule of the base class, which serves custom likelihoods."""
    mean, var = np.array([[0.4, -2.0], [0.0, 1.0]]), np.array([0.3, 0.01])
    got, want = Likelihood.predictive(likelihood, mean, var), likelihood.predictive(mean, var)
    assert got.mean.shape == want.var.shape == (2, 2)
    np.testing.assert_allclose(got.mean, want.mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(got.var, want.var, rtol=1e-6)


def test_masses_of_real_targets():
    likelihood = StudentT(3.0, 0.5)
    y = np.array([-40.0, 0.0, 3.0])
    got = likelihood.tilted(y, np.full(3, 1.0), np.full(3, 4.0))[0]
    x = 1.0 + np.linspace(-24, 24, 20_001)
    prior = np.exp(-0.125 * (x - 1.0) ** 2) / np.sqrt(8.0 * np.pi)
    want = [
        np.log(np.trapezoid(prior * np.exp(likelihood.log_prob(x, np.full(x.size, t))), x))
        for t in y
    ]
    np.testing.assert_allclose(got, want, rtol=1e-9)
    gaussian = Gaussian(0.5).tilted(np.ones(1), np.zeros(1), np.zeros(1))[0]
    np.testing.assert_allclose(gaussian, Gaussian(0.5).log_prob([0.0], [1.0]))


@pytest.mark.parametrize("make", seldom([Probit, Logit, Cloglog], 1))
def test_probability_in_wide_cavities(make):
    mean = np.array([0.0, 3.0, -30.0, 500.0, -900.0, 2.0])
    var = np.array([1.0, 1e-4, 25.0, 1e5, 1e5, 0.0])
    with mp.workdps(20):
        log_density = getattr(oracle, make.name)(1)
        want = [
            float(mp.exp(oracle.tilted_cumulants(log_density, m, v, 0, 0.0)[0]))
            for m, v in zip(mean[:-1], var[:-1], strict=True)
        ]
    want.append(np.exp(make().log_prob([2.0], [1])[0]))
    got = make().probability(mean, var)
    np.testing.assert_allclose(got, want, rtol=1e-9)
    np.testing.assert_allclose(got + make().probability(mean, var, -1.0), 1.0, rtol=1e-9)


def test_moments_that_do_not_exist():
    mean, var = StudentT(df=(0.5, 1.5, 3.0)).conditional_moments(np.ones(3))
    np.testing.assert_array_equal(mean, [np.nan, 1.0, 1.0])
    np.testing.assert_array_equal(var, [np.inf, np.inf, 3.0])
    predicted = StudentT(df=2.0).predictive([0.0], [1.0])
    assert (predicted.mean[0], predicted.var[0]) == (0.0, np.inf)


@pytest.mark.parametrize("make", [Poisson, NegativeBinomial])
def test_moments_that_overflow_are_inf(make):
    assert make().conditional_moments(np.array([1e3]))[0] == np.inf
    assert make().predictive(0.0, 1e5).mean == np.inf


def test_binomial_of_one_trial_is_logit():
    x, y = np.linspace(-40, 40, 33), np.resize([0.0, 1.0], 33)
    got = Binomial(1).derivatives(x, y)
    np.testing.assert_allclose(got, Logit().derivatives(x, y), rtol=1e-13, atol=1e-300)


def test_binomial_has_scipys_distribution():
    n, x = np.array([1.0, 7.0, 400.0]), np.array([-0.3, 1.2, 0.1])
    likelihood, want = Binomial(n), scipy.stats.binom(n, 1 / (1 + np.exp(-x)))
    for share in (0.0, 0.3, 0.5, 1.0):
        y = np.floor(share * n)
        np.testing.assert_allclose(likelihood.log_prob(x, y), want.logpmf(y), rtol=1e-11)
        np.testing.assert_allclose(likelihood.cdf(y + 0.5, x), want.cdf(y), rtol=1e-11)
    np.testing.assert_array_equal(likelihood.cdf(n + 3.0, x), 1.0)
    np.testing.assert_array_equal(likelihood.cdf(-np.ones(3), x), 0.0)
    assert likelihood.at([2, 0]) == Binomial([400, 1])


def test_gamma_has_scipys_distribution():
    k, x = np.array([0.2, 1.0, 300.0]), np.array([-0.3, 1.2, 0.1])
    likelihood, want = Gamma(k), scipy.stats.gamma(k, scale=np.exp(x) / k)
    for y in np.exp(x) * np.array([[0.01], [0.9], [1.0], [1.3]]):
        np.testing.assert_allclose(likelihood.log_prob(x, y), want.logpdf(y), rtol=1e-11)
        np.testing.assert_allclose(likelihood.cdf(y, x), want.cdf(y), rtol=1e-11)
    np.testing.assert_array_equal(likelihood.cdf(-np.ones(3), x), 0.0)
    assert likelihood.at([2, 0]) == Gamma([300.0, 0.2])


def test_tiny_shapes_make_positive_numbers():
    y = Gamma(1e-3).simulate(np.zeros(500), np.random.default_rng(0))
    assert y.min() > 0.0
    np.testing.assert_array_equal(Gamma(1e-3).check(y).y, y)


def test_ordinal_has_the_distribution_of_its_categories():
    ordinal, x = Ordinal((0.4, 1.5)), np.array([-800.0, -3.0, 0.2, 1.1, 30.0, 800.0])
    p = np.exp([ordinal.log_prob(x, np.full(x.size, k)) for k in range(4)])
    for k in range(4):
        np.testing.assert_allclose(
            ordinal.cdf(np.full(x.size, k + 0.5), x), p[: k + 1].sum(axis=0)
        )
    np.testing.assert_array_equal(ordinal.cdf(np.full(x.size, -1.0), x), 0.0)
    np.testing.assert_array_equal(ordinal.cdf(np.full(x.size, 9.0), x), 1.0)
    mean, var = ordinal.conditional_moments(x)
    np.testing.assert_allclose(var[[0, -1]], [0.0, 0.0], atol=1e-300)
    np.testing.assert_allclose(mean[4:], 3.0, rtol=1e-12)
    assert ordinal.at([3, 1]) is ordinal


def test_ordinal_draws_its_categories():
    """Frequencies of four categories in 60 000 draws, z-scores below 5."""
    ordinal, n = Ordinal((0.4, 1.5)), 60_000
    y = ordinal.simulate(np.full(n, 0.8), np.random.default_rng(1))
    p = np.exp(ordinal.log_prob(np.full(4, 0.8), np.arange(4)))
    np.testing.assert_array_less(
        np.abs(np.bincount(y.astype(int), minlength=4) / n - p), 5.0 * np.sqrt(p * (1 - p) / n)
    )


@pytest.mark.parametrize("likelihood", ALL[4:], ids=_id)
def test_the_distribution_function_adds_up_what_is_below(likelihood):
    x = np.array([-1.3, 0.0, 2.0])
    y, weight = _support(likelihood)
    if isinstance(likelihood, Cloglog):
        return  # labels have a probability instead
    for one in x:
        steps = np.exp(likelihood.log_prob(np.full(y.size, one), y)) * weight
        want = np.cumsum(steps)
        some = np.flatnonzero((want > 1e-4) & (want < 1.0 - 1e-4))[:: max(1, want.size // 300)]
        middle = 0.0 if likelihood in COUNTS else 0.5 * steps[some]  # of a step
        got = likelihood.cdf(y[some], np.full(some.size, one))
        np.testing.assert_allclose(got, want[some] - middle, atol=1e-5)
    if not isinstance(likelihood, Rates | Sized):  # which are asked for counts only
        np.testing.assert_allclose(likelihood.cdf(np.full(3, -1e9), x), 0.0, atol=1e-5)
        np.testing.assert_allclose(likelihood.cdf(np.full(3, 1e9), x), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    ("likelihood", "law"),
    [
        (Geometric(), lambda m: scipy.stats.nbinom(1, 1 / (1 + m))),
        (BetaBinomial(9, 3.0), lambda m: scipy.stats.betabinom(9, 3 * m / (1 + m), 3 / (1 + m))),
        (Beta(3.0), lambda m: scipy.stats.beta(3 * m / (1 + m), 3 / (1 + m))),
        (Exponential(), lambda m: scipy.stats.expon(scale=m)),
        (Weibull(0.7), lambda m: scipy.stats.weibull_min(
            0.7, scale=m / scipy.special.gamma(1 + 1 / 0.7))),
        (LogNormal(0.7), lambda m: scipy.stats.lognorm(0.7, scale=m)),
        (LogLogistic(3.0), lambda m: scipy.stats.fisk(
            3.0, scale=m * np.sin(np.pi / 3) / (np.pi / 3))),
        (AsymmetricLaplace(0.8, 0.5), lambda m: scipy.stats.laplace_asymmetric(
            2.0, loc=np.log(m), scale=0.5 / 0.4)),
        (HurdlePoisson(0.3), lambda m: scipy.stats.rv_discrete(values=(
            range(99), [0.3, *(0.7 * scipy.stats.poisson(m).pmf(range(1, 99))
                               / -np.expm1(-m))]))),
        (ZeroInflatedNegativeBinomial(2.0, 0.3), lambda m: scipy.stats.rv_discrete(values=(
            range(999), 0.7 * scipy.stats.nbinom(2, 2 / (2 + m)).pmf(range(999))
            + 0.3 * (np.arange(999) == 0)))),
    ],
    ids=lambda p: getattr(p, "name", ""),
)  # fmt: skip
def test_parameters_mean_what_they_mean_elsewhere(likelihood, law):
    """SciPy's distributions; where there is no other formula, the mean is exp(x) or σ(x)."""
    for x in (-1.0, 0.4, 1.5):
        want = law(np.exp(x))
        q = np.unique(want.ppf([0.05, 0.4, 0.6, 0.95, 0.999]))
        at = np.full(q.size, x)
        density = getattr(want, "logpdf", None) or want.logpmf
        np.testing.assert_allclose(likelihood.log_prob(at, q), density(q), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(likelihood.cdf(q, at), want.cdf(q), rtol=1e-9)
        np.testing.assert_allclose(
            likelihood.conditional_moments(np.array([x])),
            np.reshape(want.stats(), (2, 1)),
            rtol=1e-8,
        )


def test_quantiles_of_the_asymmetric_laplace_are_latent_values():
    quantile, x = np.array([0.02, 0.5, 0.9]), np.array([-3.0, 0.0, 7.0])
    np.testing.assert_allclose(AsymmetricLaplace(quantile, 0.3).cdf(x, x), quantile)


@pytest.mark.parametrize("make", [HurdlePoisson, HurdleNegativeBinomial])
def test_hurdles_far_out(make):
    """Where the mean is nothing, a count that is not zero is one; where it is large, nothing is
    lost by the hurdle."""
    likelihood = make(hu=0.25)
    got = likelihood.derivatives([-700.0, -700.0, -900.0], [1, 0, 1])
    np.testing.assert_allclose(got[0], np.log([0.75, 0.25, 0.75]), rtol=1e-12)
    np.testing.assert_allclose(got[1:], 0.0, atol=1e-12)
    far, free = make(hu=0.25, offset=5.0), Poisson(offset=5.0)
    if make is HurdlePoisson:
        np.testing.assert_allclose(
            far.derivatives([2.0], [900]) - [[np.log(0.75)], [0], [0], [0]],
            free.derivatives([2.0], [900]), rtol=1e-12,
        )  # fmt: skip
    assert set(likelihood.simulate(np.full(99, -60.0), np.random.default_rng(0))) == {0.0, 1.0}


def test_moments_of_the_log_logistic_that_are_not_there():
    mean, var = LogLogistic((1.5, 2.5)).conditional_moments(np.zeros(2))
    np.testing.assert_allclose(mean, 1.0)
    assert np.isinf(var[0])
    assert np.isfinite(var[1])
