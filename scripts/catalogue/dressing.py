"""A problem as users would write it: one kind of prior or another, units, turned axes, gradients.

In all dresses θ = a + A w. Where priors are normal, w is standard normal and its problem's point
is z = m + s (Q w) for an orthogonal Q, which leaves log Z alone; else z = w, or Q w for a density
of unlimited coordinates. A density of θ has log |A| more than one of z.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import evidence as ev

from .problem import COMPLEX, Array, Prior, Problem

_STEP = 1e-20  # along the imaginary axis, in units of a coordinate
_LARGEST = 4.0  # decimal logarithm of units
_INSTEAD = Prior("student", 1.0, 3.0)  # of no prior, where a referee needs one


class Seen(NamedTuple):
    """A case in coordinates in which its prior is standard normal: for independent referees."""

    prior_sample: Callable[[np.random.Generator, int], Array]
    log_likelihood: Callable[[Array], Array]
    parameters: Callable[[Array], Array]
    """Those of the model at a point."""


@dataclass(frozen=True, eq=False)
class Case:
    """A model and its log Z."""

    name: str
    family: str
    dim: int
    model: Any
    truth: float
    truth_se: float = 0.0
    """How accurate the truth itself is; both are NaN where nobody knows."""
    dressing: str = ""
    seen: Seen | None = None


class Dress(NamedTuple):
    """θ = a + A w, and what a problem's point is."""

    a: Array
    A: Array
    B: Array
    """The inverse of A,"""
    unit: Array
    """and one number that is large or small as θ is, for every coordinate."""
    turn: Array
    mean: Array
    sd: Array

    def z(self, theta: Array) -> Array:
        return self.mean + self.sd * (((theta - self.a) @ self.B.T) @ self.turn)

    @property
    def log_volume(self) -> float:
        """log |∂θ/∂z|."""
        return float(np.linalg.slogdet(self.A)[1] - np.sum(np.log(self.sd)))


def dress(
    rng: np.random.Generator, problem: Problem, family: str, name: str, turned: bool | None = None
) -> Case:
    """A case of a problem; ``turned`` where its axes must be, or must not."""
    kinds = {p.kind for p in problem.prior}
    free = all(np.isinf(p.support).all() for p in problem.prior)
    bare = problem.bare or "flat" in kinds
    kind = "bare" if bare else str(rng.choice(_choices(kinds)))
    may_turn = problem.dim > 1 and (kinds == {"normal"} or (kind == "bare" and free))
    if turned is None:
        turned = bool(rng.random() < 0.5)
    worn = _dress(rng, problem, kind, turned and may_turn)
    vectorized = bool(rng.random() < 0.6)
    gradient = problem.smooth and bool(rng.random() < 0.5)

    def log_density(theta: Array, xp: Any = np) -> Array:
        with np.errstate(all="ignore"):
            z = worn.z(theta)
            value = problem.log_likelihood(xp, z)
            if kind == "bare":
                value = value + sum(p.log(z[..., i], xp) for i, p in enumerate(problem.prior))
        return value

    def grad(theta: Array) -> Array:
        steps = theta[..., None, :] + np.diag(1j * _STEP * worn.unit)
        return np.imag(log_density(steps, COMPLEX)) / (_STEP * worn.unit)

    words = _words(rng, problem, kind, worn)
    words |= {"grad": grad} if gradient else {}
    model = ev.DensityModel(log_density, problem.dim, vectorized=vectorized, **words)
    shift = worn.log_volume if kind == "bare" else 0.0
    parts = [
        kind,
        "vectorized" if vectorized else "one-point",
        "gradient" if gradient else "values",
    ]
    parts += ["turned"] if turned and may_turn else []
    return Case(
        name, family, problem.dim, model, problem.truth + shift, problem.truth_se,
        " ".join(parts), _seen(problem, worn, shift),
    )  # fmt: skip


