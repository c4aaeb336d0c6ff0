r"""Gaussians for a posterior with several modes, or a narrow one within a broad one.

Where points x with weights W stand for the posterior p, a mixture q leaves unexplained

.. math:: U = \sum_i W_i \max\Big(0,\, 1 - 3 Z \frac{q(x_i)}{p(x_i)}\Big),

and a Gaussian fitted to that is the next component, a narrow one at the centre of a broad one
too. Then all of them are moved by expectation maximisation, and by the weights of the mixture's
own draws in turn (O. Cappé et al., Statistics and Computing 18 (2008) 447). Weights are evened out
towards the prior, the last component: nothing that the others miss is out of reach.

Weights of draws say nothing of where there are none, such as the far end of a banana. Walks from
weighted draws (differential evolution; C. J. F. ter Braak, Statistics and Computing 16 (2006) 239)
and the points themselves tell how much of the posterior lies beyond (:func:`lost`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ...execution.clock import check_interrupt
from ...models.density.model import DensityModel
from ...numerics.arrays import Array, Indices
from ...statistics.resampling import systematic
from ..mixture import Mixture
from .reference import DensityReference, Mode, Scouted, density_prior_reference
from .verdict import Verdict, judged, moments, temper, usable

_MOST = 12  # components beside the prior
_MARGIN = 3.0  # times as much mass as q has there is still explained
_UNEXPLAINED = 0.002  # of the posterior is not worth a component
_STEPS, _STEPS_BETWEEN, _ROUNDS = 8, 3, 5
_PER_DIMENSION, _DRAWS = 800, (4096, 16384)  # draws of a round
_HEARD = 0.3  # of an equal share of the draws goes to every component
_ENOUGH = 4.0  # effective draws per dimension that tell a covariance
_FLOOR = 0.05  # weight of any component, relative to the largest
_RESERVE = 0.003  # that of the prior, relative to all others
_DEFENCE = 0.1  # of the draws come from the prior
_TINY = 25.0  # nats below the largest weight from which on points do not count
_NOTHING = 1e-4  # share of the points that makes no component
_TRIAL, _CONFIRMED = 512, 0.05  # draws at a mode, and what they must be worth
_DISTINCT = 12.0  # nats of log Z below which modes are not begun with
_ALIKE = 0.3  # Bhattacharyya's distance between Gaussians that are made one
_APART = 3.0  # standard deviations between modes that are to begin with
_JUMPS = 5  # one in so many steps of a walk is a whole difference, between modes
_ARCHIVE, _WALKERS, _WALK = 2048, 512, 300  # points that give differences; walkers, and steps
_HEAVY = 30.0 / _MARGIN  # from such weights on, or the largest drawn, all is beyond reach


@dataclass(frozen=True, eq=False)
class Blend:
    """Weights and Gaussians, the last one the prior, of the density of draws."""

    references: tuple[DensityReference, ...]
    weights: Array

    @property
    def model(self) -> DensityModel:
        return self.references[-1].model

    def log_parts(self, x: Array) -> Array:
        """log of weight times density, every row and component, (M, C)."""
        parts = [reference.log_density.log(x) for reference in self.references]
        return np.stack(parts, axis=1) + np.log(self.weights)

    def log(self, x: Array) -> Array:
        """log q of every row."""
        return logsumexp(self.log_parts(x), axis=1)

    def log_own(self, x: Array) -> Array:
        """The same without the last component."""
        rest = self.log_parts(x)[:, :-1]
        return logsumexp(rest, axis=1) - np.log(max(1.0 - self.weights[-1], 1e-300))

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """As many of each component as its weight says, and few more by chance: for fits. Of few
        draws rare components have less than their share; estimates take :meth:`evenly`."""
        counts = np.floor(self.weights * n).astype(int)
        return self.drawn(rng, counts + rng.multinomial(n - counts.sum(), self.weights))

    def evenly(self, rng: np.random.Generator, n: int) -> Array:
        """Draws of which every component has its share on average, however few they are."""
        labels = systematic(self.weights, rng, n)
        return self.drawn(rng, np.bincount(labels, minlength=self.weights.size))

    def weighted(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Draws, in systematic proportions, and their log weights."""
        x = self.evenly(rng, n)
        with np.errstate(invalid="ignore"):
            log_w = self.model.log_prob(x) - self.log(x)
        return x, np.where(np.isnan(log_w), -np.inf, log_w)

    def drawn(self, rng: np.random.Generator, counts: Indices) -> Array:
        """So many draws of each component."""
        parts = []
        for reference, count in zip(self.references, counts, strict=True):
            z = rng.standard_normal((count, reference.mean.size))
            parts.append(reference.to_model(reference.mean + z @ reference.root.T))
        return np.concatenate(parts)


