r"""A Gaussian fitted to a density by its own importance weights, with tails as heavy as needed.

Begin where weights see most of the mass: at the modes found, at the prior, or at the sampler's
points. Some thousand weights tell whether that will do. If not, the Gaussian moves: its draws are
weighted by :math:`(p/q)^\kappa`, with κ ≤ 1 as large as leaves enough effective draws, and the
next Gaussian has their mean and covariance; until κ = 1. Where that does not help, the same is
done in coordinates whose scales depend on other coordinates
(:mod:`evidence.models.density.scales`), learnt from the same draws. At last the tails are chosen
whose weights are the most even. The Pareto shape of the weights says how good the fit is, and a
bad one is a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...messages import Message
from ...models.density.model import DensityModel
from ...models.density.scales import learn
from ...numerics.arrays import Array
from .modes import starts
from .policy import NORMAL
from .reference import DensityReference, Mode, pooled, usable_modes
from .verdict import FEWEST, Verdict, judged, moments, temper, usable

TRIAL = 4096  # draws that judge a fit
MISSING = 0.3  # nats that a fit may see less than others


def fit_one(
    model: DensityModel, modes: Sequence[Mode], several: bool, scales: bool,
    even: float = 0.5, uneven: float = 1 / 3, adaptable: int = 128,
) -> DensityReference | None:  # fmt: skip
    """The best that was found, or None where the prior is better.

    Nothing else is tried where draws of the first are worth the part ``even`` of their number;
    scales are learnt where those of the best are worth less than the part ``uneven``. In up to
    ``adaptable`` dimensions draws tell a covariance better than a mode's Hessian does.
    """
    rng = np.random.default_rng(1)
    first, *others = _candidates(model, modes, rng)  # the first covers all modes
    fits = [_choose_tails(first, rng)]
    its = fits[0][1]
    if not several and not (model.prior is not None and its.good and its.share > even):
        fits += [_choose_tails(q, rng) for q in others]
    # among bad ones those that see the most mass
    best, verdict = max(fits, key=lambda fit: fit[1].rank(fit[1].logz))
    seen = [verdict.logz for _, verdict in fits if verdict.share * TRIAL > 2.0 * FEWEST]
    telling = model.n <= adaptable or not modes
    if not verdict.good and not several and telling:  # adapted to weights, it may forget a mode
        adapted = _adapt(best, rng, learning=False, each=(60, 2000), rounds=20, settled=0)
        moved = _choose_tails(adapted or best, rng)
        if moved[1].shape < max(verdict.shape, NORMAL.good[0]) or not np.isfinite(verdict.shape):
            best, verdict = moved
    if scales and verdict.share < uneven:
        tried = [_choose_tails(q, rng) for q in others if several] or [(best, verdict)]
        rescaled = _adapt(max(tried, key=lambda fit: fit[1].rank(fit[1].logz))[0], rng)
        if rescaled is not None:
            rescaled = _over_all_modes(rescaled, rng) if model.n <= adaptable else rescaled
            other, its = _choose_tails(rescaled, rng)
            if _better(its, verdict, several):
                best, verdict = other, its
    fresh = [_weights(best, rng, TRIAL) for _ in range(2)]  # chosen for its verdict, it needs one
    log_w, u = (np.concatenate(parts) for parts in zip(*fresh, strict=True))
    near = model.n > NORMAL.scouted and _near(best, log_w, u)
    if model.prior is not None and not several and verdict.shape >= NORMAL.bad and not near:
        return None
    verdict = judged(log_w)
    best.logz, best.top, best.modes = verdict.logz, verdict.top, tuple(modes)
    best.warnings = () if near else _complaints(verdict, max(seen, default=-np.inf))
    return best


def _better(
    its: Verdict, verdict: Verdict, several: bool, clearly: float = 3.0, by_far: float = 10.0
) -> bool:
    """Whether scales do better: where there were ``several`` modes, none may be forgotten.

    Weights must be so many times as even, or something else than scales is uneven; with many
    times their tail is no worse.
    """
    if several and its.logz < verdict.logz - MISSING:
        return False
    lighter = its.shape < max(verdict.shape, NORMAL.good[0])
    lighter |= its.share > by_far * verdict.share and its.shape < NORMAL.sound
    return bool(lighter and its.share > clearly * verdict.share)


def _near(
    q: DensityReference, log_w: Array, u: Array, easy: float = 8.0, farther: float = 1.0,
    one_farther: float = 0.25,
) -> bool:  # fmt: skip
    """Whether the density differs from q by a little in each of many parameters.

    No weights are even then, but annealing from q is ``easy`` for log weights of that standard
    deviation; unless the density has heavier tails, as its weights show by a slope along the
    square of the distance: they may move it, and that of any coordinate, by so many standard
    deviations.
    """
    spread = float(log_w.std())
    if not spread < easy:
        return False
    squares = q.standardise(u) ** 2
    squares = np.column_stack([squares.sum(axis=1), squares])
    squares = (squares - squares.mean(axis=0)) / squares.std(axis=0)
    moved = (log_w - log_w.mean()) @ squares / log_w.size
    return bool(moved[0] < farther and moved[1:].max() < one_farther)


def _complaints(verdict: Verdict, seen: float) -> tuple[Message, ...]:
    """Warnings, if there is reason to doubt that the reference covers the density."""
    if verdict.shape >= NORMAL.bad:
        reason = f"its importance weights have Pareto k = {verdict.shape:.2f}"
    elif seen > verdict.logz + MISSING:
        reason = f"another start saw {seen - verdict.logz:.1f} nats more of log Z"
    else:
        return ()
    text = (
        f"fitted reference: {reason}, so it does not cover the density well and annealing has to "
        "do the work; a prior= or a sampler= would help, and method='pt' is a cross-check"
    )
    return (Message("poor-reference", text),)


def _weights(q: DensityReference, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Log weights of n draws, and the draws in coordinates with constant scales."""
    z = rng.standard_normal((n, q.mean.size))
    log_q = q.log_base(z)
    warped = z
    if q.change is not None:
        log_q = log_q - q.change.log_slope(z).total
        warped = q.change(z)
    u = q.mean + warped @ q.root.T
    with np.errstate(all="ignore"):
        log_p = q.target.log_prob(u)
    return log_p - log_q, u


