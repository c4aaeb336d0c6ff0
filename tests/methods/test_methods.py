"""Every method meets an exact truth; options are checked; auto chooses what fits."""

from __future__ import annotations

import copy
import dataclasses
import re
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from covering import seldom
from problems import covariance, log_z_by_quadrature, small_model

import evidence as ev
from evidence.methods.registry import METHODS
from evidence.methods.weighted import run_stepped
from evidence.proposals.guide import CannotGuide

PROBIT_ONLY = ("orthant", "sequential")


def estimate(model, **words):
    return ev.log_evidence(model, **{"random_seed": 0, "progressbar": False} | words)


OTHERS = ("poisson(exposure=1.5)", "student_t(df=4, scale=0.5)", "logit")


@pytest.mark.parametrize(
    ("method", "likelihood"),
    [
        # chains at all temperatures take long, whatever the likelihood
        pytest.param(m, name, marks=pytest.mark.slow if m == "pt" and name != "probit" else ())
        for i, m in enumerate(METHODS)
        for name in ("probit", OTHERS[i % 3])
    ],
)
def test_exact_truth(method, likelihood):
    """Within 4.5 standard errors: about 1e-4 per case with 15 degrees of freedom."""
    model = small_model(likelihood, 3)
    if method in PROBIT_ONLY and likelihood != "probit":
        with pytest.raises(ValueError, match="probit"):
            estimate(model, method=method)
        return
    result = estimate(model, method=method, target_se=0.03)
    assert abs(result.logz - log_z_by_quadrature(model)) < 4.5 * max(result.logz_se, 1e-3)
    assert 0.0 < result.logz_se < 0.045
    assert result.rows[-1].method == result.method
    assert not result.warnings


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=pytest.mark.slow if m == "pt" else ()) for m in METHODS]
)
def test_same_seed_same_answer(method):
    model = small_model("probit", 4)
    words = {"method": method} | ({"n_sweeps": 8} if method == "pt" else {})
    one, two, other = (estimate(model, random_seed=seed, **words) for seed in (3, 3, 4))
    assert one.logz == two.logz
    np.testing.assert_array_equal(one.samples, two.samples)
    assert one.logz != other.logz


def test_an_option_of_the_call_is_suggested():
    with pytest.raises(TypeError, match="'n_partcles'; did you mean 'n_particles'"):
        estimate(small_model("probit", 3), method="smc", n_partcles=10)


@pytest.mark.parametrize("method", METHODS)
def test_options_of_other_methods_are_refused(method):
    with pytest.raises(TypeError, match=f"method='{method}' has no option 'colour'"):
        estimate(small_model("probit", 3), method=method, colour="red")


@pytest.mark.parametrize(
    ("method", "name"),
    seldom([("smc", "mgrad"), ("arm", "nuts"), ("ais", "hmc"), ("pt", "hmc")], 0, 1, 2),
)
def test_a_move_of_the_user_stays_as_it_is(method, name):
    """Step sizes adapt in copies: the same object gives the same answer again."""
    move = ev.moves.get(name)
    before = copy.deepcopy(move)
    model = small_model("poisson(exposure=1.5)", 3)
    words = {"reference": "prior", "n_particles": 16, "move": move, "method": method}
    words |= {"n_sweeps": 4, "n_levels": 3} if method == "pt" else {"n_islands": 4}
    if method == "ais":
        words |= {"direction": "both", "n_reverse": 8}
    one, two = (estimate(model, **words) for _ in range(2))
    assert move == before
    assert one.logz == two.logz


