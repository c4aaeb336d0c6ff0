"""Autoregressive series against their covariances."""

from __future__ import annotations

import numpy as np
import pytest

from evidence import precisions


@pytest.mark.parametrize("rho", [0.9, -0.5, 0.0])
def test_stationary_covariance(rho):
    Q = precisions.ar1(7, rho, sigma=0.4).matrix().toarray()
    lag = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
    want = 0.4**2 / (1.0 - rho**2) * np.where(lag, rho, 1.0) ** lag
    np.testing.assert_allclose(np.linalg.inv(Q), want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("rho", [0.99, 1.0, -1.2])
def test_covariance_from_a_given_start(rho):
    bounds = "fixed"
    Q = precisions.ar1(6, rho, sigma=0.11**0.5, initial=2.5, rho_bounds=bounds).matrix()
    drive = np.linalg.inv(np.eye(6) - rho * np.eye(6, k=-1))
    want = drive @ np.diag([2.5] + [0.11] * 5) @ drive.T
    np.testing.assert_allclose(np.linalg.inv(Q.toarray()), want, rtol=1e-11)


def test_one_value():
    assert precisions.ar1(1, 0.5, sigma=2.0).matrix().toarray() == pytest.approx(0.75 / 4.0)
    assert precisions.ar1(1, 0.5, initial=4.0).matrix().toarray() == pytest.approx(0.25)


@pytest.mark.parametrize("initial", ["stationary", 2.5])
@pytest.mark.parametrize("held", ["rho", "sigma", "neither"])
def test_roots_are_those_of_the_covariance(initial, held):
    words = {} if held == "neither" else {f"{held}_bounds": "fixed"}
    series = precisions.ar1(5, -0.6, 0.3, initial, **words)
    values = np.array([[-0.6, 0.3], [0.9, 2.0]])
    values[:, :] = np.where([[held == "rho", held == "sigma"]], [[-0.6, 0.3]], values)
    free = [name for name in ("rho", "sigma") if name != held]
    roots = series.roots(values[:, [name in free for name in ("rho", "sigma")]])
    for root, (rho, sigma) in zip(roots, values, strict=True):
        Q = precisions.ar1(5, rho, sigma, initial).matrix().toarray()
        np.testing.assert_allclose(root @ root.T @ Q, np.eye(5), atol=1e-12)
        assert not np.triu(root, 1).any()
    assert precisions.ar1(1000, 0.5).roots(values) is None
    copies = precisions.copies(series, 3)
    np.testing.assert_array_equal(copies.roots(np.zeros((0, len(free)))).shape, (0, 5, 5))