def unexplained(log_q: Array, log_p: Array, logz: float) -> Array:
    """The part of every point that q has no mass for, between 0 and 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(np.minimum(logz + log_q - log_p, 700.0))
        return np.maximum(0.0, 1.0 - _MARGIN * np.nan_to_num(ratio))


def blend_of(
    model: DensityModel,
    begin: Sequence[DensityReference],
    points: tuple[Array, Array, Array],
    logz: float,
    rng: np.random.Generator,
) -> tuple[Blend, Verdict]:
    """The mixture for points x, their log p, log shares of Z; and what its weights say.

    It begins with Gaussians that are right as far as they go.
    """
    prior = density_prior_reference(model)
    distinct: list[DensityReference] = []
    for q in begin:
        if all(_distance(q.mean, other) > _APART for other in distinct):
            distinct.append(q)
    weights = np.exp([q.logz - distinct[0].logz for q in distinct])
    blend = defended(distinct, weights, prior)
    blend = improve(blend, *points, logz, rng, fixed=len(distinct))
    # what they say of themselves, in case points have lost them
    weights = np.exp([min(q.logz - logz, 0.0) for q in distinct])
    weights = np.append(weights, np.zeros(len(blend.references) - 1 - len(distinct)))
    weights = np.maximum(blend.weights[:-1], weights)
    blend = defended(blend.references[:-1], weights, prior)
    return _told(_adapted(blend, rng), rng)


def at_modes(
    model: DensityModel, modes: Sequence[Mode], rng: np.random.Generator
) -> list[DensityReference]:
    """Laplace's Gaussians at the modes that count, as far as draws confirm them."""
    found: list[DensityReference] = []
    for mode in modes:
        if len(found) < _MOST and usable(mode.cov):
            q = _gaussian(model, mode.x, mode.cov)
            x = q.mean + rng.standard_normal((_TRIAL, model.n)) @ q.root.T
            with np.errstate(invalid="ignore"):
                verdict = judged(model.log_prob(x) - q.log_density.log(x))
            if verdict.share > _CONFIRMED:
                found.append(replace(q, logz=verdict.logz))
    best = max((q.logz for q in found), default=0.0)
    return [q for q in found if q.logz > best - _DISTINCT]


def _adapted(blend: Blend, rng: np.random.Generator) -> Blend:
    """Moved by the weights of its own draws, as long as that makes them more even."""
    model, best = blend.model, (-1.0, blend)
    n = int(np.clip(_PER_DIMENSION * model.n, *_DRAWS))
    for _ in range(_ROUNDS):
        check_interrupt()
        blend = audible(blend)
        x = blend.draw(rng, n)
        log_p, log_q = model.log_prob(x), blend.log(x)
        log_w = np.where(np.isfinite(log_p), log_p - log_q, -np.inf)
        verdict, enough = judged(log_w), 4.0 * model.n + 50.0
        best = max(best, (verdict.share, blend), key=lambda one: one[0])
        if np.isfinite(log_w).sum() < enough:
            break
        kappa, w = temper(log_w, enough)
        with np.errstate(divide="ignore"):
            log_w_used = np.log(w)
        blend = improve(
            blend, x, log_q + kappa * log_w, log_w_used, kappa * verdict.logz, rng, most=2
        )
        blend = merged(blend)
    blend = audible(blend)
    x = blend.draw(rng, n)
    with np.errstate(invalid="ignore"):
        log_w = model.log_prob(x) - blend.log(x)
    return max(best, (judged(log_w).share, blend), key=lambda one: one[0])[1]


