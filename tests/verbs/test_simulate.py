from __future__ import annotations

import numpy as np
import pytest
from problems import EVERY, MEAN, covariance, log_z_by_quadrature, small_model
from scipy.stats import kstest

import evidence as ev
from evidence import bidirectional, posterior_draws, simulate


@pytest.mark.parametrize("likelihood", EVERY)
def test_the_new_model_is_what_its_data_would_build(likelihood):
    old = small_model(likelihood)
    y, theta = old.y.copy(), old.theta.copy()
    simulated = simulate(old, random_seed=0)
    new = simulated.model
    built = ev.GPModel(K=covariance(3), y=simulated.y, likelihood=likelihood, mean=MEAN)
    for name in ("K", "chol", "mean", "jitter", "theta", "y"):
        np.testing.assert_array_equal(getattr(new, name), getattr(built, name))
    assert new.K is old.K
    assert new.chol is old.chol
    assert new.likelihood is old.likelihood
    assert ev.fit_ep(new).logz == ev.fit_ep(built).logz
    np.testing.assert_array_equal(old.y, y)
    np.testing.assert_array_equal(old.theta, theta)


def test_notes_on_old_data_go_and_those_on_inputs_stay():
    model = ev.GPModel([[0.0], [0.0], [1.0]], [0, 1, 1], "RBF(1.0)")
    assert len(model.notes) == 2
    notes = simulate(model, random_seed=1).model.notes
    assert len(notes) == 1
    assert notes[0].startswith("X:")


def test_joint_moments():
    """(x, y) is N([m, m], [[K, K], [K, K + σ²I]]): 4000 draws, every moment within 5 se."""
    model = small_model("gaussian(noise_std=0.7)")
    rng = np.random.default_rng(2)
    draws = [simulate(model, rng) for _ in range(4000)]
    z = np.concatenate([[s.x for s in draws], [s.y for s in draws]], axis=1)
    z = z - np.tile(model.mean, 2)
    cov = np.kron(np.ones((2, 2)), model.K) + np.diag([0, 0, 0, *[0.7**2] * 3])
    assert (np.abs(z.mean(axis=0)) < 5 * np.sqrt(np.diag(cov) / len(z))).all()
    products = z[:, :, None] * z[:, None, :]
    se = products.std(axis=0) / len(z) ** 0.5
    assert (np.abs(products.mean(axis=0) - cov) < 5 * se).all()


@pytest.mark.slow
def test_x_and_moved_copies_are_posterior_draws():
    """Gaussian likelihood: whitened by the exact posterior both are N(0, 1), p > 1e-5 each."""
    model = small_model("gaussian(noise_std=0.7)")
    rng = np.random.default_rng(3)
    white, moved = [], []
    for _ in range(100):
        simulated = simulate(model, rng)
        exact = ev.fit_ep(simulated.model)
        root = np.linalg.cholesky(exact.cov)
        x = posterior_draws(
            simulated, 1, n_moves=3, reference="prior", move="pcn", random_seed=rng
        )
        for values, draw in ((white, simulated.x), (moved, x[0])):
            values.extend(np.linalg.solve(root, draw - exact.mean))
    assert kstest(white, "norm").pvalue > 1e-5
    assert kstest(moved, "norm").pvalue > 1e-5
    assert not np.allclose(white, moved)


def test_copies_forget_their_common_start():
    """2000 copies: their mean is the posterior's within 5 se, their spread the posterior's."""
    simulated = simulate(small_model("gaussian(noise_std=0.7)"), random_seed=4)
    exact = ev.fit_ep(simulated.model)
    x = posterior_draws(simulated, 2000, reference="prior", random_seed=5)
    assert x.shape == (2000, 3)
    assert (np.abs(x.mean(axis=0) - exact.mean) < 5 * np.sqrt(exact.var / 2000)).all()
    assert (np.abs(x.var(axis=0) / exact.var - 1.0) < 5 * np.sqrt(2 / 2000)).all()
    again = posterior_draws(simulated, 2000, reference="prior", random_seed=5)
    np.testing.assert_array_equal(x, again)


@pytest.mark.parametrize("betas", ["adaptive", 3, [0.2, 1.0]])
@pytest.mark.parametrize("likelihood", ["probit", "poisson(exposure=1.5)"])
def test_bounds_hold_quadrature(likelihood, betas):
    """Bounds within 4.5 se of their side and Bennett within 4.5 se: false alarm 1.4e-5 a case."""
    model = small_model(likelihood)
    result = bidirectional(model, reference="laplace", betas=betas, n_chains=400, random_seed=6)
    truth = log_z_by_quadrature(result.simulated.model, 60)
    assert result.lower - 4.5 * result.lower_se < truth < result.upper + 4.5 * result.upper_se
    assert abs(result.logz - truth) < 4.5 * result.logz_se
    assert abs(result.gap) < 4.5 * result.gap_se
    assert result.lower < result.upper
    assert result.forward.shape == result.reverse.shape == (400,)


def test_ladders():
    simulated = simulate(small_model("poisson(exposure=1.5)"), random_seed=9)

    def plan(betas):
        return bidirectional(simulated, betas=betas, n_chains=2, random_seed=10).plan

    assert plan(7).betas.size == 7
    assert plan(7).n_moves.tolist() == [1] * 7
    assert plan([0.2, 1.0]).betas.tolist() == [0.2, 1.0]
    assert plan("adaptive").betas[-1] == 1.0


def test_a_simulated_data_set_may_be_given():
    simulated = simulate(small_model("logit"), random_seed=7)
    one, two = (
        bidirectional(simulated, move="elliptical", n_chains=16, random_seed=8) for _ in range(2)
    )
    assert one.simulated is simulated
    assert one.logz == two.logz
    assert one.lower == two.lower


def test_saved_and_loaded(tmp_path):
    """The file holds no model: the one the data were simulated from is given again."""
    model = small_model("poisson(exposure=1.5)")
    result = bidirectional(model, n_chains=8, random_seed=1)
    result.save(tmp_path / "bounds.npz")
    result.simulated.save(tmp_path / "data.npz")
    back = ev.Bidirectional.load(tmp_path / "bounds.npz", model=model)
    assert back.summary() == result.summary()
    np.testing.assert_array_equal(back.plan.betas, result.plan.betas)
    built, x, y = ev.Simulated.load(tmp_path / "data.npz", model=model)
    np.testing.assert_array_equal(x, result.simulated.x)
    np.testing.assert_array_equal(y, built.y)
    np.testing.assert_array_equal(built.theta, result.simulated.model.theta)
    with pytest.raises(ValueError, match="model is missing"):
        ev.Simulated.load(tmp_path / "data.npz")
    other = ev.GPModel(K=2.0 * model.K, y=model.y, likelihood="poisson(exposure=1.5)")
    with pytest.raises(ValueError, match="model is another one"):
        ev.Simulated.load(tmp_path / "data.npz", model=other)


def test_bad_input():
    model = small_model("probit")
    with pytest.raises(ValueError, match="or a PredictorsModel, got ndarray"):
        simulate(np.eye(3))
    with pytest.raises(ValueError, match="n_chains"):
        bidirectional(model, n_chains=1)
    with pytest.raises(ValueError, match="unknown betas 'many'"):
        bidirectional(model, betas="many")
    with pytest.raises(ValueError, match="betas must be a whole number, at least 1"):
        bidirectional(model, betas=0)
    with pytest.raises(ValueError, match="n_moves"):
        posterior_draws(simulate(model, 0), 2, n_moves=0)
