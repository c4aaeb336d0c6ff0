"""Algorithms 2-4 of the RMHMC report, transcribed line by line for probit: a slow oracle.

The one change: in Algorithm 4, line 18, the prior's term enters with a minus. The variable
names are the report's; ``Sigma_tilde`` is the vector of site variances 1/τ.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm


def derivatives(x, y, L_K, logdet_K, mu, L_Sigma, logdet_Sigma, beta, prior):
    N = x.size
    z = y * x
    L = np.sum(norm.logcdf(z))
    normal = z > -15
    dL = np.empty(N)
    dL[normal] = (2 * np.pi) ** -0.5 * np.exp(-0.5 * z[normal] ** 2) / norm.cdf(z[normal])
    dL[~normal] = -z[~normal] - 1 / z[~normal] + 2 / z[~normal] ** 3
    dL = y * dL
    f = np.linalg.solve(L_K, x)
    if prior:
        value = beta * L - N / 2 * np.log(2 * np.pi) - 0.5 * logdet_K - 0.5 * f @ f
        return value, beta * dL - np.linalg.solve(L_K.T, f)
    f2 = np.linalg.solve(L_Sigma, x - mu)
    value = (
        beta * L
        - N / 2 * np.log(2 * np.pi)
        - beta * (0.5 * logdet_K + 0.5 * f @ f)
        - (1 - beta) * (0.5 * logdet_Sigma + 0.5 * f2 @ f2)
    )
    gradient = (
        beta * dL - beta * np.linalg.solve(L_K.T, f) - (1 - beta) * np.linalg.solve(L_Sigma.T, f2)
    )
    return value, gradient


def riemann_metric(x, y, K, L_K, logdet_K, mu, Sigma_tilde, L_Sigma, logdet_Sigma, beta, prior):
    value, gradient = derivatives(x, y, L_K, logdet_K, mu, L_Sigma, logdet_Sigma, beta, prior)
    z = y * x
    r = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) - norm.logcdf(z)
    lam = z * np.exp(r) + np.exp(2 * r)
    lam = beta * lam
    dg = y * (1 - x**2) * np.exp(r) - 3 * x * np.exp(2 * r) - 2 * y * np.exp(3 * r)
    dg = beta * dg
    s = np.sqrt(lam)
    identity = np.eye(x.size)
    if prior:
        L = np.linalg.cholesky(identity + K * np.outer(s, s))
        V = np.linalg.solve(L, s[:, None] * K)
        G_inv = K - V.T @ V
        logdet_G = -2 * np.sum(np.log(np.diag(L_K))) + 2 * np.sum(np.log(np.diag(L)))
    else:
        t = np.sqrt(1 - beta) * Sigma_tilde**-0.5
        L = np.linalg.cholesky(identity + K * np.outer(t, t))
        V = np.linalg.solve(L, t[:, None] * K)
        A = K - V.T @ V
        logdet_A_inv = -2 * np.sum(np.log(np.diag(L_K))) + 2 * np.sum(np.log(np.diag(L)))
        L = np.linalg.cholesky(identity + A * np.outer(s, s))
        V = np.linalg.solve(L, s[:, None] * A)
        G_inv = A - V.T @ V
        logdet_G = logdet_A_inv + 2 * np.sum(np.log(np.diag(L)))
    return value, gradient, G_inv, logdet_G, dg


def hamiltonian_and_gradient(value, gradient, G_inv, logdet_G, dg, p):
    H = 0.5 * p @ G_inv @ p + 0.5 * logdet_G - value
    w = G_inv @ p
    dH = 0.5 * (dg * np.diag(G_inv)) - 0.5 * (w * w * dg) - gradient
    return H, dH