def audible(blend: Blend) -> Blend:
    """With draws enough of every component that its shape can be learnt."""
    *own, prior = blend.references
    weights = blend.weights[:-1]
    return defended(own, np.maximum(weights, _HEARD * weights.sum() / max(len(own), 1)), prior)


def merged(blend: Blend) -> Blend:
    """With Gaussians that nearly coincide made one."""
    *own, prior = blend.references
    weights = list(blend.weights[:-1])
    a = 0
    while a < len(own):
        b = next((b for b in range(a + 1, len(own)) if _overlap(own[a], own[b]) < _ALIKE), None)
        if b is None:
            a += 1
            continue
        one, two = own[a], own.pop(b)
        p = weights[a] / (weights[a] + weights[b])
        away = one.mean - two.mean
        cov = p * one.cov + (1.0 - p) * two.cov + p * (1.0 - p) * np.outer(away, away)
        own[a] = _gaussian(prior.model, p * one.mean + (1.0 - p) * two.mean, cov)
        weights[a] += weights.pop(b)
    return defended(own, np.array(weights), prior)


def _overlap(one: DensityReference, two: DensityReference) -> float:
    """Bhattacharyya's distance."""
    middle, away = 0.5 * (one.cov + two.cov), one.mean - two.mean
    spread = np.linalg.slogdet(middle)[1]
    spread -= 0.5 * (np.linalg.slogdet(one.cov)[1] + np.linalg.slogdet(two.cov)[1])
    return float(0.125 * away @ np.linalg.solve(middle, away) + 0.5 * spread)


