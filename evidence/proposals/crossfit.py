r"""Bridge sampling both ways: a proposal fitted to each half of every chain meets the other half.

The average of both estimates of log Z has the variance

.. math:: \tfrac14 (P_1 + P_2 + 2\rho\sqrt{P_1 P_2}) + \tfrac14 (Q_1 + Q_2)

with P of the draws and Q of the proposal's. The two are not independent: how a proposal fitted to
x misfits at y is to leading order a symmetric function k(x, y), such as
:math:`-(x-\mu)^T \Sigma^{-1} (y-\mu)` for the mean of a normal, so that swapping the halves
gives its average once more. ρ is the part of a half's variance that is owed to such misfit, as
opposed to a family of proposals that the posterior is not in: half of what changes if the other
half's proposal takes the place of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..messages import InputError
from ..numerics.arrays import Array
from ..statistics.bridge import Bridge, bridge, disagreement, terms, variance
from ..statistics.diagnostics import ess_bulk
from .fitted import FAMILIES, Elliptical, Fitted

WARP = "warp"  # the normal meets the posterior made symmetric about the normal's mean
NAMES = ("auto", *FAMILIES, WARP)

LogDensity = Callable[[Array], Array]


class Half(NamedTuple):
    """One half of the draws, and a proposal fitted to the other."""

    bridge: Bridge
    log_weights: tuple[Array, Array]
    """log p - log g, both normalised, at draws and at proposals"""
    shared: float
    """ρ"""
    proposals: Array
    log_p: Array
    """of the proposals"""
    gaps: Array
    """Standard errors by which draws and log density disagree, (3, d): the means of each
    coordinate and of its square; in the third row that of log p"""


class CrossFit(NamedTuple):
    """log Z from both halves."""

    family: str
    halves: tuple[Half, Half]

    @property
    def logz(self) -> float:
        """The average."""
        return sum(half.bridge.logz for half in self.halves) / 2.0

    @property
    def se_draws(self) -> float:
        """What the draws contribute to its standard error."""
        one, two = (half.bridge.variance_draws for half in self.halves)
        correlation = sum(half.shared for half in self.halves) / 2.0
        return math.sqrt(one + two + 2.0 * correlation * math.sqrt(one * two)) / 2.0

    @property
    def se_proposal(self) -> float:
        """What proposals contribute."""
        return math.sqrt(sum(half.bridge.variance_proposal for half in self.halves)) / 2.0

    @property
    def se(self) -> float:
        """The standard error."""
        return math.hypot(self.se_draws, self.se_proposal)

    def se_with(self, draws: float, proposals: float) -> float:
        """About what it would be with so many times the draws and the proposals."""
        now = then = 0.0
        for half in self.halves:
            u, v = half.log_weights
            now += variance(u, half.bridge.ess, v.size)
            then += variance(u, draws * half.bridge.ess, proposals * v.size)
        return self.se * math.sqrt(then / now) if now > 0.0 else self.se


def cross_fit(
    x: Array, log_p: Array, log_density: LogDensity, proposal: str, n: int,
    rng: np.random.Generator,
) -> CrossFit:  # fmt: skip
    """Bridge sampling from draws x (chains, draws, d) where log p is known.

    ``log_density`` (rows → log p) is asked at n draws from proposals, for ``"warp"`` at their
    mirror images and those of x as well.
    """
    middle = x.shape[1] // 2
    halves = [(x[:, :middle], log_p[:, :middle]), (x[:, middle:], log_p[:, middle:])]
    family, fits = _fitted([half for half, _ in halves], proposal)
    sizes = (n // 2, n - n // 2)
    done = [
        _meet(*halves[1 - i], fits[i], fits[1 - i], log_density, sizes[i], rng, family == WARP)
        for i in (0, 1)
    ]
    return CrossFit(family, (done[1], done[0]))


def _fitted(halves: list[Array], proposal: str) -> tuple[str, list[Fitted]]:
    """The family asked for, or the one of highest density at draws it was not fitted to."""
    worth = [float(np.nanmin(ess_bulk(half))) for half in halves]
    rows = [half.reshape(-1, half.shape[2]) for half in halves]
    names = {"auto": tuple(FAMILIES), WARP: ("normal",)}.get(proposal, (proposal,))
    score, best = -np.inf, None
    for name in names:
        one, two = (FAMILIES[name](rows[i], worth[i]) for i in (0, 1))
        if one is None or two is None:
            continue
        unseen = float(one.log_prob(rows[1]).mean() + two.log_prob(rows[0]).mean())
        if unseen > score:
            score, best = unseen, (name if proposal == "auto" else proposal, [one, two])
    if best is None:
        why = {"mixture": "there are too few of them", "scaled": "they show no scales"}[proposal]
        raise InputError(f"proposal={proposal!r} cannot be fitted to these draws: {why}")
    return best


def _meet(
    x: Array, log_p: Array, fit: Fitted, other: Fitted, log_density: LogDensity, n: int,
    rng: np.random.Generator, warp: bool,
) -> Half:  # fmt: skip
    rows, proposals = x.reshape(-1, x.shape[2]), fit.draw(rng, n)
    at_draws, at_proposals = log_p.ravel(), log_density(proposals)
    if warp:
        assert isinstance(fit, Elliptical)
        mirrored = log_density(2.0 * fit.mean - np.concatenate([rows, proposals]))
        at_draws = np.logaddexp(at_draws, mirrored[: len(rows)]) - math.log(2.0)
        at_proposals = np.logaddexp(at_proposals, mirrored[len(rows) :]) - math.log(2.0)
    if not np.isfinite(at_proposals).any():
        raise InputError(
            f"log_density is -inf at all of {n} proposals: are draws and density of the same "
            "coordinates, and their limits in bounds?"
        )
    u = (at_draws - fit.log_prob(rows)).reshape(log_p.shape)
    v = at_proposals - fit.log_prob(proposals)
    worth = np.nanmedian(ess_bulk(x))
    made = bridge(u, v, float(worth))
    swapped = (at_draws - other.log_prob(rows)).reshape(log_p.shape)
    own, theirs = (terms(of - made.logz, made.share) for of in (u, swapped))
    change = 0.5 * (own - theirs).var() / max(own.var(), np.finfo(float).tiny)
    shared = 1.0 if warp else min(1.0, change)
    gaps = np.zeros((3, x.shape[2])) if warp else _gaps(made, x, log_p, proposals, at_proposals)
    weights = (u.ravel() - made.logz, v - made.logz)
    return Half(made, weights, shared, proposals, at_proposals, gaps)


def _gaps(
    made: Bridge, x: Array, log_p: Array, proposals: Array, at_proposals: Array, reach: float = 3.0
) -> Array:
    """How far draws and log density disagree on the mean of each of some functions, cut off at
    ``reach`` standard deviations."""
    centre, scale = x.mean(axis=(0, 1)), x.std(axis=(0, 1))
    lowest, highest = log_p.min(), log_p.max()

    def functions(x: Array, log_p: Array) -> Array:
        z = np.clip((x - centre) / scale, -reach, reach)
        return np.concatenate([z, z * z, np.clip(log_p, lowest, highest)[..., None]], axis=-1)

    gaps = disagreement(made, functions(x, log_p), functions(proposals, at_proposals))
    d = x.shape[2]
    return np.stack([gaps[:d], gaps[d : 2 * d], np.full(d, gaps[-1])])


def worth(x: Array) -> Array:
    """Effective number of draws of each coordinate in the smaller half, (d,)."""
    middle = x.shape[1] // 2
    return np.fmin(ess_bulk(x[:, :middle]), ess_bulk(x[:, middle:]))
