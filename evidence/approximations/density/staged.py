r"""Draws in two stages: the few parameters that tell the scale of others, then these.

A neck, where a scale shrinks to nothing and the likelihood lets it, takes part in Z but hardly in
any fit: particles have to follow all children into it one small step after the other, and come
too late. Here

.. math:: q(P, C) = q(P)\, N\big(C;\, m(P), H(P)^{-1}\big)

with a mixture q(P) that is fitted to :math:`\hat p(P)` (:mod:`.conditional`), a density of few
dimensions in which a neck has its full width. Weights p/q are unbiased however rough Laplace's
method is, and they are :math:`\hat p/q` alone where children are Gaussian given their parents.

Reference: H. Rue, S. Martino, N. Chopin, J. R. Statist. Soc. B 71 (2009) 319, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from ...execution.meter import Meter, current, metered
from ...models.density.model import DensityModel
from ...numerics.arrays import Array, Flags
from .conditional import ConditionalLaplace, likely_parents, telling
from .economy import economise
from .mixing import Blend
from .verdict import Verdict, judged

_LOG_2PI = float(np.log(2.0 * np.pi))
_TELLS, _WORTH_A_TRY, _MOST = 0.5, 0.05, 4  # squared logs of scales; parents
_RARE, _OUTSIDE = 1e-4, 0.05  # a distance that Gaussians rarely have; draws that may have it
_ROUND, _ROUNDS, _EVEN = 1024, 8, 0.8  # draws that move the mixture, until they are worth so much
TRIAL = 1024  # draws that say what it is worth


@dataclass(frozen=True, eq=False)
class Staged:
    """A density for draws."""

    outer: Blend
    inner: ConditionalLaplace
    verdict: Verdict
    """What draws say of it."""

    @property
    def model(self) -> DensityModel:
        return self.inner.model

    def weighted(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Draws (n, d) and their log weights."""
        P = self.outer.draw(rng, n)
        given, u = self.inner.at(P), rng.standard_normal((n, self.inner.children.size))
        away = np.linalg.solve(np.swapaxes(given.root, 1, 2), u[..., None])[..., 0]
        given.x[:, self.inner.children] += away
        log_q = self.outer.log(P) + np.log(np.einsum("mii->mi", given.root)).sum(axis=1)
        log_q -= 0.5 * (u * u).sum(axis=1) + 0.5 * u.shape[1] * _LOG_2PI
        with np.errstate(invalid="ignore"):
            log_w = self.model.log_prob(given.x) - log_q
        return given.x, np.where(np.isnan(log_w), -np.inf, log_w)


def fit_staged(model: DensityModel, draws: Array, seed: int = 0) -> Staged | None:
    """The proposal, or None where no coordinate tells the scale of others by much, or those are
    not Gaussian given it.

    Parameters
    ----------
    model : DensityModel
    draws : array (M, d)
        Rough ones of the posterior's bulk, in the model's coordinates. Of parents that might do,
        those are taken by whose Gaussians the draws may be theirs.
    seed : int

    Examples
    --------
    >>> model = DensityModel(  # v ~ N(0, 9) tells the scale of two others, N(0, e^v)
    ...     lambda x: (-x[:, 0]**2 / 18 - x[:, 0] - np.exp(-x[:, 0]) * (x[:, 1:]**2).sum(1) / 2),
    ...     dim=3, vectorized=True,
    ... )
    >>> rng = np.random.default_rng(0)
    >>> v = 3.0 * rng.standard_normal((128, 1))
    >>> draws = np.hstack([v, np.exp(v / 2.0) * rng.standard_normal((128, 2))])
    >>> staged = fit_staged(model, draws)
    >>> staged.inner.parents.tolist(), bool(staged.verdict.share > 0.7)
    ([0], True)
    """
    model = model.bare()
    found = likely_parents(telling(model, draws), _MOST + 1)
    clear = sum(told > _TELLS for _, told in found)
    if not 0 < clear <= _MOST:
        return None
    likely = sum(told > _WORTH_A_TRY for _, told in found[:_MOST])
    for k in range(clear, likely + 1):
        parents = np.sort([i for i, _ in found[:k]])
        inner = ConditionalLaplace.of(model, parents, draws)
        if _outside(inner, draws).mean() < _OUTSIDE:
            break
    else:
        return None
    outer = _marginal(inner, draws, seed)
    if outer is None:
        return None
    staged = Staged(outer, inner, Verdict(np.inf, 0.0, -np.inf))
    log_w = staged.weighted(np.random.default_rng([seed, 5]), TRIAL)[1]
    return Staged(outer, inner, judged(log_w))


def _outside(inner: ConditionalLaplace, draws: Array) -> Flags:
    """Draws whose children lie far outside of their parents' Gaussian: it misses a mode."""
    square = (inner.standardised(draws) ** 2).sum(axis=1)
    return ~(square < chi2.isf(_RARE, inner.children.size))


def _marginal(inner: ConditionalLaplace, draws: Array, seed: int) -> Blend | None:
    """A mixture for p̂, of which evaluations of the model are counted, not its own."""
    meter, some = current(), draws[:, inner.parents]

    def log_p(P: Array) -> Array:
        with metered(meter):
            return inner.at(P).log_p

    def sampler(rng: np.random.Generator, size: int) -> Array:
        return some[rng.integers(len(some), size=size)]

    rng = np.random.default_rng([seed, 4])
    with metered(None):
        model = DensityModel(log_p, some.shape[1], sampler=sampler, vectorized=True)
        economy = economise(model, seed, Meter())
        if economy.blend is None:
            return None
        for _ in range(_ROUNDS):
            economy.round(rng, _ROUND)
            economy.move(rng)
            if economy.verdict.share > _EVEN and economy.good:
                break
        return economy.proposal
