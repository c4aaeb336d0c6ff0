from __future__ import annotations

import _thread
import importlib
import time

import hyper_problems as problems
import numpy as np
import pytest
from scipy import stats

import evidence as ev
from evidence.hyper.chains import run_chain
from evidence.hyper.fields import GPField, PredictorsField
from evidence.hyper.schemes import SCHEMES
from evidence.hyper.states import StepSizes
from evidence.models.priors import Priors
from evidence.results.hyper import HyperDraws
from evidence.verbs.sample_hyperparameters import _doubts, _stride

hyper_verb = importlib.import_module("evidence.verbs.sample_hyperparameters")


def sample_hyperparameters(*given, scheme="agrad-z-joint", **words):
    """By chains, which are what most of this is about."""
    return ev.sample_hyperparameters(*given, scheme=scheme, **words)


class Named(problems.LogNormal):
    """With the name that a frozen scipy.stats distribution has."""

    class dist:
        name = "lognormal"


PRIORS = {"constant_value": Named(), "length_scale": Named()}
QUICK = dict(draws=60, tune=40, random_seed=0, progressbar=False)


@pytest.fixture(scope="module")
def model():
    return ev.GPModel(problems.X, [1, 1, -1], "2.0 * RBF(1.0)", likelihood="logit")


@pytest.fixture(scope="module")
def draws(model):
    return sample_hyperparameters(model, PRIORS, **(QUICK | dict(draws=200, tune=150)))


def test_what_comes_back(model, draws):
    assert draws.theta.shape == (2, 200, 2)
    assert draws.x.shape == (2, 200, 3)
    assert draws.loglik.shape == (2, 200)
    assert draws.names == model.hyperparameters.names
    assert draws.acceptance.shape == draws.step_sizes.shape == (2, 2)
    assert draws.failures == 0
    assert draws.seconds > 0.0
    assert draws.settings["priors"]["k2__length_scale"] == "lognormal()"
    assert draws.model["N"] == 3
    x, value = draws.x[1, 7], draws.loglik[1, 7]
    assert model.likelihood.log_prob(x, model.y).sum() == pytest.approx(value)
    assert repr(draws).startswith("HyperDraws(agrad-z-joint, chains=2, draws=200, theta=2")


@pytest.mark.parametrize(
    "scheme",
    [pytest.param(s, marks=pytest.mark.slow if s == "pseudo-marginal" else ()) for s in SCHEMES],
)
def test_same_seed_same_draws(model, scheme):
    words = QUICK | dict(scheme=scheme, draws=20, tune=15)
    one = sample_hyperparameters(model, PRIORS, **words)
    two = sample_hyperparameters(model, PRIORS, **words)
    other = sample_hyperparameters(model, PRIORS, **(words | {"random_seed": 1}))
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.x, two.x)
    assert (one.theta != other.theta).any()
    assert one.scheme == scheme


def test_a_chain_does_not_depend_on_those_beside_it(model):
    one = sample_hyperparameters(model, PRIORS, chains=1, **QUICK)
    three = sample_hyperparameters(model, PRIORS, chains=3, **QUICK)
    np.testing.assert_array_equal(one.theta[0], three.theta[0])


def test_thinning_and_what_is_kept(model):
    every = sample_hyperparameters(model, PRIORS, chains=1, **QUICK)
    thinned = sample_hyperparameters(model, PRIORS, chains=1, **(QUICK | dict(draws=20)), thin=3)
    np.testing.assert_array_equal(thinned.theta, every.theta[:, 2::3])
    few = sample_hyperparameters(model, PRIORS, chains=1, keep=7, **QUICK)
    assert few.settings["stride"] == 9
    np.testing.assert_array_equal(few.x, every.x[:, ::9])


def test_latent_values_kept_fit_into_memory():
    assert _stride(60, None, 2 * 3) == 1
    assert _stride(60, None, 2 * 3, memory=8 * 2 * 3 * 10) == 6
    assert _stride(60, None, 10**9) == 60


def test_fixed_hyperparameters_stay(model):
    prior = {"length_scale": stats.gamma(2)}
    found = sample_hyperparameters(model, prior, fixed=["constant_value"], **QUICK)
    assert found.names == ("k2__length_scale",)
    assert found.theta.shape == (2, 60, 1)
    assert found.settings["priors"] == {"k2__length_scale": "gamma(2)"}


def test_likelihood_parameters_alone():
    """A given covariance has no hyperparameters, its likelihood has."""
    model = ev.GPModel(K=np.eye(3), y=[0.5, -2.0, 1.0], likelihood="gaussian(noise_std=0.5)")
    found = sample_hyperparameters(model, {"noise_std": "flat"}, **QUICK)
    assert found.names == ("likelihood__noise_std",)
    assert len(np.unique(found.theta)) > 10


