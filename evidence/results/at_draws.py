"""Likelihoods of the data at posterior draws: how each fits every datum, and replicated data.

It makes no draws; :mod:`evidence.verbs.sample` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..execution.arguments import check_kind, check_memory, shown
from ..messages import InputError
from ..models.likelihoods.base import Likelihood
from ..models.likelihoods.predicted import Several
from ..models.likelihoods.quadrature import evaluate
from ..models.types import Described
from ..numerics.arrays import Array, Indices
from .base import Result

if TYPE_CHECKING:
    from .draws import Draws
    from .evidence import EvidenceResult
    from .hyper import HyperDraws

Drawn: TypeAlias = "Draws | EvidenceResult | HyperDraws"


def draws_of(model: Described, posterior: object, *others: str) -> Array:
    """Draws of latent values (…, n) that a result has, or that these are; where ``others`` would
    do as well, an error says so."""
    if isinstance(posterior, Result):
        check_same(model, posterior)
        x = getattr(posterior, "latent_draws", np.zeros(0))
    else:
        x = numbers(posterior)
    if x.ndim < 2 or x.shape[-1] != model.n or not x.size:
        raise InputError(
            f"posterior must be {''.join(f'{name}, ' for name in others)}Draws of ev.sample, a "
            "HyperDraws, an EvidenceResult with samples (method='smc' leaves some), or an array "
            f"of draws of shape (..., {model.n}); got {shown(posterior)}"
        )
    if not np.isfinite(x).all():
        raise InputError("posterior: the draws contain NaN or inf")
    return x


@dataclass(frozen=True, eq=False)
class AtDraws:
    """What the likelihoods see at every draw."""

    y: Array
    seen: Array
    """Shape (chains, draws, N)."""
    likelihoods: tuple[Likelihood, ...]
    """One for all draws, or one for each, chain after chain."""

    @classmethod
    def of(cls, model: Described, posterior: object) -> AtDraws:
        """Of a result with draws of latent values, or an array (..., n) of them."""
        check_kind("model", model, Described)
        x = draws_of(model, posterior)
        x = x if x.ndim == 3 else x.reshape(1, -1, model.n)
        check_memory("posterior", x.shape[:2], *x.shape[:2], model.y.size)
        seen = model.seen(x.reshape(-1, model.n)).reshape(*x.shape[:2], -1)
        return cls(model.observed, seen, _likelihoods(model, posterior))

    def log_likelihood(
        self, rows: slice | Indices = slice(None), *, together: int = 200_000
    ) -> Array:
        """log p(y_n|x_n) at every draw, shape (chains, draws, rows).

        ``together``: likelihoods evaluated at a time.
        """
        if isinstance(several := self.likelihoods[0], Several):
            return self._of_several(several, rows)
        y, seen = self.y[rows], self.seen[..., rows]
        flat, out = seen.reshape(-1, y.size), np.empty((seen[..., 0].size, y.size))
        step = max(1, together // y.size)
        for first in range(0, len(flat), step):
            part = flat[first : first + step]
            own = self.likelihoods[first : first + step] or self.likelihoods  # or one of all
            theta = [p.at(rows).theta(y) for p in own]
            theta *= len(part) // len(theta)
            kernel = self.likelihoods[0].kernel
            values = evaluate(kernel, np.hstack(theta), part.ravel())
            out[first : first + step] = values[0].reshape(part.shape)
        return out.reshape(seen.shape)

    def _of_several(self, likelihood: Several, rows: slice | Indices) -> Array:
        """The same where a datum sees several predictors."""
        eta = likelihood.split(self.seen)[..., rows]
        flat = eta.reshape(-1, *eta.shape[-2:])
        parts = zip(self.likelihoods, np.split(flat, len(self.likelihoods)), strict=True)
        y = self.y[rows]
        out = [p.at(rows).log_probs(y, own) for p, own in parts]  # type: ignore[attr-defined]
        return np.concatenate(out).reshape(*eta.shape[:-2], y.size)

    def cdf(self, y: Array, rows: slice | Indices) -> Array:
        """P(Y_n ≤ y_n | x_n) at every draw, shape (chains · draws, rows)."""
        first = self.likelihoods[0]
        seen = first.split(self.seen) if isinstance(first, Several) else self.seen
        seen = seen[..., rows].reshape(self.seen[..., 0].size, -1)
        likelihoods = [p.at(rows) for p in self.likelihoods]
        if len(likelihoods) == 1:
            return likelihoods[0].cdf(y, seen)
        return np.array([p.cdf(y, x) for p, x in zip(likelihoods, seen, strict=True)])

    def simulate(self, rng: np.random.Generator) -> Array:
        """Replicated data, shape (chains, draws, N)."""
        if len(self.likelihoods) == 1:
            return self.likelihoods[0].simulate(self.seen, rng)
        flat = self.seen.reshape(-1, self.seen.shape[-1])
        pairs = zip(self.likelihoods, flat, strict=True)
        shape = (*self.seen.shape[:-1], self.y.size)
        return np.array([p.simulate(x, rng) for p, x in pairs]).reshape(shape)


def check_same(model: Described, posterior: Result, name: str = "posterior") -> None:
    """Refuse what was made for another model, or is not of the posterior."""
    if (theirs := getattr(posterior, "model", {})) and theirs != model.describe():
        raise InputError(f"{name} was made for another model, {theirs}, not {model.describe()}")
    if (beta := getattr(posterior, "settings", {}).get("beta", 1.0)) != 1.0:
        raise InputError(
            f"posterior holds draws at beta={beta}, not from the posterior; sample at beta=1"
        )


def full_theta(model: Described, posterior: Drawn, draws: Array) -> Array:
    """All hyperparameters on the line at draws (chains, draws, P) of the posterior's."""
    theta = np.tile(model.hyperparameters.theta, (*draws.shape[:2], 1))
    theta[..., [model.hyperparameters.index(name) for name in posterior.names]] = draws
    return theta


def _likelihoods(model: Described, posterior: Any) -> tuple[Likelihood, ...]:
    """The model's, or one for each draw where its parameters are among those drawn."""
    names = getattr(posterior, "names", ()) if hasattr(posterior, "theta") else ()
    free = model.hyperparameters
    if not any(free.index(name) >= free.n_kernel for name in names):
        return (model.likelihood,)
    whole = full_theta(model, posterior, posterior.theta[:, posterior.kept])
    return tuple(free.likelihood_at(theta) for theta in whole.reshape(-1, len(free)))


def numbers(values: object) -> Array:
    """An array, or nothing where there is none in it."""
    try:
        return np.asarray(values, dtype=float)
    except Exception:  # of any kind, from other people's __array__
        return np.empty(0)