def walk(
    model: DensityModel,
    start: tuple[Array, Array],
    archive: Array,
    rng: np.random.Generator,
    steps: int,
    kinds: Indices | None = None,
) -> tuple[Array, Array, float]:
    """Walkers from points of some log p, by differences between points of an archive.

    Where there are several modes, most differences lead from one to nowhere: with ``kinds``, one
    number for each point of the archive, every second step is between two points of one kind.
    Points (steps, M, d) and their log p after every step, and the rate of acceptance: the
    second's, where there are two.
    """
    (at, value), gamma, accepted = start, 2.38 / np.sqrt(2.0 * model.n), 0.0
    seen, values = [], []
    order = None if kinds is None else np.argsort(kinds, kind="stable")
    for k in range(steps):
        check_interrupt()
        a = rng.integers(len(archive), size=len(at))
        b = rng.integers(len(archive), size=len(at))
        alike = order is not None and k % 2 == 1
        if alike:
            b = _of_kind(kinds, order, a, rng)
        whole = k % _JUMPS == _JUMPS - 1 and not alike
        new = at + (1.0 if whole else gamma) * (archive[a] - archive[b])
        new_value = model.log_prob(new)
        with np.errstate(invalid="ignore"):
            go = np.log(rng.random(len(at))) < new_value - value
        at, value = np.where(go[:, None], new, at), np.where(go, new_value, value)
        if alike or order is None:
            accepted += float(go.mean()) / (steps if order is None else max(steps // 2, 1))
        seen.append(at)
        values.append(value)
    return np.array(seen), np.array(values), accepted


def _of_kind(kinds: Any, order: Any, a: Indices, rng: np.random.Generator) -> Indices:
    """For every point of the archive another one of its kind."""
    first = np.searchsorted(kinds[order], kinds[a], "left")
    last = np.searchsorted(kinds[order], kinds[a], "right")
    return np.asarray(order[rng.integers(first, last)])


def lost(
    mixture: Mixture,
    verdict: Verdict,
    points: tuple[Array, Array, Array],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """The part of the posterior that draws of a mixture miss, and its noise: as walks from them
    see it, or the points x that stand for the posterior, with their log p and log shares of Z."""
    model = mixture.model
    blend = Blend(tuple(mixture.components), mixture.weights)
    x = blend.draw(rng, _DRAWS[1])
    log_p = model.log_prob(x)
    with np.errstate(invalid="ignore"):
        w = np.where(np.isfinite(log_p), log_p - blend.log(x), -np.inf)
    if not np.isfinite(w).any():
        return 1.0, 0.0
    w = np.exp(w - w.max())
    w /= w.sum()
    archive, some = systematic(w, rng, _ARCHIVE), rng.permutation(systematic(w, rng, _WALKERS))
    seen, values, _ = walk(model, (x[some], log_p[some]), x[archive], rng, _WALK)
    reach = min(max(verdict.top, verdict.logz), verdict.logz + np.log(_HEAVY))
    outside = unexplained(blend.log(seen.reshape(-1, model.n)), values.ravel(), reach)
    walked = _late(outside.reshape(values.shape))
    x, log_p, log_w = points
    shown = float(np.exp(log_w) @ unexplained(blend.log(x), log_p, reach))
    return max(walked, (shown, 0.0))


def _late(outside: Array) -> tuple[float, float]:
    """The mean over the last third of walks (steps, walkers), and its standard error.

    Walks begin where draws are: at first there is nothing outside.
    """
    each = outside[-max(len(outside) // 3, 1) :].mean(axis=0)
    return float(each.mean()), float(each.std() / np.sqrt(each.size))


def _told(blend: Blend, rng: np.random.Generator) -> tuple[Blend, Verdict]:
    """What fresh draws say, shares of the posterior in the place of weights."""
    x = blend.draw(rng, _DRAWS[1])
    with np.errstate(invalid="ignore"):
        log_w = blend.model.log_prob(x) - blend.log(x)
    return _weighted(blend, x, log_w), judged(log_w)


def mixture_of(blend: Blend, logz: float, scouted: Scouted | None = None) -> Mixture:
    """A reference made of it: weights not far below the largest, log Z of every component."""
    weights = np.maximum(blend.weights, _FLOOR * blend.weights.max())
    weights[-1] = _RESERVE * weights[:-1].sum()
    own = logz + np.log(blend.weights)
    own[-1] = 0.0  # the prior's normaliser
    parts = [
        replace(q, logz=float(z), scouted=scouted)
        for q, z in zip(blend.references, own, strict=True)
    ]
    return Mixture(parts, weights)


def extend_mixture(mixture: Mixture, points: Array) -> Mixture:
    """With components for points where the others have no mass; itself where that fails."""
    references = tuple(replace(component, share=None) for component in mixture.components)
    rng = np.random.default_rng(len(references))
    w = np.full(len(points), 1.0 / len(points))
    new = _local(mixture.model, points, w, rng)
    if new is None or len(references) > _MOST:
        return mixture
    weights = np.append(mixture.weights[:-1], mixture.weights[:-1].sum() / len(references))
    blend = _adapted(defended([*references[:-1], new], weights, references[-1]), rng)
    blend, verdict = _told(blend, rng)
    if len(blend.references) <= len(references) or not verdict.share > 0.0:
        return mixture
    return mixture_of(blend, verdict.logz, references[0].scouted)


def _gaussian(model: DensityModel, mean: Array, cov: Array, logz: float = 0.0) -> DensityReference:
    return DensityReference("fitted", model, mean, cov, logz)


def defended(
    references: Sequence[DensityReference], weights: Array, prior: DensityReference
) -> Blend:
    weights = np.append((1.0 - _DEFENCE) * weights / max(weights.sum(), 1e-300), _DEFENCE)
    return Blend((*references, prior), weights / weights.sum())


def _distance(x: Array, q: DensityReference) -> float:
    return float(np.linalg.norm(q.standardise(x)))


def improve(
    blend: Blend,
    x: Array,
    log_p: Array,
    log_w: Array,
    logz: float,
    rng: np.random.Generator,
    fixed: int = 0,
    most: int = _MOST,
    largest: int = _MOST,
) -> Blend:
    """At most so many components for what is unexplained, and beside the prior in all.

    All but the first are moved.
    """
    counts = log_w > log_w.max(initial=-np.inf) - _TINY
    x, log_p, log_w = x[counts], log_p[counts], log_w[counts]
    blend = _move(blend, x, log_w, fixed, _STEPS_BETWEEN)
    for _ in range(min(most, largest + 1 - len(blend.references))):
        check_interrupt()
        rest = np.exp(log_w) * unexplained(blend.log(x), log_p, logz)
        if rest.sum() < _UNEXPLAINED:
            break
        new = _local(blend.model, x, rest / rest.sum(), rng)
        if new is None:
            break
        *own, prior = blend.references
        share = min(float(rest.sum()), 0.9)
        weights = np.append(blend.weights[:-1] * (1.0 - share), share)
        blend = _move(defended([*own, new], weights, prior), x, log_w, fixed, _STEPS_BETWEEN)
    return _move(blend, x, log_w, fixed)


def _local(
    model: DensityModel, x: Array, w: Array, rng: np.random.Generator
) -> DensityReference | None:
    """A Gaussian for one lump of weighted points: it competes with one for all of them."""
    enough = 1.0 / np.sum(w * w)
    mean, cov = moments(x, w, enough)
    if not usable(cov):
        return None
    whole = local = _gaussian(model, mean, cov)
    seed = x[rng.choice(len(x), p=w)]
    away = np.linalg.norm(whole.standardise(x) - whole.standardise(seed), axis=1)
    order = np.argsort(away)
    mass = np.cumsum(w[order])
    near = np.zeros(len(x))
    first = order[: max(int(np.searchsorted(mass, 0.3)) + 1, 2)]
    near[first] = w[first]
    share = near.sum()
    for _ in range(_STEPS):
        its = near / near.sum()
        mean, cov = moments(x, its, 1.0 / np.sum(its * its))
        if not usable(cov):
            break
        local = _gaussian(model, mean, cov)
        log_local = local.log_density.log(x) + np.log(share)
        log_whole = whole.log_density.log(x) + np.log1p(-min(share, 0.99))
        near = w * np.exp(log_local - np.logaddexp(log_local, log_whole))
        share = float(near.sum())
        if not share > 1e-6:
            return whole
    return local


def _move(blend: Blend, x: Array, log_w: Array, fixed: int = 0, steps: int = _STEPS) -> Blend:
    """Steps of expectation maximisation; components without points are left out.

    The first ones, if so ``fixed``, and those that few points tell of keep their shape.
    """
    for _ in range(steps):
        *own, prior = blend.references
        log_parts = blend.log_parts(x)
        shares = np.exp(log_parts - logsumexp(log_parts, axis=1, keepdims=True) + log_w[:, None])
        found, weights = [], []
        for c, (reference, w) in enumerate(zip(own, shares.T, strict=False)):
            total = w.sum()
            if not total > _NOTHING and c >= fixed:
                continue
            weights.append(max(total, _NOTHING))
            ess = total**2 / max(np.sum(w * w), 1e-300)
            if c >= fixed and ess > _ENOUGH * x.shape[1]:
                mean, cov = moments(x, w / total, ess)
                if usable(cov):
                    reference = _gaussian(prior.model, mean, cov)
            found.append(reference)
        blend = defended(found, np.array(weights), prior)
    return blend


def _weighted(blend: Blend, x: Array, log_w: Array) -> Blend:
    """With every component's share of the posterior as its weight, as draws x say."""
    finite = np.isfinite(log_w)
    log_parts = blend.log_parts(x[finite])
    shares = np.exp(
        log_parts - logsumexp(log_parts, axis=1, keepdims=True)
        + (log_w[finite] - logsumexp(log_w[finite]))[:, None]
    )  # fmt: skip
    weights = np.maximum(shares.sum(axis=0), 1e-12)
    return replace(blend, weights=weights / weights.sum())
