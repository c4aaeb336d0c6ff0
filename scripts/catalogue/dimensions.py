"""Densities in many dimensions with their log Z: truths_at_dimension.py and beyond_elbos.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import expit, gammaln, logsumexp

import evidence as ev

from .necks import Necked
from .problem import LOG_2PI as _LOG_2PI

_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(80)


class Known(NamedTuple):
    """A model, and log Z with its standard error: NaN where nobody knows."""

    model: Any
    truth: float
    truth_se: float = 0.0


def autoregressive(dim: int = 1000, phi: float = 0.9) -> Known:
    """A normal prior times a normal density whose coordinates are a chain."""
    mean = np.random.default_rng(dim).normal(size=dim)
    cov = 0.1 * phi ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    precision, logdet = np.linalg.inv(cov), np.linalg.slogdet(2.0 * np.pi * cov)[1]

    def log_density(x):  # type: ignore[no-untyped-def]
        away = x - mean
        return -0.5 * (np.einsum("mi,mi->m", away @ precision, away) + logdet)

    both = cov + np.eye(dim)
    truth = -0.5 * (np.linalg.slogdet(2.0 * np.pi * both)[1] + mean @ np.linalg.solve(both, mean))
    model = ev.DensityModel(
        log_density, dim, grad=lambda x: (mean - x) @ precision,
        prior=ev.GaussianPrior(np.zeros(dim)), vectorized=True,
    )  # fmt: skip
    return Known(model, float(truth))


def regression(X: np.ndarray, y: np.ndarray, sd: float, target_se: float = 0.02) -> Known:
    """Logistic, labels ±1; the truth is that of the same model as a Gaussian process."""
    dim = X.shape[1]

    def log_density(b):  # type: ignore[no-untyped-def]
        return -np.logaddexp(0.0, -y * (b @ X.T)).sum(axis=1)

    model = ev.DensityModel(
        log_density, dim, grad=lambda b: (expit(-y * (b @ X.T)) * y) @ X,
        prior=ev.GaussianPrior(np.zeros(dim), sd**2), vectorized=True,
    )  # fmt: skip
    if target_se > 0.0:
        same = ev.GPModel(K=sd**2 * X @ X.T, y=y, likelihood="logit", jitter=1e-8)
        truth = ev.log_evidence(same, target_se=target_se, random_seed=7, progressbar=False)
        return Known(model, truth.logz, truth.logz_se)
    return Known(model, math.nan)


def simulated_regression(dim: int = 500, n: int = 2000) -> Known:
    rng = np.random.default_rng(dim)
    X = rng.normal(size=(n, dim)) / math.sqrt(dim)
    y = np.where(rng.random(n) < expit(X @ rng.normal(0.0, 3.0, dim)), 1.0, -1.0)
    return regression(X, y, 3.0)


def modes(
    dim: int, means: np.ndarray, shares: np.ndarray, box: float, nu: float | None = None
) -> Known:
    """A mixture of normals of unit variance, or of products of Student's t, in a box."""
    log_shares = np.log(shares)
    if nu is None:
        inside = np.zeros(len(means))
        single = partial(_normal, constant=-0.5 * dim * _LOG_2PI)
    else:
        t = stats.t(nu)
        inside = np.log(t.cdf(box - means) - t.cdf(-box - means)).sum(axis=1)
        single = partial(_student, nu=nu, constant=dim * float(t.logpdf(0.0)))

    def both(x):  # type: ignore[no-untyped-def]
        value, slope = single(x[:, None, :] - means)
        value = value + log_shares
        total = logsumexp(value, axis=1)
        part = np.exp(value - total[:, None])
        return total, np.einsum("mk,mki->mi", part, slope)

    model = ev.DensityModel(
        lambda x: both(x)[0], dim, grad=lambda x: both(x)[1], vectorized=True,
        prior=[(-box, box)] * dim,
    )  # fmt: skip
    return Known(model, float(logsumexp(log_shares + inside) - dim * math.log(2.0 * box)))


def _normal(away: np.ndarray, constant: float) -> tuple[np.ndarray, np.ndarray]:
    return constant - 0.5 * np.sum(away**2, axis=-1), -away


