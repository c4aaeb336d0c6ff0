"""Predictions against closed forms, scikit-learn, quadrature and one path against another."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from gaussians.markov import MarkovModel, autoregression
from problems import covariance
from scipy.stats import nbinom, norm, poisson
from scipy.stats import t as student

import evidence as ev
from evidence.models.likelihoods import (
    Binomial,
    Cloglog,
    Gamma,
    Gaussian,
    Logit,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
)
from evidence.prediction.gp import Prediction
from evidence.prediction.mixture import Stored

RNG = np.random.default_rng(1)
X = RNG.uniform(0.0, 5.0, (30, 2))
F = np.sin(X[:, 0]) + 0.3 * X[:, 1]
X_NEW = RNG.uniform(-1.0, 6.0, (17, 2))
KERNEL = "2.0 * RBF([1.0, 2.0])"
DATA = {
    "probit": np.where(F > 0.8, 1.0, -1.0),
    "logit": np.where(F > 0.8, 1.0, -1.0),
    "gaussian(noise_std=0.3)": F + 0.3 * RNG.standard_normal(30),
    "student_t(df=4, scale=0.2)": F + 0.2 * RNG.standard_t(4, 30),
    "poisson(exposure=2.0)": RNG.poisson(2.0 * np.exp(F)).astype(float),
    "negative_binomial(dispersion=2.0)": RNG.poisson(np.exp(F)).astype(float),
}


def model_of(likelihood: str, **words) -> ev.GPModel:
    return ev.GPModel(X, DATA[likelihood], KERNEL, likelihood=likelihood, **words)


def made(likelihood, mean, var) -> Prediction:
    """A prediction from its components."""
    mean, var = np.atleast_2d(mean), np.atleast_2d(var)
    return Prediction.of(Stored(mean[None], var[0][:, None, None]), likelihood)


# -- the latent value -------------------------------------------------------------------------


def test_gaussian_regression_is_exact():
    model = model_of("gaussian(noise_std=0.3)", mean=0.7)
    prediction = ev.predict(model, X_NEW)
    noisy = model.K + 0.09 * np.eye(30)
    k = model.kernel(X_NEW, X)
    mean = 0.7 + k @ np.linalg.solve(noisy, model.y - 0.7)
    var = model.kernel.diag(X_NEW) - np.einsum("bn,nb->b", k, np.linalg.solve(noisy, k.T))
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(prediction.var, var, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(prediction.y_var, var + 0.09, rtol=1e-10)
    density = norm.logpdf(1.0, mean, np.sqrt(var + 0.09))
    np.testing.assert_allclose(prediction.log_density(np.ones(17)), density, rtol=1e-9)
    bounds = norm.ppf([[0.1], [0.9]], mean, np.sqrt(var + 0.09))
    np.testing.assert_allclose(prediction.quantiles([0.1, 0.9], of="y"), bounds, rtol=1e-9)


def test_agrees_with_scikit_learn_white_kernel_included():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    kernel = 2.0 * RBF(1.5) + WhiteKernel(0.2)
    y = DATA["gaussian(noise_std=0.3)"]
    model = ev.GPModel(X, y, kernel, likelihood="gaussian(noise_std=0.3)", jitter=0.0)
    theirs = GaussianProcessRegressor(kernel, alpha=0.09, optimizer=None).fit(X, y)
    mean, std = theirs.predict(X_NEW, return_std=True)
    prediction = ev.predict(model, X_NEW)
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(prediction.var, std**2, rtol=1e-8)


@pytest.mark.parametrize("likelihood", DATA)
@pytest.mark.parametrize("posterior", ["ep", "laplace", "prior"])
def test_any_sites_against_the_dense_formula(likelihood, posterior):
    from evidence.paths.families import fit_reference

    model = model_of(likelihood)
    reference = fit_reference(model, posterior)
    k = model.kernel(X_NEW, X)
    weights = np.linalg.solve(model.K, k.T)
    var = model.kernel.diag(X_NEW) - np.einsum(
        "nb,nm,mb->b", weights, model.K - reference.cov, weights
    )
    prediction = ev.predict(model, X_NEW, posterior=reference)
    np.testing.assert_allclose(
        prediction.mean, weights.T @ (reference.mean - model.mean), atol=1e-7
    )
    np.testing.assert_allclose(prediction.var, var, atol=1e-6)


def test_negative_site_precisions():
    y = DATA["student_t(df=4, scale=0.2)"].copy()
    y[3] += 4.0
    model = ev.GPModel(X, y, KERNEL, likelihood="student_t(df=4, scale=0.2)")
    reference = ev.fit_ep(model)
    assert reference.sites.tau.min() < 0.0
    prediction = ev.predict(model, X, posterior=reference)
    np.testing.assert_allclose(prediction.mean, reference.mean, atol=1e-4)
    np.testing.assert_allclose(prediction.var, reference.var, atol=1e-4)


def test_at_the_data_new_points_and_the_data_themselves_agree():
    model = model_of("probit", jitter=1e-10)
    itself, again = ev.predict(model), ev.predict(model, X)
    np.testing.assert_allclose(again.mean, itself.mean, atol=1e-7)
    np.testing.assert_allclose(again.var, itself.var, atol=1e-7)
    draws = ev.fit_ep(model).mean + RNG.standard_normal((50, 30))
    np.testing.assert_allclose(ev.predict(model, posterior=draws).mean, draws.mean(axis=0))


def test_draws_of_the_posterior_reproduce_its_prediction():
    # With S draws the means differ by a normal with variance kᵀK⁻¹ΣK⁻¹k/S; 17 points, both
    # moments, at 5 standard errors: false alarms below 1e-4.
    model = model_of("gaussian(noise_std=0.3)")
    exact = ev.predict(model, X_NEW)
    reference = ev.fit_ep(model)
    x = np.random.default_rng(0).multivariate_normal(
        reference.mean, reference.cov, 4000, method="cholesky"
    )
    mixture = ev.predict(model, X_NEW, posterior=x)
    se = np.sqrt(exact.var / 4000)
    assert (np.abs(mixture.mean - exact.mean) < 5.0 * se).all()
    assert (np.abs(mixture.var / exact.var - 1.0) < 5.0 * np.sqrt(2.0 / 4000)).all()
    q = mixture.quantiles([0.1, 0.5, 0.9]) - exact.quantiles([0.1, 0.5, 0.9])
    assert (np.abs(q) < 5.0 * 2.0 * se).all()
    y = np.zeros(17)
    assert np.abs(mixture.log_density(y) - exact.log_density(y)).max() < 0.2


def test_one_draw_is_interpolation():
    model = model_of("probit", mean=0.7)
    x = RNG.standard_normal((2, 30))
    kept = x.copy()
    k = model.kernel(X_NEW, X)
    means = 0.7 + (x - 0.7) @ np.linalg.solve(model.K, k.T)
    var = model.kernel.diag(X_NEW) - np.einsum("bn,nb->b", k, np.linalg.solve(model.K, k.T))
    prediction = ev.predict(model, X_NEW, posterior=x)
    np.testing.assert_allclose(prediction.mean, means.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(prediction.var, var + means.var(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(x, kept)


def test_given_covariances_equal_the_kernel():
    model = model_of("probit")
    given = ev.GPModel(K=model.K, y=model.y)
    k, diag = model.kernel(X_NEW, X), model.kernel.diag(X_NEW)
    one, other = ev.predict(model, X_NEW), ev.predict(given, K_new=k, k_diag=diag)
    np.testing.assert_allclose(other.mean, one.mean, rtol=1e-9)
    np.testing.assert_allclose(other.probability, one.probability, rtol=1e-9)
    called = ev.GPModel(X, model.y, lambda A, B: model.kernel(A, B))
    np.testing.assert_allclose(ev.predict(called, X_NEW).var, one.var, rtol=1e-9)
    with pytest.raises(ValueError, match="do not belong to the prior"):
        ev.predict(given, K_new=k, k_diag=0.1 * diag)


# -- observations -----------------------------------------------------------------------------


def test_probit_probability_in_closed_form():
    prediction = ev.predict(model_of("probit"), X_NEW)
    p = norm.cdf(prediction.mean / np.sqrt(1.0 + prediction.var))
    np.testing.assert_allclose(prediction.probability, p, rtol=1e-12)
    np.testing.assert_allclose(prediction.y_mean, 2.0 * p - 1.0, rtol=1e-12)
    np.testing.assert_allclose(prediction.y_var, 4.0 * p * (1.0 - p), rtol=1e-10)
    assert set(prediction.quantiles(0.5, of="y")) <= {-1.0, 1.0}


OBSERVED = {
    "probit": (Probit(), 1.0),
    "logit": (Logit(), -1.0),
    "gaussian": (Gaussian(0.3), 0.4),
    "student_t": (StudentT(df=3.0, scale=0.2), -0.6),
    "poisson": (Poisson(exposure=2.0), 3.0),
    "negative_binomial": (NegativeBinomial(dispersion=2.0), 3.0),
    "binomial": (Binomial(n=5), 4.0),
    "cloglog": (Cloglog(), -1.0),
    "gamma": (Gamma(shape=2.0), 0.7),
    "ordinal": (Ordinal(gaps=(1.0, 0.5)), 2.0),
}


@pytest.mark.parametrize("name", OBSERVED)
def test_density_and_moments_of_a_mixture_by_brute_force(name):
    likelihood, y = OBSERVED[name]
    rng = np.random.default_rng(3)
    mean, var = rng.normal(0.3, 0.8, (100, 3)), np.array([[0.2, 1.5, 0.01]])
    prediction = made(likelihood, mean, var)
    x = np.linspace(-12.0, 12.0, 6001)
    for b in range(3):
        mixture = norm.pdf(x[:, None], mean[:, b], np.sqrt(var[0, b])).mean(axis=1)
        density = np.exp(likelihood.log_prob(x, np.full(x.size, y)))
        expected = np.log(np.trapezoid(density * mixture, x))
        np.testing.assert_allclose(prediction.log_density(np.full(3, y))[b], expected, atol=2e-8)
        m, v = likelihood.conditional_moments(x)
        first = np.trapezoid(m * mixture, x)
        second = np.trapezoid((v + (m - first) ** 2) * mixture, x)
        np.testing.assert_allclose(prediction.y_mean[b], first, rtol=1e-6)
        np.testing.assert_allclose(prediction.y_var[b], second, rtol=1e-6)


@pytest.mark.parametrize("components", [1, 3, 1500])
def test_latent_quantiles_invert_the_mixture(components):
    mean = np.random.default_rng(0).normal(size=(components, 2))
    prediction = made(Probit(), mean, [[0.3, 2.0]])
    levels = np.array([1e-4, 0.3, 0.99])
    q = prediction.quantiles(levels)
    back = norm.cdf(q[:, None], mean, np.sqrt([0.3, 2.0])).mean(axis=1)
    np.testing.assert_allclose(back, np.broadcast_to(levels[:, None], back.shape), rtol=1e-9)
    np.testing.assert_allclose(prediction.quantiles(0.3), q[1], rtol=1e-10)


def test_latent_quantiles_of_points():
    prediction = made(Probit(), [[0.0], [1.0], [2.0], [3.0]], [[0.0]])
    assert abs(prediction.quantiles(0.6)[0] - 2.0) < 1e-6


@pytest.mark.parametrize("components", [1, 200])
@pytest.mark.parametrize("name", ["student_t", "gamma", "ordinal", "poisson", "negative_binomial"])
def test_quantiles_of_observations(name, components):
    likelihood = OBSERVED[name][0]
    mean = np.random.default_rng(0).normal(1.0, 0.5, (components, 2))
    prediction = made(likelihood, mean, [[0.5, 1e-8]])
    levels = np.array([0.05, 0.5, 0.9])
    q = prediction.quantiles(levels, of="y")
    z = norm.ppf((np.arange(20_000 // components) + 0.5) / (20_000 // components))
    for b, sd in enumerate(np.sqrt([0.5, 1e-8])):
        x = (mean[:, b] + sd * z[:, None]).ravel()

        def exact(y, x=x):
            if name == "student_t":
                return student.cdf((y - x) / 0.2, 3.0).mean()
            if name in ("gamma", "ordinal"):
                return likelihood.cdf(np.full(x.size, y), x).mean()
            rate = np.exp(x) * (2.0 if name == "poisson" else 1.0)
            whole = poisson(rate) if name == "poisson" else nbinom(2.0, 2.0 / (2.0 + rate))
            return whole.cdf(y).mean()

        for level, y in zip(levels, q[:, b], strict=True):
            if name in ("student_t", "gamma"):
                assert abs(exact(y) - level) < 1e-3
            else:
                assert exact(y) > level - 1e-3
                assert exact(y - 1.0) < level + 1e-3


def test_quantiles_of_a_custom_likelihood_are_simulated():
    def normal(x, y, s):
        z = (y - x) / s
        return -0.5 * z * z - np.log(s) - 0.9189385332046727, z / s, -1.0 / s**2, 0.0

    likelihood = ev.likelihoods.from_function(
        normal,
        name="normal",
        params={"s": 0.5},
        simulate=lambda x, rng, s: x + s * rng.standard_normal(x.shape),
        conditional_moments=lambda x, s: (x, s**2),
    )
    custom = made(likelihood, [[0.2, 1.0], [0.6, 0.0]], [[0.3, 0.1]])
    exact = made(Gaussian(0.5), [[0.2, 1.0], [0.6, 0.0]], [[0.3, 0.1]])
    levels = [0.1, 0.5, 0.9]
    # 10,000 draws: the 10 % quantile has standard error 0.017 sd; 5 of them, six quantiles
    np.testing.assert_allclose(
        custom.quantiles(levels, of="y"), exact.quantiles(levels, of="y"), atol=0.07
    )
    np.testing.assert_allclose(custom.y_var, exact.y_var, rtol=1e-9)
    np.testing.assert_array_equal(
        custom.quantiles(levels, of="y"), custom.quantiles(levels, of="y")
    )


def test_exposures_of_new_points():
    exposure = np.linspace(0.5, 2.0, 30)
    model = ev.GPModel(
        X, DATA["poisson(exposure=2.0)"], KERNEL, likelihood=Poisson(exposure=exposure)
    )
    with pytest.raises(ValueError, match="pass likelihood= with one value per new point"):
        ev.predict(model, X_NEW)
    new = np.linspace(1.0, 3.0, 17)
    prediction = ev.predict(model, X_NEW, likelihood=Poisson(exposure=new), batch_size=4)
    rate = ev.predict(model, X_NEW, likelihood=Poisson())
    np.testing.assert_allclose(prediction.y_mean, new * rate.y_mean, rtol=1e-12)
    y = np.arange(17) % 4
    whole = ev.predict(model, X_NEW, likelihood=Poisson(exposure=new))
    np.testing.assert_allclose(prediction.log_density(y), whole.log_density(y), rtol=1e-12)
    np.testing.assert_array_equal(prediction.quantiles(0.7, of="y"), whole.quantiles(0.7, of="y"))
    assert ev.predict(model).y_mean.shape == (30,)
    with pytest.raises(ValueError, match="must be a poisson likelihood"):
        ev.predict(model, X_NEW, likelihood=Probit())


# -- blocks and memory ------------------------------------------------------------------------


@pytest.mark.parametrize("posterior", ["ep", "draws"])
def test_blocks_change_nothing(posterior):
    model = model_of("logit")
    if posterior == "draws":
        posterior = RNG.standard_normal((60, 30))
    whole = ev.predict(model, X_NEW, posterior=posterior)
    parts = ev.predict(model, X_NEW, posterior=posterior, batch_size=5)
    for name in ("mean", "var", "probability", "y_var"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)
    np.testing.assert_allclose(parts.quantiles([0.2, 0.8]), whole.quantiles([0.2, 0.8]))


@pytest.mark.slow
def test_memory_does_not_grow_with_points_times_draws():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, 2))
    model = ev.GPModel(inputs, np.sign(inputs[:, 0]), "2.0 * RBF(1.0)")
    draws, points = rng.normal(size=(500, 200)), rng.normal(size=(10_000, 2))
    tracemalloc.start()
    prediction = ev.predict(model, points, posterior=draws)
    assert prediction.probability.shape == (10_000,)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # points × draws is 40 MB an array, of which several would be alive


# -- other priors, files ----------------------------------------------------------------------


@pytest.mark.parametrize("posterior", ["ep", "prior", "draws"])
@pytest.mark.parametrize("likelihood", ["poisson", "student_t(df=4, scale=0.3)"])
def test_a_prior_that_is_no_matrix_says_the_same(posterior, likelihood):
    """A Markov chain behind the same contract; its model has no K and no Cholesky factor."""
    n, bands = 40, autoregression(40, 0.9, 2.0)
    K = np.linalg.inv(np.diag(bands[0]) + np.diag(bands[1], 1) + np.diag(bands[1], -1))
    rng = np.random.default_rng(4)
    y = rng.poisson(2.0, n).astype(float)
    y[7] = 30.0
    words = dict(likelihood=likelihood, mean=0.3)
    models = [ev.GPModel(None, y, K=K, jitter=0.0, **words), MarkovModel(bands, y, **words)]
    new = dict(K_new=0.8 * K[::3], k_diag=np.full(14, 2.0))
    if posterior == "draws":
        posterior = rng.standard_normal((30, n))
    for where in (new, {}):
        dense, markov = (ev.predict(m, posterior=posterior, **where) for m in models)
        for name in ("mean", "var", "y_mean", "y_var"):
            np.testing.assert_allclose(getattr(markov, name), getattr(dense, name), rtol=1e-7)


@pytest.mark.parametrize("posterior", ["ep", "draws", "hyper"])
def test_files_and_notebooks(posterior, tmp_path):
    likelihood = StudentT(df=4.0, scale=tuple(np.linspace(0.2, 0.4, 30)))
    model = ev.GPModel(X, DATA["student_t(df=4, scale=0.2)"], KERNEL, likelihood=likelihood)
    x = RNG.standard_normal((4, 30))
    if posterior == "draws":
        posterior = x
    elif posterior == "hyper":
        posterior = hyper_draws([0.0, 0.0, 1.0, 2.0], x, ("constant_value",))
    new = StudentT(df=4.0, scale=tuple(np.linspace(0.1, 0.5, 17)))
    made = ev.predict(model, X_NEW, posterior=posterior, likelihood=new, batch_size=5)
    made.save(tmp_path / "prediction.npz")
    again = Prediction.load(tmp_path / "prediction.npz")
    y = np.linspace(-1.0, 1.0, 17)
    np.testing.assert_array_equal(again.mean, made.mean)
    np.testing.assert_allclose(again.log_density(y), made.log_density(y), rtol=1e-12)
    np.testing.assert_allclose(again.quantiles(0.3, of="y"), made.quantiles(0.3, of="y"))
    assert again.likelihood == new
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).y_var, made.y_var)
    assert repr(again) == repr(made)
    assert "17 points, student_t" in made.summary()
    assert "<table" in made._repr_html_()


def test_a_function_is_not_saved(tmp_path):
    def normal(x, y):
        return -0.5 * (y - x) ** 2 - 0.9189385332046727, y - x, -1.0, 0.0

    likelihood = ev.likelihoods.from_function(normal, name="normal")
    prediction = made(likelihood, [[0.2]], [[0.3]])
    with pytest.raises(ValueError, match="made of a function, which a file cannot hold"):
        prediction.save(tmp_path / "prediction.npz")


# -- mixtures of predictions ------------------------------------------------------------------


def test_mixture_of_predictions():
    likelihood = Gaussian(0.5)
    parts = [made(likelihood, [[0.0, 1.0]], [[1.0, 2.0]]), made(Gaussian(1.0), [[2.0, 1.0]], 0.1)]
    with pytest.raises(ValueError, match="different numbers"):
        Prediction.mixture([parts[0], made(likelihood, [[0.0]], 1.0)])
    parts[1] = made(Gaussian(1.0), [[2.0, 1.0]], [[0.1, 0.1]])
    both = Prediction.mixture(parts, [1.0, 3.0])
    np.testing.assert_allclose(both.mean, [1.5, 1.0])
    np.testing.assert_allclose(both.var, [0.25 + 0.075 + 0.75, 0.575])
    np.testing.assert_allclose(both.y_var - both.var, 0.25 * 0.25 + 0.75)
    density = 0.25 * norm.pdf(0.4, 0.0, np.sqrt(1.25)) + 0.75 * norm.pdf(0.4, 2.0, np.sqrt(1.1))
    np.testing.assert_allclose(both.log_density([0.4, 0.4])[0], np.log(density), rtol=1e-12)
    q = both.quantiles(0.3, of="y")[0]
    cdf = 0.25 * norm.cdf(q, 0.0, np.sqrt(1.25)) + 0.75 * norm.cdf(q, 2.0, np.sqrt(1.1))
    np.testing.assert_allclose(cdf, 0.3, rtol=1e-9)
    with pytest.raises(ValueError, match="different kinds"):
        Prediction.mixture([parts[0], made(Probit(), [[0.0, 1.0]], [[1.0, 1.0]])])
    for bad in ([1.0], [-1.0, 2.0], [0.0, 0.0]):
        with pytest.raises(ValueError, match="weights"):
            Prediction.mixture(parts, bad)
    with pytest.raises(ValueError, match="empty"):
        Prediction.mixture([])


def hyper_draws(theta, x, names, stride=1, **words):
    n = len(theta)
    return ev.HyperDraws(
        np.reshape(theta, (1, n, -1)), x[None], np.zeros((1, n)), names, "agrad-z-joint",
        np.zeros((1, 2)), np.zeros((1, 2)), 1.0, 1.0, settings={"stride": stride}, **words,
    )  # fmt: skip


def test_draws_of_hyperparameters_are_averaged_over():
    model = ev.GPModel(X, DATA["gaussian(noise_std=0.3)"], KERNEL, likelihood="gaussian")
    names = ("k2__length_scale[0]", "likelihood__noise_std")
    theta = np.log([[1.0, 0.5], [1.0, 0.5], [2.0, 0.2], [3.0, 0.3]])
    x = RNG.standard_normal((4, 30))
    words = dict(batch_size=7)
    prediction = ev.predict(model, X_NEW, posterior=hyper_draws(theta, x, names), **words)
    one_by_one = one_by_one_of(model, theta, x, names)
    mixture = Prediction.mixture(one_by_one)
    for name in ("mean", "var", "y_var"):
        np.testing.assert_allclose(getattr(prediction, name), getattr(mixture, name), rtol=1e-9)
    y = np.zeros(17)
    np.testing.assert_allclose(prediction.log_density(y), mixture.log_density(y), rtol=1e-9)
    q = prediction.quantiles([0.1, 0.9], of="y")
    np.testing.assert_allclose(q, mixture.quantiles([0.1, 0.9], of="y"), rtol=1e-7)
    assert len(prediction.shares) == 3
    two = ev.predict(model, X_NEW, posterior=hyper_draws(theta, x[::2], names, 2))
    both = Prediction.mixture(one_by_one_of(model, theta[::2], x[::2], names))
    np.testing.assert_allclose(two.mean, both.mean, rtol=1e-9)
    ends = ev.predict(model, X_NEW, posterior=hyper_draws(theta, x, names), max_draws=2)
    np.testing.assert_allclose(
        ends.mean, 0.5 * (one_by_one[0].mean + one_by_one[3].mean), rtol=1e-9
    )
    itself = ev.predict(model, posterior=hyper_draws(theta, x, names))
    np.testing.assert_allclose(itself.mean, x.mean(axis=0))


def one_by_one_of(model, theta, x, names):
    return [
        ev.predict(
            model.at(dict(zip(names, np.exp(t), strict=True))), X_NEW, posterior=latent[None]
        )
        for t, latent in zip(theta, x, strict=True)
    ]


def test_draws_of_hyperparameters_are_checked():
    model = ev.GPModel(X, DATA["gaussian(noise_std=0.3)"], KERNEL, likelihood="gaussian")
    x = np.zeros((2, 30))
    draws = hyper_draws(np.zeros((2, 1)), x, ("likelihood__noise_std",))
    with pytest.raises(ValueError, match="the draws hold parameters of the likelihood"):
        ev.predict(model, X_NEW, posterior=draws, likelihood=Gaussian(0.1))
    draws = hyper_draws(np.zeros((2, 1)), x, ("noise_std",), model={"N": 3})
    with pytest.raises(ValueError, match="made for another model"):
        ev.predict(model, X_NEW, posterior=draws)


# -- what comes out, and what is refused ------------------------------------------------------


def test_draws_and_results_are_taken():
    model = model_of("probit")
    words = dict(random_seed=0, progressbar=False)
    draws = ev.sample(model, draws=300, tune=200, chains=2, **words)
    prediction = ev.predict(model, X_NEW, posterior=draws)
    assert np.abs(prediction.mean - ev.predict(model, X_NEW).mean).max() < 0.3
    result = ev.EvidenceResult("smc", -9.0, 0.1, (), samples=draws.x[0], model=model.describe())
    one_chain = ev.predict(model, X_NEW, posterior=draws.x[0])
    np.testing.assert_array_equal(ev.predict(model, X_NEW, posterior=result).mean, one_chain.mean)
    other = ev.GPModel(X, model.y, "3.0 * RBF(1.0)")
    with pytest.raises(ValueError, match="made for another model"):
        ev.predict(other, X_NEW, posterior=draws)
    with pytest.raises(ValueError, match="fitted to another model"):
        ev.predict(other, X_NEW, posterior=ev.fit_ep(model))
    tempered = ev.sample(model, draws=5, tune=5, chains=2, beta=0.5, **words)
    with pytest.raises(ValueError, match=r"beta=0\.5"):
        ev.predict(model, X_NEW, posterior=tempered)
    without = ev.log_evidence(model, method="ep", progressbar=False)
    with pytest.raises(ValueError, match="method='smc' leaves some"):
        ev.predict(model, X_NEW, posterior=without)


def test_table_and_figure():
    model = ev.GPModel(X[:, :1], DATA["probit"], "2.0 * RBF(1.0)")
    prediction = ev.predict(model, np.linspace(0.0, 5.0, 20))
    table = prediction.to_frame()
    names = ["mean", "sd", "q5", "q95", "y_mean", "y_sd", "probability_q5", "probability_q95"]
    assert list(table) == [*names, "probability"]
    assert table.probability.between(table.probability_q5, table.probability_q95).all()
    assert ((table.q5 < table["mean"]) & (table["mean"] < table.q95)).all()
    assert prediction.plot().get_ylabel() == "P(y = +1)"
    counts = ev.GPModel(
        X[:, :1], DATA["poisson(exposure=2.0)"], KERNEL.replace("[1.0, 2.0]", "1.0"),
        likelihood="poisson",
    )  # fmt: skip
    assert len(ev.predict(counts, X_NEW[:, :1]).plot().collections) == 2
    with pytest.raises(ValueError, match="single input, this one has 2 inputs"):
        ev.predict(model_of("probit"), X_NEW).plot()
    with pytest.raises(ValueError, match="no inputs"):
        ev.predict(ev.GPModel(K=covariance(3), y=[1, 1, -1])).plot()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (dict(X_new=np.zeros((2, 3))), r"^X_new .* shape \(n, 2\), got shape \(2, 3\)"),
        (dict(X_new=[[0.0, np.nan]]), "X_new contains NaN"),
        (dict(X_new=[["a", "b"]]), "^X_new "),
        (dict(X_new=np.zeros((0, 2))), r"^X_new .* got shape \(0, 2\)"),
        (dict(K_new=np.zeros((2, 30)), k_diag=np.ones(2)), "pass X_new"),
        (dict(X_new=X_NEW, mean_new=np.zeros(3)), "^mean_new must be a number or"),
        (dict(mean_new=1.0), "mean_new goes with new points"),
        (dict(X_new=X_NEW, posterior="epp"), "unknown posterior 'epp'; did you mean 'ep'"),
        (dict(X_new=X_NEW, posterior=np.zeros((5, 7))), r"array of draws of shape \(..., 30\)"),
        (dict(X_new=X_NEW, posterior=3), "^posterior .* got 3"),
        (dict(X_new=X_NEW, posterior=np.full((2, 30), np.nan)), "draws contain NaN"),
        (dict(X_new=X_NEW, batch_size=0), "batch_size must be a whole number"),
    ],
)
def test_bad_words(words, match):
    with pytest.raises(ValueError, match=match):
        ev.predict(model_of("probit"), **words)


def test_bad_words_with_a_given_covariance():
    model = ev.GPModel(K=covariance(3), y=[1, 1, -1], mean=[0.0, 1.0, 0.0])
    k = np.zeros((2, 3))
    with pytest.raises(ValueError, match="pass K_new"):
        ev.predict(model, [[0.0]])
    with pytest.raises(ValueError, match="go together"):
        ev.predict(model, K_new=k)
    with pytest.raises(ValueError, match=r"^K_new "):
        ev.predict(model, K_new=k.T, k_diag=np.ones(3))
    with pytest.raises(ValueError, match="negative variance"):
        ev.predict(model, K_new=k, k_diag=[-1.0, 1.0])
    with pytest.raises(ValueError, match="mean_new is missing"):
        ev.predict(model, K_new=k, k_diag=np.ones(2))
    assert ev.predict(model, K_new=k, k_diag=np.ones(2), mean_new=0.5).mean.tolist() == [0.5, 0.5]
    with pytest.raises(
        ValueError,
        match="must be a GPModel, a SparseModel, a PredictorsModel or a SoftmaxModel, got str",
    ):
        ev.predict("probit")


def test_bad_questions():
    prediction = ev.predict(model_of("gaussian(noise_std=0.3)"), X_NEW)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        prediction.quantiles([0.5, 1.0])
    with pytest.raises(ValueError, match="unknown of"):
        prediction.quantiles(0.5, of="x")
    with pytest.raises(ValueError, match="probability is for binary likelihoods"):
        _ = prediction.probability
    with pytest.raises(ValueError, match="one observation for each of 17 points"):
        prediction.log_density([1.0])
