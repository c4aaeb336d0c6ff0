from __future__ import annotations

import pickle

import numpy as np
import pytest
from problems import EVERY, LIKELIHOODS, covariance, log_z_by_quadrature, small_model
from scipy.sparse import csc_array

import evidence as ev
from evidence.approximations import reference
from evidence.approximations.gp import ep as ep_module
from evidence.approximations.gp import sequential


@pytest.mark.parametrize("likelihood", EVERY)
@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_fixed_point_matches_moments(likelihood, n):
    """At convergence every tilted mean and variance is q's own, to 1e-8."""
    model = small_model(likelihood, n)
    ep = ev.fit_ep(model)
    assert ep.converged
    assert not ep.warnings
    # q from scratch, with dense inverses
    precision = np.linalg.inv(model.K)
    cov = np.linalg.inv(precision + np.diag(ep.sites.tau))
    mean = cov @ (precision @ model.mean + ep.sites.nu)
    np.testing.assert_allclose(ep.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ep.cov, cov, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ep.var, np.diag(cov), rtol=1e-9)
    v = 1.0 / (1.0 / np.diag(cov) - ep.sites.tau)
    m = v * (mean / np.diag(cov) - ep.sites.nu)
    _, tilted_mean, tilted_var = model.likelihood.tilted(model.y, m, v)
    np.testing.assert_allclose(tilted_mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(tilted_var, np.diag(cov), rtol=1e-8)


@pytest.mark.parametrize("likelihood", EVERY)
def test_site_normalisers(likelihood):
    """log Z_q is the log integral of the prior times the sites, and each c_n makes its site
    integrate against the cavity as the likelihood does."""
    model = small_model(likelihood)
    ep = ev.fit_ep(model)
    c, nu, tau = ep.sites
    x = np.zeros(model.n)  # log Z_q = log N(x; m, K) + log t(x) - log q(x), at any x
    site = np.sum(c + nu * x - 0.5 * tau * x * x)
    residual = x - ep.mean
    log_q = -0.5 * (
        residual @ np.linalg.solve(ep.cov, residual) + np.linalg.slogdet(2 * np.pi * ep.cov)[1]
    )
    assert ep.logz == pytest.approx(model.log_prior(x) + site - log_q, abs=1e-9)
    v = 1.0 / (1.0 / ep.var - tau)
    m = v * (ep.mean / ep.var - nu)
    log_zhat = model.likelihood.tilted(model.y, m, v)[0]
    grid = m + np.sqrt(v) * np.linspace(-30, 30, 20_001)[:, None]
    density = np.exp(-0.5 * (grid - m) ** 2 / v) / np.sqrt(2 * np.pi * v)
    integral = np.trapezoid(density * np.exp(c + nu * grid - 0.5 * tau * grid**2), grid, axis=0)
    np.testing.assert_allclose(np.log(integral), log_zhat, atol=1e-8)


@pytest.mark.parametrize("likelihood", EVERY)
def test_exact_for_one_observation(likelihood):
    model = small_model(likelihood, 1)
    assert ev.fit_ep(model).logz == pytest.approx(log_z_by_quadrature(model, 200), abs=1e-6)


def test_exact_for_gaussian_likelihood():
    rng = np.random.default_rng(0)
    n, noise = 40, 0.3
    K = covariance(n)
    y, mean = rng.standard_normal(n), rng.standard_normal(n)
    ep = ev.fit_ep(ev.GPModel(K=K, y=y, mean=mean, likelihood=f"gaussian(noise_std={noise})"))
    total = K + noise**2 * np.eye(n)
    r = y - mean
    exact = -0.5 * (r @ np.linalg.solve(total, r) + np.linalg.slogdet(2 * np.pi * total)[1])
    assert ep.logz == pytest.approx(exact, abs=1e-8)
    assert ep.logz_corrected == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4, 1e-5])