def test_kernels_that_are_no_squared_exponential(model):
    matern = ev.GPModel(problems.X, [1, 1, -1], "2.0 * Matern(1.0, nu=1.5)")
    assert len(np.unique(sample_hyperparameters(matern, PRIORS, **QUICK).theta)) > 20


def test_a_field_stands_for_itself():
    field, _ = problems.softmax()
    priors = {"variance0": "flat", "variance1": Named()}
    found = sample_hyperparameters(field, priors, **QUICK)
    assert found.x.shape == (2, 60, 4)
    with pytest.raises(ValueError, match="needs EP's Gaussian, which Softmax does not have"):
        sample_hyperparameters(field, priors, scheme="pseudo-marginal", **QUICK)


def test_several_classes():
    """Names without a class stand for all of them."""
    X, y = np.linspace(0.0, 3.0, 9)[:, None], list("aabbbcccc")
    model = ev.SoftmaxModel(X, y, "2.0 * RBF(1.0)")
    found = sample_hyperparameters(
        model, {"length_scale": Named()}, fixed=["constant_value"], **QUICK
    )
    assert found.names == tuple(f"class[{k}]__k2__length_scale" for k in "abc")
    assert found.theta.shape == (2, 60, 3)
    assert found.x.shape == (2, 60, 27)
    x = found.x[1, 7].reshape(3, 9)
    picked = x[["abc".index(label) for label in y], np.arange(9)]
    value = np.sum(picked - np.log(np.exp(x).sum(axis=0)))
    assert found.loglik[1, 7] == pytest.approx(value)
    assert (found.theta.std(axis=(0, 1)) > 0.01).all()
    field, there = PredictorsField(model), model.hyperparameters.theta + 0.1 * np.arange(6)
    for block in range(3):
        np.testing.assert_allclose(field.covariance(block, there), model.at(there).K[block])
    given = ev.SoftmaxModel(K=np.eye(9), y=y)
    with pytest.raises(ValueError, match="build it with a kernel, not with K="):
        sample_hyperparameters(given, {}, **QUICK)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scheme": "agrad-joint"}, "unknown scheme 'agrad-joint'; did you mean 'agrad-z-joint'"),
        ({"draws": 0}, "draws must be a whole number, at least 1"),
        ({"draws": None}, "draws must be a whole number, at least 1"),
        ({"tune": -1}, "tune must be a whole number"),
        ({"chains": 0}, "chains must be"),
        ({"thin": 0.5}, "thin must be"),
        ({"keep": 0}, "keep must be"),
        ({"max_seconds": 0.0}, "max_seconds must be a positive number"),
        ({"random_seed": "a"}, "random_seed must be"),
        ({"priors": {"length_scale": "flat"}}, "no prior for k1__constant_value"),
        (
            {"model": "probit"},
            "model must be a GPModel, a SparseModel, a PredictorsModel or a SoftmaxModel, got str",
        ),
        (
            {"priors": {**PRIORS, "length_scale": stats.uniform(3.0, 1.0)}},
            "prior of k2__length_scale has density 0 at the model's value 1,",
        ),
    ],
)
def test_bad_arguments_are_refused_in_words(model, change, said):
    words = {"model": model, "priors": PRIORS, **QUICK, **change}
    with pytest.raises(ValueError, match=said):
        sample_hyperparameters(words.pop("model"), words.pop("priors"), **words)


# -- runs that end early, or go wrong ----------------------------------------------------------


