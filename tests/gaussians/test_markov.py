"""Chains with states of several coordinates, repeated inputs and strong sites."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from covering import covering

import evidence as ev
from evidence.gaussians.base import NotPositiveDefinite
from evidence.gaussians.markov import MarkovPrior
from evidence.models.kernels.parse import parse_kernel
from evidence.models.kernels.statespace import chain

N = 60
KERNELS = (
    "2.0 * Matern(1.2, nu=1.5)",
    "2.0 * Matern(1.2, nu=2.5)",
    "2.0 * Matern(3.0, nu=2.5) + Matern(0.4, nu=0.5) + 3.0",
    "Matern(1.2, nu=1.5) + WhiteKernel(0.2)",
)
RNG = np.random.default_rng(0)
MEAN = RNG.standard_normal(N)
APART = RNG.permutation(0.15 * np.arange(N) + 0.1 * RNG.random(N))
REPEATED = APART.copy()
REPEATED[[5, 9, 11]] = REPEATED[[7, 7, 30]]
REPEATED[1] = REPEATED[2] + 1e-12


@pytest.fixture(params=KERNELS)
def kernel(request):
    return parse_kernel(request.param)


@pytest.fixture(params=["positive", "signed", "weak", "none"])
def sites(request):
    rng = np.random.default_rng(3)
    nu, tau = rng.standard_normal(N), rng.gamma(1.0, 1.0, N)
    if request.param == "none":
        return np.zeros(N), np.zeros(N)
    if request.param == "signed":
        tau[::5] = -0.03
    if request.param == "weak":
        tau[::3] = 1e-9
    return nu, tau


def close(found, expected, rtol=1e-9):
    expected = np.asarray(expected)
    atol = rtol * np.abs(expected).max() + 1e-12
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def made(kernel, x, mean=MEAN):
    return MarkovPrior(mean, chain(kernel, x[:, None]))


def exact(kernel, x, sites, mean=MEAN):
    """μ, Σ, R and ½ log|I + KT| with no inverse of K, which may be singular."""
    (nu, tau), K = sites, kernel(x[:, None])
    M = np.eye(len(x)) + K * tau
    cov = np.linalg.solve(M, K)
    R = tau[:, None] * np.linalg.inv(M)
    return mean + cov @ (nu - tau * mean), cov, R, 0.5 * np.linalg.slogdet(M)[1]


@pytest.mark.parametrize("x", [APART, REPEATED], ids=["apart", "repeated"])
def test_gaussians(kernel, x, sites):
    mean, cov, R, half = exact(kernel, x, sites)
    q = made(kernel, x).with_sites(*sites)
    close(q.mean, mean)
    close(kernel(x[:, None]) @ q.dual, mean - MEAN)
    close(q.variances, np.diag(cov))
    close(q.covariance, cov)
    close(q.inner_times(np.eye(N)), R, rtol=1e-8)
    close(q.inner_times(MEAN), R @ MEAN, rtol=1e-8)
    close(q.explained(np.eye(N)), np.diag(R), rtol=1e-8)
    assert q.half_logdet == pytest.approx(half, rel=1e-9)


@pytest.mark.parametrize("x", [APART, REPEATED], ids=["apart", "repeated"])
def test_pair_sums(kernel, x, sites):
    cov = exact(kernel, x, sites)[1]
    kappa = np.random.default_rng(1).standard_normal((7, N))
    rho = np.triu(cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov))), 1)
    expected = [0.0, 0.0, 0.0] + [kappa[l] @ rho**l @ kappa[l] for l in range(3, 7)]
    close(made(kernel, x).with_sites(*sites).pair_sums(kappa), expected)


def joint(steps):
    """Mean and covariance of all latent values, as they are drawn."""
    n = steps.sd.size
    B = np.zeros((n, n))
    for k in range(n):
        row = slice(steps.indptr[k], steps.indptr[k + 1])
        assert (steps.indices[row] < k).all()
        B[k, steps.indices[row]] = steps.weights[row]
    L = np.empty((n, n))
    L[steps.order] = np.linalg.solve(np.eye(n) - B, np.diag(steps.sd))
    mean = np.empty(n)
    mean[steps.order] = steps.mean
    return mean, L @ L.T


@pytest.mark.parametrize("x", [APART, REPEATED], ids=["apart", "repeated"])
def test_steps(kernel, x, sites):
    """Latent values drawn one after the other are predictors with mean μ and covariance Σ."""
    mean, cov = exact(kernel, x, sites)[:2]
    prior = made(kernel, x)
    steps = prior.with_sites(*sites).steps()
    latent_mean, latent_cov = joint(steps)
    A = prior.design.toarray()
    close(A @ latent_mean + prior.offset, mean)
    close(A @ latent_cov @ A.T, cov)
    # each datum sees one latent value, drawn first in its state and with some freedom
    place = np.argsort(steps.order)[A.argmax(axis=1)]
    d = prior.chain.start.shape[0]
    assert A.sum() == N
    assert (place % d == 0).all()
    assert (steps.sd[place] > 0.0).all()


def test_draws_have_mean_and_covariance(kernel, sites):
    """z scores of 60 means and of 100 products; the largest is beyond 4.7 once in 2000."""
    prior, rng = made(kernel, REPEATED), np.random.default_rng(5)
    mean, cov = exact(kernel, REPEATED, sites)[:2]
    q, count = prior.with_sites(*sites), 1000
    x = np.array([q.draw(rng) for _ in range(count)]) - mean
    v = np.diag(cov)
    assert np.abs(x.mean(axis=0) / np.sqrt(v / count)).max() < 4.7
    i, j = rng.integers(0, N, (2, 100))
    spread = np.sqrt((v[i] * v[j] + cov[i, j] ** 2) / count)
    assert np.abs(((x[:, i] * x[:, j]).mean(axis=0) - cov[i, j]) / spread).max() < 4.7


def test_priors(kernel):
    prior, K = made(kernel, APART), kernel(APART[:, None])
    x = np.random.default_rng(2).standard_normal((3, N))
    solved = np.linalg.solve(K, (x - MEAN).T)
    close(prior.solve((x - MEAN).T), solved, rtol=1e-7)
    square = np.einsum("nm,mn->m", solved, x - MEAN)
    close(prior.explained(x - MEAN), square, rtol=1e-7)
    constant = np.linalg.slogdet(2.0 * np.pi * K)[1]
    close(prior.log_density(x), -0.5 * (square + constant), rtol=1e-7)
    variances = np.sqrt(prior.variances)
    drawn = np.array([prior.draw(np.random.default_rng(s)) for s in range(500)])
    # 60 means of 500 draws: the largest is beyond 4.5 standard errors once in 2500
    assert np.abs((drawn - MEAN).mean(axis=0) / variances).max() * np.sqrt(500) < 4.5


def test_repeated_inputs_have_no_density():
    kernel = parse_kernel("Matern(1.0, nu=1.5)")
    prior, cross = made(kernel, REPEATED), kernel(REPEATED[:12, None], REPEATED[:, None])
    assert prior.chain.length < N
    # covariances with something else can be solved for all the same
    close(np.column_stack([prior.times(a) for a in prior.solve(cross.T).T]), cross.T, rtol=1e-6)
    close(prior.explained(cross), np.ones(12), rtol=1e-6)
    with pytest.raises(ev.InputError, match="repeated inputs"):
        prior.log_density(MEAN[None])


def test_signs_of_pivots_tell_whether_there_is_a_gaussian(kernel):
    largest = np.linalg.eigvalsh(kernel(REPEATED[:, None]))[-1]
    prior, nu = made(kernel, REPEATED), np.zeros(N)
    q = prior.with_sites(nu, np.full(N, -(1.0 - 1e-6) / largest))
    assert q.variances.min() > 0.0
    with pytest.raises(NotPositiveDefinite):
        prior.with_sites(nu, np.full(N, -(1.0 + 1e-6) / largest))


SUMS = (
    [(2.0, 0.5, 1.25)],
    [(2.0, 1.5, 1.25)],
    [(2.0, 2.5, 1.25)],
    [(2.0, 2.5, 2.0), (1.0, 0.5, 0.5)],
)


def many_digits(parts, x, nu, tau):
    """μ, Σ, a and ½ log|I + KT| with 80 digits; K a sum of (variance, ν, length scale)."""
    n = len(x)
    with mp.workdps(80):
        K = mp.zeros(n, n)
        for i, j in np.ndindex(n, n):
            for variance, smooth, scale in parts:
                z = mp.sqrt(2 * smooth) * abs(mp.mpf(x[i]) - mp.mpf(x[j])) / scale
                polynomial = {0.5: 1, 1.5: 1 + z, 2.5: 1 + z + z * z / 3}[smooth]
                K[i, j] += variance * polynomial * mp.exp(-z)
        T, b = mp.diag([mp.mpf(t) for t in tau]), mp.matrix(nu.tolist())
        M = mp.eye(n) + K * T
        cov = mp.inverse(M) * K
        mean = cov * b
        half = float(mp.log(mp.det(M)) / 2)
        found = [np.array(a.tolist(), float) for a in (mean, cov, b - T * mean)]
    return found[0][:, 0], found[1], found[2][:, 0], half


@pytest.mark.parametrize(
    ("parts", "gap", "strength"), covering(SUMS, [1e-3, 1e-6, 1e-12], [1.0, 1e4, 1e8])
)
def test_inputs_that_nearly_meet(parts, gap, strength):
    """Pairs of inputs ``gap`` apart, with sites that contradict each other."""
    n, rng = 12, np.random.default_rng(7)
    x = np.repeat(np.sort(rng.uniform(0.0, 5.0, n // 2)), 2) + gap * (np.arange(n) % 2)
    nu, tau = strength * rng.standard_normal(n), strength * rng.gamma(2.0, 1.0, n)
    mean, cov, dual, half = many_digits(parts, x, nu, tau)
    text = " + ".join(f"{v} * Matern({scale}, nu={smooth})" for v, smooth, scale in parts)
    prior = made(parse_kernel(text), x, np.zeros(n))
    q = prior.with_sites(nu, tau)
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(q.mean / sd, mean / sd, atol=1e-7 * strength**0.5)
    np.testing.assert_allclose(q.variances, sd**2, rtol=1e-7)
    np.testing.assert_allclose(q.dual, dual, atol=1e-7 * np.abs(dual).max())
    assert q.half_logdet == pytest.approx(half, rel=1e-9)
    A = prior.design.toarray()
    drawn = A @ joint(q.steps())[1] @ A.T
    np.testing.assert_allclose(drawn / np.outer(sd, sd), cov / np.outer(sd, sd), atol=1e-6)
