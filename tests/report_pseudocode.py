"""Algorithms 1-4 of the RMHMC report, transcribed line by line for probit: a slow oracle.

Two changes: in Algorithm 4, line 18, the prior's term enters with a minus, and in Algorithm 1,
line 7, the momentum is N(0, G). With a large ``f_max`` the fixed points converge. The variable
names are the report's; ``Sigma_tilde`` is the vector of site variances 1/τ.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr, ndtr


def derivatives(x, y, L_K, logdet_K, mu, L_Sigma, logdet_Sigma, beta, prior):
    N = x.size
    z = y * x
    L = np.sum(log_ndtr(z))
    normal = z > -15
    dL = np.empty(N)
    dL[normal] = (2 * np.pi) ** -0.5 * np.exp(-0.5 * z[normal] ** 2) / ndtr(z[normal])
    dL[~normal] = -z[~normal] - 1 / z[~normal] + 2 / z[~normal] ** 3
    dL = y * dL
    f = solve_triangular(L_K, x, lower=True)
    if prior:
        value = beta * L - N / 2 * np.log(2 * np.pi) - 0.5 * logdet_K - 0.5 * f @ f
        return value, beta * dL - solve_triangular(L_K, f, lower=True, trans=1)
    f2 = solve_triangular(L_Sigma, x - mu, lower=True)
    value = (
        beta * L
        - N / 2 * np.log(2 * np.pi)
        - beta * (0.5 * logdet_K + 0.5 * f @ f)
        - (1 - beta) * (0.5 * logdet_Sigma + 0.5 * f2 @ f2)
    )
    gradient = (
        beta * dL
        - beta * solve_triangular(L_K, f, lower=True, trans=1)
        - (1 - beta) * solve_triangular(L_Sigma, f2, lower=True, trans=1)
    )
    return value, gradient


def riemann_metric(x, y, K, L_K, logdet_K, mu, Sigma_tilde, L_Sigma, logdet_Sigma, beta, prior):
    value, gradient = derivatives(x, y, L_K, logdet_K, mu, L_Sigma, logdet_Sigma, beta, prior)
    z = y * x
    r = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z)
    lam = z * np.exp(r) + np.exp(2 * r)
    lam = beta * lam
    dg = y * (1 - x**2) * np.exp(r) - 3 * x * np.exp(2 * r) - 2 * y * np.exp(3 * r)
    dg = beta * dg
    s = np.sqrt(lam)
    identity = np.eye(x.size)
    if prior:
        L = np.linalg.cholesky(identity + K * np.outer(s, s))
        V = solve_triangular(L, s[:, None] * K, lower=True)
        G_inv = K - V.T @ V
        logdet_G = -2 * np.sum(np.log(np.diag(L_K))) + 2 * np.sum(np.log(np.diag(L)))
    else:
        t = np.sqrt(1 - beta) * Sigma_tilde**-0.5
        L = np.linalg.cholesky(identity + K * np.outer(t, t))
        V = solve_triangular(L, t[:, None] * K, lower=True)
        A = K - V.T @ V
        logdet_A_inv = -2 * np.sum(np.log(np.diag(L_K))) + 2 * np.sum(np.log(np.diag(L)))
        L = np.linalg.cholesky(identity + A * np.outer(s, s))
        V = solve_triangular(L, s[:, None] * A, lower=True)
        G_inv = A - V.T @ V
        logdet_G = logdet_A_inv + 2 * np.sum(np.log(np.diag(L)))
    return value, gradient, G_inv, logdet_G, dg


def hamiltonian_and_gradient(value, gradient, G_inv, logdet_G, dg, p):
    H = 0.5 * p @ G_inv @ p + 0.5 * logdet_G - value
    w = G_inv @ p
    dH = 0.5 * (dg * np.diag(G_inv)) - 0.5 * (w * w * dg) - gradient
    return H, dH


def constants(reference, beta):
    """The arguments of :func:`riemann_metric` after x, for a fitted reference with zero mean."""
    model, sites = reference.model, reference.sites
    prior = not sites.tau.any()
    L_K = np.linalg.cholesky(model.K)
    cov = reference.cov
    L_Sigma = np.linalg.cholesky(cov)
    with np.errstate(divide="ignore"):
        variances = 1.0 / sites.tau
    logdets = [2 * np.sum(np.log(np.diag(L))) for L in (L_K, L_Sigma)]
    return (
        model.y, model.K, L_K, logdets[0], reference.mean, variances, L_Sigma, logdets[1], beta,
        prior,
    )  # fmt: skip


def rmhmc_proposal(x, p, l_max, eps, f_max, fixed):
    """Lines 8-29 of Algorithm 1: the end of the trajectory from (x, p), and H there and here."""
    metric = riemann_metric(x, *fixed)
    H_old, dHdx = hamiltonian_and_gradient(*metric, p)
    for _ in range(l_max):
        for _ in range(f_max):
            p_new = p - 0.5 * eps * dHdx
            _, dHdx = hamiltonian_and_gradient(*metric, p_new)
        p = p_new
        dHdp = metric[2] @ p
        dHdp_new = dHdp
        for _ in range(f_max):
            x_new = x + 0.5 * eps * (dHdp + dHdp_new)
            metric = riemann_metric(x_new, *fixed)
            dHdp_new = metric[2] @ p
        x = x_new
        _, dHdx = hamiltonian_and_gradient(*metric, p)
        p = p - 0.5 * eps * dHdx
        H, dHdx = hamiltonian_and_gradient(*metric, p)
    return x, p, H_old, H
