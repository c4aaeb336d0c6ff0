"""Problems with exact log Z on which error bars are easily too small: see calibration.py.

Half-spaces, several modes, a core within a slab, shells and plateaus. Every latent Gaussian model
has a common factor, K = v a aᵀ + s² I, so that its log Z is a one-dimensional integral over
products of one-dimensional ones; densities have closed forms, or quadrature in one or two
dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, special, stats
from scipy.special import logsumexp

import evidence as ev

from .hard import PROBLEMS
from .problem import Problem

Array = NDArray[np.float64]
Exact = tuple[Any, float]
"""A model and its log Z."""

_NODES, _MASS = np.polynomial.hermite_e.hermegauss(60)
_MASS = _MASS / _MASS.sum()
_LOG_LIKELIHOOD: dict[str, Callable[[Array, Array], Array]] = {
    "probit": lambda y, x: special.log_ndtr(y * x),
    "logit": lambda y, x: -np.logaddexp(0.0, -y * x),
    "poisson": lambda y, x: stats.poisson.logpmf(y, np.exp(x)),
}


def problems() -> dict[str, Callable[[], Exact]]:
    """By name, made when needed."""
    x = np.linspace(-2.0, 2.0, 60)
    slope = np.where(np.arange(60) % 3, -3.0, 3.0)
    noise = np.random.default_rng(0).standard_t(3, 60)
    return {
        "half-space, probit": partial(factor, "probit", np.ones(25), 1e4, 1e-2),
        "half-space, logit": partial(factor, "logit", np.ones(60), 392.0, 4.0),
        "half-space, counts": partial(factor, "poisson", np.zeros(20), 25.0, 0.1),
        "two groups": partial(student, np.tile([-8.0, 8.0], 50), 3, 1.0, 0.99, 0.01),
        "two slopes": partial(student, slope * x + 0.3 * noise, 3, 0.3, 10.0, 1e-5, x),
        "three groups": partial(student, np.repeat([-8.0, 0.0, 8.0], 3), 3, 0.5, 100.0, 1e-3),
        "counts": partial(factor, "poisson", np.array([0.0, 3, 1, 7, 2, 2, 4, 0]), 2.0, 0.5),
        "core and slab": partial(density, "core and slab 5"),
        "shells": partial(density, "shells 2"),
        "eggbox": partial(density, "eggbox 2"),
        "hidden mode": partial(density, "hidden 3"),
        "double well": partial(density, "double well 1"),
    }


def factor(likelihood: str, y: Array, common: float, own: float) -> Exact:
    """Data that share a latent value of variance ``common``, and have ``own`` each."""
    truth = _factor_truth(_LOG_LIKELIHOOD[likelihood], y, common, own, 1.0, ((0.0, 10.0),))
    K = common + own * np.eye(y.size)
    return ev.GPModel(K=K, y=y, likelihood=likelihood), truth


def student(
    y: Array, df: float, scale: float, common: float, own: float, loading: ArrayLike = 1.0
) -> Exact:
    """Student-t noise around ``loading`` times one number: several modes where data disagree."""
    a = np.broadcast_to(np.asarray(loading, float), y.shape)

    def log_p(b: Array, x: Array) -> Array:
        return np.asarray(stats.t.logpdf(b, df, loc=x, scale=scale))

    near = np.unique(np.round(y[np.abs(a) >= 1.0] / a[np.abs(a) >= 1.0]))
    around = tuple((float(c), 4.0 * scale + 6.0 * own**0.5) for c in near)
    truth = _factor_truth(log_p, y, common, own, a, around)
    K = common * np.outer(a, a) + own * np.eye(y.size)
    return ev.GPModel(K=K, y=y, likelihood=f"student_t(df={df}, scale={scale})"), truth


def _factor_truth(
    log_p: Callable[[Array, Array], Array],
    y: Array,
    common: float,
    own: float,
    loading: ArrayLike,
    around: tuple[tuple[float, float], ...],
) -> float:
    r"""log ∫ N(u; 0, v) Π ∫ p(y_n | a_n u + e) N(e; 0, s²) de du, on a grid finer ``around``."""
    sd = np.sqrt(common)
    pieces = [np.linspace(c - r, c + r, 4001) for c, r in around]
    u = np.unique(np.concatenate([np.linspace(-12.0 * sd, 12.0 * sd, 8001), *pieces]))
    g = stats.norm.logpdf(u, 0.0, sd)
    pairs = np.column_stack([np.broadcast_to(loading, y.shape), y])
    for (a, b), count in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
        x = a * u[:, None] + np.sqrt(own) * _NODES
        g = g + count * logsumexp(log_p(b, x), axis=1, b=_MASS)
    return float(g.max() + np.log(integrate.trapezoid(np.exp(g - g.max()), u)))


def density(name: str) -> Exact:
    """One of those that break samplers."""
    problem = PROBLEMS[name]()
    return with_scipy(problem), problem.truth


def with_scipy(problem: Problem) -> ev.DensityModel:
    """A problem's model with priors of SciPy's."""
    prior = [one.frozen() for one in problem.prior]
    return ev.DensityModel(partial(problem.log_likelihood, np), prior=prior, vectorized=True)