def _student(away: np.ndarray, nu: float, constant: float) -> tuple[np.ndarray, np.ndarray]:
    value = constant - 0.5 * (nu + 1.0) * np.log1p(away**2 / nu).sum(axis=-1)
    return value, -(nu + 1.0) * away / (nu + away**2)


def two_modes(dim: int = 50) -> Known:
    """Three quarters at -2 in every coordinate, one quarter at 2."""
    means = np.outer([-2.0, 2.0], np.ones(dim))
    return modes(dim, means, np.array([0.75, 0.25]), 10.0)


def ten_modes(dim: int, nu: float | None = None) -> Known:
    """Ten modes anywhere between -10 and 10."""
    means = np.random.default_rng(0).uniform(-10.0, 10.0, (10, dim))
    return modes(dim, means, np.full(10, 0.1), 15.0 if nu is None else 200.0, nu)


def hierarchy(groups: int = 200, trials: int = 12) -> Known:
    """Binomial counts of groups whose logits are normal; mean N(0, 1), log sd N(-1, 1)."""
    rng = np.random.default_rng(groups)
    y = rng.binomial(trials, expit(0.5 + 0.7 * rng.normal(size=groups))).astype(float)
    choose = float((gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0)).sum())

    def both(x):  # type: ignore[no-untyped-def]
        tau, z = np.exp(x[:, 1:2]), x[:, 2:]
        eta = x[:, :1] + tau * z
        value = choose + np.sum(y * eta - trials * np.logaddexp(0.0, eta), axis=1)
        slope = y - trials * expit(eta)
        first = slope.sum(axis=1, keepdims=True)
        second = np.sum(slope * tau * z, axis=1, keepdims=True)
        return value, np.concatenate([first, second, tau * slope], axis=1)

    mean, var = np.r_[0.0, -1.0, np.zeros(groups)], np.ones(groups + 2)
    model = ev.DensityModel(
        lambda x: both(x)[0], groups + 2, grad=lambda x: both(x)[1],
        prior=ev.GaussianPrior(mean, var), vectorized=True,
    )  # fmt: skip
    mass = np.log(_MASSES / _MASSES.sum())
    counts, repeats = np.unique(y, return_counts=True)
    grid_mu, grid_log = np.linspace(-5.0, 5.0, 201), np.linspace(-6.0, 4.0, 201)
    total = np.empty((grid_mu.size, grid_log.size))
    for j, log_tau in enumerate(grid_log):
        eta = grid_mu[:, None] + math.exp(log_tau) * _NODES
        softplus = trials * np.logaddexp(0.0, eta)
        each = [logsumexp(c * eta - softplus + mass, axis=1) for c in counts]
        total[:, j] = np.array(each).T @ repeats
    total += stats.norm.logpdf(grid_mu)[:, None] + stats.norm.logpdf(grid_log, -1.0)
    cell = math.log((grid_mu[1] - grid_mu[0]) * (grid_log[1] - grid_log[0]))
    return Known(model, float(logsumexp(total)) + cell + choose)


def funnel(dim: int = 100) -> Known:
    return Known(ev.examples.funnel(dim - 1).model, 0.0)


#: a walk of thirty steps of size 0.1, seen with noise 0.15 but for the middle (inference_gym)
WALK = (
    0.21592641, 0.118771404, -0.07945447, 0.037677474, -0.27885845, -0.1484156, -0.3250906,
    -0.22957903, -0.44110894, -0.09830782, *[math.nan] * 10, -0.8786016, -0.83736074, -0.7384849,
    -0.8939254, -0.7774566, -0.70238715, -0.87771565, -0.51853573, -0.6948214, -0.6202789,
)  # fmt: skip


def brownian(centred: bool = True) -> Known:
    """Both scales lognormal(0, 2); the truth by integrating the walk out.

    Not ``centred`` the walk is a sum of standard normal steps times their scale.
    """
    y, steps = np.array(WALK), np.arange(1.0, len(WALK) + 1.0)
    place = np.flatnonzero(np.isfinite(y))
    problem = Necked(np.minimum.outer(steps, steps), place, y[place])
    return Known(problem.model(centred), problem.logz())


