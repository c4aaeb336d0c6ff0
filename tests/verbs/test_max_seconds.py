"""max_seconds is a promise: there is an answer by then, with a warning where it has no error bar.

Times here are generous (the machine may be busy); what they catch is minutes.
"""

from __future__ import annotations

import math
import signal
import time

import numpy as np
import pytest
from covering import in_turns, seldom
from scipy.stats import lognorm

import evidence as ev
from evidence.execution.clock import Clock, Stopped, check_interrupt, within


def codes(result):
    return {warning.code for warning in result.warnings}


def large(likelihood, n=1200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    f = np.sin(2.0 * X[:, 0])
    y = np.sign(f) if likelihood == "probit" else rng.poisson(np.exp(f)).astype(float)
    return ev.GPModel(X, y, "4.0 * RBF(1.0)", likelihood=likelihood)


@pytest.mark.parametrize(
    ("method", "likelihood"),
    seldom(in_turns(["auto", "smc", "pt", "ep"], ["probit", "poisson"]), 0, 3),
)
def test_a_large_model_in_a_moment(likelihood, method):
    started = time.perf_counter()
    result = ev.log_evidence(
        large(likelihood), method=method, max_seconds=0.05, random_seed=0, progressbar=False
    )
    assert time.perf_counter() - started < 30.0  # a fit, a pilot and an island take minutes
    assert math.isfinite(result.logz)
    assert math.isnan(result.logz_se)
    assert "no-estimate" not in codes(result)
    assert method == "ep" or "approximation-only" in codes(result)


@pytest.mark.parametrize("vectorized", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_slow_density(vectorized):
    """5000 seconds of evaluations; nothing but nan can be said without a single fit."""

    def logdensity(x):
        time.sleep(0.05)
        return -0.5 * np.sum(x * x, axis=-1)

    started = time.perf_counter()
    model = ev.DensityModel(logdensity, dim=3, vectorized=vectorized)
    result = ev.log_evidence(model, max_seconds=0.5, random_seed=0, progressbar=False)
    assert time.perf_counter() - started < 30.0
    assert math.isnan(result.logz_se)
    assert codes(result) & {"approximation-only", "no-estimate"}


def test_chains_are_tuned_for_half_of_the_time():
    model = ev.GPModel(K=np.eye(5) + 1.0, y=[1, 1, -1, 1, -1])
    draws = ev.sample(
        model, tune=10**7, draws=10**4, max_seconds=0.5, random_seed=0, progressbar=False
    )
    assert draws.x.shape[1] > 0
    assert "stopped-early" in codes(draws) or draws.x.shape[1] == 10**4


@pytest.mark.slow
def test_the_integral_over_hyperparameters_falls_back_on_the_optimum():
    """How far it comes is the machine's; without islands there is no error bar."""
    model = large("probit", 200)
    priors = dict.fromkeys(model.hyperparameters.names, lognorm(1.0))
    started = time.perf_counter()
    result = ev.integrated_evidence(
        model, priors, max_seconds=2.0, random_seed=0, progressbar=False
    )
    assert time.perf_counter() - started < 60.0
    assert math.isfinite(result.logz)
    assert math.isnan(result.logz_se) == ("approximation-only" in codes(result))


def test_loops_hear_of_the_deadline_where_they_look_for_an_interrupt():
    check_interrupt()
    with within(Clock(1e-9).deadline), pytest.raises(Stopped):
        check_interrupt()
    check_interrupt()
    with within(Clock(60.0).deadline):
        check_interrupt(1e6)
        with within(Clock().deadline), pytest.raises(Stopped):  # the outer one still counts
            check_interrupt(1e18)


@pytest.mark.parametrize("verb", ["sample", "sample_hyperparameters"])
def test_the_clock_is_looked_at_within_a_draw(verb):
    """One draw of a hundred million steps is not waited for."""
    model = ev.GPModel([[0.0], [1.0]], [1, -1], "RBF(1.0)")
    given = () if verb == "sample" else ({"length_scale": lognorm(1.0)},)
    words = {} if verb == "sample" else {"scheme": "agrad-z-joint"}

    def ring(*_):
        raise TimeoutError("the clock was not looked at")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(30)
    try:
        with pytest.raises(RuntimeError, match=r"allow more time|max_seconds"):
            getattr(ev, verb)(
                model, *given, draws=2, tune=2, chains=2, thin=10**8, max_seconds=0.5,
                random_seed=0, progressbar=False, **words,
            )  # fmt: skip
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
