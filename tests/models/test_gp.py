from __future__ import annotations

import pickle

import numpy as np
import pytest
from problems import covariance
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import evidence as ev

X = np.linspace(0.0, 1.0, 4)[:, None]
Y = [1, -1, 1, 1]
K = covariance(4)


def with_entry(array, index, value):
    out = np.array(array, dtype=float)
    out[index] = value
    return out


BAD = [
    (dict(X=X, y=Y), "exactly one of kernel= .* and K= .*neither"),
    (dict(X=X, y=Y, kernel=RBF(), K=K), "exactly one .* got both"),
    (dict(X=X, kernel=RBF()), "y is missing"),
    (dict(y=Y, kernel=RBF()), "X is missing"),
    (dict(y=[], K=K), "y must be a non-empty vector"),
    (dict(y=np.ones((4, 1)), K=K), "y must be a non-empty vector .* shape \\(4, 1\\)"),
    (dict(X=with_entry(X, (1, 0), np.nan), y=Y, kernel=RBF()), "X contains NaN or inf in 1 row"),
    (dict(X=with_entry(X, (1, 0), np.inf), y=Y, kernel=RBF()), "X contains NaN or inf"),
    (dict(X=[["a"], ["b"]], y=[1, -1], kernel=RBF()), "X must hold real numbers"),
    (dict(X=X[:3], y=Y, kernel=RBF()), "X has 3 rows but y has 4 observations"),
    (dict(X=np.zeros((4, 1, 1)), y=Y, kernel=RBF()), "X must be .* \\(N, D\\)"),
    (dict(y=with_entry(Y, 0, np.nan), K=K), "y contains NaN or inf"),
    (dict(y=[1, 2, 3, 1], K=K), "wants labels -1 and \\+1 .* got 1, 2, 3"),
    (dict(y=["a", "b", "a", "a"], K=K), "y must hold real numbers"),
    (dict(y=[1, 2, -3, 1], K=K, likelihood="poisson"), "counts"),
    (dict(y=[1, 2.5, 3, 1], K=K, likelihood="poisson"), "counts"),
    (dict(y=Y, K=K[:3]), "K must be .* \\(N, N\\), got shape \\(3, 4\\)"),
    (dict(y=Y, K=K[:3, :3]), "K is 3 x 3 but y has 4"),
    (dict(y=Y, K=with_entry(K, (0, 1), 9.0)), "K is not symmetric"),
    (dict(y=Y, K=with_entry(K, (0, 0), np.nan)), "K contains NaN"),
    (dict(y=Y, K=-K), "K is not positive definite: it has eigenvalue -"),
    (dict(y=Y, K=np.ones((4, 4))), "K is not positive definite .* jitter 0"),
    (dict(X=np.zeros((4, 1)), y=Y, kernel=RBF(), jitter=0.0), "kernel\\(X\\) is not positive"),
    (dict(y=Y, K=K, jitter=-1.0), "jitter must be"),
    (dict(y=Y, K=K, mean=[1.0, 2.0]), "mean must be a number or .*\\(4,\\)"),
    (dict(y=Y, K=K, mean=np.nan), "mean must be a finite"),
    (dict(y=Y, K=K, likelihood="probbit"), "did you mean 'probit'"),
    (dict(X=X, y=Y, kernel="RBG(1.0)"), "RBF"),
    (dict(X=X, y=Y, kernel=3.0), "kernel must be a scikit-learn kernel"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ev.GPModel(**arguments)


def test_kernel_callable_string_and_matrix_agree():
    matrix = 4.0 * np.exp(-0.5 * (X - X.T) ** 2 / 0.25)
    models = [
        ev.GPModel(X, Y, ConstantKernel(4.0) * RBF(0.5)),
        ev.GPModel(X, Y, lambda a, b: 4.0 * np.exp(-0.5 * (a - b.T) ** 2 / 0.25)),
        ev.GPModel(X, Y, "4.0 * RBF(0.5)"),
        ev.GPModel(K=matrix, y=Y, jitter=1e-6),
    ]
    for model in models:
        np.testing.assert_allclose(model.K, matrix + 4e-6 * np.eye(4), rtol=1e-12)
        assert model.jitter == pytest.approx(4e-6)


def test_white_kernel_keeps_its_noise():
    model = ev.GPModel(X, Y, RBF(0.5) + WhiteKernel(0.3), jitter=0.0)
    np.testing.assert_allclose(np.diag(model.K), 1.3)


def test_inputs_are_not_changed():
    matrix, labels = K.copy(), np.array([0, 1, 1, 0])
    model = ev.GPModel(K=matrix, y=labels, jitter=0.1)
    np.testing.assert_array_equal(matrix, K)
    np.testing.assert_array_equal(labels, [0, 1, 1, 0])
    assert model.K[0, 0] > K[0, 0]


def test_notes_say_what_was_noticed():
    inputs = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    model = ev.GPModel(inputs, [0, 1, 1, 0], RBF())
    text = " ".join(model.notes)
    assert "labels 0/1 were taken as -1/+1" in text
    assert "1 duplicated row" in text
    assert "constant column(s) 1" in text


def test_one_observation():
    model = ev.GPModel([[0.0]], [1], RBF())
    assert ev.fit_ep(model).logz == pytest.approx(np.log(0.5))


def test_a_bare_model_travels_even_after_a_look_at_its_hyperparameters():
    model = ev.GPModel([0.0, 1.0], [1, -1], lambda a, b: np.exp(-0.5 * (a - b.T) ** 2))
    assert len(model.hyperparameters) == 0
    assert pickle.loads(pickle.dumps(model.bare())).n == 2


def test_log_prior_of_any_batch():
    model = ev.GPModel(X, Y, RBF(), mean=0.5)
    x = np.random.default_rng(0).standard_normal((3, 4, 4))
    one_by_one = [[model.log_prior(row) for row in rows] for rows in x]
    np.testing.assert_allclose(model.log_prior(x), one_by_one, rtol=1e-12)
    assert model.log_prior(x[0, 0]).shape == ()
    with pytest.raises(ValueError, match=r"4 latent values along its last axis, got shape \(1,\)"):
        model.log_prior(np.zeros(1))
