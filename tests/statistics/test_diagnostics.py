from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from evidence.statistics import diagnostics
from evidence.statistics.diagnostics import log_mean


def test_log_mean_is_calibrated():
    """Log-normal estimates with known mean: z-scores over 2,000 repeats have RMS near 1."""
    rng = np.random.default_rng(0)
    sd = 0.3
    draws = rng.normal(-(sd**2) / 2, sd, size=(2000, 16))  # E[exp] = 1
    z = np.array([(e.value - 0.0) / e.se for e in map(log_mean, draws)])
    assert 0.95 < np.sqrt(np.mean(z**2)) < 1.25  # Student t with 15 df has RMS 1.07


def test_an_estimate_that_outweighs_all_others_has_a_wide_error_bar():
    """Lognormal with sd 30: the mean of eight falls short by hundreds, and the bar says so."""
    draws = np.random.default_rng(1).normal(-(30.0**2) / 2, 30.0, size=(300, 8))
    estimates = [log_mean(row) for row in draws]
    short = np.array([-e.value for e in estimates])
    assert short.min() > 300.0
    z = short / [e.se for e in estimates]
    assert 0.5 < np.median(z) < 2.0
    assert np.isfinite(log_mean([0.0, -np.inf, -np.inf]).se)


def test_a_small_error_bar_is_the_relative_one():
    rng = np.random.default_rng(2)
    z = np.exp(rng.normal(0.0, 0.8, 16))
    assert log_mean(np.log(z)).se == pytest.approx(z.std(ddof=1) / z.mean() / 4.0)


def test_shift_and_single():
    assert log_mean([-1000.0, -1000.0]).value == pytest.approx(-1000.0)
    assert log_mean([-1000.0, -1000.0]).se == 0.0
    assert np.isnan(log_mean([3.0]).se)


def test_all_zero_estimates():
    assert log_mean([-np.inf, -np.inf]).value == -np.inf


# -- Markov chains ------------------------------------------------------------------------------


def ar1(rng, rho, chains=4, draws=1000, shape=()):
    """Stationary first-order autoregression with unit variance."""
    x = rng.standard_normal((chains, draws, *shape))
    for i in range(1, draws):
        x[:, i] = rho * x[:, i - 1] + np.sqrt(1.0 - rho**2) * x[:, i]
    return x


def with_rejections(rng, x):
    """Some draws repeat the one before, as after a rejected proposal: the ranks have ties."""
    for i in range(1, x.shape[1]):
        x[:, i] = np.where(rng.random(x.shape[2:]) < 0.3, x[:, i - 1], x[:, i])
    return x


def halves(x):
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def test_autocorrelation_of_one_chain():
    """Against autocovariances as they are defined."""
    x = ar1(np.random.default_rng(1), 0.7, chains=1, draws=400, shape=(2,))
    d = (x - x.mean(axis=1, keepdims=True))[0]
    c = np.array([(d[: 400 - t] * d[t:]).sum(axis=0) / 400 for t in range(400)])
    rho = diagnostics.autocorrelation(x)
    assert rho.shape == (400, 2)
    np.testing.assert_allclose(rho[1:], (c[1:] / c[0] - 1 / 399), atol=1e-12)
    np.testing.assert_array_equal(rho[0], 1.0)


def test_autocorrelation_stays_up_where_chains_disagree():
    x = np.random.default_rng(2).standard_normal((4, 500))
    assert abs(diagnostics.autocorrelation(x)[50]) < 0.15
    assert diagnostics.autocorrelation(x + 10.0 * np.arange(4.0)[:, None])[50] > 0.95


@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.5, 0.95])
@pytest.mark.parametrize(("chains", "draws"), [(1, 1000), (2, 57), (4, 500)])
@pytest.mark.parametrize("ties", [False, True])
def test_against_arviz(rho, chains, draws, ties):
    az = pytest.importorskip("arviz")
    rng = np.random.default_rng(3)
    x = ar1(rng, rho, chains, draws, shape=(5,))
    x[0] += np.linspace(0.0, 1.0, 5)  # some coordinates disagree between chains
    x = with_rejections(rng, x) if ties else x

    def arviz(function, **options):
        return [float(function(x[:, :, n], **options)) for n in range(5)]

    close = dict(rtol=1e-9)
    np.testing.assert_allclose(diagnostics.ess(x), arviz(az.ess, method="identity"), **close)
    np.testing.assert_allclose(diagnostics.ess(halves(x)), arviz(az.ess, method="mean"), **close)
    np.testing.assert_allclose(diagnostics.ess_bulk(x), arviz(az.ess, method="bulk"), **close)
    tails = arviz(az.ess, method="tail", prob=(0.05, 0.95))
    np.testing.assert_allclose(diagnostics.ess_tail(x), tails, **close)
    if chains > 1:  # ArviZ has no R-hat for one chain
        np.testing.assert_allclose(diagnostics.rhat(x), arviz(az.rhat), **close)


