"""Calibration on data from known models: what is right passes, what is not is found."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csc_array
from scipy.special import expit

import evidence as ev
from evidence.results.calibration import SIZE, Calibration, _of_ranks
from evidence.verbs.simulate import from_prior, ranked

mpl.use("Agg")

X = np.linspace(0.0, 3.0, 8)
QUIET = {"random_seed": 0, "progressbar": False}


def pair(variance=1.0, noise=0.5):
    base = ev.GPModel(
        X, 0.0 * X, f"{variance} * RBF(0.5)", likelihood=f"gaussian(noise_std={noise})"
    )
    return {"short": base, "long": base.at({"length_scale": 2.0})}


def by_hand(rng, name, sd=1.0, noise=0.5):
    """Data of these models from NumPy alone."""
    length = {"short": 0.5, "long": 2.0}[name]
    K = sd**2 * np.exp(-0.5 * ((X[:, None] - X) / length) ** 2) + noise**2 * np.eye(8)
    return np.linalg.cholesky(K) @ rng.standard_normal(8)


@pytest.mark.slow
def test_what_is_right_passes():
    """The verdict fails with 5 % by chance; seeds are fixed."""
    own = ev.calibrate(pair(), 60, **QUIET)
    assert own.passed
    assert not own.warnings
    assert own.summary().startswith("calibrated: 23 statistics of 60 data sets")
    assert ev.calibrate(pair(), 60, simulate=by_hand, **QUIET).passed
    # limits are of total size 5 %, half for evidences and half for ranks
    assert own.table.limit.sum() == pytest.approx(SIZE)
    assert own.table.limit.iloc[:3].sum() == pytest.approx(SIZE / 2)


@pytest.mark.parametrize(
    "wrong", [{"sd": 0.5}, pytest.param({"noise": 0.25}, marks=pytest.mark.slow)]
)
def test_what_is_not_meant_is_found(wrong):
    """Prior standard deviations off by a factor of 2, noise that is a variance."""
    found = ev.calibrate(pair(), 60, simulate=partial(by_hand, **wrong), **QUIET)
    assert not found.passed
    assert [w.code for w in found.warnings] == ["not-calibrated"]
    assert found.summary().startswith("NOT calibrated")


def test_probabilities_are_those_of_closed_forms():
    found = ev.calibrate(pair(), 5, simulate={"short": partial(by_hand, name="short"),
                                              "long": partial(by_hand, name="long")},
                         prior={"short": 1.0, "long": 3.0}, **QUIET)  # fmt: skip
    seeds = np.random.SeedSequence(0).spawn(5)
    for seed, index, p in zip(seeds, found.index, found.probability, strict=True):
        rng = np.random.default_rng(seed)
        assert index == rng.choice(2, p=[0.25, 0.75])
        y, log = by_hand(rng, ["short", "long"][index]), []
        for model in pair().values():
            cov = model.K + 0.25 * np.eye(8)
            log.append(stats.multivariate_normal(np.zeros(8), cov).logpdf(y))
        assert p[1] == pytest.approx(expit(log[1] - log[0] + np.log(3.0)), rel=1e-4)


def statistics(probability, index):
    logz = np.log(np.stack([1.0 - probability, probability], axis=1))
    table = Calibration.of(("a", "b"), np.full(2, 0.5), index, logz, {}).table
    return table


@pytest.mark.slow
def test_statistics_of_evidences_have_their_size():
    """Of 100 sets of right probabilities, how many are rejected is Bin(100, ≤ 0.05)."""
    rng, rejected = np.random.default_rng(1), 0
    for _ in range(100):
        p = rng.beta(0.5, 0.5, 60)
        table = statistics(p, (rng.random(60) < p).astype(int))
        rejected += (table.p < table.limit).any()
    assert 1 <= rejected <= stats.binom.isf(1e-4, 100, SIZE)


def ranks_of(rng, known, narrower=1.0, shrunk=1.0):
    """p of the ranks of 50 normal parameters, whose posteriors are exact or narrower or shrunk."""
    x = rng.normal(size=50)
    mean = (x + 0.5 * rng.normal(size=50)) / 1.25
    draws = shrunk * rng.normal(mean[:, None], narrower * 0.2**0.5, (50, 20))
    truth = x if known else np.full(50, np.nan)
    own = zip(truth, rng.normal(size=(50, 20)), draws, strict=True)
    return [p for _, p in _of_ranks(list(own))[1].values()]


@pytest.mark.parametrize(("known", "wrong"), [(True, {"narrower": 0.5}), (False, {"shrunk": 0.5})])
def test_ranks_have_their_size(known, wrong):
    """Of 300 p-values those below 0.05 are Bin(300, 0.05), within 1e-4; the wrong are found."""
    rng = np.random.default_rng(4)
    right = np.ravel([ranks_of(rng, known) for _ in range(150)])
    low, high = stats.binom.ppf([5e-5, 1.0 - 5e-5], 300, 0.05)
    assert low <= np.sum(right < 0.05) <= high
    assert min(ranks_of(rng, known, **wrong)) < 1e-3


def test_each_statistic_sees_what_it_is_for():
    rng = np.random.default_rng(2)
    p = rng.beta(0.5, 0.5, 300)
    index = (rng.random(300) < p).astype(int)
    sure = statistics(expit(2.0 * np.log(p / (1.0 - p))), index)  # twice the log odds
    assert sure.p["log probability of the truth"] < 1e-3
    assert sure.z["log probability of the truth"] < 0.0
    shifted = statistics(expit(np.log(p / (1.0 - p)) + 1.0), index)  # e times the Bayes factor
    assert shifted.p["how often b"] < 1e-3
    assert shifted.z["how often b"] < 0.0
    assert shifted.p["BF/(1 + BF), b against a"] < 1e-3


def density(y, sd=1.0):
    def log_likelihood(t):
        return stats.norm.logpdf(y[:, None], t[:, 0], 1.0).sum(axis=0)

    return ev.DensityModel(log_likelihood, prior=[stats.norm(0, sd)], vectorized=True)


def test_functions_from_data_to_densities():
    models = {"narrow": density, "wide": partial(density, sd=3.0)}

    def simulate(rng, name):
        return {"narrow": 1.0, "wide": 3.0}[name] * rng.normal() + rng.normal(size=10)

    words = {"method": "importance", "n_particles": 100, "n_islands": 4, **QUIET}
    found = ev.calibrate(models, 3, simulate=simulate, **words)
    assert set(found.ranks) <= {"narrow: parameter 0", "wide: parameter 0"}
    assert sum(map(len, found.ranks.values())) == 3
    for seed, p in zip(np.random.SeedSequence(0).spawn(3), found.probability, strict=True):
        rng = np.random.default_rng(seed)
        y = simulate(rng, ["narrow", "wide"][rng.choice(2, p=[0.5, 0.5])])
        log = [
            stats.multivariate_normal(np.zeros(10), np.eye(10) + sd**2).logpdf(y)
            for sd in (1.0, 3.0)
        ]
        assert p[1] == pytest.approx(expit(log[1] - log[0]), abs=0.05)
    with pytest.raises(ev.InputError, match="unless it is a function from data"):
        ev.calibrate(models, 20, **QUIET)


@pytest.mark.slow
def test_hyperparameters_and_effects_are_ranked():
    pytest.importorskip("formulae")
    data = {"y": np.arange(8.0), "x": X, "g": np.arange(8) % 2}
    priors = {"Intercept": "norm(2, 3)", "x": "norm(0, 1)", "sigma": "halfnorm(scale=2)"}
    model = ev.from_formula("y ~ x", data, priors=priors)
    assert ranked(model)[0] == ["sigma", "Intercept", "x", "log likelihood"]
    rng = np.random.default_rng(3)
    drawn = np.array([from_prior(model, rng)[0] for _ in range(300)])
    laws = [stats.halfnorm(scale=2.0), stats.norm(2.0, 3.0), stats.norm(0.0, 1.0)]
    for values, law in zip([np.exp(drawn[:, 0]), *drawn.T[1:3]], laws, strict=True):
        assert stats.kstest(values, law.cdf).pvalue > 1e-4
    found = ev.calibrate([model, model.at({"sigma": 1.0})], 2, **QUIET)
    names = {name for name in found.ranks if name.startswith("model 1")}
    assert names <= {f"model 1: {name}" for name in ranked(model)[0]}
    assert len(found.ranks) in (3, 4, 7)
    wide = ev.SparseModel(csc_array([[1.0]]), [3], mean=1e5, likelihood="poisson")
    with pytest.raises(ev.InputError, match="none could be simulated"):
        from_prior(wide, rng)


@pytest.mark.slow
def test_the_same_numbers_anywhere_and_from_a_checkpoint(tmp_path):
    words = {"checkpoint": tmp_path / "c.ckpt", **QUIET}
    ev.calibrate(pair(), 4, **words)
    with ThreadPoolExecutor(2) as pool:
        more = ev.calibrate(pair(), 9, executor=pool, **words)
    alone = ev.calibrate(pair(), 9, **QUIET)
    np.testing.assert_array_equal(more.probability, alone.probability)
    assert more.table.equals(alone.table)
    with pytest.raises(ev.InputError, match="another run"):
        ev.calibrate(pair(2.0), 9, **words)
    more.save(tmp_path / "c.npz")
    back = ev.Calibration.load(tmp_path / "c.npz")
    assert back.summary() == more.summary()
    assert back.plot().axes[0].get_title() == "Evidences"


def test_a_design_that_was_interrupted_says_so():
    def simulate(rng, calls=[]):  # noqa: B006
        calls.append(1)
        if len(calls) == 12:
            os.kill(os.getpid(), signal.SIGINT)
        return rng.normal(size=X.size)

    plan = ev.design(*pair().values(), 60, simulate={"m0": simulate}, **QUIET)
    assert 2 <= plan.log_bayes_factor["m0"].size < 60
    assert [warning.code for warning in plan.warnings] == ["interrupted"]
    assert "interrupted by the user" in plan.summary()


@pytest.mark.slow
def test_design_tells_how_often_a_factor_is_large():
    plan = ev.design(*pair().values(), 60, **QUIET)
    assert {name: log.size for name, log in plan.log_bayes_factor.items()} == {"m0": 60, "m1": 60}
    for name, log in plan.log_bayes_factor.items():
        assert plan.table["P(BF > 10)"][name] == np.mean(log > np.log(10.0))
        assert plan.table["P(BF < 1/3)"][name] == np.mean(log < -np.log(3.0))
    # E[BF] = 1 under m0, and a factor of K is met with at most 1/K
    assert plan.table["P(BF > 10)"]["m0"] < 0.1 + 4.0 * 0.04
    assert plan.table["median"]["m1"] > 0.0 > plan.table["median"]["m0"]
    assert "m1 against m0" in plan.plot().get_xlabel()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"simulate": lambda rng: X}, "whose data does this function make"),
        ({"simulate": {"medium": lambda rng: X}}, "simulate must map names"),
        ({"simulate": {"short": X}}, r"simulate\['short'\] must be a function"),
        ({"simulate": {"short": lambda rng: X[:3]}, "n": 9}, r"data of shape \(8,\), but those"),
        ({"n": 1}, "n must be a whole number, at least 2"),
        ({"prior": {"short": 1.0}}, "prior must give one number"),
        ({"models": {"a": ev.examples.gaussian(2).model}, "n": 20}, "a function from data"),
        ({"models": {"a": pair()["short"]}, "n": 19}, "n must be a whole number, at least 20"),
    ],
)
def test_bad_input(change, message):
    words = {"models": pair(), "n": 3, **QUIET, **change}
    with pytest.raises(ev.InputError, match=message):
        ev.calibrate(words.pop("models"), words.pop("n"), **words)


def test_a_function_with_other_arguments_is_another_run(tmp_path):
    words = {"checkpoint": tmp_path / "c.ckpt", **QUIET}
    for sd in (1.0, 1.0, 2.0):
        made = {name: partial(by_hand, name=name, sd=sd) for name in pair()}
        if sd == 2.0:
            with pytest.raises(ev.InputError, match="another run"):
                ev.calibrate(pair(), 2, simulate=made, **words)
        else:
            ev.calibrate(pair(), 2, simulate=made, **words)