def _gaussian(model: DensityModel, mean: Array, cov: Array) -> DensityReference:
    return DensityReference("fitted", model, mean, cov, 0.0)


def _candidates(
    model: DensityModel, modes: Sequence[Mode], rng: np.random.Generator
) -> list[DensityReference]:
    """Where one may begin: all modes, the points to start from, twice as wide."""
    points, modes = starts(model, rng, max(500, 20 * model.n)), usable_modes(modes)
    centre, spread = points.mean(axis=0), np.cov(points, rowvar=False).reshape(model.n, model.n)
    pairs = [pooled(modes, 0.5)] if modes else []  # a mode's share is known roughly only
    pairs += [(centre, spread), (centre, 4.0 * spread)]
    return [_gaussian(model, *pair) for pair in pairs if usable(pair[1])]


def _over_all_modes(
    q: DensityReference, rng: np.random.Generator, reach: int = 48, prominent: float = 1.0,
    height: float = 12.0,
) -> DensityReference:  # fmt: skip
    """q over other modes on lines through its mean, up to so many of its sds away; itself where
    there are none. Peaks count that are so many nats above a valley, and below the top.

    In coordinates with constant scales: where the scale of others shrinks modes lie as close
    together as one likes in the model's own.
    """
    n = q.mean.size
    z = rng.standard_normal((n, n))
    z /= np.linalg.norm(z, axis=1)[:, None]
    along = np.concatenate([np.diag(np.sqrt(np.diag(q.cov))), q.root.T, z @ q.root.T])
    steps = np.arange(reach + 1.0)
    away = np.concatenate([along, -along])[:, None] * steps[:, None]
    with np.errstate(all="ignore"):
        value = q.target.log_prob((q.mean + away).reshape(-1, n)).reshape(away.shape[:2])
    value = np.where(np.isnan(value), -np.inf, value)
    valley = np.minimum.accumulate(value, axis=1)
    with np.errstate(invalid="ignore"):
        peak = value - valley > prominent
    peak &= value > value.max() - height
    peak[:, :-1] &= value[:, :-1] >= value[:, 1:]
    peak[:, 1:] &= value[:, 1:] >= value[:, :-1]
    if not peak.any():
        return q
    shifts = np.concatenate([np.zeros((1, n)), away[peak]])
    log_w = 0.5 * (np.append(value[0, 0], value[peak]) - value.max())
    weight = np.exp(log_w) / np.exp(log_w).sum()
    middle = weight @ shifts
    cov = q.cov + (weight[:, None] * (shifts - middle)).T @ (shifts - middle)
    return replace(_gaussian(q.model, q.mean + middle, cov), scales=q.scales, several=True)


