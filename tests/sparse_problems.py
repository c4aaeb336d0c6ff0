"""Sparse models with a dense twin, or with an exact log Z."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import evidence as ev


def random_precision(n, rng, density=0.05):
    """Sparse and well conditioned."""
    R = sp.random_array((n, n), density=density, rng=rng)
    return sp.csc_array(R @ R.T + sp.eye_array(n))


def random_design(N, n, rng, density=0.08):
    """Every datum sees some latent value."""
    one = sp.csr_array((np.ones(N), (np.arange(N), rng.integers(0, n, N))), shape=(N, n))
    return sp.csr_array(sp.random_array((N, n), density=density, rng=rng)) + one


def data_for(likelihood, N, rng):
    """Observations that the likelihood takes."""
    name = likelihood.partition("(")[0]
    if name in ("probit", "logit", "cloglog"):
        return np.where(rng.random(N) < 0.6, 1, -1)
    if name == "binomial":
        return rng.integers(0, 6, N)
    if name == "gamma":
        return rng.gamma(3.0, 0.5, N)
    if name == "ordinal":
        return rng.integers(0, 4, N)
    return rng.normal(size=N) if name in ("gaussian", "student_t") else rng.poisson(2.0, N)


def twins(likelihood, structure="design", seed=0):
    """The same model by a sparse precision and by a covariance matrix."""
    rng = np.random.default_rng(seed)
    if structure == "ring":
        n = N = 24
        Q, C = ring(n), np.ones((1, n))
        A, K = sp.csr_array(sp.eye_array(n)), np.linalg.pinv(Q.toarray())
    elif structure == "constrained":
        n, N = 20, 30
        Q, A = random_precision(n, rng), random_design(N, n, rng)
        C = rng.normal(size=(2, n))
        S = np.linalg.inv(Q.toarray())
        K = S - S @ C.T @ np.linalg.solve(C @ S @ C.T, C @ S)
    else:
        n, N = 24, 36
        Q, A, C = random_precision(n, rng), random_design(N, n, rng), None
        K = np.linalg.inv(Q.toarray())
    mean, offset = 0.2 * rng.normal(size=n), 0.3 * rng.normal(size=N)
    if C is not None:
        mean -= np.linalg.pinv(C) @ (C @ mean)
    y, dense = data_for(likelihood, N, rng), A.toarray()
    sparse = ev.SparseModel(
        Q, y, likelihood=likelihood, A=A, mean=mean, offset=offset, constraints=C
    )
    covariance = dense @ K @ dense.T
    covariance.flat[:: N + 1] += 1e-9 * np.trace(covariance) / N
    twin = ev.GPModel(K=covariance, y=y, likelihood=likelihood, mean=dense @ mean + offset)
    return sparse, twin


def ring(n):
    """The intrinsic precision of differences between neighbours on a ring."""
    step = sp.eye_array(n) - sp.csc_array(
        (np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n)
    )
    return sp.csc_array(step.T @ step)


def chain(n, coefficient, noise, initial=1.0):
    """Precision of x₁ ~ N(0, initial), x_t = coefficient · x_{t-1} + N(0, noise)."""
    diagonal = np.full(n, (1.0 + coefficient**2) / noise)
    diagonal[0], diagonal[-1] = 1.0 / initial + coefficient**2 / noise, 1.0 / noise
    if n == 1:
        diagonal[0] = 1.0 / initial
    beside = np.full(n - 1, -coefficient / noise)
    return sp.csc_array(sp.diags_array([beside, diagonal, beside], offsets=[-1, 0, 1]))


def filtered_log_z(log_likelihood, y, coefficient, noise, initial=1.0, points=801, reach=9.0):
    """log Z of a chain by a filter on a grid: exact to about 1e-6 for smooth likelihoods."""
    stationary = noise / (1.0 - coefficient**2) if abs(coefficient) < 1.0 else initial
    sd = np.sqrt(max(stationary, initial))
    x = np.linspace(-reach * sd, reach * sd, points)
    step = x[1] - x[0]
    density = np.exp(-0.5 * x**2 / initial) / np.sqrt(2 * np.pi * initial)
    move = np.exp(-0.5 * (x[:, None] - coefficient * x) ** 2 / noise)
    move *= step / np.sqrt(2 * np.pi * noise)
    total = 0.0
    for t, one in enumerate(y):
        if t:
            density = move @ density
        log_l = log_likelihood(one, x)
        top = log_l.max()
        density = density * np.exp(log_l - top)
        mass = density.sum() * step
        total += top + np.log(mass)
        density /= mass
    return total
