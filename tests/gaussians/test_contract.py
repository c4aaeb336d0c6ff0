"""Every implementation against the equations of the contract; every caller with any of them."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from gaussians.markov import MarkovModel, MarkovPrior, autoregression

import evidence as ev
from evidence.approximations.gp.correction import second_order_terms
from evidence.gaussians.base import NotPositiveDefinite
from evidence.gaussians.dense import DensePrior
from evidence.gaussians.markov import MarkovPrior as StatesPrior
from evidence.models.kernels.parse import parse_kernel
from evidence.models.kernels.statespace import chain
from evidence.proposals.guide import make_guide

N = 40
BANDS = autoregression(N, 0.9, 2.0)
Q = np.diag(BANDS[0]) + np.diag(BANDS[1], 1) + np.diag(BANDS[1], -1)
K = np.linalg.inv(Q)
MEAN = np.linspace(-1.0, 1.0, N)


def dense():
    return DensePrior(MEAN, np.ascontiguousarray(K), np.asfortranarray(np.linalg.cholesky(K)))


def markov():
    return MarkovPrior(MEAN, *BANDS)


def site_parameters(kind):
    rng = np.random.default_rng(3)
    nu, tau = rng.standard_normal(N), rng.gamma(1.0, 1.0, N)
    if kind == "none":
        return np.zeros(N), np.zeros(N)
    if kind == "signed":
        tau[::5] = -0.05
    if kind == "weak":
        tau[::3] = 1e-9
    return nu, tau


@pytest.fixture(params=["positive", "signed", "weak", "none"])
def sites(request):
    return site_parameters(request.param)


def chain_of_states():
    """The same covariances, those of a Matérn kernel with ν = ½."""
    kernel = parse_kernel(f"2.0 * Matern({-1.0 / np.log(0.9)}, nu=0.5)")
    return StatesPrior(MEAN, chain(kernel, np.arange(float(N))[:, None]))


@pytest.fixture(params=[dense, markov, chain_of_states])
def prior(request):
    return request.param()


def close(found, expected, rtol=1e-9):
    expected = np.asarray(expected)
    atol = rtol * np.abs(expected).max() + 1e-12
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def test_priors(prior):
    rng = np.random.default_rng(0)
    v, x = rng.standard_normal(N), rng.standard_normal((3, N))
    close(prior.variances, np.diag(K))
    close(prior.times(v), K @ v)
    close(prior.solve(v), Q @ v)
    close(prior.solve(x.T), Q @ x.T)
    close(prior.explained(x), np.diag(x @ Q @ x.T))
    away = x - MEAN
    constant = np.linalg.slogdet(2 * np.pi * K)[1]
    close(prior.log_density(x), -0.5 * (np.diag(away @ Q @ away.T) + constant))


def test_gaussians(prior, sites):
    nu, tau = sites
    q = prior.with_sites(nu, tau)
    cov = np.linalg.inv(Q + np.diag(tau))
    mean = cov @ (Q @ MEAN + nu)
    R = Q - Q @ cov @ Q
    rng = np.random.default_rng(0)
    v, x = rng.standard_normal(N), rng.standard_normal((3, N))
    close(q.mean, mean)
    close(q.dual, Q @ (mean - MEAN), rtol=1e-8)
    close(q.variances, np.diag(cov))
    close(q.covariance, cov)
    close(q.solve(v), cov @ v)
    close(q.inner_times(v), R @ v, rtol=1e-8)
    close(q.inner_times(x.T), R @ x.T, rtol=1e-8)
    close(q.explained(x), np.diag(x @ R @ x.T), rtol=1e-8)
    half = 0.5 * np.linalg.slogdet(np.eye(N) + K * tau)[1]
    assert q.half_logdet == pytest.approx(half, rel=1e-9)
    # log Z_q: prior times sites over q, at any point
    c = rng.standard_normal(N)
    log_q = -0.5 * np.sum((x - mean) @ np.linalg.inv(cov) * (x - mean), axis=1)
    log_q -= 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
    together = prior.log_density(x) + np.sum(c + nu * x - 0.5 * tau * x**2, axis=1)
    close(np.full(3, q.log_normaliser(c)), together - log_q)


def test_response_is_exact_for_a_site_that_changes_alone():
    nu, tau = site_parameters("positive")
    tau[3] = 0.0  # left alone
    response = dense().with_sites(nu, tau).response(1e-12)
    for j in (0, 17, N - 1):
        for change in (2.0, -0.5 * tau[j]):
            d_nu, d_tau = np.zeros(N), np.zeros(N)
            d_nu[j], d_tau[j] = 1.5, change
            mean, var = response(d_nu, d_tau)
            other = dense().with_sites(nu + d_nu, tau + d_tau)
            rest = np.arange(N) != 3
            close(mean[rest], other.mean[rest])
            close(var[j], other.variances[j])


def test_response_is_right_to_first_order_and_exact_for_means():
    nu, tau = site_parameters("positive")
    rng = np.random.default_rng(5)
    d_nu, d_tau = rng.standard_normal(N), rng.uniform(-0.5, 0.5, N) * tau
    response, errors = dense().with_sites(nu, tau).response(1e-12), []
    for step in (1.0, 1e-3, 1e-4):
        mean, var = response(step * d_nu, step * d_tau)
        other = dense().with_sites(nu + step * d_nu, tau + step * d_tau)
        close(mean, other.mean)
        errors.append(abs(var - other.variances).max())
    assert errors[2] < 0.02 * errors[1]


@pytest.mark.parametrize("error", [1e-1, 1e-3])
def test_response_keeps_its_promise(error):
    nu, tau = site_parameters("positive")
    rng = np.random.default_rng(6)
    d_nu, d_tau = rng.standard_normal(N), rng.uniform(-0.5, 2.0, N) * tau
    q = dense().with_sites(nu, tau)
    for step in (1.0, 1.01, -0.5):
        mean, _ = q.response(error)(step * d_nu, abs(step) * d_tau)
        other = dense().with_sites(nu + step * d_nu, tau + abs(step) * d_tau)
        assert (abs(mean - other.mean) <= error * np.sqrt(q.variances)).all()


def test_threads_may_ask_at_once():
    """Variances and covariance are made in the same memory, one after the other."""
    rng, n, together = np.random.default_rng(0), 700, Barrier(4)
    K = np.exp(-0.5 * (rng.standard_normal((n, 1)) - rng.standard_normal(n)) ** 2)
    K = K @ K.T / n + 0.1 * np.eye(n)
    prior, sites = DensePrior(np.zeros(n), K, np.linalg.cholesky(K)), (np.ones(n), np.ones(n))
    truth = np.linalg.inv(np.linalg.inv(K) + np.eye(n))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            q = prior.with_sites(*sites)
            list(pool.map(lambda _, q=q: (together.wait(), q.couplings), range(4)))
            np.testing.assert_allclose(q.covariance, truth, atol=1e-9)
        again = pickle.loads(pickle.dumps(q))
        np.testing.assert_allclose(again.covariance, truth, atol=1e-9)


def test_no_response():
    assert dense().with_sites(*site_parameters("none")).response(0.1) is None
    assert dense().with_sites(*site_parameters("signed")).response(0.1) is None
    assert markov().with_sites(*site_parameters("positive")).response(0.1) is None


@pytest.mark.parametrize("power", [(-1, 0), (-8, 4), (2, 6)])
@pytest.mark.parametrize("amplitude", [1.0, 1e4])
def test_covariance_of_strong_and_weak_sites(power, amplitude):
    """Against the difference K - V^T V in long double, in standard deviations."""
    rng = np.random.default_rng(3)
    n, x = 60, rng.standard_normal((60, 2))
    K = amplitude * np.exp(-0.5 * np.sum((x[:, None] - x) ** 2, axis=-1)) + 1e-8 * np.eye(n)
    tau = 10.0 ** rng.uniform(*power, n)
    tau[3] = 0.0
    q = DensePrior(np.zeros(n), K, np.linalg.cholesky(K)).with_sites(np.zeros(n), tau)
    s = np.sqrt(tau.astype(np.longdouble))
    L, V = s[:, None] * K * s + np.eye(n), s[:, None] * K
    for j in range(n):  # NumPy factorises doubles only
        L[j:, j] = (L[j:, j] - L[j:, :j] @ L[j, :j]) / np.sqrt(L[j, j] - L[j, :j] @ L[j, :j])
        V[j] = (V[j] - L[j, :j] @ V[:j]) / L[j, j]
    truth = K - V.T @ V
    sd = np.sqrt(np.diag(truth))
    assert (abs(q.covariance - truth) / np.outer(sd, sd)).max() < 1e-7
    np.testing.assert_array_equal(q.covariance, q.covariance.T)


def test_pair_sums(prior, sites):
    q = prior.with_sites(*sites)
    kappa = np.random.default_rng(1).standard_normal((6, N))
    sd = np.sqrt(np.diag(q.covariance))
    rho = np.triu(q.covariance / np.outer(sd, sd), 1)
    expected = [0.0, 0.0, 0.0] + [kappa[l] @ rho**l @ kappa[l] for l in range(3, 6)]
    close(q.pair_sums(kappa), expected)


@pytest.mark.parametrize("size", [1, 7, N])
@pytest.mark.parametrize("prior", [dense, markov], indirect=True)
def test_conditionals(prior, sites, size):
    """Drawn block by block, x = μ + L ε with L Lᵀ = Σ in the order that was chosen."""
    q = prior.with_sites(*sites)
    drawn = q.conditionals(np.random.default_rng(2).permutation(N))
    drawn = pickle.loads(pickle.dumps(drawn))
    eps, values = np.eye(N), np.zeros((N, N))
    for start in range(0, N, size):
        block = slice(start, min(start + size, N))
        drawn.means(block, eps, values)
        values[block] += drawn.inner(block) @ eps[block]
    cov = q.covariance[np.ix_(drawn.order, drawn.order)]
    close(drawn.mean, q.mean[drawn.order])
    L = values - drawn.mean[:, None]
    close(L @ L.T, cov)
    close(np.diag(L), drawn.sd)
    close(drawn.colour(eps), L)
    close(drawn.times(eps), cov)


def test_draws_have_the_covariance(prior):
    """z scores of the moments of 2000 draws: the largest of 2 · 40 is beyond 4.5 once in 2000."""
    rng = np.random.default_rng(5)
    for q in (prior, prior.with_sites(*site_parameters("positive"))):
        x = np.array([q.draw(rng) for _ in range(2000)])
        z = (x - q.mean) / np.sqrt(q.variances)
        assert np.abs(z.mean(axis=0)).max() * np.sqrt(2000) < 4.5
        assert np.abs((z**2).mean(axis=0) - 1.0).max() * np.sqrt(2000 / 2) < 4.5


def test_memory_that_is_reused_changes_nothing(prior):
    first, second = site_parameters("positive"), site_parameters("weak")
    old = prior.with_sites(*first)
    new, fresh = prior.with_sites(*second, reuse=old), prior.with_sites(*second)
    assert np.array_equal(new.mean, fresh.mean)
    assert np.array_equal(new.variances, fresh.variances)


def test_no_gaussian(prior):
    with pytest.raises(NotPositiveDefinite):
        prior.with_sites(np.zeros(N), np.full(N, -10.0))


# -- callers: the same numbers whatever the prior is made of -----------------------------------


def twins(likelihood, y):
    words = dict(likelihood=likelihood, mean=0.3)
    return ev.GPModel(None, y, K=K, jitter=0.0, **words), MarkovModel(BANDS, y, **words)


RNG = np.random.default_rng(8)
LATENT = 0.3 + np.linalg.cholesky(K) @ RNG.standard_normal(N)
CASES = {
    "probit": np.where(RNG.random(N) < 0.5, 1, -1),
    "logit": np.where(LATENT + RNG.standard_normal(N) > 0.0, 1, -1),
    "poisson": RNG.poisson(np.exp(LATENT)),
    "student_t(df=4, scale=0.5)": LATENT + 0.5 * RNG.standard_t(4, N),
}


@pytest.fixture(params=CASES)
def pair(request):
    return twins(request.param, CASES[request.param])


def test_laplace(pair):
    a, b = map(ev.fit_laplace, pair)
    close(b.logz, a.logz)
    close(b.mean, a.mean, rtol=1e-7)
    close(b.var, a.var, rtol=1e-7)


def test_ep_and_its_correction(pair):
    a, b = map(ev.fit_ep, pair)
    assert a.converged
    assert b.converged
    close(b.logz, a.logz)
    close(b.mean, a.mean, rtol=1e-7)
    close(b.var, a.var, rtol=1e-7)
    close(second_order_terms(pair[1], b.gaussian)[0], a.correction, rtol=1e-6)


def test_guided_draws(pair):
    """Both are unbiased for Z; 16 runs of 256 draws, 4 standard errors of their difference."""
    estimates = []
    for model in pair:
        guide = make_guide(ev.fit_ep(model))
        runs = []
        for seed in range(16):
            log_w = guide.draw(256, np.random.default_rng(seed))[1]
            runs.append(guide.log_z0 + np.log(np.mean(np.exp(log_w))))
        estimates.append((np.mean(runs), np.var(runs) / 16))
    (a, va), (b, vb) = estimates
    assert abs(a - b) < 4.0 * np.sqrt(va + vb) + 1e-6
    assert np.sqrt(va + vb) < 0.05


def test_moves_and_paths(pair):
    """The base coordinates and the densities of the path need the contract only."""
    dense_path, chain_path = (ev.Path(ev.fit_laplace(model)) for model in pair)
    x = np.random.default_rng(0).standard_normal((3, N))
    close(chain_path.tilt(x), dense_path.tilt(x), rtol=1e-7)
    close(chain_path.gradient(x, 0.5), dense_path.gradient(x, 0.5), rtol=1e-7)
    frame = chain_path.coordinates("base")
    close(frame.to_latent(frame.from_latent(x)), x, rtol=1e-7)
