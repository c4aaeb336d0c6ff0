"""Mostly smooth densities for density_truths.py: models, their true log Z, and how each is run."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import integrate, stats
from scipy.special import logsumexp

import evidence as ev
from evidence.approximations.density.fitted import fit_density
from evidence.approximations.density.reference import DensityReference

from .hard import SCHOOLS

_DRAWS = 1_000_000  # of importance sampling, for a truth
_CHUNK = 10_000
_TARGET = 0.1  # standard error of a run: errors as large as that are seen by a z-score too


@dataclass
class Problem:
    """A model, its truth, and the words that ``log_evidence`` gets."""

    model: ev.DensityModel
    truth: float
    truth_se: float = 0.0
    words: dict[str, Any] = field(default_factory=dict)
    by_method: dict[str, dict[str, Any]] = field(default_factory=dict)
    most: int = 1_000_000  # seeds
    weights: Any = None
    assign: Any = None


def problems() -> dict[str, Callable[[], Problem]]:
    """By name, made when needed."""
    found: dict[str, Callable[[], Problem]] = {}
    for dim in (2, 20, 200):
        found[f"Gaussian {dim}-D"] = partial(_gaussian, dim)
    for dim in (2, 20, 200):
        found[f"Gaussian {dim}-D, poor start"] = partial(_poor_start, dim)
    for dim in (2, 5, 20):
        found[f"mixture {dim}-D"] = partial(_mixture, dim)
    found["banana, curvature 0.03"] = partial(_banana, 0.03)
    found["banana, curvature 0.1"] = partial(_banana, 0.1)
    found["conjugate regression"] = _linear
    found["funnel 10+1"] = _funnel
    found["eight schools"] = _schools
    found["logistic 2-D, quadrature"] = _logistic_quadrature
    found["normal(μ, σ), quadrature"] = _normal_quadrature
    if os.environ.get("EVIDENCE_DATA"):
        for name in ("ripley", "heart", "pima", "australian", "german"):
            found[f"logistic {name}"] = partial(_logistic, name)
    return found


def _gaussian(dim: int) -> Problem:
    example = ev.examples.gaussian(dim)
    reference = fit_density(example.model)
    return Problem(example.model, example.logz, words={"reference": reference})


def _poor_start(dim: int) -> Problem:
    """From a reference twice as wide and one standard deviation off in every direction."""
    example = ev.examples.gaussian(dim)
    exact = fit_density(example.model)
    mean = exact.mean + exact.root @ np.ones(dim)
    poor = DensityReference("poor", example.model, mean, 4.0 * exact.cov, example.logz)
    words = {"reference": poor, "target_se": _TARGET}
    return Problem(example.model, example.logz, words=words)


def _mixture(dim: int) -> Problem:
    example = ev.examples.gaussian_mixture(dim)
    words = {"reference": fit_density(example.model), "target_se": _TARGET}
    return Problem(example.model, 0.0, words=words, weights=example.weights, assign=example.assign)


def _banana(curvature: float) -> Problem:
    example = ev.examples.banana(curvature)
    words = {"reference": fit_density(example.model), "target_se": _TARGET}
    return Problem(example.model, 0.0, words=words)


def _linear() -> Problem:
    example = ev.examples.linear_regression()
    words = {"reference": "prior", "target_se": _TARGET}
    return Problem(
        example.model, example.logz, words=words, by_method={"auto": {"reference": None}}
    )


def _funnel() -> Problem:
    return Problem(ev.examples.funnel(10).model, 0.0, words={"target_se": _TARGET})


def _schools() -> Problem:
    """Eight effects beside their mean and log standard deviation: as hard as a funnel."""
    y, se = SCHOOLS
    jnp = importlib.import_module("jax.numpy")

    def normal(x, mean, sd):  # type: ignore[no-untyped-def]
        return -0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd) - 0.5 * math.log(2.0 * math.pi)

    def log_density(p):  # type: ignore[no-untyped-def]
        mu, log_tau, effects = p[0], p[1], p[2:]
        tau = jnp.exp(log_tau)
        prior = normal(mu, 0.0, 5.0) + math.log(2.0 / (5.0 * math.pi)) - jnp.log1p((tau / 5) ** 2)
        return prior + log_tau + jnp.sum(normal(effects, mu, tau) + normal(y, effects, se))

    def marginal(mu, log_tau):  # type: ignore[no-untyped-def]
        prior = stats.norm.logpdf(mu, 0.0, 5.0) + stats.halfcauchy.logpdf(np.exp(log_tau), 0, 5)
        data = stats.norm.logpdf(y, mu, np.hypot(se, np.exp(log_tau))).sum()
        return np.exp(prior + log_tau + data)

    total, _ = integrate.dblquad(marginal, -15.0, 10.0, -30.0, 30.0, epsabs=0.0, epsrel=1e-6)
    model = ev.from_jax(log_density, 10)
    return Problem(model, math.log(total), words={"target_se": _TARGET})


def _logistic_quadrature() -> Problem:
    data = ev.examples.simulated_logistic(2, 100)
    model = ev.examples.logistic_regression(data.X, data.y).model
    fit = fit_density(model)
    return _from_quadrature(model, fit.mean, np.sqrt(np.diag(fit.cov)))


def _normal_quadrature() -> Problem:
    """A mean and a standard deviation, σ > 0 with density 1 / σ² from 0.1 on."""
    y = np.random.default_rng(3).normal(1.0, 2.0, 12)

    def log_density(x: Any) -> Any:
        mu, sigma = x[:, 0], x[:, 1]
        misfit = ((y - mu[:, None]) ** 2).sum(axis=1)
        return -0.5 * misfit / sigma**2 - (len(y) + 2) * np.log(sigma) - 0.005 * mu**2

    def grad(x: Any) -> Any:
        mu, sigma = x[:, 0], x[:, 1]
        away = y - mu[:, None]
        first = away.sum(axis=1) / sigma**2 - 0.01 * mu
        second = (away**2).sum(axis=1) / sigma**3 - (len(y) + 2) / sigma
        return np.stack([first, second], axis=1)

    bounds = [(None, None), (0.1, None)]
    model = ev.DensityModel(log_density, 2, grad=grad, bounds=bounds, vectorized=True)
    fit = fit_density(model)
    return _from_quadrature(model, fit.mean, np.sqrt(np.diag(fit.cov)))


def _from_quadrature(model: ev.DensityModel, centre: np.ndarray, sd: np.ndarray) -> Problem:
    """Nested adaptive quadrature in the model's coordinates, 12 sd either way."""
    top = float(model.log_prob(centre[None])[0])

    def density(x1: float, x0: float) -> float:
        return float(np.exp(model.log_prob(np.array([[x0, x1]]))[0] - top))

    low, high = centre - 12.0 * sd, centre + 12.0 * sd
    total, _ = integrate.dblquad(
        density, low[0], high[0], low[1], high[1], epsabs=0.0, epsrel=1e-9
    )
    words = {"target_se": 0.5 * _TARGET}
    return Problem(model, top + float(np.log(total)), words=words)


def _logistic(name: str) -> Problem:
    data = ev.datasets.load(name)
    X = ev.datasets.standardise(data["X"])
    X = np.column_stack([np.ones(len(X)), X])
    model = ev.examples.logistic_regression(X, data["y"], prior_sd=10.0).model
    reference = fit_density(model)
    truth, error = _importance(model, reference)
    words = {"reference": reference, "target_se": 0.2 * _TARGET}
    return Problem(model, truth, error, words=words, most=5)


def _importance(model: ev.DensityModel, q: DensityReference) -> tuple[float, float]:
    """log Z and its error from many weighted draws of the reference, by its formula alone."""
    rng = np.random.default_rng(2024)
    parts = []
    for _ in range(_DRAWS // _CHUNK):
        z = rng.standard_normal((_CHUNK, model.n))
        y = q.mean + z @ q.root.T
        extra = 0.0 if q.change is None else q.change.log_slope(z).total
        parts.append(model.log_prob(q.to_model(y)) - q.log_base(z) + extra)
    log_w = np.concatenate(parts)
    logz = float(logsumexp(log_w) - np.log(log_w.size))
    relative = np.exp(log_w - logz)
    return logz, float(relative.std(ddof=1) / log_w.size**0.5)
