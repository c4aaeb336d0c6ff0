"""Densities that others wrote: log likelihoods of batches, priors, and log Z by another route.

- Radiata pine (E. J. Williams, Regression Analysis, 1959): strength of 42 specimens on their
  density, plain or adjusted for resin; N. Friel and J. Wyse, Statistica Neerlandica 66 (2012) 288,
  have the priors β | τ ~ N((3000, 185), diag(1/.06, 1/6)/τ), τ ~ gamma(3, rate 2·300²), and
  log Z = −310.128 and −301.705, a closed form.
- Pima (the same review): logistic regression of diabetes of 532 women on pregnancies, glucose,
  body mass and pedigree, and on age besides; all standardised, coefficients N(0, 1/τ).
- ier: six exchange rates, y ~ N(0, BB' + diag(σ²)) with B lower triangular; H. F. Lopes and
  M. West, Statistica Sinica 14 (2004) 41, found two factors. Loadings N(0, 1), those on the
  diagonal positive, 1/σ² ~ gamma(1.1, rate .05).
- posteriordb: eight schools without centring, arK (an autoregression of order 5 on 200 values,
  given the first five) and blr (sblri: 100 values, five coefficients) with Stan's priors; σ > 0
  has a half-normal or half-Cauchy prior whose integral is 1 (Stan's is not: less log 2).
- Nested samplers' own tests, written out in scripts/catalogue/hard.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from scripts.catalogue import hard
from scripts.catalogue.problem import LOG_2PI, Array, Prior, Problem, normal, on_grid
from scripts.published.rows import Row, from_r, posteriordb, problem, research

#: names of nested samplers' tests in this table and in the catalogue
TESTS = {
    "eggbox": "eggbox 2",
    "Gaussian shells": "shells 2",
    "Gaussian shells, 10-d": "shells 10",
    "loggamma": "loggamma 2",
    "loggamma, 10-d": "loggamma 10",
    "Rastrigin": "rastrigin 2",
    "Rosenbrock": "rosenbrock 2",
    "Rosenbrock, 4-d": "rosenbrock 4",
    "hyperrectangle, 5-d": "box 5",
    "hyperrectangle of 1e-4, 2-d": "small box 2",
    "wedding cake, 5-d": "wedding cake 5",
    "four spheres, 5-d": "four spheres 5",
    "spike and slab, 20-d": "spike and slab 20",
    "funnel, 10-d": "funnel 10",
    "correlated normal, 16-d": "correlated 16",
}

#: strength, density and density adjusted for resin
_PINES = """
3040 29.2 25.4 2470 24.7 22.2 3610 32.3 32.2 3480 31.3 31.0 3810 31.5 30.9 2330 24.5 23.9
1800 19.9 19.2 3110 27.3 27.2 3670 32.3 29.0 2310 24.0 23.9 4360 33.8 33.2 1880 21.5 21.0
3670 32.2 29.0 1740 22.5 22.0 2250 27.5 23.8 2650 25.6 25.3 4970 34.5 34.2 2620 26.2 25.7
2900 26.7 26.4 1670 21.1 20.0 2540 24.1 23.9 3840 30.7 30.7 3800 32.7 32.6 4600 32.6 32.5
1900 22.1 20.8 2530 25.3 23.1 2920 30.8 29.8 4990 38.9 38.1 1670 22.1 21.3 3310 29.2 28.5
3450 30.1 29.2 3600 31.4 31.4 2850 26.7 25.9 1590 22.1 21.4 3770 30.3 29.8 3850 32.0 30.6
2480 23.2 22.6 3570 30.3 30.3 2620 29.9 23.8 1890 20.8 18.4 3030 33.2 29.4 3030 28.2 28.2
"""
PINES = np.array(_PINES.split(), float).reshape(-1, 3)

_PIMA = ("npreg", "glu", "bmi", "ped", "age")
#: factors -> log Z and its standard error (scripts/published/tempered.py)
_IER = {1: (-1014.267, 0.004), 2: (-903.246, 0.012)}


def problems() -> dict[str, tuple[str, Callable[[], Problem]]]:
    """By name: source, and what makes it."""
    found = {name: ("nested samplers' tests", hard.PROBLEMS[own]) for name, own in TESTS.items()}
    found["Radiata pine, density"] = "Friel and Wyse", partial(pines, 1)
    found["Radiata pine, adjusted"] = "Friel and Wyse", partial(pines, 2)
    for tau in (0.01, 1.0):
        found[f"Pima, τ = {tau:g}"] = "Friel and Wyse", partial(pima, 4, tau)
        found[f"Pima with age, τ = {tau:g}"] = "Friel and Wyse", partial(pima, 5, tau)
    for factors in _IER:
        found[f"ier, {factors} factors"] = "Lopes and West", partial(ier, factors)
    found["eight schools"] = "posteriordb", partial(hard.eight_schools, 5.0)
    found["arK"] = "posteriordb", ark
    found["blr"] = "posteriordb", blr
    return found


def rows(names: list[str]) -> Iterator[Row]:
    for name in names:
        source, make = problems()[name]
        yield problem(name, source, make())


def pines(column: int) -> Problem:
    x = PINES[:, column]
    return hard.line(x - x.mean(), PINES[:, 0])


def pima(covariates: int, tau: float) -> Problem:
    women = [from_r("MASS", f"Pima.{part}") for part in ("tr", "te")]
    x = np.concatenate([one[list(_PIMA[:covariates])].to_numpy(float) for one in women])
    x = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    ill = np.concatenate([one["type"].to_numpy() == "Yes" for one in women])
    return hard.regression(
        np.column_stack([np.ones(len(x)), x]), np.where(ill, 1.0, -1.0), tau**-0.5
    )


def ier(factors: int) -> Problem:
    y = np.loadtxt(research("published/ier.csv"), delimiter=",", skiprows=1)
    n, p = y.shape
    square = y.T @ y
    row, column = np.tril_indices(p, 0, factors)
    diagonal = row == column

    def log_likelihood(xp: Any, t: Array) -> Array:
        B = np.zeros((*t.shape[:-1], p, factors))
        B[..., row, column] = t[..., : row.size]
        tau = t[..., row.size :]
        W = tau[..., None] * B  # the rest by Woodbury's identity
        M = np.eye(factors) + np.swapaxes(B, -1, -2) @ W
        logdet = np.linalg.slogdet(M)[1] - np.log(tau).sum(axis=-1)
        inner = np.linalg.solve(M, np.swapaxes(W, -1, -2) @ square @ W)
        trace = tau @ np.diagonal(square) - np.trace(inner, axis1=-2, axis2=-1)
        return -0.5 * (n * (p * LOG_2PI + logdet) + trace)

    prior = [Prior("half_normal", 0.0, 1.0) if one else normal(0.0, 1.0) for one in diagonal]
    prior += [Prior("gamma", 1.1, 1.0 / 0.05)] * p
    return Problem(prior, log_likelihood, *_IER[factors])


def ark() -> Problem:
    data = posteriordb("arK")
    y, K = np.array(data["y"]), data["K"]
    lags = [y[K - k : y.size - k] for k in range(1, K + 1)]
    X = np.column_stack([np.ones(y.size - K), *lags])
    return linear(X, y[K:], Prior("half_cauchy", 0.0, 2.5))


def blr() -> Problem:
    data = posteriordb("sblri")
    return linear(np.array(data["X"]), np.array(data["y"]), Prior("half_normal", 0.0, 10.0))


def linear(X: Array, y: Array, noise: Prior, sd: float = 10.0) -> Problem:
    """Coefficients N(0, sd²), σ with a prior of its own, over which the truth is a quadrature."""
    n, d = X.shape

    def log_likelihood(xp: Any, t: Array) -> Array:
        sigma = t[..., d]
        away = y - t[..., :d] @ X.T
        return -0.5 * xp.sum(away**2, axis=-1) / sigma**2 - n * (xp.log(sigma) + 0.5 * LOG_2PI)

    lam, Q = np.linalg.eigh(sd**2 * X @ X.T)
    turned = (Q.T @ y) ** 2

    def given(log_sigma: Array) -> Array:
        var = np.maximum(lam, 0.0) + np.exp(2.0 * log_sigma)[:, None]
        each = -0.5 * (turned / var + np.log(var) + LOG_2PI).sum(axis=1)
        return each + noise.log(np.exp(log_sigma)) + log_sigma

    truth = on_grid(given, -6.0, 6.0, 8001)
    return Problem([normal(0.0, sd)] * d + [noise], log_likelihood, truth)