def _choose_tails(
    q: DensityReference, rng: np.random.Generator,
    tails: tuple[float, ...] = (0.0, 0.05, 0.15, 0.4),
) -> tuple[DensityReference, Verdict]:  # fmt: skip
    """Those ``tails`` whose weights have the lightest tail of their own, or are the most even."""
    tried = []
    for h in tails:
        candidate = replace(q, tails=h)
        tried.append((candidate, judged(_weights(candidate, rng, TRIAL)[0])))
        if h == 0.0 and tried[0][1].shape < 0.0 and tried[0][1].share > 0.5:
            return tried[0]
    return max(tried, key=lambda fit: fit[1].rank(-fit[1].shape))


def _adapt(
    q: DensityReference, rng: np.random.Generator, learning: bool = True,
    each: tuple[int, int] = (200, 4000), rounds: int = 50, showing: int = 4, settled: int = 6,
) -> DensityReference | None:  # fmt: skip
    """The Gaussian moved to where its weights are, a little at a time, by so many draws: for
    ``each`` dimension, least. Scales are learnt as well where ``learning``, of many children some
    in each round; None where none show themselves in the first few.

    Once κ = 1 there are a few rounds with many draws, which are pooled in the end: how good a
    fit is depends on how well its scales are known where they are extreme.
    """
    n = int(min(max(each[0] * q.mean.size, each[1]), 20_000))
    pool: list[tuple[Array, Array]] = []
    for k in range(rounds):
        if (drawn := _draw(q, rng, n)) is None:
            break
        kappa, w, u, enough = drawn
        with np.errstate(all="ignore"):
            x = u if q.scales is None else q.scales(u)
            inside = np.isfinite(x).all(axis=1)
        x, w = x[inside], w[inside] / w[inside].sum()
        if kappa == 1.0:
            pool.append((x, w / np.sum(w * w)))
            n = 20_000
        done = len(pool) > settled
        if done:
            x, w = np.concatenate([x for x, _ in pool]), np.concatenate([w for _, w in pool])
            w /= w.sum()
        scales = learn(x, w, q.scales) if learning else None
        if learning and scales is None and (kappa == 1.0 or k >= showing):
            return None
        mean, cov = moments(x if scales is None else scales.inverse(x), w, enough)
        if not usable(cov):
            break
        q = replace(_gaussian(q.model, mean, cov), scales=scales)
        if done:
            return q
    return None if learning and q.scales is None else q


def _draw(
    q: DensityReference, rng: np.random.Generator, n: int, tails: float = 0.15
) -> tuple[float, Array, Array, float] | None:
    """Draws of q with tails: their weights' power κ and shares, and how many effective ones are
    enough; None where fewer have a weight."""
    enough = min(max(8.0 * q.mean.size, 0.05 * n), 0.5 * n)
    log_w, u = _weights(replace(q, tails=tails), rng, n)
    log_w = np.where(np.isfinite(log_w), log_w, -np.inf)
    if np.isfinite(log_w).sum() < enough:
        return None
    kappa, tempered = temper(log_w, enough)
    w = np.exp(tempered - tempered.max())
    return kappa, w / w.sum(), u, enough
