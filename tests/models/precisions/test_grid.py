"""Matérn fields on grids against Matérn kernels, and exact variances of the lattice."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from evidence import precisions


def covariance(prior):
    K = np.linalg.inv(prior.matrix().toarray())
    return K if prior.design is None else prior.design @ (prior.design @ K).T


@pytest.mark.parametrize("nu", [1.0, 2.0])
def test_a_field_in_two_dimensions_is_a_matern_field(nu):
    """Standard deviations within two percent of sigma inside, corners too; the kernel's shape.

    The latter up to what nine cells per range resolve (k² log k for nu = 1).
    """
    shape = (9, 11)
    K = covariance(precisions.matern_grid(shape, range=9.0, sigma=1.7, nu=nu))
    sd = np.sqrt(np.diag(K))
    np.testing.assert_allclose(sd, 1.7, rtol=0.02)
    places = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1).reshape(-1, 2)
    want = Matern(4.5, nu=nu)(places)
    np.testing.assert_allclose(K / np.outer(sd, sd), want, atol=0.035)
    at_range = K[0, 9] / (sd[0] * sd[9])  # the tenth cell of the first row
    assert at_range == pytest.approx(want[0, 9], abs=0.007)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_a_field_in_one_dimension_is_a_matern_process(nu):
    prior = precisions.matern_grid(60, range=1.5, sigma=0.6, nu=nu, spacing=0.05)
    assert prior.n == 120
    want = 0.36 * Matern(0.75, nu=nu)(0.05 * np.arange(60)[:, None])
    np.testing.assert_allclose(covariance(prior), want, atol=0.015)


@pytest.mark.parametrize(("shape", "nu"), [(41, 0.5), (41, 2.5), ((41, 37), 1.0), ((37, 41), 2.0)])
def test_sigma_is_exact_far_from_the_edges_of_a_coarse_grid(shape, nu):
    prior = precisions.matern_grid(shape, range=1.5, sigma=0.8, nu=nu, margin=0)
    assert prior.design is None
    e = np.zeros(prior.n)
    e[np.ravel_multi_index([s // 2 for s in np.atleast_1d(shape)], np.atleast_1d(shape))] = 1.0
    variance = e @ np.linalg.solve(prior.matrix().toarray(), e)
    assert variance == pytest.approx(0.64, rel=1e-9)


def test_only_the_ratio_of_range_and_spacing_counts():
    near = precisions.matern_grid((3, 4), range=5.0, spacing=1.0)
    far = precisions.matern_grid((3, 4), range=0.5, spacing=0.1)
    np.testing.assert_allclose(near.matrix().toarray(), far.matrix().toarray(), rtol=1e-12)


def test_the_margin_stays_when_the_range_moves():
    prior = precisions.matern_grid((3, 4), range=2.0)
    moved = prior.clone_with_theta(np.log([20.0, 1.0]))
    assert (moved.n, moved.range, moved.design) == (7 * 8, pytest.approx(20.0), prior.design)


def test_a_single_cell():
    Q = precisions.matern_grid((1, 1), range=2.0, margin=0).matrix().toarray()
    assert Q.shape == (1, 1)
    assert Q[0, 0] > 0.0