class Interrupting(problems.Softmax):
    """^C reaches the main thread after so many likelihoods of all chains."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def loglik(self, x, theta):
        self.calls -= 1
        if self.calls == 0:
            _thread.interrupt_main()
        return super().loglik(x, theta)


def interrupted(calls, **words):
    priors = {"variance0": "flat", "variance1": Named()}
    return sample_hyperparameters(Interrupting(calls), priors, **(QUICK | words))


def test_an_interrupt_returns_what_is_recorded():
    run = interrupted(700, draws=100_000, keep=1000)
    kept = run.theta.shape[1]
    assert 1 <= kept < 100_000
    assert run.x.shape[1] == -(-kept // 100)
    assert run.warnings[0].code == "stopped-early"
    assert run.warnings[0].startswith(f"stopped early: {kept} of 100000 draws")


def test_an_interrupt_while_tuning_has_nothing_to_return():
    with pytest.raises(KeyboardInterrupt):
        interrupted(50, tune=100_000)


@pytest.mark.slow
def test_time_runs_out(model):
    found = sample_hyperparameters(model, PRIORS, max_seconds=1.0, **(QUICK | {"draws": 10**5}))
    assert found.theta.shape[1] < 10**5
    assert found.warnings[0].code == "stopped-early"


def test_chains_that_disagree_are_reported(model, draws):
    apart = draws.theta + np.array([0.0, 5.0])[:, None, None]
    run = HyperDraws(
        apart, draws.x, draws.loglik, draws.names, draws.scheme, np.array([[0.1, 0.01]] * 2),
        draws.step_sizes, 1.0, 1.0, failures=100,
    )  # fmt: skip
    failed, latent, theta, disagree, short = _doubts(run, SCHEMES["agrad-z-joint"], 200, 1)
    assert failed.code == "failed-proposals"
    assert failed.startswith("100 proposals of hyperparameters in 400 iterations")
    assert latent.code == "latent-acceptance"
    assert "0.10, far below the target 0.55" in latent
    assert theta.code == "theta-acceptance"
    assert "0.01, far from the target 0.25" in theta
    assert disagree.code == "chains-disagree"
    assert short.code == "low-ess"


def test_covariances_without_a_factor_are_counted():
    """Without jitter, and with length scales the inputs cannot tell from infinity."""
    bare = ev.GPModel(problems.X, [1, 1, -1], "2.0 * RBF(1.0)", likelihood="logit", jitter=0.0)
    flat = {"constant_value": "flat", "length_scale": "flat"}
    chain = run_chain(
        GPField(bare), Priors.of(bare.hyperparameters, flat), SCHEMES["agrad-z-joint"],
        lambda steps: None, draws=60, tune=0, thin=1, stride=1, seed=np.random.SeedSequence(0),
        stop=lambda: False, first=StepSizes(1.0, 400.0),
    )  # fmt: skip
    assert chain.failures > 0


# -- what is kept, shown and saved -------------------------------------------------------------


def test_table_in_natural_values(draws):
    table = draws.table()
    assert list(table.index) == list(draws.names)
    flat = np.exp(draws.theta.reshape(-1, 2))
    np.testing.assert_allclose(table["mean"], flat.mean(axis=0))
    np.testing.assert_allclose(table["median"], np.median(flat, axis=0))
    np.testing.assert_allclose(table["ess"], draws.ess)
    assert {"sd", "q5", "q95", "ess_bulk", "ess_tail", "rhat"} <= set(table.columns)
    assert draws.min_ess_per_second == draws.ess.min() / draws.seconds


def test_summary_is_a_page(draws):
    lines = draws.summary().splitlines()
    assert lines[0].startswith(f"{draws.scheme}: {draws.theta.shape[0]} × {draws.theta.shape[1]}")
    assert all(any(line.startswith(name) for line in lines) for name in draws.names)
    assert sum("WARNING" in line for line in lines) == len(draws.warnings)


def test_saved_and_loaded(draws, tmp_path):
    draws.save(tmp_path / "run.npz")
    again = HyperDraws.load(tmp_path / "run.npz")
    for name in ("theta", "x", "loglik", "acceptance", "step_sizes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(draws, name))
    for name in ("names", "scheme", "seconds", "failures", "warnings", "settings", "model"):
        assert getattr(again, name) == getattr(draws, name)
    np.savez(tmp_path / "other.npz", meta='{"format": "evidence-draws", "version": 1}')
    with pytest.raises(ValueError, match="this package reads 'evidence-hyper-draws'"):
        HyperDraws.load(tmp_path / "other.npz")


def test_arviz(draws):
    pytest.importorskip("arviz")
    data = draws.to_arviz()
    np.testing.assert_allclose(data["posterior"]["k2__length_scale"], np.exp(draws.theta[..., 1]))
    assert data["posterior"]["x"].shape == (2, 200, 3)
    assert data["sample_stats"]["loglik"].shape == (2, 200)


@pytest.mark.slow
def test_figure(draws, tmp_path):
    figure = draws.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 10_000
    assert [ax.get_title() for ax in figure.axes[::2]] == list(draws.names)
    many = HyperDraws(
        np.tile(draws.theta, 5), draws.x, draws.loglik, tuple("abcdefghij"), "whitened",
        draws.acceptance, draws.step_sizes, 1.0, 1.0,
    )  # fmt: skip
    assert len(many.plot().axes) == 12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"theta": np.zeros((2, 4))}, r"theta must have shape \(chains, draws, P\)"),
        ({"loglik": np.zeros((2, 3))}, r"loglik must have shape \(2, 200\)"),
        ({"acceptance": np.zeros(2)}, r"acceptance must have shape \(2, 2\)"),
        ({"x": np.zeros((3, 4, 3))}, r"x must have shape \(2, kept, N\)"),
        ({"names": ("a",)}, "names must name 2 hyperparameters, got 1"),
    ],
)
def test_shapes_are_checked(draws, change, said):
    fields = {name: getattr(draws, name) for name in draws.__dataclass_fields__}
    with pytest.raises(ValueError, match=said):
        HyperDraws(**(fields | change))


@pytest.mark.parametrize("likelihood", ["gaussian(noise_std=0.3)", "poisson"])
def test_by_default_draws_come_from_the_integral(likelihood):
    """Without a warning, as a sum over a grid has them: within four standard errors of 128
    settings a chain."""
    rng, x = np.random.default_rng(0), np.linspace(0.0, 5.0, 10)
    y = np.sin(2.0 * x) + 0.3 * rng.normal(size=10)
    y = y if likelihood != "poisson" else rng.poisson(np.exp(y))
    model = ev.GPModel(x, y, "1.0 * RBF(1.0)", likelihood=likelihood)
    priors = {"length_scale": stats.lognorm(0.5), "constant_value": stats.lognorm(0.5)}
    held = [name for name in model.hyperparameters.names if name.startswith("likelihood")]
    found = ev.sample_hyperparameters(model, priors, fixed=held, random_seed=0, progressbar=False)
    assert not found.warnings
    assert found.x.shape == (2, 1000, 10)
    at = np.linspace(-2.0, 2.0, 17)
    logs = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1).reshape(-1, 2)
    fits = [ev.fit_ep(model.at(dict(zip(found.names, np.exp(row), strict=True)))) for row in logs]
    log_p = np.array([q.logz_corrected for q in fits]) + stats.norm.logpdf(logs, 0, 0.5).sum(
        axis=1
    )
    w = np.exp(log_p - log_p.max())
    mean = w @ logs / w.sum()
    sd = np.sqrt(w @ (logs - mean) ** 2 / w.sum())
    assert (abs(found.theta.reshape(-1, 2).mean(axis=0) - mean) < 4.0 * sd / 16.0).all()
    latent = w @ np.array([q.predictors[0] for q in fits]) / w.sum()
    spread = np.sqrt(w @ np.array([q.predictors[1] for q in fits]) / w.sum())
    assert (abs(found.x.reshape(-1, 10).mean(axis=0) - latent) < 5.0 * spread / 16.0).all()


def test_time_that_is_up_leaves_whole_draws(monkeypatch):
    """As many of all chains, of the first settings, and a warning."""
    model = ev.GPModel(np.arange(6.0), [1, 0, 2, 1, 3, 0], "1.0 * RBF(1.0)", likelihood="poisson")
    words = {"fixed": ["constant_value"], "draws": 600, "random_seed": 0, "progressbar": False}
    whole = ev.sample_hyperparameters(model, {"length_scale": stats.lognorm(0.5)}, **words)
    fits = []

    def slow(*given, **options):
        fits.append(1)
        if len(fits) == 100:
            time.sleep(60.0)
        return guided_estimate(*given, **options)

    def sleep(seconds):
        clock.append(seconds)

    clock, guided_estimate = [], hyper_verb.guided_estimate
    now = time.perf_counter
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "perf_counter", lambda: now() + sum(clock))
    monkeypatch.setattr(hyper_verb, "guided_estimate", slow)
    found = ev.sample_hyperparameters(
        model, {"length_scale": stats.lognorm(0.5)}, max_seconds=50.0, **words
    )
    assert [w.code for w in found.warnings] == ["out-of-time"]
    assert 0 < found.theta.shape[1] < 600
    np.testing.assert_array_equal(found.theta, whole.theta[:, : found.theta.shape[1]])
    assert np.isfinite(found.x).all()


def test_settings_at_which_numbers_fail_are_left_out_and_told(monkeypatch):
    X, prior = np.linspace(0.0, 1.0, 12)[:, None], stats.lognorm(3)
    y = np.where(np.sin(6.0 * X[:, 0]) > 0.0, 1, -1)
    model = ev.GPModel(X, y, "4.0 * RBF(1.5)", likelihood="logit", jitter=1e-14)
    priors = {"constant_value": prior, "length_scale": prior}
    words = dict(draws=20, chains=1, random_seed=0, progressbar=False)
    draws = ev.sample_hyperparameters(model, priors, **words)
    assert draws.theta.shape == (1, 20, 2)
    assert np.isfinite(draws.x).all()
    assert [w.code for w in draws.warnings] == ["lost-theta", "lost-theta"]
    assert "latent values could not be drawn" in draws.warnings[1]
    monkeypatch.setattr(hyper_verb, "fits_at", lambda *given: iter(()))
    with pytest.raises(RuntimeError, match="hyperparameter settings"):
        ev.sample_hyperparameters(model, priors, **words)
