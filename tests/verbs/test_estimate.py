from __future__ import annotations

import _thread
import signal
import threading
import time

import numpy as np
import pytest
from covering import seldom
from problems import EVERY, covariance, log_z_by_quadrature, replace_fit, small_model

import evidence as ev
from evidence.drivers import islands, stopping


def estimate(model, **options):
    return ev.log_evidence(model, **{"method": "smc", "progressbar": False} | options)


@pytest.mark.parametrize(
    ("likelihood", "n"),
    [*((name, 3) for name in EVERY), ("probit", 1), ("poisson(exposure=1.5)", 2)],
)
def test_agrees_with_quadrature(likelihood, n):
    """Within 4.5 of its own standard errors (t with 15 df: false alarm 4e-4 over all seeds;
    the seed is fixed)."""
    model = small_model(likelihood, n)
    truth = log_z_by_quadrature(model, 150 if n < 3 else 80)
    result = estimate(model, target_se=0.02, random_seed=n)
    assert result.logz_se <= 0.02
    assert abs(result.logz - truth) < 4.5 * max(result.logz_se, 1e-6)
    assert result.warnings == ()


@pytest.mark.parametrize(
    "reference", ["ep", "laplace", pytest.param("prior", marks=pytest.mark.slow)]
)
def test_orthant_is_an_independent_check(reference):
    model = ev.GPModel(K=covariance(20, 9.0, 3.0), y=np.resize([1, 1, 1, -1, 1], 20), mean=0.3)
    annealed = estimate(model, reference=reference, target_se=0.03, random_seed=1)
    tilted = estimate(model, method="orthant", target_se=0.005, random_seed=2)
    se = np.hypot(annealed.logz_se, tilted.logz_se)
    assert abs(annealed.logz - tilted.logz) < 4.5 * se
    assert list(tilted.estimates.index) == ["laplace", "ep", "ep_corrected", "orthant"]


def test_gaussian_likelihood_is_exact():
    n, noise = 12, 0.5
    K, y = covariance(n), np.random.default_rng(0).standard_normal(n)
    total = K + noise**2 * np.eye(n)
    exact = -0.5 * (y @ np.linalg.solve(total, y) + np.linalg.slogdet(2 * np.pi * total)[1])
    model = ev.GPModel(K=K, y=y, likelihood=f"gaussian(noise_std={noise})")
    for reference in ("ep", "laplace"):
        assert estimate(model, reference=reference).logz == pytest.approx(exact, abs=1e-8)
    cold = estimate(model, reference="prior", target_se=0.05, random_seed=0)
    assert abs(cold.logz - exact) < 4.5 * cold.logz_se


def test_result_has_what_was_promised():
    model = small_model("probit", 12)
    result = estimate(model, random_seed=0, target_se=0.05)
    assert list(result.estimates.index) == ["laplace", "ep", "ep_corrected", "smc"]
    assert list(result.estimates.columns) == ["logz", "logz_se", "seconds"]
    assert result.estimates.loc["smc", "logz"] == result.logz
    assert {"beta", "logz", "logz_se", "ess", "acceptance", "step_size", "seconds"} <= set(
        result.trace
    )
    assert result.trace["beta"].iloc[-1] == 1.0
    assert result.trace["logz"].iloc[-1] == pytest.approx(result.logz)
    assert result.history["logz"].iloc[-1] == pytest.approx(result.logz)
    assert result.samples.shape == (1000, 12)
    posterior_mean = result.samples.mean(axis=0)
    ep = ev.fit_ep(model)
    assert np.abs((posterior_mean - ep.mean) / np.sqrt(ep.var)).max() < 0.3


def test_same_seed_same_answer():
    model = small_model("logit", 12)
    one, two = (estimate(model, random_seed=5, n_particles=32) for _ in range(2))
    assert one.logz == two.logz
    np.testing.assert_array_equal(one.samples, two.samples)
    np.testing.assert_array_equal(one.trace["logz"], two.trace["logz"])
    assert estimate(model, random_seed=6, n_particles=32).logz != one.logz
    generators = [
        estimate(model, random_seed=np.random.default_rng(7), n_particles=32).logz
        for _ in range(2)
    ]
    assert generators[0] == generators[1]


