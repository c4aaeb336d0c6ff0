"""What all priors have in common: hyperparameters, patterns, text, mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from evidence import InputError, precisions
from evidence.models.hyperparameters import free_parameters
from evidence.models.likelihoods import Gaussian

PRIORS = {
    "iid": lambda: precisions.iid(6, 0.7),
    "ar1": lambda: precisions.ar1(6, -0.3, 0.5),
    "matern_grid": lambda: precisions.matern_grid((3, 4), 2.0, 0.6),
}


@pytest.mark.parametrize("name", PRIORS)
def test_hyperparameters_make_a_round_trip(name):
    prior = PRIORS[name]()
    theta = prior.theta
    assert prior.bounds.shape == (theta.size, 2)
    assert (prior.bounds[:, 0] < theta).all()
    assert (theta < prior.bounds[:, 1]).all()
    same = prior.clone_with_theta(theta)
    np.testing.assert_allclose(same.matrix().toarray(), prior.matrix().toarray(), rtol=1e-13)
    other = prior.clone_with_theta(theta + 0.3)
    np.testing.assert_allclose(other.theta, theta + 0.3, rtol=1e-13)
    assert abs(other.matrix() - prior.matrix()).max() > 0.01
    np.testing.assert_allclose(prior.theta, theta, rtol=0)  # itself it did not change


@pytest.mark.parametrize("name", PRIORS)
def test_matrices_are_symmetric_with_one_pattern_and_the_null_space_stated(name):
    prior = PRIORS[name]()
    Q = prior.matrix()
    dense = Q.toarray()
    assert Q.format == "csc"
    assert Q.has_sorted_indices
    assert dense.shape == (prior.n, prior.n)
    np.testing.assert_allclose(dense, dense.T, rtol=1e-14)
    for step in (-1.0, 2.0):
        other = prior.clone_with_theta(prior.theta + step).matrix()
        np.testing.assert_array_equal(other.indices, Q.indices)
        np.testing.assert_array_equal(other.indptr, Q.indptr)
    d = prior.null.shape[1]
    assert prior.null.shape == (prior.n, d)
    assert np.abs(dense @ prior.null).max(initial=0.0) < 1e-12 * np.abs(dense).max()
    assert np.linalg.matrix_rank(dense, hermitian=True) == prior.n - d
    if d:
        C, r = prior.constraints
        assert C.shape == (len(r), prior.n)
        assert np.linalg.matrix_rank(C @ prior.null) == d
    else:
        assert prior.constraints is None


@pytest.mark.parametrize("name", PRIORS)
def test_text_is_short(name):
    text = repr(PRIORS[name]())
    assert text.startswith(f"{name}(")
    assert len(text) < 100
    assert "sigma=" in text


def test_names_through_free_parameters():
    prior = precisions.ar1(5, 0.5, sigma=2.0)
    free = free_parameters({"": prior}, Gaussian(0.3))
    assert free.names == ("rho", "sigma", "likelihood__noise_std")
    np.testing.assert_allclose(free.values, [0.5, 2.0, 0.3])
    np.testing.assert_allclose(np.exp(free.theta), [3.0, 2.0, 0.3])
    moved = free.moved({"rho": 0.8})
    assert moved.kernels[0].rho == pytest.approx(0.8)
    fixed = precisions.ar1(5, 0.5, rho_bounds="fixed", sigma_bounds="fixed")
    assert free_parameters({"": fixed}).names == ()
    assert fixed.clone_with_theta([]) is fixed


MISTAKES = [
    (lambda p: p.iid(0), "n must be a whole number"),
    (lambda p: p.iid(2, sigma=-1.0), "sigma must be a positive number"),
    (lambda p: p.iid(2, sigma_bounds="fix"), "sigma_bounds must be 'fixed' or a pair"),
    (lambda p: p.iid(2, sigma_bounds=(2.0, 1.0)), "sigma_bounds .*increasing"),
    (lambda p: p.ar1(4, 1.0), "rho must be between -1 and 1, got 1.0"),
    (lambda p: p.ar1(4, 1.0, initial=1.0), "rho must be .*rho_bounds"),
    (lambda p: p.ar1(4, np.nan), "rho must be a finite number"),
    (lambda p: p.ar1(4, 0.5, rho_bounds=(0.0, 1.5)), "rho_bounds .*between -1 and 1"),
    (lambda p: p.ar1(4, 0.5, initial="steady"), "initial must be 'stationary' or a variance"),
    (lambda p: p.ar1(4, 0.5, initial=-1.0), "initial must be a positive"),
    (lambda p: p.matern_grid((3, 3), 2.0, nu=0.5), r"nu may be 1, 2 in 2 dimensions, got 0\.5"),
    (lambda p: p.matern_grid(9, 2.0), "nu may be 0.5, 1.5, 2.5 in 1 dimension, got"),
    (lambda p: p.matern_grid((3, 3, 3), 2.0), "shape must be one or two"),
    (lambda p: p.matern_grid((3, 0), 2.0), "shape must be a whole number"),
    (lambda p: p.matern_grid((3, 3), -2.0), "range must be a positive"),
    (lambda p: p.matern_grid((3, 3), 2.0, margin=-1), "margin must be a whole"),
]


@pytest.mark.parametrize(("make", "message"), MISTAKES)
def test_mistakes(make, message):
    with pytest.raises(InputError, match=message):
        make(precisions)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda p: p.iid(10**12), "n="),
        (lambda p: p.ar1(10**12, 0.5), "n="),
        (lambda p: p.rw1(10**12), "positions="),
        (lambda p: p.icar([(0, 1)], n=10**12), "n="),
        (lambda p: p.copies(p.ar1(5, 0.5), 10**12), "count="),
        (lambda p: p.matern_grid((10**6, 10**6), 3.0), "shape="),
        (lambda p: p.matern_grid((3, 4), 1e100), "range="),
    ],
)
def test_what_has_no_room_is_refused_before_it_is_made(make, name):
    with pytest.raises(InputError, match=name):
        make(precisions)