def test_little_noise_keeps_its_digits(noise):
    """The sum over sites would lose thousands of nats; the closed form says what it loses."""
    X = np.linspace(0.0, 6.0, 40)
    y = np.sin(2.0 * X) + 0.1 * np.random.default_rng(0).normal(size=40)
    model = ev.GPModel(X, y, "100.0 * RBF(1.0)", likelihood=f"gaussian(noise_std={noise})")
    total = np.linalg.cholesky(model.K + noise**2 * np.eye(40))
    white = np.linalg.solve(total, y)
    exact = -0.5 * white @ white - np.log(np.diag(total)).sum() - 20.0 * np.log(2.0 * np.pi)
    ep = ev.fit_ep(model, tol=1e-6)
    assert abs(ep.logz - exact) < 20.0 * ep.rounding + 1e-9
    assert ep.rounding < 1e-3


def test_negative_site_precisions_are_kept():
    """An outlier of a robust likelihood has a site that takes precision away."""
    model = ev.GPModel(
        K=covariance(6), y=[0.1, 0.2, 8.0, 0.1, 0.0, -0.1], likelihood="student_t(df=3, scale=0.1)"
    )
    ep = ev.fit_ep(model)
    assert ep.converged
    assert ep.sites.tau.min() < 0
    cov = np.linalg.inv(np.linalg.inv(model.K) + np.diag(ep.sites.tau))
    np.testing.assert_allclose(ep.cov, cov, rtol=1e-7, atol=1e-9)
    # log Z_q against its definition at x = 0
    log_q = -0.5 * (
        ep.mean @ np.linalg.solve(cov, ep.mean) + np.linalg.slogdet(2 * np.pi * cov)[1]
    )
    assert ep.logz == pytest.approx(
        model.log_prior(np.zeros(6)) + ep.sites.c.sum() - log_q, abs=1e-8
    )


@pytest.mark.interpreted
def test_blocked_sequential_sweep_is_exact(monkeypatch):
    """Blocks only postpone work: block size 1 and 5 give the same sweep as one block."""
    model = small_model("probit", 12)
    results = []
    for block in (1, 5, 64):
        monkeypatch.setattr(sequential, "_BLOCK", block)
        results.append(sequential.sequential_start(model, 2, 0.0))
    for nu, tau, _ in results[1:]:
        np.testing.assert_allclose(nu, results[0][0], rtol=1e-10)
        np.testing.assert_allclose(tau, results[0][1], rtol=1e-10)


@pytest.mark.interpreted
@pytest.mark.parametrize("likelihood", ["probit", "logit", "poisson", "gamma(shape=2)"])
def test_newton_squares_the_mismatch(likelihood):
    """Sweeps alone gain a digit each, or less: twice as many are needed."""
    x = np.linspace(0.0, 3.0, 60)[:, None]
    blank = ev.GPModel(x, np.ones(60), "2.0 * RBF(0.5)", likelihood=likelihood)
    assert ev.fit_ep(ev.simulate(blank, random_seed=1).model).n_sweeps <= 6


@pytest.mark.parametrize("kernel", ["400.0 * RBF(3.0)", "2500.0 * RBF(1.0)"])
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_newton_overshoots_in_half_spaces_and_comes_back(kernel, likelihood):
    x = np.linspace(0.0, 10.0, 50)[:, None]
    model = ev.GPModel(x, np.ones(50), kernel, likelihood=likelihood)
    ep = ev.fit_ep(model)
    assert ep.converged
    again = ev.fit_ep(model, start=ep.sites)
    assert again.n_sweeps == 1


def test_running_out_of_sweeps_is_said():
    ep = ev.fit_ep(small_model("probit", 12), max_sweeps=2)
    assert not ep.converged
    assert "did not converge" in ep.warnings[0]