@pytest.mark.parametrize(
    ("method", "move"), seldom([("smc", "hmc"), ("ais", "mala"), ("pt", "hmc")], 0, 1)
)
def test_a_repeated_call_has_the_same_bits_wherever_its_arrays_lie(method, move):
    model, rng, seen = small_model("logit", 12), np.random.default_rng(0), set()
    words = {"n_sweeps": 8, "n_levels": 2, "explore": 1} if method == "pt" else {}
    for _ in range(3):
        result = estimate(
            model, method=method, move=move, n_islands=4, n_particles=8, random_seed=1, **words
        )
        seen.add(result.samples.tobytes() + np.float64(result.logz).tobytes())
        held = [np.empty(size) for size in rng.integers(1, 120, size=500)]
        del held[:: int(rng.integers(2, 5))]  # the next call finds other places in memory
    assert len(seen) == 1


def test_target_se_adds_islands():
    model = ev.GPModel(K=covariance(30, 30.0), y=np.resize([1, -1, -1, 1], 30))
    result = estimate(model, target_se=0.04, n_particles=16, random_seed=0)
    assert result.logz_se <= 0.04
    assert result.history["n_islands"].iloc[-1] > 16
    assert (np.diff(result.history["seconds"]) >= 0).all()


def test_fixed_budget():
    result = estimate(small_model("probit", 12), n_particles=16, n_islands=6, random_seed=0)
    assert result.history["n_islands"].iloc[-1] == 6


def test_one_island_has_an_error_bar_of_its_own():
    """From its genealogy: like that of many islands, within the noise of both."""
    model = small_model("probit", 5)
    alone = estimate(model, n_particles=1024, n_islands=1, random_seed=0)
    together = estimate(model, n_particles=64, n_islands=16, random_seed=0)
    assert 0.4 < alone.logz_se / together.logz_se < 2.5
    assert not alone.warnings


@pytest.mark.slow
def test_max_seconds_keeps_what_there_is():
    model = ev.GPModel(K=covariance(20, 30.0), y=np.resize([1, -1, -1, 1], 20))
    words = {"n_particles": 16, "random_seed": 0}
    estimate(model, n_islands=2, **words)  # compile first
    started = time.perf_counter()
    result = estimate(model, target_se=1e-6, n_islands=2000, max_seconds=1.5, **words)
    assert time.perf_counter() - started < 20.0
    assert np.isfinite(result.logz)
    assert any("max_seconds=1.5" in w for w in result.warnings)
    assert any("target_se=1e-06 was not met" in w for w in result.warnings)


def test_max_seconds_too_short_for_anything():
    result = estimate(small_model("probit", 12), max_seconds=1e-9, random_seed=0)
    assert result.logz == result.estimates.loc["ep", "logz"]
    assert np.isnan(result.logz_se)
    assert "approximation-only" in [warning.code for warning in result.warnings]


def test_an_interrupt_while_results_are_put_together_loses_nothing(monkeypatch):
    model, before = small_model("probit", 12), signal.getsignal(signal.SIGINT)
    words = {"method": "smc", "n_particles": 64, "n_islands": 8, "random_seed": 0}
    expected = estimate(model, **words)
    draws = islands.posterior_draws

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        return draws(*arguments)

    monkeypatch.setattr(islands, "posterior_draws", interrupted)
    result = estimate(model, **words)
    assert (result.logz, result.logz_se) == (expected.logz, expected.logz_se)
    np.testing.assert_array_equal(result.samples, expected.samples)
    assert result.settings["interrupted"]
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupt_returns_the_partial_result(monkeypatch):
    """^C a tenth of a second after the third piece of work."""
    model = ev.GPModel(K=covariance(20, 30.0), y=np.resize([1, -1, -1, 1], 20))
    record, timers = stopping._record, []

    def then_interrupt(run, *rest):
        record(run, *rest)
        if len(run.blocks) == 3:
            timers.append(threading.Timer(0.1, _thread.interrupt_main))
            timers[0].start()

    monkeypatch.setattr(stopping, "_record", then_interrupt)
    try:
        result = estimate(
            model, n_particles=64, n_islands=100_000, max_seconds=120.0, random_seed=0
        )
    finally:
        timers[0].join()
    assert any("interrupted" in w for w in result.warnings)
    assert np.isfinite(result.logz)


def test_hopeless_target_is_said_not_chased():
    model = ev.GPModel(K=covariance(30, 30.0), y=np.resize([1, -1, -1, 1], 30))
    result = estimate(model, target_se=1e-5, n_particles=16, random_seed=0)
    assert any("it would take about" in w for w in result.warnings)


