"""The model with several classes: labels, priors, likelihood and hyperparameters."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from softmax_problems import dense, small_model

import evidence as ev
from evidence.execution.checkpoint import digest

X = np.random.default_rng(0).normal(size=(6, 2))
Y = np.array(["b", "a", "c", "a", "b", "c"])


def model(kernel="4.0 * RBF(1.0)", **words):
    return ev.SoftmaxModel(X, Y, kernel, **words)


@pytest.mark.parametrize("n", [1, 5, 128, 300])
def test_log_likelihood_from_its_definition(n):
    problem = small_model(n) if n < 10 else _large(n)
    x = 4.0 * np.random.default_rng(1).standard_normal((3, problem.n))
    fields = x.reshape(3, 3, n)
    own = np.take_along_axis(fields, problem.codes[None, None], axis=1)[:, 0]
    expected = (own - logsumexp(fields, axis=1)).sum(axis=1)
    likelihood = problem.likelihood
    value, gradient = likelihood.slopes(problem.observed, likelihood.split(x))
    gradient = gradient.reshape(x.shape)
    np.testing.assert_allclose(value.sum(axis=1), expected, rtol=1e-13)
    np.testing.assert_allclose(problem.log_likelihood(x), expected, rtol=1e-13)
    slope = -problem.probabilities(x)
    slope[:, problem.codes, np.arange(n)] += 1.0
    np.testing.assert_allclose(gradient, slope.reshape(3, -1), atol=1e-14)
    h = 1e-5
    for i in range(0, problem.n, max(1, problem.n // 7)):
        up, down = x[0].copy(), x[0].copy()
        up[i], down[i] = x[0, i] + h, x[0, i] - h
        numeric = (problem.log_likelihood(up) - problem.log_likelihood(down)) / (2 * h)
        assert gradient[0, i] == pytest.approx(numeric, rel=1e-5, abs=1e-6)


def _large(n):
    codes = np.random.default_rng(2).integers(0, 3, n)
    return ev.SoftmaxModel(K=np.eye(n), y=codes)


def test_extreme_latent_values():
    problem = small_model(2)
    x = np.zeros(problem.n)
    x[[0, 3]] = 1e4, -1e4
    likelihood = problem.likelihood
    value, gradient = likelihood.slopes(problem.observed, likelihood.split(x))
    assert value.sum() == pytest.approx(-1e4 - np.log(1.0), rel=1e-3)
    assert np.isfinite(gradient).all()
    assert problem.log_likelihood(x + np.inf) == -np.inf
    assert problem.log_likelihood(np.full(problem.n, np.nan)) == -np.inf


def test_prior_density():
    problem = small_model(4)
    x = np.random.default_rng(3).standard_normal((5, problem.n))
    expected = multivariate_normal(problem.mean, dense(problem)).logpdf(x)
    np.testing.assert_allclose(problem.log_prior(x), expected, rtol=1e-10)
    assert problem.log_prior(x[0]).shape == ()


def test_simulated_labels_have_the_right_frequencies():
    """A multinomial count of 40,000: every frequency within 5 sd (false alarm 4e-6)."""
    problem = small_model(2)
    x = np.random.default_rng(4).standard_normal(problem.n)
    labels = problem.simulate(np.tile(x, (40_000, 1)), np.random.default_rng(5))
    p = problem.probabilities(x)
    found = np.array([(labels == label).mean(axis=0) for label in problem.classes])
    assert (np.abs(found - p) < 5.0 * np.sqrt(p * (1.0 - p) / 40_000)).all()


def test_classes_that_share_their_prior_share_its_matrix():
    problem = model()
    assert problem.shared
    assert problem.covariances.shape == (1, 6, 6)
    assert problem.K.shape == problem.chol.shape == (3, 6, 6)
    assert np.shares_memory(problem.K[0], problem.K[2])
    one = ev.GPModel(X, [1, -1, 1, 1, -1, 1], "4.0 * RBF(1.0)")
    np.testing.assert_allclose(problem.K[1], one.K, rtol=1e-14)
    several = model([f"{v} * RBF(1.0)" for v in (4.0, 2.0, 1.0)])
    assert not several.shared
    np.testing.assert_allclose(several.K[1], 0.5 * several.K[0], rtol=1e-12)
    assert model(["4.0 * RBF(1.0)"] * 3).shared


def test_labels():
    assert model().classes.tolist() == ["a", "b", "c"]
    assert model().codes.tolist() == [1, 0, 2, 0, 1, 2]
    assert (model().y == Y).all()
    for y in ([3, 1, 1], [3.0, 1.0, 1.0], [True, False, False], np.array([2, 1, 1], object)):
        assert ev.SoftmaxModel(K=np.eye(3), y=y).codes.tolist() == [1, 0, 0]
    wider = ev.SoftmaxModel(K=np.eye(2), y=[7, 5], classes=[9, 7, 5])
    assert wider.n_classes == 3
    assert wider.codes.tolist() == [1, 0]


def test_hyperparameters_class_by_class():
    problem = model(["4.0 * RBF([1.0, 2.0])", "2.0 * RBF(1.0)", "Matern(0.7, nu=1.5) + 0.1"])
    names = problem.hyperparameters.names
    assert names[:4] == (
        "class[a]__k1__constant_value",
        "class[a]__k2__length_scale[0]",
        "class[a]__k2__length_scale[1]",
        "class[b]__k1__constant_value",
    )
    theta = problem.hyperparameters.theta + np.arange(7) / 10
    again = problem.at(theta)
    np.testing.assert_allclose(again.hyperparameters.theta, theta, rtol=1e-14)
    fresh = model(list(again.kernels))
    np.testing.assert_allclose(again.K, fresh.K, rtol=1e-13)
    np.testing.assert_allclose(again.chol, fresh.chol, rtol=1e-10)
    changed = problem.at({"class[b]__k2__length_scale": 3.0})
    assert changed.kernels[1].k2.length_scale == pytest.approx(3.0)


def test_a_name_without_class_means_all_classes():
    changed = model().at({"length_scale": 3.0, "class[c]__k1__constant_value": 9.0})
    assert [k.k2.length_scale for k in changed.kernels] == pytest.approx([3.0] * 3)
    assert [k.k1.constant_value for k in changed.kernels] == pytest.approx([4.0, 4.0, 9.0])
    with pytest.raises(ValueError, match="ambiguous"):
        model("RBF(1.0) + RBF(2.0)").at({"length_scale": 3.0})
    with pytest.raises(ValueError, match="did you mean"):
        model().at({"class[a]__k2__length_scal": 3.0})
    with pytest.raises(ValueError, match=r"theta must be an array of shape \(6,\)"):
        model().at([0.0])


def test_description_identity_and_pickling():
    problem = model(mean=[0.0, 0.5, 1.0])
    assert problem.describe()["classes"] == 3
    assert repr(problem) == "SoftmaxModel(N=6, C=3, 2**2 * RBF(length_scale=1))"
    assert problem.mean.tolist() == [0.0] * 6 + [0.5] * 6 + [1.0] * 6
    light = pickle.loads(pickle.dumps(problem.bare()))
    assert light.kernels == ()
    assert digest(*light.identity()) == digest(*problem.identity())
    other = ev.SoftmaxModel(X, Y[::-1], "4.0 * RBF(1.0)", mean=[0.0, 0.5, 1.0])
    assert digest(*other.identity()) != digest(*problem.identity())
    several = model([f"{v} * RBF(1.0)" for v in (4.0, 2.0, 1.0)])
    assert len(pickle.dumps(problem.bare())) < len(pickle.dumps(several.bare()))


def test_duplicated_inputs_are_noted():
    assert "duplicated" in ev.SoftmaxModel(X[[0, 0, 1]], [0, 1, 0], "RBF(1.0)").notes[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"y": None}, "y is missing"),
        ({"y": [1, 1, 1]}, r"single class \(1\)"),
        ({"y": [0, 1, np.nan]}, "y must hold class labels, got nan"),
        ({"y": [0.2, 1.0, 2.0]}, "y must hold class labels, got 0.2"),
        ({"y": ["a", None, "b"]}, "y must hold labels .* NoneType, str"),
        ({"y": [[0, 1, 1]]}, r"non-empty vector of labels, got shape \(1, 3\)"),
        ({"y": [0, 1 + 1j, 1]}, "y must hold labels .* complex"),
        ({"y": [0, 1, 3], "classes": [0, 1, 2]}, "3.* is not among classes"),
        ({"y": [0, 0, 0], "classes": [0]}, "at least two labels"),
        ({"K": None}, "got neither"),
        ({"kernel": "RBF(1.0)", "X": np.eye(3)}, "got both"),
        ({"K": None, "kernel": "RBF(1.0)"}, "X is missing"),
        ({"K": None, "kernel": ["RBF(1.0)"] * 2, "X": np.eye(3)}, "2 kernels for 3 classes"),
        ({"K": np.ones((2, 3, 3))}, r"K must be .*\(3, 3, 3\)"),
        ({"K": np.eye(4)}, r"K must be .* got shape \(4, 4\)"),
        ({"K": np.array([np.eye(3), np.ones((3, 3)), np.eye(3)])}, "K of class 1 is not positive"),
        ({"mean": [0.0, 1.0]}, r"mean must be .*\(3,\)"),
        ({"mean": np.nan}, "mean must be a finite number"),
        ({"jitter": -1.0}, "jitter must be"),
        ({"X": np.eye(4)}, "X has 4 rows but y has 3"),
    ],
)
def test_bad_input(words, message):
    words = {"y": [0, 1, 2], "K": np.eye(3)} | words
    with pytest.raises(ValueError, match=message):
        ev.SoftmaxModel(**words)


@pytest.mark.parametrize("shape", [(3, 12), (5,), (2, 35)])
def test_states_of_another_shape_are_refused(shape):
    """Compiled code would read beyond their end."""
    model = ev.SoftmaxModel(np.arange(12.0), ["a", "b", "c"] * 4, "4.0 * RBF(0.5)")
    for method in (model.log_likelihood, model.log_prior):
        with pytest.raises(ValueError, match=r"36 latent values \(3 x 12.* along its last axis"):
            method(np.ones(shape))
