"""Small models with known answers, shared by all tests."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import logsumexp

from evidence import GPModel
from evidence.approximations.reference import GaussianReference

#: one of each likelihood, with data that pull the latent values about
LIKELIHOODS = {
    "probit": [1.0, -1.0, 1.0],
    "logit": [1.0, 1.0, -1.0],
    "gaussian(noise_std=0.7)": [0.3, -1.2, 2.0],
    "student_t(df=4, scale=0.5)": [0.2, -3.0, 1.5],
    "poisson(exposure=1.5)": [0.0, 3.0, 7.0],
    "negative_binomial(dispersion=2.0)": [0.0, 5.0, 2.0],
}
MEAN = np.array([0.2, -0.1, 0.4])


def covariance(n: int, scale: float = 2.0, length: float = 1.5) -> np.ndarray:
    t = np.arange(n)
    return scale * np.exp(-0.5 * ((t[:, None] - t) / length) ** 2) + 0.05 * scale * np.eye(n)


def small_model(likelihood: str, n: int = 3) -> GPModel:
    y = np.resize(LIKELIHOODS[likelihood], n)
    return GPModel(K=covariance(n), y=y, likelihood=likelihood, mean=np.resize(MEAN, n))


def log_z_by_quadrature(model: GPModel, nodes: int = 80) -> float:
    """log Z for N ≤ 3 by Gauss–Hermite rules in the eigenbasis of the prior."""
    x1, w1 = np.polynomial.hermite_e.hermegauss(nodes)
    x1, w1 = x1[w1 > 0], w1[w1 > 0] / w1.sum()
    grid = np.array(list(itertools.product(x1, repeat=model.n)))
    log_w = np.log(np.array(list(itertools.product(w1, repeat=model.n)))).sum(axis=1)
    values, vectors = np.linalg.eigh(model.K)
    x = model.mean + (grid * np.sqrt(values)) @ vectors.T
    ell = np.zeros(len(x))
    for n in range(model.n):
        one = np.full(len(x), model.y[n])
        ell += model.likelihood.log_prob(x[:, n], one)
    return float(logsumexp(log_w + ell))


def exact_draws(
    rng: np.random.Generator, reference: GaussianReference, beta: float, m: int
) -> np.ndarray:
    """Exact draws from p_β ∝ N(x; m, K) Π t_n^(1-β) Π p(y_n|x_n)^β by rejection.

    The Gaussian part has sites (1-β)(ν, τ); the likelihood is at most its maximum.
    """
    model = reference.model
    tau = (1.0 - beta) * reference.sites.tau
    nu = (1.0 - beta) * reference.sites.nu
    precision = np.linalg.inv(model.K)
    cov = np.linalg.inv(precision + np.diag(tau))
    mean = cov @ (precision @ model.mean + nu)
    peak = np.array([_largest_log_prob(model, n) for n in range(model.n)])
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < m:
        x = rng.multivariate_normal(mean, cov, size=100_000, method="cholesky")
        ell = np.zeros(len(x))
        for n in range(model.n):
            ell += model.likelihood.log_prob(x[:, n], np.full(len(x), model.y[n])) - peak[n]
        assert ell.max() <= 1e-9
        kept.append(x[np.log(rng.random(len(x))) < beta * ell])
    return np.concatenate(kept)[:m]


def _largest_log_prob(model: GPModel, n: int) -> float:
    x = np.linspace(-60.0, 60.0, 240_001)
    value = model.likelihood.log_prob(x, np.full(x.size, model.y[n]))
    return float(value.max()) + 1e-6
