"""The same model as a matrix and as a chain; which of them is chosen, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import evidence as ev
from evidence.approximations.gp.gradient import log_evidence_gradient
from evidence.models.kernels.parse import parse_kernel
from evidence.models.structures import choose

KERNEL = "4.0 * Matern(2.0, nu=2.5) + 0.5 * Matern(1.0, nu=0.5) + 2.0"


def data(n, likelihood):
    rng = np.random.default_rng(8)
    x = rng.permutation(n) / 10.0
    x[:3] = x[3]
    f = 1.5 * np.sin(x) + 0.2
    y = {
        "logit": lambda: np.where(f + rng.logistic(size=n) > 0.0, 1, -1),
        "poisson": lambda: rng.poisson(np.exp(f)),
        "student_t(df=4, scale=0.5)": lambda: f + 0.5 * rng.standard_t(4, n),
    }[likelihood]()
    return x, y


def model_of(structure, n, likelihood, jitter=1e-6):
    words = dict(likelihood=likelihood, mean=0.2, jitter=jitter, structure=structure)
    return ev.GPModel(*data(n, likelihood), KERNEL, **words)


def twins(n, likelihood):
    """With the jitter of matrices, which is white noise to a chain."""
    return model_of("dense", n, likelihood), model_of("markov", n, likelihood)


LIKELIHOODS = ("logit", "poisson", "student_t(df=4, scale=0.5)")


def compare(a, b, rtol):
    assert a.converged
    assert b.converged
    assert b.logz == pytest.approx(a.logz, rel=rtol)
    assert b.logz_corrected == pytest.approx(a.logz_corrected, rel=rtol)
    np.testing.assert_allclose(b.mean, a.mean, atol=rtol * np.abs(a.mean).max())
    np.testing.assert_allclose(b.var, a.var, rtol=10.0 * rtol)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_fits_agree(likelihood):
    dense, markov = twins(120, likelihood)
    a, b = ev.fit_ep(dense), ev.fit_ep(markov)
    compare(a, b, 1e-7)
    assert ev.fit_laplace(markov).logz == pytest.approx(ev.fit_laplace(dense).logz, rel=1e-9)
    found, expected = log_evidence_gradient(b), log_evidence_gradient(a)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_fits_agree_where_there_are_many_data():
    compare(*map(ev.fit_ep, twins(2000, "poisson")), 1e-6)


def test_a_chain_needs_no_jitter():
    """With equal inputs, against a jitter that changes next to nothing."""
    dense, markov = model_of("dense", 60, "poisson", 1e-9), model_of("markov", 60, "poisson", None)
    assert markov.jitter == 0.0
    assert ev.fit_ep(markov).logz == pytest.approx(ev.fit_ep(dense).logz, abs=1e-6)
    assert not any("singular" in note for note in markov.notes)


def test_evidences_agree():
    """Both are unbiased: four standard errors of their difference, with equal inputs and white
    noise among the chain's latent values."""
    for jitter in (1e-6, 0.0):
        dense, markov = model_of("dense", 60, "poisson"), model_of("markov", 60, "poisson", jitter)
        words = dict(method="guided", random_seed=1, progressbar=False)
        a, b = ev.log_evidence(dense, **words), ev.log_evidence(markov, **words)
        assert abs(a.logz - b.logz) < 4.0 * np.hypot(a.logz_se, b.logz_se) + 5e-4
        assert b.logz_se < 0.05


def test_predictions_agree():
    new = np.linspace(-2.0, 8.0, 7)
    a, b = (ev.predict(model, new) for model in twins(60, "poisson"))
    np.testing.assert_allclose(b.mean, a.mean, rtol=1e-6)
    np.testing.assert_allclose(b.var, a.var, rtol=1e-6)


@pytest.mark.parametrize("method", ["smc", pytest.param("pt", marks=pytest.mark.slow), "ais"])
def test_other_methods_sample_predictors(method):
    """Their states are those of the chain, their samples what data see."""
    model = model_of("markov", 20, "poisson", None)
    words = dict(random_seed=0, progressbar=False, max_seconds=30.0)
    words |= {"n_sweeps": 32, "n_particles": 16} if method == "pt" else {"target_se": 0.1}
    result = ev.log_evidence(model, method=method, **words)
    assert result.logz_se < 0.2
    assert result.samples.shape[-1] == 20
    assert abs(result.logz - ev.fit_ep(model).logz_corrected) < 4.0 * result.logz_se + 0.02


