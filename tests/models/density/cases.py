"""Small densities that are not Gaussian, with everything known: all derivatives, Z, exact draws.

Functions take batches. ``log Z`` is that of the model as given: none of them is normalised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import expit, log_expit

import evidence as ev
from evidence.approximations.density.reference import DensityReference
from evidence.paths.families import make_path


class Case(NamedTuple):
    """A model, its log Z, and ``draws(rng, m)``: exact posterior draws in parameters."""

    model: ev.DensityModel
    logz: float
    draws: Callable[[np.random.Generator, int], np.ndarray]


def from_tensor(
    value: Callable[[np.ndarray], np.ndarray],
    gradient: Callable[[np.ndarray], np.ndarray],
    hessian: Callable[[np.ndarray], np.ndarray],
    tensor: Callable[[np.ndarray], np.ndarray],
    dim: int,
    **words: Any,
) -> ev.DensityModel:
    """A model from a density and the full tensors of its first three derivatives."""
    return ev.DensityModel(
        value,
        dim,
        grad=gradient,
        hessian=hessian,
        third=lambda x, W: np.einsum("mijk,mij->mk", tensor(x), W),
        along=lambda x, w: np.einsum("mijk,mi,mj->mk", tensor(x), w, w),
        tensor=tensor,
        vectorized=True,
        **words,
    )


def symmetric(d: int, m: int, entries: dict[str, Any]) -> np.ndarray:
    """A batch of symmetric tensors from entries such as {"001": …}."""
    order = len(next(iter(entries)))
    out = np.zeros((m, *(d,) * order))
    for index in np.ndindex(*out.shape[1:]):
        key = "".join(str(i) for i in sorted(index))
        if key in entries:
            out[(slice(None), *index)] = entries[key]
    return out


def banana(**words: Any) -> Case:
    """x₀ ~ N(0, 1), x₁ | x₀ ~ N((x₀² - 1)/2, 0.7²), times e^1.5."""
    s = 1.0 / 0.7**2

    def parts(x):
        return x[:, 0], x[:, 1] - 0.5 * (x[:, 0] ** 2 - 1.0)

    def value(x):
        a, r = parts(x)
        return 1.5 - 0.5 * a * a - 0.5 * s * r * r - np.log(2.0 * np.pi * 0.7)

    def gradient(x):
        a, r = parts(x)
        return np.column_stack([-a + s * r * a, -s * r])

    def hessian(x):
        a, r = parts(x)
        return symmetric(2, len(x), {"00": -1.0 + s * (r - a * a), "01": s * a, "11": -s})

    def tensor(x):
        return symmetric(2, len(x), {"000": -3.0 * s * x[:, 0], "001": s})

    def draws(rng, m):
        x = rng.standard_normal((m, 2))
        x[:, 1] = 0.5 * (x[:, 0] ** 2 - 1.0) + 0.7 * x[:, 1]
        return x

    return Case(from_tensor(value, gradient, hessian, tensor, 2, **words), 1.5, draws)


def funnel(**words: Any) -> Case:
    """v ~ N(0, 1), z₁, z₂ | v ~ N(0, e^v), times e^-2."""

    def value(x):
        v, z = x[:, 0], x[:, 1:]
        total = -0.5 * v * v - 0.5 * np.exp(-v) * (z * z).sum(axis=1) - v
        return total - 1.5 * np.log(2.0 * np.pi) - 2.0

    def gradient(x):
        v, z = x[:, 0], x[:, 1:]
        e = np.exp(-v)
        return np.column_stack([-v + 0.5 * e * (z * z).sum(axis=1) - 1.0, -e[:, None] * z])

    def hessian(x):
        v, a, b = x.T
        e = np.exp(-v)
        entries = {"00": -1.0 - 0.5 * e * (a * a + b * b), "01": e * a, "02": e * b}
        return symmetric(3, len(x), entries | {"11": -e, "22": -e})

    def tensor(x):
        v, a, b = x.T
        e = np.exp(-v)
        entries = {"000": 0.5 * e * (a * a + b * b), "001": -e * a, "002": -e * b}
        return symmetric(3, len(x), entries | {"011": e, "022": e})

    def draws(rng, m):
        x = rng.standard_normal((m, 3))
        x[:, 1:] *= np.exp(0.5 * x[:, :1])
        return x

    return Case(from_tensor(value, gradient, hessian, tensor, 3, **words), -2.0, draws)


def limited(**words: Any) -> Case:
    """θ₀ ~ Gamma(3), 2 - θ₁ | θ₀ ~ Exp(θ₀), θ₂ ~ Beta(2, 3): all kinds of bounds."""

    def value(t):
        a, b, c = t.T
        return 3.0 * np.log(a) - a * (3.0 - b) + np.log(c) + 2.0 * np.log1p(-c)

    def gradient(t):
        a, b, c = t.T
        return np.column_stack([3.0 / a - 3.0 + b, a, 1.0 / c - 2.0 / (1.0 - c)])

    def hessian(t):
        a, _, c = t.T
        entries = {"00": -3.0 / a**2, "01": 1.0, "22": -1.0 / c**2 - 2.0 / (1.0 - c) ** 2}
        return symmetric(3, len(t), entries)

    def tensor(t):
        a, _, c = t.T
        entries = {"000": 6.0 / a**3, "222": 2.0 / c**3 - 4.0 / (1.0 - c) ** 3}
        return symmetric(3, len(t), entries)

    def draws(rng, m):
        a = rng.gamma(3.0, size=m)
        return np.column_stack([a, 2.0 - rng.exponential(1.0 / a), rng.beta(2.0, 3.0, m)])

    words = {"bounds": [(0.0, None), (None, 2.0), (0.0, 1.0)], **words}
    model = from_tensor(value, gradient, hessian, tensor, 3, **words)
    return Case(model, float(np.log(2.0 / 12.0)), draws)


A = np.array([[2.0, 0.5], [-1.0, 1.0], [0.5, -2.5]])
PRIOR = ev.GaussianPrior([0.3, -0.2], [[2.0, 0.6], [0.6, 1.0]])


def _quadrature(model: ev.DensityModel, nodes: int = 120) -> float:
    """log Z of a model in two dimensions with a prior, by Gauss–Hermite rules."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    z, w = z[w > 0], w[w > 0] / w.sum()
    grid = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
    x = model.prior.mean + grid @ model.prior.chol.T
    likelihood = np.exp(model.functions.logdensity(model.constrain(x)))
    return float(np.log(np.outer(w, w).ravel() @ likelihood))