@pytest.mark.parametrize("damping", [0.3, 1.0])
def test_damping_does_not_change_the_fixed_point(damping):
    model = small_model("logit", 12)
    assert ev.fit_ep(model, damping=damping).logz == pytest.approx(
        ev.fit_ep(model).logz, abs=1e-10
    )


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_warm_start_ends_at_the_same_fixed_point(likelihood):
    model = small_model(likelihood, 12)
    near = ev.GPModel(K=1.1 * model.K, y=model.y, mean=model.mean, likelihood=model.likelihood)
    cold, warm = ev.fit_ep(near), ev.fit_ep(near, start=ev.fit_ep(model).sites)
    assert warm.converged
    assert warm.n_sweeps <= cold.n_sweeps
    assert warm.logz == pytest.approx(cold.logz, abs=1e-8)
    np.testing.assert_allclose(warm.mean, cold.mean, atol=1e-7)
    assert ev.fit_ep(near, start=cold.sites).n_sweeps == 1


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_ep_takes_over_what_laplace_has_factorised(likelihood):
    model = small_model(likelihood, 12)
    laplace = ev.fit_laplace(model)
    before = laplace.gaussian.covariance
    ep, plain = ev.fit_ep(model, start=laplace.surrender()), ev.fit_ep(model)
    assert ep.converged
    assert ep.logz == pytest.approx(plain.logz, abs=1e-9)
    np.testing.assert_allclose(ep.cov, plain.cov, rtol=1e-7, atol=1e-9)
    # its memory is EP's now: it is factorised anew
    np.testing.assert_allclose(laplace.cov, before, rtol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ep)).cov, ep.cov)


@pytest.mark.parametrize("tau", [-100.0, 1e8])
def test_a_useless_start_is_left_behind(tau):
    """Σ does not exist, or sites so strong that damped sweeps need long to weaken them."""
    model = small_model("student_t(df=4, scale=0.5)", 12)
    start = reference.Sites(np.zeros(12), np.full(12, -50.0 * tau), np.full(12, tau))
    ep = ev.fit_ep(model, start=start)
    assert ep.converged
    assert ep.logz == pytest.approx(ev.fit_ep(model).logz, abs=1e-8)


def test_a_warm_start_that_runs_out_of_sweeps(monkeypatch):
    monkeypatch.setattr(ep_module, "_MAX_WARM", 1)
    model, other = small_model("probit", 12), small_model("logit", 12)
    cold, warm = ev.fit_ep(model), ev.fit_ep(model, start=ev.fit_ep(other).sites)
    assert warm.logz == cold.logz
    assert warm.n_sweeps == cold.n_sweeps + 1


def test_bad_options():
    model = small_model("probit")
    with pytest.raises(ValueError, match=r"reference\.sites"):
        ev.fit_ep(model, start=np.zeros(3))
    with pytest.raises(ValueError, match="start holds 12 sites but the model has 3"):
        ev.fit_ep(model, start=ev.fit_ep(small_model("probit", 12)).sites)
    other = small_model("probit", 3)
    with pytest.raises(ValueError, match="this model's own prior"):
        ev.fit_ep(model, start=ev.fit_ep(ev.GPModel(K=2.0 * other.K, y=other.y)).gaussian)
    with pytest.raises(ValueError, match="start contains NaN"):
        ev.fit_ep(model, start=reference.Sites(*np.full((3, 3), np.nan)))
    with pytest.raises(ValueError, match="damping"):
        ev.fit_ep(model, damping=0.0)
    with pytest.raises(ValueError, match="max_sweeps"):
        ev.fit_ep(model, max_sweeps=0)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(("seed", "sd", "quantile", "sigma"), [
    (1, 1.0, 0.5, 0.1), (1, 5.0, 0.8, 0.1), (2, 5.0, 0.95, 0.2), (3, 5.0, 0.95, 0.2),
    (3, 5.0, 0.8, 0.1),
])  # fmt: skip
def test_slopes_that_jump(seed, sd, quantile, sigma, sparse):
    """Without curvature Laplace's sites are nothing to start from: EP found no fixed point of
    three of these five, where they are sparse."""
    rng = np.random.default_rng(seed)
    A = np.c_[np.ones(60), rng.normal(size=60), np.eye(6)[np.arange(60) % 6]]
    y = ev.likelihoods.AsymmetricLaplace(0.8, 0.4).simulate(A @ rng.normal(size=8), rng)
    likelihood = ev.likelihoods.AsymmetricLaplace(quantile, sigma)
    if sparse:
        model = ev.SparseModel(csc_array(np.eye(8) / sd**2), y, A=A, likelihood=likelihood)
    else:
        model = ev.GPModel(K=sd**2 * A @ A.T + 1e-4 * np.eye(60), y=y, likelihood=likelihood)
    assert ev.fit_ep(model).converged
