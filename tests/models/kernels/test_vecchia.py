"""Nearest neighbours against all of them, and against the covariance that they imply."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from covering import seldom
from scipy.sparse import csc_array

import evidence as ev
from evidence.approximations.gp.gradient import log_evidence_gradient
from evidence.approximations.gp.neighbours import fewer_neighbours
from evidence.models.kernels.parse import parse_kernel
from evidence.models.kernels.vecchia import Neighbours

KERNEL = "2.0 * Matern(0.3, nu=1.5)"


def data(n, dimensions=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, dimensions))
    f = np.sin(6.0 * X[:, 0]) + np.cos(5.0 * X[:, -1])
    return X, rng.poisson(np.exp(f))


def model_of(structure, n=80, kernel=KERNEL, dimensions=2, **words):
    return ev.GPModel(
        *data(n, dimensions), kernel, likelihood="poisson", structure=structure, **words
    )


def precision(prior):
    indptr, indices, data = prior.base.factor.columns()
    L = csc_array((data, indices, indptr)).toarray()
    by = prior.pattern.analysis.inverse
    return (L @ L.T)[np.ix_(by, by)]


def everything(n):
    return f"vecchia(m={n - 1})"


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_order_and_neighbours(dimensions):
    """By brute force: each point is the farthest from those before it."""
    rng = np.random.default_rng(dimensions)
    X = np.concatenate(
        [rng.uniform(size=(150, dimensions)), 5.0 + 1e-3 * rng.normal(size=(50, dimensions))]
    )
    found = Neighbours.of(parse_kernel(KERNEL), X, 7)
    gaps = np.linalg.norm(found.X[:, None] - found.X, axis=2)
    np.testing.assert_array_equal(X[found.first], found.X)
    np.testing.assert_array_equal(X, found.X[found.state])
    for k in range(1, len(X)):
        away = gaps[k:, :k].min(axis=1)
        assert away[0] == pytest.approx(away.max(), rel=1e-12)
        nearest = np.sort(gaps[k, :k])[:7]
        own = found.earlier[k][found.earlier[k] >= 0]
        assert own.size == min(k, 7)
        np.testing.assert_allclose(np.sort(gaps[k, own]), nearest)


@pytest.mark.parametrize(
    "kernel",
    [
        KERNEL,
        "2.0 * Matern([0.3, 0.6], nu=1.5) + WhiteKernel(0.1)",
        "DotProduct(1.0) + 0.5 * Matern(0.3, nu=0.5)",
    ],
)
def test_all_neighbours_are_no_approximation(kernel):
    dense, sparse = model_of("dense", 60, kernel), model_of(everything(60), 60, kernel)
    a, b = ev.fit_ep(dense), ev.fit_ep(sparse)
    assert sparse.jitter == pytest.approx(dense.jitter, rel=1e-12)
    assert b.converged
    assert b.logz == pytest.approx(a.logz, abs=1e-7)
    assert b.logz_corrected == pytest.approx(a.logz_corrected, abs=1e-7)
    np.testing.assert_allclose(b.mean, a.mean, atol=1e-6)
    np.testing.assert_allclose(b.var, a.var, rtol=1e-6)
    x = np.random.default_rng(0).standard_normal((2, 60))
    np.testing.assert_allclose(sparse.log_prior(x), dense.log_prior(x), rtol=1e-7)
    expected = log_evidence_gradient(a)
    np.testing.assert_allclose(log_evidence_gradient(b), expected, rtol=1e-5, atol=1e-6)


def test_a_function_of_two_inputs_is_a_kernel_too():
    kernel = parse_kernel(KERNEL)
    a = ev.fit_ep(model_of("vecchia(m=10)"))
    b = ev.fit_ep(model_of("vecchia(m=10)", kernel=lambda a, b: kernel(a, b)))
    assert b.logz == pytest.approx(a.logz, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_its_own_covariance_given_as_a_matrix(dimensions):
    sparse = model_of("vecchia(m=8)", 50, dimensions=dimensions)
    prior = sparse.prior
    A, K = prior.design.toarray(), np.linalg.inv(precision(prior))
    dense = ev.GPModel(y=sparse.y, K=A @ K @ A.T, likelihood="poisson", jitter=0.0)
    a, b = ev.fit_ep(dense), ev.fit_ep(sparse)
    assert b.logz == pytest.approx(a.logz, abs=1e-8 * abs(a.logz))
    np.testing.assert_allclose(b.mean, a.mean, atol=1e-8 * np.abs(a.mean).max())
    words = dict(random_seed=1, progressbar=False)
    one, two = (ev.log_evidence(m, method="guided", **words) for m in (dense, sparse))
    assert abs(one.logz - two.logz) < 3.0 * np.hypot(one.logz_se, two.logz_se) + 5e-4
    assert two.logz_se < 0.05


def test_repeated_inputs_share_a_latent_value():
    X, y = data(60)
    X[:5] = X[5]
    words = dict(kernel=KERNEL, likelihood="poisson", jitter=1e-9)
    dense = ev.fit_ep(ev.GPModel(X, y, structure="dense", **words))
    model = ev.GPModel(X, y, structure="vecchia(m=59)", **words)
    assert model.prior.design.shape == (60, 55)
    assert ev.fit_ep(model).logz == pytest.approx(dense.logz, abs=1e-5)
    with pytest.raises(ev.InputError, match="repeated inputs"):
        model.log_prior(np.zeros(60))


def test_repeated_inputs_with_noise_of_their_own():
    X, y = data(40)
    X[:5] = X[5]
    words = dict(kernel=KERNEL + " + WhiteKernel(0.2)", likelihood="poisson")
    dense = ev.fit_ep(ev.GPModel(X, y, structure="dense", **words))
    sparse = ev.fit_ep(ev.GPModel(X, y, structure="vecchia(m=39)", **words))
    assert sparse.logz == pytest.approx(dense.logz, abs=1e-7)


def test_variances_and_covariances_of_neighbours_are_those_of_the_kernel():
    model = model_of("vecchia(m=6)", 120)
    prior, neighbours = model.prior, model.prior.neighbours
    K = parse_kernel(KERNEL)(neighbours.X) + model.jitter * np.eye(120)
    cov = np.linalg.inv(precision(prior))
    there = precision(prior) != 0.0
    for k, earlier in enumerate(neighbours.earlier):
        assert there[k, earlier[earlier >= 0]].all()
    assert there.mean() < 0.9
    np.testing.assert_allclose(cov[there], K[there], rtol=1e-7)


@pytest.mark.parametrize(("length", "seed"), seldom([(0.1, 0), (0.1, 1), (0.3, 0)], 0))
def test_thirty_neighbours_are_nearly_all(length, seed):
    """Conditionals on them alone are off by up to 0.06 nats, and means by 0.025 at least."""
    rng, kernel = np.random.default_rng(seed), f"4.0 * Matern({length}, nu=1.5)"
    X = rng.uniform(size=(500, 2))
    x = np.linalg.cholesky(parse_kernel(kernel)(X) + 1e-6 * np.eye(500)) @ rng.normal(size=500)
    y = np.where(rng.uniform(size=500) < 1.0 / (1.0 + np.exp(-x)), 1, -1)
    words = dict(kernel=kernel, likelihood="logit")
    dense = ev.fit_ep(ev.GPModel(X, y, structure="dense", **words))
    sparse = ev.fit_ep(ev.GPModel(X, y, structure="vecchia(m=30)", **words))
    assert abs(sparse.logz - dense.logz) < 0.015
    np.testing.assert_allclose(sparse.mean, dense.mean, atol=0.01)


def test_gradient_is_that_of_the_approximation():
    """Of the same order and neighbours, differenced with EP fitted again."""
    model = model_of("vecchia(m=8)")
    found, theta = log_evidence_gradient(ev.fit_ep(model)), model.hyperparameters.theta
    for p, unit in enumerate(np.eye(theta.size)):
        high, low = (ev.fit_ep(model.at(theta + s * 1e-4 * unit)).logz for s in (1, -1))
        assert found[p] == pytest.approx((high - low) / 2e-4, rel=1e-5, abs=1e-5)


def test_neighbours_are_kept_where_hyperparameters_move():
    model = model_of("vecchia(m=8)")
    other = model.at({"k2__length_scale": 0.4})
    assert other.prior.pattern is model.prior.pattern
    assert other.prior.neighbours is model.prior.neighbours
    assert model.restructured("vecchia(m=4)").prior.neighbours.earlier.shape == (80, 4)


@pytest.mark.parametrize(("m", "atol"), [(80, 1e-5), (20, 0.02)])
def test_predictions(m, atol):
    dense, sparse = model_of("dense"), model_of(f"vecchia(m={m})")
    new = np.random.default_rng(5).uniform(-0.1, 1.1, size=(30, 2))
    new[0] = dense.X[3]
    draws = np.random.default_rng(6).standard_normal((4, 80))
    for known in ("ep", "prior", ev.fit_ep(dense).mean + 0.01 * draws):
        a, b = (ev.predict(model, new, posterior=known) for model in (dense, sparse))
        scale = max(1.0, np.abs(a.mean).max())
        np.testing.assert_allclose(b.mean, a.mean, atol=atol * scale)
        np.testing.assert_allclose(b.var, a.var, atol=atol * scale)


def test_predictions_with_a_mean_and_repeated_inputs():
    X, y = data(50)
    X[:5] = X[5]
    words = dict(kernel=KERNEL, likelihood="poisson", mean=0.7)
    new = np.random.default_rng(5).uniform(size=(9, 2))
    a, b = (
        ev.predict(ev.GPModel(X, y, structure=s, **words), new) for s in ("dense", "vecchia(m=50)")
    )
    np.testing.assert_allclose(b.mean, a.mean, atol=1e-5)
    np.testing.assert_allclose(b.var, a.var, atol=1e-5)


def test_the_number_of_neighbours_is_reported():
    few, many = model_of("vecchia(m=4)", 150), model_of("vecchia", 150)
    assert fewer_neighbours(ev.fit_ep(model_of("dense"))) is None
    assert many.structure == "vecchia(m=30)"
    words = dict(method="ep", progressbar=False)
    for model, warned in ((few, True), (many, False)):
        result = ev.log_evidence(model, **words)
        change = fewer_neighbours(ev.fit_ep(model)).change
        assert ("vecchia-neighbours" in [w.code for w in result.warnings]) == warned
        assert (abs(change) > 0.5) == warned
        assert any(f"{change:+.2g} nats" in note for note in result.notes)


@pytest.mark.parametrize("n", [1, 2])
def test_next_to_no_data(n):
    dense, sparse = model_of("dense", n), model_of("vecchia", n)
    assert ev.fit_ep(sparse).logz == pytest.approx(ev.fit_ep(dense).logz, rel=1e-9)
    a, b = (ev.predict(model, [[0.1, 0.2]]) for model in (dense, sparse))
    np.testing.assert_allclose(b.var, a.var, rtol=1e-5)


def test_all_else():
    model = model_of("vecchia(m=8)")
    again = pickle.loads(pickle.dumps(model.without_matrices()))
    logz = ev.fit_ep(model).logz
    assert ev.fit_ep(again.at(model.hyperparameters.theta)).logz == logz
    assert ev.fit_ep(model.bare()).logz == logz
    assert ev.simulate(model, random_seed=0).x.shape == (80,)
    assert model.describe()["structure"] == "vecchia(m=8)"
    assert "structure='vecchia(m=8)'" in repr(model)
    assert ev.fit_laplace(model).logz == pytest.approx(logz, abs=1.0)
    small = model_of("vecchia(m=8)", 20)
    result = ev.log_evidence(small, method="smc", target_se=0.1, random_seed=0, progressbar=False)
    assert result.samples.shape[-1] == 20
    assert abs(result.logz - ev.fit_ep(small).logz_corrected) < 4.0 * result.logz_se + 0.02


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(X=np.zeros((3, 4))), "up to 3 dimensions, X has 4"),
        (dict(X=None, kernel=None, K=np.eye(3)), "needs kernel= and X"),
        (dict(structure="vecchia(m=0)"), "structure must be one of .* 'vecchia'"),
        (dict(structure="vechia"), "did you mean 'vecchia'"),
    ],
)
def test_bad_input_is_named(change, message):
    usual = dict(X=np.arange(3.0), y=[1, -1, 1], kernel="Matern(1.0)", structure="vecchia")
    with pytest.raises(ev.InputError, match=message):
        ev.GPModel(**usual | change)


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("evidence.models.structures.machine_memory", lambda: 10**6)
    with pytest.raises(ev.InputError, match=r"vecchia\(m=30\).* GB .*m=15.*'markov'.*'dense'"):
        model_of("vecchia", 200)