def test_simulated_data_have_the_same_prior():
    model = model_of("markov", 30, "poisson", None)
    simulated = ev.simulate(model, random_seed=0)
    assert simulated.model.prior is model.prior
    assert not any("singular" in note for note in simulated.model.notes)


def test_order_of_inputs_does_not_matter():
    x, y = data(50, "poisson")
    p = np.random.default_rng(0).permutation(50)
    words = dict(kernel=KERNEL, likelihood="poisson", structure="markov")
    a, b = ev.GPModel(x, y, **words), ev.GPModel(x[p], y[p], **words)
    np.testing.assert_allclose(ev.fit_ep(b).mean, ev.fit_ep(a).mean[p], rtol=1e-9)


def test_a_chain_has_no_matrix_and_all_else():
    model = twins(30, "poisson")[1]
    for name in ("K", "chol"):
        with pytest.raises(AttributeError, match=r"structure='markov' .* model.prior"):
            getattr(model, name)
    assert model.n == 30
    assert model.describe()["structure"] == "markov"
    assert "structure='markov'" in repr(model)
    again = pickle.loads(pickle.dumps(model.without_matrices()))
    assert ev.fit_ep(again.at(model.hyperparameters.theta)).logz == ev.fit_ep(model).logz
    assert ev.fit_ep(model.bare()).logz == ev.fit_ep(model).logz
    x = np.random.default_rng(0).standard_normal((2, 30))
    with_jitter = twins(30, "poisson")[0].log_prior(x)
    np.testing.assert_allclose(model.log_prior(x), with_jitter, rtol=1e-5)


def test_identities_tell_chains_apart():
    model = twins(30, "poisson")[1]
    same = all(map(np.array_equal, model.identity(), twins(30, "poisson")[1].identity()))
    other = model.at({"k1__k1__k2__length_scale": 2.1}).identity()
    assert same
    assert not all(map(np.array_equal, model.identity(), other))


CHAIN, SMOOTH = parse_kernel("Matern(1.0, nu=1.5)"), parse_kernel("RBF(1.0)")
LINE = np.zeros((1, 1))


@pytest.mark.parametrize(
    ("n", "kernel", "X", "expected"),
    [
        (2000, CHAIN, LINE, "dense"),
        (2001, CHAIN, LINE, "markov"),
        (10**6, CHAIN, LINE, "markov"),
        (2001, CHAIN, np.zeros((1, 2)), "dense"),
        (2001, SMOOTH, LINE, "dense"),
        (2001, None, None, "dense"),
    ],
)
def test_automatic_choice(n, kernel, X, expected):
    assert choose("auto", n, kernel, X) == expected


@pytest.mark.parametrize("structure", ["auto", "dense"])
def test_matrices_that_are_too_large_are_refused_before_they_are_made(structure):
    def kernel(a, b):
        raise AssertionError("called")

    n = 10**6
    with pytest.raises(ev.InputError, match=r"N=1000000 .* GB .* structure='markov' \(0.5 GB"):
        ev.GPModel(np.zeros(n), np.ones(n), kernel, structure=structure)


def test_a_matrix_that_takes_hours_must_be_asked_for_by_name(monkeypatch):
    monkeypatch.setattr("evidence.models.structures.machine_memory", lambda: 10**13)
    assert choose("dense", 30_000, SMOOTH, LINE) == "dense"
    with pytest.raises(ev.InputError, match="hours"):
        choose("auto", 30_000, SMOOTH, LINE)


BAD = [
    (dict(structure="markv"), "did you mean 'markov'"),
    (
        dict(structure=None),
        "structure must be one of 'auto', 'markov', 'vecchia', 'dense', got None",
    ),
    (dict(kernel="RBF(1.0)"), "no Markov chain for RBF.* Matern with nu=0.5"),
    (dict(X=np.zeros((3, 2))), "inputs on a line"),
    (dict(X=None, kernel=None, K=np.eye(3)), "structure='markov' needs kernel= and X"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_named(change, message):
    usual = dict(X=np.arange(3.0), y=[1, -1, 1], kernel="Matern(1.0)", structure="markov")
    with pytest.raises(ev.InputError, match=message):
        ev.GPModel(**usual | change)


@pytest.mark.parametrize("structure", ["markov", "vecchia(m=4)"])
def test_memory_is_told_and_grows_with_the_data(structure):
    told = []
    for n in (50, 500):
        t = np.random.default_rng(0).uniform(0.0, n / 10.0, n)
        model = ev.GPModel(t, np.ones(n), "1.0 * Matern(1.0, nu=1.5)", structure=structure)
        told.append(model.describe()["memory (MB)"])
    assert 0.0 < 5.0 * told[0] < told[1]
