from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from problems import exact_draws, small_model
from scipy.stats import ks_2samp

import evidence as ev
from evidence import moves
from evidence.drivers.chains import Chains
from evidence.statistics.adaptation import DualAveraging
from evidence.statistics.diagnostics import unmixed
from evidence.verbs.sample import _judged

pytestmark = pytest.mark.usefixtures("small_searches")
#: in the fast suite; the others are known to be exact by tests/moves
FIRST = ("elliptical", "hmc", "mgrad", "nuts", "pcn", "splitting")
QUICK = [name for name in moves.names() if "rmhmc" not in name and name != "gibbs"]


def quiet(model, **options):
    return ev.sample(model, progressbar=False, **options)


@cache
def counts():
    """A model, and exact draws from its posterior."""
    model = small_model("poisson(exposure=1.5)", 3)
    return model, exact_draws(np.random.default_rng(0), ev.fit_ep(model), 1.0, 20_000)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FIRST else pytest.mark.slow) for n in QUICK]
)
def test_every_move_by_name_finds_the_posterior(name):
    """Means against exact draws, within 5 standard errors of the chains' own making."""
    model, exact = counts()
    count = 1000 if name in FIRST else 1500  # others mix more slowly
    draws = quiet(model, move=name, draws=count, tune=300, random_seed=1)
    assert draws.x.shape == (4, count, 3)
    assert draws.ess.min > 100
    error = draws.sd / np.sqrt(draws.ess_by_coordinate)
    se = np.hypot(error, exact.std(axis=0) / len(exact) ** 0.5)
    assert np.abs((draws.mean - exact.mean(axis=0)) / se).max() < 5.0
    assert draws.rhat < 1.1
    assert draws.warnings == ()
    assert draws.seconds > 0.0
    assert draws.gradients >= 1.0


@pytest.mark.parametrize("name", ["mgrad", "agrad-z", "pcn", "mala", "hmc", "mmala"])
def test_step_sizes_reach_the_target_acceptance(name):
    model = small_model("probit", 12)
    draws = quiet(model, move=name, reference="prior", draws=400, tune=500, random_seed=2)
    target = moves.get(name).target
    assert abs(draws.acceptance.mean() - target) < 0.12
    assert np.isfinite(draws.step_size)


def test_gibbs_and_thinning():
    model = small_model("probit", 3)
    draws = quiet(model, move="gibbs", draws=1200, tune=20, thin=2, random_seed=3)
    exact = exact_draws(np.random.default_rng(1), ev.fit_ep(model), 1.0, 8000)
    thinned = draws.x[:, ::8].reshape(-1, 3)  # nearly independent
    assert min(ks_2samp(thinned[:, n], exact[:, n]).pvalue for n in range(3)) > 1e-5
    assert np.isnan(draws.step_size)
    assert draws.gradients == 2.0


def test_beta_tempers():
    """At β = 0 chains sample the reference."""
    model = small_model("probit", 3)
    base = ev.fit_ep(model)
    draws = quiet(model, move="elliptical", reference=base, beta=0.0, draws=3000, tune=0)
    flat = draws.x.reshape(-1, 3)
    np.testing.assert_allclose(flat.mean(axis=0), base.mean, atol=0.1)
    np.testing.assert_allclose(np.cov(flat.T), base.cov, atol=0.15)


def test_the_tilt_is_that_of_the_draws():
    model = small_model("logit", 4)
    base = ev.fit_laplace(model)
    draws = quiet(model, move="hmc", reference=base, draws=40, tune=20, chains=2, random_seed=0)
    tilt = ev.Path(base).tilt(draws.x.reshape(-1, 4)).reshape(2, 40)
    np.testing.assert_allclose(draws.logtilt, tilt, atol=1e-9)


def test_same_seed_same_draws():
    model = small_model("probit", 5)
    for name in ("mgrad", "nuts", "rmhmc"):
        a, b = (quiet(model, move=name, draws=20, tune=20, random_seed=7) for _ in range(2))
        np.testing.assert_array_equal(a.x, b.x)
    other = quiet(model, move="rmhmc", draws=20, tune=20, random_seed=8)
    assert np.abs(a.x - other.x).max() > 0.1


def test_time_limit_and_interrupt(monkeypatch):
    model = small_model("probit", 5)
    draws = quiet(model, draws=2_000_000, tune=10, max_seconds=0.25)
    assert 0 < draws.x.shape[1] < 2_000_000
    assert draws.warnings[0].code == "stopped-early"
    draws = quiet(model, draws=5, tune=10**7, max_seconds=0.2)  # half of which is for tuning
    assert draws.x.shape[1] > 0
    with pytest.raises(RuntimeError, match="max_seconds"):
        quiet(model, draws=5, tune=10, max_seconds=1e-9)

    step, calls = moves.MGrad.step, []

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) == 30:
            raise KeyboardInterrupt
        return step(self, *args)

    monkeypatch.setattr(moves.MGrad, "step", interrupted)
    draws = quiet(model, draws=100, tune=10, chains=5)
    assert draws.x.shape[1] == 19
    assert "19 of 100" in draws.warnings[0]