def _by_rejection(model: ev.DensityModel) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Draws of the prior kept with probability likelihood ≤ 1."""

    def draws(rng, m):
        kept = []
        while sum(map(len, kept)) < m:
            x = model.prior.mean + rng.standard_normal((40_000, model.n)) @ model.prior.chol.T
            theta = model.constrain(x)
            keep = rng.random(len(theta)) < np.exp(model.functions.logdensity(theta))
            kept.append(theta[keep])
        return np.concatenate(kept)[:m]

    return draws


def logistic(**words: Any) -> Case:
    """Three data of a logistic regression with a Gaussian prior."""

    def value(x):
        return log_expit(x @ A.T).sum(axis=1)

    def gradient(x):
        return expit(-x @ A.T) @ A

    def weights(x):
        s = expit(x @ A.T)
        return s * (1.0 - s), s

    def hessian(x):
        return -np.einsum("mn,ni,nj->mij", weights(x)[0], A, A)

    def tensor(x):
        w, s = weights(x)
        return -np.einsum("mn,ni,nj,nk->mijk", w * (1.0 - 2.0 * s), A, A, A)

    model = from_tensor(value, gradient, hessian, tensor, 2, **{"prior": PRIOR, **words})
    return Case(model, _quadrature(model), _by_rejection(model))


def independent(**words: Any) -> Case:
    """θ₀ ~ Gamma(2), θ₁ ~ N(1, 2²), likelihood exp(-(θ₀ - θ₁)²/2 - θ₀/4)."""

    def value(t):
        a, b = t.T
        return -0.5 * (a - b) ** 2 - 0.25 * a

    def gradient(t):
        a, b = t.T
        return np.column_stack([b - a - 0.25, a - b])

    def hessian(t):
        return symmetric(2, len(t), {"00": -1.0, "01": 1.0, "11": -1.0})

    def tensor(t):
        return np.zeros((len(t), 2, 2, 2))

    words = {"prior": [stats.gamma(2.0), stats.norm(1.0, 2.0)], **words}
    model = from_tensor(value, gradient, hessian, tensor, 2, **words)
    # given θ₀, a Gaussian integral over θ₁; the rest by a fine rule
    a, w = np.polynomial.laguerre.laggauss(60)
    inner = np.exp(stats.norm(1.0, np.sqrt(5.0)).logpdf(a)) * np.sqrt(2.0 * np.pi)
    logz = float(np.log(np.sum(w * a * np.exp(-0.25 * a) * inner)))
    return Case(model, logz, _by_rejection(model))


# -- importable by other processes ----------------------------------------------------------------


def bell(x: np.ndarray) -> np.ndarray:
    """Student's t with 5 degrees of freedom in every coordinate, shifted: normalised."""
    return (BELL - 3.0 * np.log1p((x - 1.0) ** 2 / 5.0)).sum(axis=1)


def bell_slope(x: np.ndarray) -> np.ndarray:
    return -6.0 * (x - 1.0) / (5.0 + (x - 1.0) ** 2)


def jax_banana(x: Any) -> Any:
    """The banana's density, for one point."""
    return 1.5 - 0.5 * x[0] ** 2 - (x[1] - 0.5 * (x[0] ** 2 - 1.0)) ** 2 / 0.98 - LOG_BANANA


BELL = float(stats.t(5.0).logpdf(0.0))
LOG_BANANA = float(np.log(2.0 * np.pi * 0.7))

CASES = {f.__name__: f for f in (banana, funnel, limited, logistic, independent)}


def given(case: Case, tails: float = 0.0, logz: float = 0.7) -> DensityReference:
    """A Gaussian with moments like the posterior's, in the model's coordinates."""
    x = case.model.unconstrain(case.draws(np.random.default_rng(99), 4_000))
    cov = np.cov(x, rowvar=False) * (0.7 if tails else 1.3)
    return DensityReference("given", case.model, x.mean(axis=0), cov, logz, tails)


def tempered_draws(
    case: Case, reference: DensityReference, beta: float, rng: np.random.Generator, m: int
) -> np.ndarray:
    """Exact draws of y from p_β ∝ q^(1-β) p^β, which is below (1-β) q + β p.

    Draws of that mixture are kept with the ratio of the two as probability.
    """
    path = make_path(reference)
    if beta == 1.0:
        return path.latent(case.draws(rng, m))

    def mixture(size):
        theirs = rng.random(size) < beta
        y = reference.mean + rng.standard_normal((size, case.model.n)) @ reference.root.T
        y[theirs] = path.latent(case.draws(rng, int(theirs.sum())))
        return y

    kept = []
    while sum(map(len, kept)) < m:
        y = mixture(40_000)
        h = path.tilt(y) + path.log_z0 - case.logz  # log p/q, both normalised
        keep = np.exp(beta * h - np.logaddexp(np.log1p(-beta), np.log(beta) + h))
        assert keep.max() < 1.0 + 1e-6
        kept.append(y[rng.random(len(y)) < keep])
    return np.concatenate(kept)[:m]