def test_warnings_have_codes():
    """Of methods and drivers: their texts may change, the codes in methods/base.py do not."""
    model = ev.GPModel(K=covariance(30, 30.0), y=np.resize([1, -1, -1, 1], 30))
    stopped = estimate(model, method="smc", max_seconds=1e-9)
    missed = estimate(model, method="smc", target_se=1e-5, n_particles=16)
    assert [w.code for w in stopped.warnings] == ["approximation-only"]
    assert [warning.code for warning in missed.warnings] == ["target-missed"]
    apart = estimate(
        model, method="pt", reference="prior", betas=[0.5, 1.0], n_sweeps=8, n_particles=2
    )
    assert "no-round-trips" in [warning.code for warning in apart.warnings]


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("arm", {"threshold": 1.5}, "threshold must be a number between 0 and 1, got 1.5"),
        ("arm", {"i_max": -1}, "i_max must be a whole number, at least 0, got -1"),
        ("arm", {"resampling": "bootstrap"}, "unknown resampling 'bootstrap'"),
        ("arm", {"generate": "clone"}, "unknown generate 'clone'"),
        ("arm", {"generate": "reseed"}, "generate='reseed' and sampler= belong together"),
        ("arm", {"sampler": np.ones}, "generate='reseed' and sampler= belong together"),
        ("sequential", {"sweeps": 0}, "sweeps must be a whole number, at least 1, got 0"),
        ("sequential", {"threshold": -0.1}, "threshold must be"),
        ("sequential", {"order": "backwards"}, "order must be one of given, random, tail"),
        ("sequential", {"order": [0, 1, 1]}, "permutation of 0, …, 2"),
        ("pt", {"n_levels": 1}, "n_levels must be a whole number, at least 2, got 1"),
        ("pt", {"n_sweeps": 0}, "n_sweeps must be a whole number"),
        ("pt", {"explore": 0}, "explore must be a whole number"),
        ("pt", {"estimator": "bar"}, "unknown estimator 'bar'"),
        ("ais", {"direction": "down"}, "unknown direction 'down'"),
    ],
)
def test_bad_options_are_named(method, options, message):
    with pytest.raises(ev.InputError, match=message):
        estimate(small_model("probit", 3), method=method, **options)


def test_options_are_checked():
    model = small_model("probit", 3)
    with pytest.raises(ValueError, match="unknown resampling 'systemic'; did you mean"):
        estimate(model, method="smc", resampling="systemic")
    with pytest.raises(ValueError, match="waste_free must be a whole number, at least 2"):
        estimate(model, method="smc", waste_free=1)
    with pytest.raises(TypeError, match="did you mean 'resampling'"):
        estimate(model, method="smc", resample="residual")


def test_auto_does_not_anneal_where_draws_from_q_are_enough():
    result = estimate(small_model("poisson(exposure=1.5)", 5))
    assert result.method == "importance"
    assert "annealing is not needed" in result.notes[-1]
    assert "importance sampling is enough" in result.summary()


def test_auto_guides_draws_where_those_from_q_are_not_enough():
    model = ev.GPModel(K=covariance(40, 60.0), y=np.resize([9, 0, 0], 40), likelihood="poisson")
    result = estimate(model)
    assert result.method == "guided"
    assert "guided by the ep sites" in result.summary()
    want = estimate(model, method="smc", target_se=0.02)
    assert abs(result.logz - want.logz) < 4.5 * np.hypot(result.logz_se, want.logz_se)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_auto_does_not_mind_the_tail_of_weights_that_are_all_the_same(seed):
    """Their Pareto shape is about the limit, their draws are worth 512 of 512."""
    rng = np.random.default_rng(0)
    X = ev.datasets.standardise(rng.normal(size=(2, 25)).T)
    model = ev.GPModel(X, 2 * (rng.random(25) < 0.5) - 1, "RBF(1)")
    result = ev.log_evidence(model, random_seed=seed, progressbar=False)
    assert result.method == "guided"
    assert result.logz_se < 1e-3


def test_auto_guides_draws_under_several_classes():
    model = ev.SoftmaxModel(K=covariance(6, 60.0), y=[0, 1, 2, 1, 0, 0])
    result = estimate(model)
    assert result.method == "guided"
    assert not result.warnings


SMALL = {
    "classes": lambda: ev.SoftmaxModel(K=covariance(6), y=[0, 1, 2, 1, 0, 0]),
    "effects": lambda: ev.SparseModel(
        sp.eye_array(2),
        np.tile([1, 0, 1], 5),
        likelihood="logit",
        A=np.column_stack([np.ones(15), np.linspace(-1.0, 1.0, 15)]),
    ),
    "a chain": lambda: ev.SparseModel(
        ev.precisions.ar1(6, 0.8), [0, 0, 1, 0, 0, 1], likelihood="poisson"
    ),
    "a single value": lambda: ev.SparseModel(
        sp.eye_array(1), [2, 0, 1], likelihood="poisson", A=np.ones((3, 1))
    ),
}


