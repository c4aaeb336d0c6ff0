"""A model without some of its data is the model that was made without them."""

import numpy as np
import pytest
from problems import EVERY, MEAN, covariance
from scipy import stats
from sparse_problems import twins

import evidence as ev

GONE, REST = [1, -1], np.array([0, 2, 3, 4])
Y = np.array([0.3, -1.2, 2.0, 0.4, 1.1, -0.2])
X = np.linspace(0.0, 2.0, 6)


def same(model, other):
    for mine, its in zip(model.identity(), other.identity(), strict=True):
        if mine.dtype.kind == "f":
            np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-12)
        else:
            np.testing.assert_array_equal(mine, its)


def dense(likelihood, y, rows):
    K, mean = covariance(y.size), np.resize(MEAN, y.size)
    return ev.GPModel(
        K=K[np.ix_(rows, rows)], y=y[rows], mean=mean[rows], likelihood=likelihood
    )  # fmt: skip


@pytest.mark.parametrize("likelihood", EVERY)
def test_every_likelihood(likelihood):
    y = np.resize(EVERY[likelihood], 6)
    same(dense(likelihood, y, np.arange(6)).without(GONE), dense(likelihood, y, REST))


def one_for_each():
    """Likelihoods with a number for every datum."""
    n = np.arange(2.0, 8.0)
    yield ev.likelihoods.Binomial(n=n), lambda r: ev.likelihoods.Binomial(n=n[r])
    yield ev.likelihoods.Poisson(exposure=n), lambda r: ev.likelihoods.Poisson(exposure=n[r])
    base = ev.likelihoods.Gaussian(noise_std=n)
    yield (
        ev.likelihoods.Truncated(base, upper=n + 9.0),
        lambda r: ev.likelihoods.Truncated(base.at(r), upper=n[r] + 9.0),
    )


@pytest.mark.parametrize(("likelihood", "at"), list(one_for_each()))
def test_numbers_for_every_datum(likelihood, at):
    y = np.array([1.0, 0.0, 2.0, 1.0, 2.0, 1.0])
    same(dense(likelihood, y, np.arange(6)).without(GONE), dense(at(REST), y, REST))


@pytest.mark.parametrize("structure", ["dense", "markov"])
def test_kernels(structure):
    def made(rows):
        return ev.GPModel(X[rows], Y[rows], "2.0 * Matern(0.7, nu=1.5)", likelihood="student_t",
                          structure=structure)  # fmt: skip

    names = made(REST).hyperparameters.names
    fixed = [name for name in names if not name.endswith("length_scale")]
    model = made(np.arange(6)).with_priors({"length_scale": "halfnorm()"}, fixed)
    left = model.without(GONE)
    same(left, made(REST))
    same(left.at({"length_scale": 2.0}), made(REST).at({"length_scale": 2.0}))
    assert left.priors.describe() == model.priors.describe()
    assert model.y.size == 6


@pytest.mark.parametrize("given", ["kernels", "matrices"])
def test_several_predictors(given):
    kernels = {"mu": "4.0 * RBF(0.3)", "sigma": "RBF(0.5)"}
    mean = {"mu": X, "sigma": -1.0}
    made = ev.PredictorsModel(X, Y, kernels, mean=mean)
    if given == "kernels":
        other = ev.PredictorsModel(X[REST], Y[REST], kernels, mean={"mu": X[REST], "sigma": -1.0})
    else:
        K = dict(zip(kernels, made.K, strict=True))
        made = ev.PredictorsModel(y=Y, K=K, mean=mean)
        K = {name: matrix[np.ix_(REST, REST)] for name, matrix in K.items()}
        other = ev.PredictorsModel(y=Y[REST], K=K, mean={"mu": X[REST], "sigma": -1.0})
    same(made.without(GONE), other)


def test_classes():
    model = ev.SoftmaxModel(X, list("abcabc"), "4.0 * RBF(1.0)")
    other = ev.SoftmaxModel(X[REST], list("acab"), "4.0 * RBF(1.0)")
    same(model.without(GONE), other)
    assert model.without([2, 5]).classes.tolist() == list("abc")


@pytest.mark.parametrize("structure", ["design", "ring", "constrained"])
def test_sparse(structure):
    model, twin = twins("poisson", structure)
    found = ev.fit_ep(model.without(GONE)).logz
    assert found == pytest.approx(ev.fit_ep(twin.without(GONE)).logz, abs=1e-6)


@pytest.mark.parametrize("further", [{}, {"sigma": "x"}])
def test_formulas(further):
    data = {"y": Y, "x": X, "g": list("aabbab")}
    priors = {"Intercept": stats.norm(0, 2), "x": stats.norm(0, 1), "sd(1|g)": "halfnorm()"}
    priors |= (
        {"sigma:x": stats.norm(0, 1), "sigma:Intercept": stats.norm(0, 1)}
        if further
        else {"sigma": "halfnorm()"}
    )

    def made(rows):
        some = {name: np.asarray(column)[rows] for name, column in data.items()}
        return ev.from_formula("y ~ x + (1 | g)", some, priors=priors, predictors=further)

    left, other = made(np.arange(6)).without(GONE), made(REST)
    theta = other.hyperparameters.theta  # where a search starts, which data tell
    same(left.at(theta), other.at(theta))


@pytest.mark.parametrize(
    ("rows", "message"),
    [(6, "0 to 5, got 6"), ("a", "numbers of data"), (0.5, "got 0.5"), (range(6), "all of the 6")],
)
def test_bad_input(rows, message):
    with pytest.raises(ev.InputError, match=message):
        dense("gaussian(noise_std=1)", Y, np.arange(6)).without(rows)


def test_without_nothing():
    model = dense("gaussian(noise_std=1)", Y, np.arange(6))
    same(model.without([]), model)