def test_a_hopeless_step_size_is_a_warning():
    model = small_model("probit", 30)
    draws = quiet(model, move=moves.MGrad(1e6), reference="prior", draws=50, tune=0)
    assert "low-acceptance" in [warning.code for warning in draws.warnings]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"move": moves.NUTS(0.0)}, "nuts: step_size must be a positive number, got 0.0"),
        ({"move": moves.NUTS(max_depth=0)}, "nuts: max_depth must be a whole number, at least 1"),
        ({"move": moves.HMC(n_leapfrog=2.5)}, "hmc: n_leapfrog must be a whole number"),
        ({"move": "mgard"}, "unknown move 'mgard'; did you mean 'mgrad'"),
        ({"draws": 0}, "draws must be a whole number, at least 1, got 0"),
        ({"draws": None}, "draws must be a whole number, at least 1, got None"),
        ({"reference": np.eye(99)}, "unknown reference of type ndarray. Known: ep, laplace"),
        ({"tune": -1}, "tune must be a whole number, at least 0, got -1"),
        ({"chains": 2.5}, "chains must be a whole number"),
        ({"thin": 0}, "thin must be"),
        ({"beta": 1.5}, "beta must be a number between 0 and 1, got 1.5"),
        ({"reference": "epp"}, "unknown reference 'epp'; did you mean 'ep'"),
        ({"max_seconds": 0}, "max_seconds must be a positive number"),
        ({"random_seed": -3}, "random_seed must be"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        quiet(small_model("probit"), **options)


@pytest.mark.parametrize("model", [ev.GPModel, ev.SoftmaxModel], ids=["one predictor", "classes"])
def test_hyperparameters_with_priors_are_not_held_silently(model):
    free = model([0.0, 1.0, 2.0, 3.0], [0, 1, 1, 0], "RBF(1.0)").with_priors(
        {"length_scale": "flat"}
    )
    with pytest.raises(ValueError, match="model has priors of its hyperparameters"):
        quiet(free)


def test_a_model_is_wanted():
    with pytest.raises(ValueError, match="a PredictorsModel or a DensityModel, got ndarray"):
        quiet(np.eye(3))
    base = ev.fit_ep(small_model("probit"))
    with pytest.raises(ValueError, match="fitted to another model"):
        quiet(small_model("probit"), reference=base)


def test_dual_averaging_stays_in_bounds_where_nothing_is_rejected():
    tuner = DualAveraging(1.0, target=0.25)
    for _ in range(5000):
        tuner.update(1.0)
    assert tuner.step_size <= 1e6 * (1 + 1e-9)
    assert tuner.final <= 1e6 * (1 + 1e-9)


@cache
def labels():
    model = small_model("probit", 8)
    return model, ev.log_evidence(model, method="orthant", n_particles=2_000, random_seed=0)


@pytest.mark.parametrize("name", ["splitting", "pcn", "elliptical", "hmc", "mala", "agrad-u"])
def test_other_moves_estimate_the_evidence_too(name):
    """Resample-move with another kernel: the same log Z (4 standard errors)."""
    model, exact = labels()
    result = ev.log_evidence(
        model,
        method="smc",
        move=name,
        n_particles=64,
        n_islands=16,
        random_seed=1,
        progressbar=False,
    )
    se = np.hypot(result.logz_se, exact.logz_se)
    assert abs(result.logz - exact.logz) < 4.0 * se
    assert result.settings["move"] == name


@pytest.mark.slow
def test_a_chain_that_never_moves_is_a_warning():
    """It starts where the step size that suits the others is far too long."""
    model = ev.GPModel(K=[[4.0, 3.0], [3.0, 5.0]], y=[3, 0], likelihood="poisson")
    draws = quiet(
        model, move="hmc", reference="prior", chains=8, draws=3000, tune=500, random_seed=5
    )
    stuck = np.flatnonzero(draws.acceptance < 0.01)
    assert stuck.size > 0, "another seed is needed"
    (warning,) = (warning for warning in draws.warnings if warning.code == "still-chain")
    assert warning.startswith(f"chain {stuck[0]} hardly moved")


@pytest.mark.slow
def test_chains_that_disagree_are_a_warning():
    model = ev.examples.gaussian_mixture(dim=2).model
    draws = quiet(model, move="mala", draws=300, tune=300, chains=3, random_seed=0)
    assert "chains-disagree" in [warning.code for warning in draws.warnings]


def codes(draws):
    return {warning.code for warning in draws.warnings}


def test_few_draws_are_a_warning():
    """200 draws of four chains cannot be worth 400; 4 × 1500 nearly independent ones are."""
    model = small_model("probit", 5)
    short = quiet(model, draws=50, tune=50, random_seed=0)
    assert "low-ess" in codes(short)
    assert codes(quiet(model, draws=1500, tune=300, random_seed=0)) == set()


def test_chains_that_stay_where_they_are_do_not_agree():
    """A step of a hundredth of what it should be: 50 draws a chain, R-hat above 1.1."""
    model = small_model("probit", 30)
    slow = quiet(model, move=moves.PCN(step_size=1e-4, target=None), draws=50, tune=0)
    assert {"chains-disagree", "low-ess"} <= codes(slow)


def test_the_worst_of_many_coordinates_is_found():
    """One of forty that chains explore in different places."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 1000, 40))
    run = Chains(x, x[:, :, 0], np.ones(4), 1.0, 1.0, 1.0, 0, 0, False)
    assert not list(unmixed(_judged(run)))
    x[0, :, 23] += 0.5
    assert "chains-disagree" in {warning.code for warning in unmixed(_judged(run))}
    x[:, :, 23] = np.cumsum(x[:, :, 23], axis=1)
    assert "low-ess" in {warning.code for warning in unmixed(_judged(run))}


@pytest.mark.slow
def test_midpoint_steps_do_not_turn_into_reflections():
    """On a Gaussian the rule accepts steps of any length; beyond 2 they lead back and forth."""
    model = ev.examples.gaussian(2).model
    draws = quiet(model, move="rmhmc-midpoint", draws=150, tune=150, random_seed=0)
    assert draws.step_size <= 2.0
    assert draws.rhat < 1.05
