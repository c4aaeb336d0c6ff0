"""Trajectories for looking at are those that the moves take."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from problems import small_model

import evidence as ev
from evidence import moves, plots
from evidence.moves.riemannian.dense.field import DensityField
from evidence.paths.density import own_path

START = np.array([1.0, -0.5])


@pytest.fixture(scope="module")
def gaussian():
    return ev.examples.gaussian(2, condition=4.0).model


def test_hmc_on_a_gaussian_follows_the_exact_flow(gaussian):
    move = moves.HMC(0.01, coordinates="identity", n_leapfrog=100)
    way = moves.trajectory(move, gaussian, START, random_seed=3)
    precision = -gaussian.hessian(np.zeros((1, 2)))[0]
    mean = START + np.linalg.solve(precision, gaussian.log_prob_and_gradient(START[None])[1][0])
    values, Q = np.linalg.eigh(precision)
    omega, t = np.sqrt(values), 0.01 * np.arange(101)[:, None]
    p = np.random.default_rng(3).standard_normal((1, 2))[0]
    a, b = Q.T @ (START - mean), Q.T @ p
    exact = mean + (a * np.cos(omega * t) + b / omega * np.sin(omega * t)) @ Q.T
    np.testing.assert_allclose(way.x, exact, atol=1e-4)
    assert np.abs(way.energy_error).max() < 1e-4


@pytest.mark.parametrize(
    ("kind", "most"),
    [(moves.RMHMC, 0.02), (moves.MidpointRMHMC, 0.02), (moves.ExplicitRMHMC, 0.5)],
)
def test_riemannian_energy_is_kept(gaussian, kind, most):
    """The explicit one's error counts how far its copies are apart."""
    way = moves.trajectory(kind(0.05, n_leapfrog=10), gaussian, START)
    assert way.x.shape == (11, 2)
    assert way.energy_error[0] == 0.0
    assert np.abs(way.energy_error).max() < most
    assert np.linalg.norm(way.x[-1] - way.x[0]) > 0.1


@pytest.mark.parametrize("kind", [moves.RMHMC, moves.MidpointRMHMC, moves.ExplicitRMHMC])
def test_points_are_ends_of_shorter_trajectories(kind):
    banana, start = ev.examples.banana().model, np.array([[1.0, 0.5]])
    way = moves.trajectory(kind(0.05), banana, start[0], n_steps=6, random_seed=1)
    field = DensityField(own_path(banana), np.ones(1))
    for k in range(1, 7):
        move = kind(0.05, n_leapfrog=k, jitter=0.0)
        rng = np.random.default_rng(1)
        end = move.trajectories(rng, field, field.point(start), np.array([0.05]))
        np.testing.assert_allclose(way.x[k], end.y[0], rtol=1e-12)
        np.testing.assert_allclose(way.energy_error[k], -end.log_ratio[0], atol=1e-9)


def test_figures():
    banana = ev.examples.banana().model
    long = moves.trajectory(moves.RMHMC(0.2), banana, [1.0, 0.5], n_steps=6, random_seed=1)
    figure, (left, right) = plt.subplots(1, 2)
    assert plots.plot_trajectory(long, right).get_xlabel() == "first latent value"
    right.clear()
    plots.plot_density(banana, left, across=(-20.0, 20.0), up=(-15.0, 10.0))
    plots.plot_trajectory(long, left, label="way")
    assert left.get_xlabel() == banana.names[0]
    plots.plot_energy_error(long, right)
    np.testing.assert_array_equal(left.lines[0].get_xydata(), long.x)
    assert "nats" in right.get_ylabel()
    plt.close(figure)


def test_gaussian_process_paths_by_hmc_only():
    path = ev.Path(ev.fit_ep(small_model("probit")))
    assert moves.trajectory(moves.HMC(0.2), path, np.zeros(3), n_steps=2).x.shape == (3, 3)
    with pytest.raises(ValueError, match="for densities only"):
        moves.trajectory(moves.RMHMC(0.2), path, np.zeros(3))


def test_bad_arguments(gaussian):
    with pytest.raises(ValueError, match="move must be HMC or a kind of Riemannian HMC"):
        moves.trajectory(moves.PCN(), gaussian, START)
    with pytest.raises(ValueError, match=r"x must be an array .*, got shape \(3,\)"):
        moves.trajectory(moves.HMC(), gaussian, np.zeros(3))
