"""Matérn processes as Markov chains against the dense kernels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from evidence import precisions

TIMES = np.array([-2.0, -1.5, -0.5, -0.5, 0.0, 0.7, 1.1, 3.0, 4.5, 4.5, 4.5, 30.0])


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("length", [0.2, 1.7, 4.0])
def test_covariance_is_the_kernel(nu, length):
    prior = precisions.matern_series(TIMES, nu, length, sigma=1.3)
    d = round(nu + 0.5)
    assert prior.n == 9 * d
    K = np.linalg.inv(prior.matrix().toarray())
    got = prior.design @ (prior.design @ K).T
    want = 1.69 * Matern(length, nu=nu)(TIMES[:, None])
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("nu", "gap", "tol"),
    [(0.5, 1e-4, 1e-10), (1.5, 0.01, 5e-8), (2.5, 0.1, 1e-8), (2.5, 0.02, 3e-5)],
)
def test_digits_that_short_gaps_leave(nu, gap, tol):
    """What the docstring says, and one digit less, for other machines."""
    times = gap * np.arange(150)
    prior = precisions.matern_series(times, nu, 1.0)
    K = np.linalg.inv(prior.matrix().toarray())
    seen = slice(None, None, round(nu + 0.5))
    want = Matern(1.0, nu=nu)(times[:, None])
    np.testing.assert_allclose(K[seen, seen], want, atol=tol)


def test_states_are_the_process_and_its_scaled_derivatives():
    nu, length, h = 2.5, 1.7, 1e-3
    rate = np.sqrt(2 * nu) / length
    K = np.linalg.inv(precisions.matern_series([0.0, 1.0], nu, length).matrix().toarray())
    kernel = Matern(length, nu=nu)

    def k(t):
        return kernel(np.array([[1.0 + t]]), np.zeros((1, 1)))[0, 0]

    np.testing.assert_allclose(K[3, 0], k(0.0), rtol=1e-11)
    np.testing.assert_allclose(K[4, 0], (k(h) - k(-h)) / (2 * h) / rate, rtol=1e-5)
    np.testing.assert_allclose(K[5, 0], (k(h) - 2 * k(0) + k(-h)) / h**2 / rate**2, rtol=1e-4)
    np.testing.assert_allclose(K[3:, 3:], K[:3, :3], rtol=1e-10, atol=1e-12)


def test_distinct_times_of_the_rough_process_need_no_design():
    prior = precisions.matern_series([0.0, 1.0, 3.0], 0.5, 2.0)
    assert (prior.n, prior.design) == (3, None)
    rho = np.exp(-0.5)
    regular = precisions.matern_series(np.arange(5.0), 0.5, 2.0).matrix().toarray()
    ar1 = precisions.ar1(5, rho, sigma=np.sqrt(1 - rho**2)).matrix().toarray()
    np.testing.assert_allclose(regular, ar1, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_one_time_and_far_times(nu):
    prior = precisions.matern_series([4.0], nu, 2.0, sigma=3.0)
    assert np.linalg.inv(prior.matrix().toarray())[0, 0] == pytest.approx(9.0)
    far = precisions.matern_series([0.0, 1e6], nu, 2.0, sigma=3.0).matrix()
    d = prior.n
    assert far.nnz == 4 * d * d  # zeros are kept
    np.testing.assert_allclose(far.toarray()[d:, d:], prior.matrix().toarray(), rtol=1e-12)