@pytest.mark.parametrize("which", SMALL)
def test_draws_of_the_reference_will_do_where_they_are_nearly_worth_their_number(which):
    """Unless those in steps are nearly exact."""
    model = SMALL[which]()
    result, steps = estimate(model), estimate(model, method="guided")
    exact = which in ("a chain", "a single value")
    assert result.method == ("guided" if exact else "importance")
    assert (result.logz_se < 1e-4) == exact
    assert not result.warnings
    assert abs(result.logz - steps.logz) < 4.5 * np.hypot(result.logz_se, steps.logz_se) + 1e-9


def test_auto_anneals_where_they_are_not():
    model = ev.GPModel(K=covariance(12, 40.0), y=np.resize([9, 0, 0], 12), likelihood="poisson")
    result = estimate(model, reference="prior", target_se=0.2)
    assert result.method == "smc"
    assert any("too uneven to rely on" in note for note in result.notes)
    assert any("the pilot mixes" in note for note in result.notes)
    want = estimate(model)  # from EP's reference
    assert abs(result.logz - want.logz) < 4.5 * np.hypot(result.logz_se, want.logz_se)


def test_auto_tilts_a_probit_corner():
    model = ev.GPModel(K=covariance(40, 3000.0), y=np.resize([1, 1, -1, 1, -1, -1], 40))
    result = estimate(model, reference="prior")
    assert result.method == "orthant"
    want = ev.log_orthant(model.K + np.eye(40), model.y, n_draws=100_000, random_seed=0)
    assert abs(result.logz - want.logp) < 4.5 * np.hypot(result.logz_se, want.se)


@pytest.mark.parametrize(
    "kind", seldom(["draws are enough", "closed form", "steps", "slow move"], 0, 1, 2)
)
def test_auto_anneals_with_the_move_that_is_given(kind):
    """Though draws, a closed form or another move would do; log Z within 4.5 standard errors."""
    model = {
        "draws are enough": small_model("poisson(exposure=1.5)", 5),
        "closed form": ev.GPModel(K=np.eye(3) + 1.0, y=[0.0, 1.0, 2.0], likelihood="gaussian"),
        "steps": ev.SparseModel(
            ev.precisions.ar1(5, 0.5, 1.0), [0, 1, 2, 1, 3], likelihood="poisson"
        ),
        "slow move": ev.GPModel(
            K=covariance(6, 60.0), y=np.resize([9, 0], 6), likelihood="poisson"
        ),
    }[kind]
    move = ev.moves.PCN(step_size=0.01, target=None) if kind == "slow move" else "hmc"
    words = {} if kind != "slow move" else {"reference": "prior", "n_particles": 16}
    result = estimate(model, move=move, n_islands=4 if kind == "slow move" else 8, **words)
    assert result.method == "smc"
    assert result.settings["move"] == ev.moves.get(move).name
    tried = re.findall(r"(\S+) moves", " ".join(result.notes))
    assert set(tried) == {ev.moves.get(move).name}
    if kind != "slow move":
        want = estimate(model)
        assert want.method != "smc"
        assert abs(result.logz - want.logz) < 4.5 * np.hypot(result.logz_se, want.logz_se) + 1e-9


@pytest.mark.parametrize("betas", [4, [0.2, 1.0]])
def test_auto_anneals_along_the_ladder_that_is_given(betas):
    model = ev.GPModel(K=np.eye(3) + 1.0, y=[0.0, 1.0, 2.0], likelihood="gaussian")
    assert estimate(model, betas=betas, n_islands=4).method == "smc"


def test_importance_says_when_it_cannot_know():
    model = ev.GPModel(K=covariance(60, 400.0), y=np.resize([1, 1, -1], 60))
    result = estimate(model, method="importance", reference="prior", n_islands=16)
    assert "few-draws" in [warning.code for warning in result.warnings]


def test_arm_generates_in_three_ways():
    """Each within 4.5 standard errors of the truth; reseeding has its own sampler."""
    model = small_model("poisson(exposure=1.5)", 3)
    truth = log_z_by_quadrature(model)
    words = {"method": "arm", "reference": "prior", "threshold": 0.95, "n_particles": 40}
    for generate in ("copy", "anticipate"):
        result = estimate(model, generate=generate, n_islands=16, **words)
        assert result.trace.particles.max() > 40
        assert abs(result.logz - truth) < 4.5 * result.logz_se
    with pytest.raises(ValueError, match="'reseed' and sampler= belong together"):
        estimate(model, generate="reseed", **words)


