"""Examples: derivatives against finite differences, draws and log Z against the density.

Statistical tests fix their seeds; each compares some dozens of means with 0 at 5 standard
errors: a false alarm has probability below 1e-4.
"""

import pickle

import numpy as np
import pytest
from scipy import integrate, stats

from evidence import examples
from evidence.models.examples.mixture import Mixture

EXACT = {
    "gaussian 2": lambda: examples.gaussian(2),
    "gaussian 12": lambda: examples.gaussian(12, condition=100.0),
    "mixture 1": lambda: examples.gaussian_mixture(1, 2, separation=4.0),
    "mixture 2": lambda: examples.gaussian_mixture(2, separation=3.0),
    "mixture 5": lambda: examples.gaussian_mixture(5, n_modes=4, separation=2.0),
    "banana": lambda: examples.banana(0.1),
    "funnel 1": lambda: examples.funnel(1),
    "funnel 4": lambda: examples.funnel(4),
    "regression": lambda: examples.linear_regression(),
}


def logistic(dim=3, n=40):
    data = examples.simulated_logistic(dim, n)
    return examples.logistic_regression(data.X, data.y, prior_sd=2.0)


def network(noise=None):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (15, 2))
    return examples.neural_network(2, X, np.sin(X[:, 0]) + X[:, 1], noise=noise)


@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
def test_derivatives_and_draws(make):
    example = make()
    model = example.model
    draws = example.draws(np.random.default_rng(1), 20_000)
    assert draws.shape == (20_000, model.n)
    model.check_derivatives()
    model.check_derivatives(draws[:10])
    # E[∇ log p] = 0 and E[(x - m) ∇ log p] = -I for exact draws
    value, slope = model.log_prob_and_gradient(draws)
    np.testing.assert_allclose(value, model.log_prob(draws))
    within(slope, np.zeros(model.n))
    away = draws - draws.mean(axis=0)
    within(np.einsum("mi,mj->mij", away, slope), -np.eye(model.n))


@pytest.mark.parametrize("make", [logistic, pytest.param(network, marks=pytest.mark.slow)])
def test_derivatives(make):
    model = make().model
    model.check_derivatives(np.random.default_rng(2).normal(0.0, 1.5, (4, model.n)))


def within(samples, expected):
    """Means are where they should be, at 5 standard errors."""
    se = samples.std(axis=0, ddof=1) / len(samples) ** 0.5
    assert (np.abs(samples.mean(axis=0) - expected) < 5.0 * se + 1e-12).all()


@pytest.mark.parametrize(
    ("example", "low", "high"),
    [
        (examples.gaussian(2, condition=100.0), (-80.0, -80.0), (80.0, 80.0)),
        (examples.gaussian_mixture(2, separation=3.0), (-20.0, -20.0), (20.0, 20.0)),
    ],
)
def test_logz_by_quadrature(example, low, high):
    grid = [np.linspace(a, b, 601) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*grid, indexing="ij"), axis=-1).reshape(-1, 2)
    cell = np.prod([g[1] - g[0] for g in grid])
    total = np.exp(example.model.log_prob(points)).sum() * cell
    np.testing.assert_allclose(np.log(total), example.logz, atol=1e-6)


def test_banana_and_funnel_are_what_they_say():
    x = np.random.default_rng(3).normal(0.0, 2.0, (9, 2))
    bent = 0.05 * (x[:, 0] ** 2 - 100.0)
    wanted = stats.norm(0, 10).logpdf(x[:, 0]) + stats.norm(bent, 1).logpdf(x[:, 1])
    np.testing.assert_allclose(examples.banana(0.05).model.log_prob(x), wanted)
    wanted = stats.norm(0, 3).logpdf(x[:, 0]) + stats.norm(0, np.exp(x[:, 0] / 2)).logpdf(x[:, 1])
    np.testing.assert_allclose(examples.funnel(1).model.log_prob(x), wanted)


def test_mixture_knows_its_modes():
    example = examples.gaussian_mixture(5)
    np.testing.assert_allclose(example.weights, [1 / 2, 1 / 3, 1 / 6])
    modes = example.assign(example.draws(np.random.default_rng(0), 20_000))
    shares = np.bincount(modes) / 20_000
    se = np.sqrt(example.weights * (1.0 - example.weights) / 20_000)
    assert (np.abs(shares - example.weights) < 5.0 * se).all()


def test_mixture_of_components_of_any_size():
    roots = np.array([[[0.5]], [[3.0]]])
    mixture = Mixture(np.array([[0.0], [2.0]]), roots, np.array([0.25, 0.75]))
    x = np.linspace(-6.0, 8.0, 15)
    wanted = 0.25 * stats.norm(0.0, 0.5).pdf(x) + 0.75 * stats.norm(2.0, 3.0).pdf(x)
    np.testing.assert_allclose(np.exp(mixture(x[:, None])), wanted)


def test_mixture_modes_are_as_far_apart_as_asked():
    means = examples.gaussian_mixture(3, n_modes=5, separation=7.0).model.functions[0].means
    away = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(5, 1)]
    assert away.min() == pytest.approx(7.0)