def test_explicit_ladder_and_reference_object():
    model = small_model("probit", 12)
    reference = ev.fit_laplace(model)
    result = estimate(
        model, reference=reference, betas=ev.ladders.geometric(5, first=0.05), random_seed=0
    )
    assert len(result.trace) == 5
    assert result.settings["reference"] == "laplace"


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_deterministic_methods_have_no_error_bar(method):
    result = estimate(small_model("probit", 5), method=method)
    assert np.isnan(result.logz_se)
    assert result.logz == result.estimates.loc[method, "logz"]


def test_sites_that_ep_left_alone_are_a_note_where_it_is_not_the_answer():
    """Of two data in conflict log Z has an error bar of its own."""
    K = 9.0 * np.array([[1.0, 0.9], [0.9, 1.0]])
    model = ev.GPModel(K=K, y=[-3.0, 3.5], likelihood="student_t(df=3, scale=0.3)")
    result = estimate(model, random_seed=0)
    assert not result.warnings
    assert any("left 1 site(s) alone" in note for note in result.notes)
    assert abs(result.logz + 10.76966) < 4.0 * result.logz_se < 0.2
    assert [w.code for w in ev.log_evidence(model, method="ep").warnings] == ["ep-sites-skipped"]
    plain = estimate(model, method="importance", random_seed=0)  # RMS z of 60 seeds: 1.8
    assert {w.code for w in plain.warnings} == {"heavy-tail"}


def test_unconverged_ep_is_a_warning(monkeypatch):
    replace_fit(monkeypatch, "ep", lambda model, *before: ev.fit_ep(model, max_sweeps=1))
    result = estimate(small_model("probit", 12), random_seed=0)
    assert any("EP did not converge" in w for w in result.warnings)


PROBIT = small_model("probit")
BAD = [
    (dict(method="smcc"), "unknown method 'smcc'; did you mean 'smc'"),
    (dict(reference="epp"), "unknown reference 'epp'; did you mean 'ep'"),
    (dict(move="mgard"), "unknown move 'mgard'; did you mean 'mgrad'"),
    (dict(move=3), "move must be a name or a move object"),
    (dict(betas="adaptiv"), "unknown betas 'adaptiv'; did you mean 'adaptive'"),
    (dict(betas=[0.5]), "betas must increase strictly from 0 to 1"),
    (dict(target_se=0), "target_se must be a positive number, got 0"),
    (dict(target_se=-0.1), "target_se must be a positive number"),
    (dict(target_se=np.nan), "target_se must be a positive number"),
    (dict(max_seconds=0), "max_seconds must be a positive number"),
    (dict(n_particles=0), "n_particles must be a whole number, at least 2, got 0"),
    (dict(n_particles=-5), "n_particles must be a whole number"),
    (dict(n_particles=10.5), "n_particles must be a whole number"),
    (dict(n_islands=0), "n_islands must be a whole number, at least 1"),
    (dict(random_seed=-1), "random_seed must be a non-negative int"),
    (dict(random_seed="x"), "random_seed must be a non-negative int"),
    (dict(random_seed=True), "random_seed must be a non-negative int, .* got True"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        estimate(PROBIT, **options)


def test_wrong_model_for_method():
    with pytest.raises(
        ValueError,
        match="a SparseModel, a PredictorsModel or a DensityModel, got str",
    ):
        estimate("model")
    with pytest.raises(ValueError, match="probit likelihood only"):
        estimate(small_model("logit"), method="orthant")
    with pytest.raises(ValueError, match="fitted to another model"):
        estimate(PROBIT, reference=ev.fit_ep(small_model("probit", 2)))


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("importance", {"move": "hmc"}),
        ("importance", {"betas": 5}),
        ("guided", {"move": "hmc"}),
        ("orthant", {"reference": "ep"}),
        ("orthant", {"move": "mgrad"}),
        ("sequential", {"betas": [0.0, 1.0]}),
        ("ep", {"move": "mgrad"}),
    ],
)
def test_arguments_that_change_nothing_are_refused(method, given):
    model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    with pytest.raises(ValueError, match=f"method='{method}' has no use for {next(iter(given))}="):
        ev.log_evidence(model, method=method, progressbar=False, **given)
