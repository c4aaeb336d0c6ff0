from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from evidence.hyper.covariances import covariance_functions
from evidence.hyper.factors import CholeskyFactor
from evidence.models.gp import GPModel
from evidence.models.kernels.parse import parse_kernel


@pytest.fixture(params=[1, 3, 33, 70])
def K(request):
    rng = np.random.default_rng(request.param)
    a = rng.standard_normal((request.param, request.param + 3))
    return a @ a.T + 0.1 * np.eye(request.param)


def test_products_and_solves_against_dense_algebra(K):
    L, v = np.linalg.cholesky(K), np.random.default_rng(0).standard_normal(len(K))
    factor = CholeskyFactor(K.copy())
    assert factor.ok
    assert factor.half_logdet == pytest.approx(0.5 * np.linalg.slogdet(K)[1])
    np.testing.assert_allclose(factor.times(v), L @ v)
    np.testing.assert_allclose(factor.transposed_times(v), L.T @ v)
    np.testing.assert_allclose(factor.whiten(v), np.linalg.solve(L, v), atol=1e-9)
    np.testing.assert_allclose(factor.solve(v), np.linalg.solve(K, v), atol=1e-8)
    constant = 0.5 * len(K) * np.log(2.0 * np.pi)
    assert factor.log_density(v) - constant == pytest.approx(
        multivariate_normal(np.zeros(len(K)), K).logpdf(v)
    )


def test_shifted_covariances_keep_the_factor(K):
    v = np.random.default_rng(0).standard_normal(len(K))
    factor = CholeskyFactor(K.copy())
    for shift in (0.3, 2.0, 0.3):
        S = K + shift * np.eye(len(K))
        np.testing.assert_allclose(factor.shifted(shift).solve(v), np.linalg.solve(S, v))
        assert factor.shifted(shift).half_logdet == pytest.approx(0.5 * np.linalg.slogdet(S)[1])
    assert factor.shifted(0.3) is factor.shifted(0.3)
    with pytest.raises(AssertionError):
        factor.shifted(0.3).shifted(0.4)
    np.testing.assert_allclose(factor.times(v), np.linalg.cholesky(K) @ v)


@pytest.mark.parametrize("bad", [[[1.0, 2.0], [2.0, 1.0]], np.full((2, 2), np.nan), [[np.inf]]])
def test_what_has_no_factor_says_so(bad):
    assert not CholeskyFactor(np.array(bad)).ok


@pytest.mark.parametrize(
    "kernel",
    [
        "4.0 * RBF(1.5)",
        "RBF(0.7) * ConstantKernel(2.0)",
        "RBF(1.5)",
        "ConstantKernel(2.0, 'fixed') * RBF(0.7)",
        "ConstantKernel(2.0) * RBF(0.7, 'fixed')",
        "2.0 * RBF([1.0, 2.0])",
        "2.0 * RBF(0.5) + 0.3",
        "2.0 * Matern(0.7, nu=1.5)",
        "Matern(0.7, nu=0.5) * 2.0",
        "Matern(0.7, nu=2.5)",
        "2.0 * Matern(0.7, nu=2.0)",
        "RBF(1.0) * RBF(2.0)",
        "2.0 * (3.0 * RBF(1.0))",
    ],
)
def test_covariances_are_those_of_the_model(kernel):
    X = np.random.default_rng(0).standard_normal((40, 2))
    model = GPModel(X, np.ones(40), kernel)
    (covariance,) = covariance_functions([model.kernel], model.X, model.relative_jitter)
    theta = model.hyperparameters.theta
    for moved in (theta, theta + 0.3, theta - np.arange(1, len(theta) + 1) / 4):
        K = covariance(moved)
        assert K.flags.c_contiguous
        np.testing.assert_allclose(K, model.at(moved).K, rtol=1e-12, atol=1e-15)


def test_distances_are_kept_for_one_isotropic_kernel():
    kernels = [parse_kernel(k) for k in ("2.0 * RBF(1.0)", "Matern(1.0)", "Matern(1.0, nu=2.0)")]
    made = covariance_functions(kernels, np.zeros((2, 1)), 0.0)
    assert [f.func.__name__ for f in made] == ["_from_distances"] * 2 + ["_general"]
    assert made[0].args[0] is made[1].args[0]


def test_a_kernel_that_is_a_function_has_nothing_to_move():
    (covariance,) = covariance_functions([lambda a, b: np.eye(len(a))], np.zeros((2, 1)), 0.1)
    np.testing.assert_allclose(covariance(np.empty(0)), 1.1 * np.eye(2))