#: germinated seeds of how many, on 21 plates; whether of the second kind, whether on cucumber
SEEDS = np.array(
    [
        [10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3],
        [39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1],
    ],
    dtype=float,
)


def seeds() -> Known:
    """Crowder's seeds: four coefficients N(0, 100), plates N(0, 1/τ), τ ~ gamma(0.01, 0.01).

    Densities of counts are without their binomial coefficients, as in the literature. The truth
    is a sum over log τ of Gaussian processes' log Z.
    """
    y, n, kind, root = SEEDS
    X = np.column_stack([np.ones(y.size), kind, root, kind * root])

    def both(t):  # type: ignore[no-untyped-def]
        sd, z = np.exp(-0.5 * t[:, :1]), t[:, 5:]
        eta = t[:, 1:5] @ X.T + sd * z
        value = np.sum(y * eta - n * np.logaddexp(0.0, eta), axis=1)
        slope = y - n * expit(eta)
        u = t[:, 0]
        value = value + 0.01 * u - 0.01 * np.exp(u) + 0.01 * math.log(0.01) - gammaln(0.01)
        value -= 0.5 * (
            np.sum(t[:, 1:5] ** 2, axis=1) / 100.0 + 4.0 * (_LOG_2PI + math.log(100.0))
        )
        value -= 0.5 * (np.sum(z**2, axis=1) + y.size * _LOG_2PI)
        first = 0.01 - 0.01 * np.exp(u) - 0.5 * np.sum(slope * sd * z, axis=1)
        return value, np.column_stack([first, slope @ X - t[:, 1:5] / 100.0, sd * slope - z])

    model = ev.DensityModel(
        lambda t: both(t)[0], 5 + y.size, grad=lambda t: both(t)[1], vectorized=True
    )
    return Known(model, math.nan)


def standardised(X: np.ndarray) -> np.ndarray:
    """With a column of ones before them."""
    return np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])


def cancer() -> Known:
    """The Wisconsin data that scikit-learn bundles, 30 features and an intercept, N(0, 1)."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    return regression(standardised(bunch.data), 2.0 * bunch.target - 1.0, 1.0)


def credit() -> Known:
    """German credit, 24 features and an intercept, N(0, 1)."""
    data = ev.datasets.load("german")
    return regression(standardised(data["X"].astype(float)), data["y"].astype(float), 1.0)


def cox(side: int = 40, total: float = 126.0) -> Known:
    """Møller's process on a grid, log intensity of variance 1.91 and length 1/33, simulated."""
    at = (np.stack(np.meshgrid(*[np.arange(side)] * 2), axis=-1).reshape(-1, 2) + 0.5) / side
    apart = np.sqrt(((at[:, None] - at) ** 2).sum(axis=2))
    mean = math.log(total) - 0.5 * 1.91 - 2.0 * math.log(side)
    K = 1.91 * np.exp(-33.0 * apart)
    blank = ev.GPModel(K=K, y=np.ones(len(K)), likelihood="poisson", mean=mean)
    return Known(ev.simulate(blank, random_seed=0).model, math.nan)


AT_DIMENSION: dict[str, Callable[[], Known]] = {
    "AR(1) Gaussian 1000-D": autoregressive,
    "two modes 50-D": two_modes,
    "logistic 500 × 2000": simulated_regression,
    "hierarchy of 200 groups": hierarchy,
    "funnel 100-D": funnel,
}
BEYOND_ELBOS: dict[str, Callable[[], Known]] = {
    "funnel 10-D": partial(funnel, 10),
    "Brownian 32-D": brownian,
    "Brownian 32-D, steps": partial(brownian, False),
    "seeds 26-D": seeds,
    "cancer 31-D": cancer,
    "credit 25-D": credit,
    "ten normals 2-D": partial(ten_modes, 2),
    "ten normals 50-D": partial(ten_modes, 50),
    "ten Student t 50-D": partial(ten_modes, 50, 2.0),
    "Cox process 1600-D": cox,
}
FAST: dict[str, Callable[[], Known]] = {
    "AR(1) Gaussian 20-D": partial(autoregressive, 20),
    "two modes 5-D": partial(two_modes, 5),
}
