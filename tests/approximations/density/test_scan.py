"""A scan along one parameter: needles that draws of the prior do not meet."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import evidence as ev

T = np.sort(np.random.default_rng(5).uniform(0.0, 1000.0, 40))
Y = 2.0 * np.cos(2.0 * np.pi * T / 1.7 + 1.0) + np.random.default_rng(6).normal(size=T.size)
PERIODS = stats.loguniform(1.25, 1e4)
VALUES = 10_000  # T/P log(1e4/1.25) = 5,300, and two for each


def amplitudes(theta):
    phase = 2.0 * np.pi * T / theta[:, :1]
    return np.stack([np.cos(phase), np.sin(phase)], axis=2)


def wave(**words):
    """A period, and two amplitudes that are linear."""
    return ev.linear_density(
        Y, amplitudes, np.ones(T.size), {"a": stats.norm(0, 2), "b": stats.norm(0, 2)},
        vectorized=True, prior={"P": PERIODS}, **words,
    )  # fmt: skip


def quadrature(model, values=2**16):
    """log Z by equal steps of the prior's quantiles."""
    P = PERIODS.ppf((np.arange(values) + 0.5) / values)
    log_l = np.concatenate([model.calls["logdensity"](part[:, None]) for part in np.split(P, 32)])
    return logsumexp(log_l) - np.log(values)


WORDS = {"effort": "frugal", "random_seed": 0, "progressbar": False}


@pytest.fixture(scope="module")
def without():
    return ev.log_evidence(wave(), **WORDS)


@pytest.mark.slow
def test_a_short_period_is_found_that_is_missed_without(without):
    found = ev.log_evidence(wave(scan={"P": VALUES}), **WORDS)
    truth = quadrature(wave())
    assert without.logz < truth - 3.0
    assert found.logz == pytest.approx(truth, abs=4.0 * found.logz_se + 0.01)
    assert np.median(found.samples[:, 0]) == pytest.approx(1.7, abs=0.01)
    asked = sum(found.evaluations.values())
    assert 8 * VALUES < asked < 10 * VALUES


def test_a_name_alone_means_as_many_values_as_the_effort_allows(without):
    assert wave(scan="P").scanned == wave(scan=["P"]).scanned
    found = ev.log_evidence(wave(scan="P"), **WORDS)
    assert 8 * 256 < found.evaluations["scout"] - without.evaluations["scout"] < 16 * 256


def test_a_scan_leaves_evaluations_for_what_comes_after():
    most = 3000
    words = {"random_seed": 0, "progressbar": False, "max_evaluations": most}
    result = ev.log_evidence(wave(scan={"P": VALUES}), effort="frugal", **words)
    assert sum(result.evaluations.values()) <= most + 4  # to within a batch of a climb
    assert np.isfinite(result.logz_se)


@pytest.mark.parametrize(
    ("scan", "told"),
    [("Q", "scan names no parameter"), (["P", "a"], "scan"), ({"P": 1}, r"scan\['P'\]")],
)
def test_mistakes_are_named(scan, told):
    with pytest.raises(ev.InputError, match=told):
        wave(scan=scan)


def test_a_prior_is_needed():
    with pytest.raises(ev.InputError, match="scan needs a prior"):
        ev.DensityModel(lambda x: -x @ x, names=["a", "b"], scan="a")