def _choices(kinds: set[str]) -> list[str]:
    """How priors of these kinds may be given."""
    gaussian = ["gaussian", "gaussian"] if kinds == {"normal"} else []
    box = ["box", "box"] if kinds == {"uniform"} else []
    return [*gaussian, *box, "scipy", "transform", "bare"]


def _dress(rng: np.random.Generator, problem: Problem, kind: str, turned: bool) -> Dress:
    """Units: none, one for all or one each; correlations where a Gaussian prior has them."""
    d, which = problem.dim, rng.integers(3)
    log_unit = rng.uniform(-_LARGEST, _LARGEST, d)
    unit = 10.0 ** (log_unit * (which == 2) + log_unit[0] * (which == 1))
    a = unit * rng.uniform(-3.0, 3.0, d)
    A = np.diag(unit)
    if kind == "gaussian" and rng.random() < 0.5:
        A = unit[:, None] * (np.eye(d) + 0.5 * rng.standard_normal((d, d)) / math.sqrt(d))
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0] if turned else np.eye(d)
    mean, sd = np.zeros(d), np.ones(d)
    if all(p.kind == "normal" for p in problem.prior):
        mean, sd = (np.array([getattr(p, name) for p in problem.prior]) for name in "ab")
    B = np.diag(1.0 / unit) if (np.diag(unit) == A).all() else np.linalg.inv(A)
    return Dress(a, A, B, unit, turn, mean, sd)


def _words(rng: np.random.Generator, problem: Problem, kind: str, worn: Dress) -> dict[str, Any]:
    """What the model is told of its prior."""
    a, unit, priors = worn.a, worn.unit, problem.prior
    if kind == "gaussian":
        return {"prior": ev.GaussianPrior(a, worn.A @ worn.A.T)}
    if all(p.kind == "normal" for p in priors):  # w is standard normal, whatever z is
        priors = [p._replace(a=0.0, b=1.0) for p in priors]

    def cube(u: Array) -> Array:
        return a + unit * np.stack([p.quantile(u[..., i]) for i, p in enumerate(priors)], -1)

    if kind == "transform":
        return {"prior_transform": cube}
    if kind == "scipy":
        return {"prior": [p.frozen(*on) for p, *on in zip(priors, a, unit, strict=True)]}
    ends = a[:, None] + unit[:, None] * np.array([p.support for p in priors])
    if kind == "box":
        return {"prior": [(float(low), float(high)) for low, high in ends]}
    words: dict[str, Any] = {}
    if np.isfinite(ends).any():
        words["bounds"] = [tuple(e if math.isfinite(e) else None for e in pair) for pair in ends]
    elif rng.random() < 0.3 and all(p.kind != "flat" for p in priors) and _is_plain(worn):
        words["sampler"] = lambda rng, size: cube(rng.random((size, problem.dim)))
    return words


def _is_plain(worn: Dress) -> bool:
    """Whether priors are those of θ, but for units."""
    return bool((worn.turn == np.eye(len(worn.turn))).all())


def _seen(problem: Problem, worn: Dress, shift: float) -> Seen:
    """With a wide prior in place of none at all, which the likelihood is divided by."""
    priors = [_INSTEAD if p.kind == "flat" else p for p in problem.prior]
    added = [i for i, p in enumerate(problem.prior) if p.kind == "flat"]

    def points(x: Array) -> Array:
        return np.stack([p.at(x[:, i]) for i, p in enumerate(priors)], axis=-1)

    def log_likelihood(x: Array) -> Array:
        z = points(x)
        with np.errstate(all="ignore"):
            value = problem.log_likelihood(np, z) + shift
            value -= sum(_INSTEAD.log(z[:, i]) for i in added)
        return np.where(np.isnan(value), -np.inf, value)

    def parameters(x: Array) -> Array:
        return worn.a + ((points(x) - worn.mean) / worn.sd) @ worn.turn.T @ worn.A.T

    return Seen(lambda rng, n: rng.standard_normal((n, problem.dim)), log_likelihood, parameters)