@pytest.mark.parametrize("draws", range(4, 12))
def test_short_chains_against_arviz(draws):
    az = pytest.importorskip("arviz")
    x = np.random.default_rng(draws).standard_normal((3, draws))
    assert diagnostics.ess(x) == pytest.approx(float(az.ess(x, method="identity")))
    assert diagnostics.ess_bulk(x) == pytest.approx(float(az.ess(x, method="bulk")))
    assert diagnostics.rhat(x) == pytest.approx(float(az.rhat(x)))


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("chains", [1, 4])
def test_ess_of_an_autoregression(rho, chains):
    """The mean of 60 estimates is within 10 % of S (1 − ρ)/(1 + ρ).

    One estimate has a relative error of 5 to 15 % here, so the mean's standard error is 1 to
    2 %; cutting the sum of a noisy sequence where it turns negative adds a bias of some per
    cent, largest without correlation. The false-alarm probability is negligible.
    """
    x = ar1(np.random.default_rng(4), rho, chains, draws=8000 // chains, shape=(60,))
    exact = 8000 * (1 - rho) / (1 + rho)
    assert diagnostics.ess(x).mean() == pytest.approx(exact, rel=0.1)


def test_antithetic_chains_beat_independent_draws():
    x = ar1(np.random.default_rng(5), -0.5, shape=(20,))
    assert (diagnostics.ess(x) > 4000).all()
    assert (diagnostics.ess(ar1(np.random.default_rng(6), -0.99)) <= 4000 * np.log10(4000)).all()


def test_ess_means_what_it_says():
    """The variance of 500 chain means is σ²/ESS: within 20 %, over 3 standard errors of 6.3 %."""
    x = ar1(np.random.default_rng(7), 0.8, chains=1, draws=2000, shape=(500,))
    variance = x.mean(axis=(0, 1)).var()
    assert variance * diagnostics.ess(x).mean() == pytest.approx(1.0, rel=0.2)


def test_ranks_ignore_monotone_maps():
    x = ar1(np.random.default_rng(8), 0.5, draws=200, shape=(3,))
    np.testing.assert_array_equal(diagnostics.ess_bulk(x), diagnostics.ess_bulk(np.exp(x)))
    np.testing.assert_array_equal(diagnostics.ess_tail(x), diagnostics.ess_tail(np.exp(x)))


def test_rhat_sees_means_and_spreads():
    x = np.random.default_rng(9).standard_normal((4, 1000))
    assert diagnostics.rhat(x) < 1.01
    assert diagnostics.rhat(x + np.array([[0.0], [0], [0], [1]])) > 1.05
    assert diagnostics.rhat(x * np.array([[1.0], [1], [1], [3]])) > 1.05  # only the folded one
    assert diagnostics.rhat(np.linspace(0.0, 1.0, 500)[None]) > 1.5  # a drift, in one chain


ALL = ("ess", "ess_bulk", "ess_tail", "rhat")


@pytest.mark.parametrize("name", ALL)
def test_shapes_and_blocks(name, monkeypatch):
    statistic = getattr(diagnostics, name)
    x = ar1(np.random.default_rng(10), 0.5, draws=50, shape=(3, 7))
    together = statistic(x)
    assert together.shape == (3, 7)
    one_by_one = [[statistic(x[:, :, i, j]) for j in range(7)] for i in range(3)]
    np.testing.assert_allclose(together, one_by_one, rtol=1e-12)
    assert statistic(x[:, :, 0, 0]).shape == ()
    monkeypatch.setattr(diagnostics, "_BLOCK", 1)
    monkeypatch.setattr(diagnostics, "_NARROWEST", 2)
    np.testing.assert_array_equal(statistic(x), together)
    strided = np.asfortranarray(x)
    np.testing.assert_array_equal(statistic(strided), together)
    single = x.astype(np.float32)
    np.testing.assert_array_equal(statistic(single), statistic(single.astype(float)))


@pytest.mark.parametrize("name", ALL)
def test_what_cannot_be_judged_is_nan(name):
    statistic = getattr(diagnostics, name)
    x = np.random.default_rng(11).standard_normal((2, 100, 5))
    x[:, :, 1] = 0.1
    x[0, 3, 2] = np.nan
    x[1, 5, 3] = np.inf
    x[:, :, 4] = 1e200 * x[:, :, 0]
    before = x.copy()
    result = statistic(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(np.isnan(result[:4]), [False, True, True, True])
    assert np.isnan(statistic(x[:, :3])).all()
    assert statistic(x[:, :3]).shape == (5,)
    assert np.isfinite(statistic(x[:, :4, 0]))


def test_chains_frozen_in_different_places():
    x = np.repeat(np.arange(4.0)[:, None], 100, axis=1)
    assert diagnostics.rhat(x) > 1e6
    assert diagnostics.ess(x) < 5
    one_frozen = np.random.default_rng(12).standard_normal((4, 100))
    one_frozen[2] = 5.0
    assert diagnostics.rhat(one_frozen) > 1.5
    assert np.isfinite(diagnostics.ess_tail(one_frozen))  # nothing lies above the 95 % quantile


@pytest.mark.slow
def test_memory_stays_small():
    """A block's worth of copies, however many coordinates: far below the array itself."""
    x = np.random.default_rng(13).standard_normal((4, 500, 2500))  # 40 MB
    for name in ALL:
        tracemalloc.start()
        getattr(diagnostics, name)(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < x.nbytes


@pytest.mark.parametrize("x", [np.zeros(10), np.zeros((0, 10)), np.zeros((2, 10, 0))])
def test_wrong_shapes_are_refused(x):
    with pytest.raises(ValueError, match=r"x must have shape \(chains, draws, \.\.\.\)"):
        diagnostics.ess(x)