def test_auto_leaves_a_reference_that_failed():
    model = small_model("poisson(exposure=1.5)", 5)
    failed = dataclasses.replace(ev.fit_ep(model), converged=False)
    sites = failed.sites._replace(nu=failed.sites.nu + 5.0)
    failed = dataclasses.replace(failed, sites=sites, mean=failed.mean + 2.0)
    result = estimate(model, reference=failed)
    assert any("starts from the laplace reference" in note for note in result.notes)
    want = estimate(model, method="smc", target_se=0.02)
    assert abs(result.logz - want.logz) < 4.5 * np.hypot(result.logz_se, want.logz_se)


@pytest.mark.parametrize(
    ("shift", "betas", "reason"),
    [(0.0, [0.0, 0.02, 1.0], "the ladder is too short"), (3.0, 40, "not reached the posterior")],
)
def test_ais_both_ways_tells_a_short_ladder_from_bad_draws(shift, betas, reason):
    model = ev.GPModel(K=covariance(6), y=[0, 3, 7, 0, 3, 7], likelihood="poisson")
    good = estimate(model, method="guided", n_islands=16, n_particles=64).samples
    result = estimate(
        model, method="ais", direction="both", reference="prior", betas=betas, n_particles=256,
        posterior=good[:256] + shift * good.std(axis=0), random_seed=3,
    )  # fmt: skip
    (warning,) = (w for w in result.warnings if w.code == "ways-disagree")
    assert reason in warning


def test_independent_draws_tell_more_than_the_spread_of_sixteen_islands():
    """L = exp(-x²/2) under N(0, 1): E L² / (E L)² - 1 = 2/√3 - 1, whatever sixteen islands say."""
    model = ev.DensityModel(
        lambda x: -0.5 * x[:, 0] ** 2, dim=1, prior=ev.GaussianPrior(np.zeros(1), 1.0),
        vectorized=True,
    )  # fmt: skip
    words = {"method": "importance", "reference": "prior", "n_particles": 256}
    results = [
        ev.log_evidence(model, random_seed=seed, progressbar=False, n_islands=16, **words)
        for seed in range(10)
    ]
    se = np.sqrt((2.0 / np.sqrt(3.0) - 1.0) / (16 * 256))
    assert min(result.logz_se for result in results) > 0.93 * se
    assert max(abs(result.logz + 0.5 * np.log(2.0)) for result in results) < 4.0 * se


def test_islands_of_a_guide_that_gives_up_are_no_islands_of_annealing(monkeypatch):
    """Draws in steps may find after some islands that they cannot go on."""
    guided = sys.modules["evidence.methods.weighted"]

    def give_up(problem, trial):
        run_stepped(problem, trial=trial)
        raise CannotGuide("modes are too narrow")

    y = np.array([3, 0, 1, 2, 5, 1])
    model = ev.SparseModel(ev.precisions.ar1(6, 0.8), y, likelihood="poisson")
    before = estimate(model)
    monkeypatch.setattr(guided, "run_stepped", give_up)
    annealed = estimate(model)
    assert annealed.method == "smc"
    assert annealed.logz != before.logz
    assert abs(annealed.logz - before.logz) < 4.0 * np.hypot(annealed.logz_se, before.logz_se)


def test_annealing_ends_within_the_evaluations_that_are_left():
    """After a pilot of 33,000 there are not as many for sixteen islands of the usual size."""
    prior, truth = ev.GaussianPrior(np.zeros(3)), -1.5 * (np.log(5.0) + 1.8)
    model = ev.DensityModel(
        lambda x: -2.0 * sum((a - 1.5) ** 2 for a in x.tolist()), dim=3, prior=prior
    )
    words = {"method": "smc", "reference": "prior", "max_evaluations": 50_000}
    result = ev.log_evidence(model, **words, random_seed=0)
    assert result.islands.size > 8
    assert abs(result.logz - truth) < 4.0 * result.logz_se < 1.0