def test_conjugate_evidence():
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((6, 2)), rng.standard_normal(6)
    example = examples.linear_regression(X, y, noise=0.5, prior_sd=2.0)
    exact = stats.multivariate_normal(np.zeros(6), 4.0 * X @ X.T + 0.25 * np.eye(6)).logpdf(y)
    np.testing.assert_allclose(example.logz, exact)
    # and the likelihood with its constants: log p(y) = log p(y|b) + log p(b) - log p(b|y)
    b = rng.standard_normal((1, 2))
    wanted = stats.norm(X @ b[0], 0.5).logpdf(y).sum() + stats.norm(0, 2).logpdf(b).sum()
    np.testing.assert_allclose(example.model.log_prob(b), wanted)


def test_logistic_is_the_bernoulli_likelihood():
    data = examples.simulated_logistic(3, 50)
    model = examples.logistic_regression(data.X, data.y, prior_sd=2.0).model
    b = np.random.default_rng(5).standard_normal((4, 3))
    p = 1.0 / (1.0 + np.exp(-b @ data.X.T))
    wanted = stats.bernoulli(p).logpmf((data.y + 1) // 2).sum(axis=1)
    wanted = wanted + stats.norm(0, 2).logpdf(b).sum(axis=1)
    np.testing.assert_allclose(model.log_prob(b), wanted)
    zero_one = examples.logistic_regression(data.X, data.y > 0, prior_sd=2.0).model
    np.testing.assert_array_equal(zero_one.log_prob(b), model.log_prob(b))


def test_logistic_far_out():
    model = logistic().model
    far = np.array([[800.0, -800.0, 300.0]])
    value, slope = model.log_prob_and_gradient(far)
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    assert np.isfinite(model.hessian(far)).all()


def test_simulated_labels_follow_the_model():
    data = examples.simulated_logistic(2, 20_000, seed=1)
    p = 1.0 / (1.0 + np.exp(-data.X @ data.beta))
    within(((data.y > 0) - p)[:, None] * data.X, np.zeros(2))


def test_network_likelihood_and_names():
    X, y = examples.simulated_network(n=10, noise=0.2, seed=1)
    example = examples.neural_network(3, X, y, noise=0.2)
    theta = np.random.default_rng(6).standard_normal((1, example.model.n))
    a, b, v = theta[0, :3].reshape(1, 3), theta[0, 3:6], theta[0, 6:9]
    f = np.tanh(X @ a + b) @ v
    sd = np.r_[np.full(6, 2.0), np.full(3, 3.0)]
    wanted = stats.norm(f, 0.2).logpdf(y).sum() + stats.norm(0, sd).logpdf(theta[0]).sum()
    np.testing.assert_allclose(example.model.log_prob(theta), [wanted])
    assert example.model.names[:3] == ("a[0,0]", "a[1,0]", "a[2,0]")
    wide = examples.neural_network(2, np.c_[X, X], y).model  # two inputs: priors shrink
    assert np.allclose(np.diag(wide.prior.cov)[:8], [2.0] * 4 + [4.0] * 2 + [9.0] * 2)
    assert wide.names[-1] == "log noise"


def test_network_does_not_tell_units_apart():
    model = network(noise=0.2).model
    theta = np.random.default_rng(7).standard_normal((1, 8))
    turned = theta.copy()
    turned[0, [0, 2, 4, 6]] *= -1.0  # a, b and v of the first unit
    swapped = theta[:, [1, 0, 3, 2, 5, 4, 7, 6]]
    got = model.log_prob(np.r_[turned, swapped])
    np.testing.assert_allclose(got, np.repeat(model.log_prob(theta), 2))


@pytest.mark.parametrize("make", [*EXACT.values(), logistic, network])
def test_models_can_be_sent(make):
    model = make().model
    x = model.probes()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).log_prob(x), model.log_prob(x))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: examples.funnel(0), "dim must be a whole number, at least 1, got 0"),
        (lambda: examples.gaussian(2, -1.0), "condition must be a positive number, got -1.0"),
        (lambda: examples.gaussian_mixture(2, 2.5), "n_modes must be a whole number"),
        (lambda: examples.banana("much"), "curvature must be a positive number, got 'much'"),
        (lambda: examples.linear_regression(X=np.eye(2)), "give both or neither"),
        (lambda: examples.linear_regression(np.eye(2), [1.0, np.nan]), "y contains NaN"),
        (lambda: examples.logistic_regression(np.eye(2), [1, 2]), "-1 and 1, or 0 and 1"),
        (lambda: examples.logistic_regression(np.eye(2), [1]), r"y must be .* shape \(2,\)"),
        (lambda: examples.neural_network(0, np.eye(2), [1, 2]), "width must be"),
        (lambda: examples.neural_network(2, [1.0, 2.0], [1, 2]), r"X must be .* shape \(N, d\)"),
        (lambda: examples.neural_network(2, np.eye(2), [1, 2], noise=0.0), "noise must be"),
    ],
)
def test_errors_say_what_to_do(call, told):
    with pytest.raises(ValueError, match=told):
        call()


def test_quadrature_agrees_with_nested_integration():
    """The banana's log Z by scipy, x₁ inside x₀."""
    model = examples.banana(0.03).model

    def inner(x0):
        centre = 0.03 * (x0**2 - 100.0)
        nodes = np.linspace(centre - 9.0, centre + 9.0, 181)
        values = np.exp(model.log_prob(np.column_stack([np.full(181, x0), nodes])))
        return values.sum() * (nodes[1] - nodes[0])

    total, _ = integrate.quad(inner, -80.0, 80.0, limit=200)
    assert total == pytest.approx(1.0, abs=1e-7)
