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

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...execution.clock import check_interrupt
from ...execution.meter import phase
from ...messages import Message
from ...models.density.model import DensityModel
from ...models.density.scales import learn
from ...numerics.arrays import Array
from ..mixture import Mixture
from .mixing import at_modes, blend_of, lost, mixture_of, unexplained
from .modes import COMPARABLE, find_modes, further_modes, not_numbers, peaks, starts
from .reference import DensityReference, Mode, Scouted, density_prior_reference
from .scout import FEW, MANY, Scouting, affordable, scout
from .verdict import Verdict, effective, judged, moments, temper, usable

_TRIAL = 4096
_TAILS = (0.0, 0.05, 0.15, 0.4)
_GOOD_SHAPE = 0.4
_BAD_SHAPE = 0.5  # from here on weights have no variance
_EASY = 8.0  # standard deviation of log weights that annealing takes in its stride
_FARTHER, _ONE_FARTHER = 1.0, 0.25  # by which weights may move the square of the distance from the
# centre, and of any coordinate, in standard deviations: with heavy tails they move them by more
_TELLING, _MISSING = 20.0, 0.3  # effective draws that tell log Z, and how much may be missing
_ROUNDS, _WIDE = 20, 0.15  # of adapting, and the tails meanwhile
_LONGER = 50  # rounds where there are scales to be learnt, of many children some in each
_SETTLED = 6  # further rounds from then on in which scales are learnt better
_SHOWING = 4  # rounds in which scales show themselves, if there are any
_LARGEST_ADAPTED = 128  # dimensions in which draws tell a covariance better than a mode's Hessian
_LARGEST_SCOUTED = 32  # dimensions
_UNEXPLAINED, _MUCH = 0.001, 0.2  # of the posterior, as a scout sees it
_OPEN = 0.15  # of the posterior may be left to the prior
_ASKED = 256  # points at which NaN is looked for
_CLIMBS, _LOW = 16, 7.0  # from what a scout saw; nats below the best mode that count
_TELL = 0.005  # from which on it is told where nothing does better
_VOLUMES = 7.0  # nats by which the volume of children may vary, one sd
_EVEN = 0.5  # share of even weights from which on the shape of their tail is of no interest
_HOPELESS, _LEAST = 0.7, 0.02  # Pareto shape and effective share of a mixture's weights
_REACH = 48  # sd of the reference that one looks for other modes
_PROMINENT, _HEIGHT = 1.0, 12.0  # nats above a valley, and below the top, of peaks that count
_CLEARLY = 3.0  # times as even weights must be with scales: else something else is uneven
_BY_FAR = 10.0  # times as even, with which their tail is no worse


def fit_density(
    model: DensityModel,
    laplace: DensityReference | None = None,
    *,
    scales: bool = True,
    seed: int = 0,
) -> DensityReference | Mixture:
    """The reference that a DensityModel starts from unless told otherwise.

    Parameters
    ----------
    model : DensityModel
    laplace : DensityReference, optional
        :func:`.fit_density_laplace` of the model, whose modes are then not looked for again.
    scales : bool
        Whether coordinates may tell each other's scale, as in hierarchical models.
    seed : int
        Of the look from the prior (:mod:`.scout`) that decides whether one Gaussian is enough.

    Returns
    -------
    DensityReference or Mixture
        A mixture where one Gaussian leaves part of the posterior unexplained; the prior, where
        none does better.

    Examples
    --------
    >>> import numpy as np
    >>> model = DensityModel(lambda x: -1.5 * np.log1p(0.5 * x[0] ** 2), dim=1)  # Student's t
    >>> fit = fit_density(model)
    >>> fit.name, fit.tails > 0.0, bool(abs(fit.logz - 1.5 * np.log(2.0)) < 0.1)
    ('fitted', True, True)
    """
    started = time.perf_counter()
    points = starts(model, np.random.default_rng([seed, 2]), _ASKED)
    doubts = not_numbers(model, model.calls["logdensity"](model.arguments(points)))
    modes = find_modes(model) if laplace is None else laplace.modes
    several = sum(mode.logz > modes[0].logz - COMPARABLE for mode in modes) > 1
    best = None if several and model.prior is not None else _fit(model, modes, several, scales)
    best = best or density_prior_reference(model)
    whole: DensityReference | Mixture = best
    if model.prior is not None and model.n <= _LARGEST_SCOUTED:
        whole = _look(model, best, modes, np.random.default_rng([seed, 1]))
    whole.seconds = time.perf_counter() - started
    whole.warnings = (*whole.warnings, *doubts)
    return whole


def _look(
    model: DensityModel,
    best: DensityReference,
    modes: tuple[Mode, ...],
    rng: np.random.Generator,
) -> DensityReference | Mixture:
    """The same where a scout agrees with it, or a mixture, or the prior where both fail."""
    assert model.prior is not None
    seen, log_p, rest = None, np.zeros(0), 1.0
    for n in (FEW, MANY):
        highest = max((float(model.log_likelihood(m.x[None])[0]) for m in modes), default=-np.inf)
        with phase("scout"):
            new = scout(model, rng, n, highest)
        beyond, new_log_p = np.ones(len(new.x)), new.log_l + model.prior.log_prob(new.x)
        if best.name != "prior":
            log_q = best.log_density.log(new.x)
            beyond = unexplained(log_q, new_log_p, max(best.top, best.logz))
        more = _uphill(model, modes, new, beyond, rng)
        clean = len(more) == len(modes) and not best.warnings
        modes = more
        if not np.isfinite(new.se):
            break
        seen, log_p = new, new_log_p
        best.scouted = Scouted(seen.logz, seen.se)
        level = 0.0 if best.name == "prior" else seen.logz - best.logz
        weight = np.full(seen.log_w.shape, -np.inf)  # of points without a likelihood
        some = np.isfinite(seen.log_w)
        weight[some] = np.minimum(seen.log_w[some] + level, 0.0)
        rest = float(np.exp(weight) @ beyond)
        if clean and rest < _UNEXPLAINED:
            return best
        if not affordable(model, new.evaluations * MANY // FEW):
            break
    if seen is None:
        return best
    return _covering(model, best, modes, (seen, log_p), rest, rng)


def _funnelled(x: Array, w: Array) -> tuple[Message, ...]:
    """A warning where the volume that a posterior fills at given parents varies too much.

    A Gaussian covers a few nats of it; all Gaussians of a mixture may miss what is narrower yet.
    """
    if (scales := learn(x, w)) is None:
        return ()
    log_volume = scales.log_slope(scales.inverse(x))
    spread = float(np.sqrt(w @ (log_volume - w @ log_volume) ** 2))
    if not spread > _VOLUMES:
        return ()
    text = (
        f"fitted mixture: some coordinates tell the scale of others over e^{spread:.0f} in volume "
        "(one sd), as in a funnel: log Z may be too low, as its narrow end is out of reach; "
        "coordinates without it (x = scale * z) are the remedy"
    )
    return (Message("poor-reference", text),)


def _covering(
    model: DensityModel,
    best: DensityReference,
    modes: tuple[Mode, ...],
    looked: tuple[Scouting, Array],
    rest: float,
    rng: np.random.Generator,
) -> DensityReference | Mixture:
    """A mixture for what a scout saw, or the prior or what there was where that is no better."""
    seen, log_p = looked
    modes = tuple(sorted(modes, key=lambda mode: -mode.logz))
    begin = at_modes(model, modes, rng)
    if best.name != "prior" and best.scales is None and not best.warnings:
        begin = [replace(best, tails=0.0), *begin]
    logz = max([seen.logz, *(q.logz for q in begin)])
    # where the scout thinks too much of a peak, it thinks too little of all else
    certain = np.logaddexp.reduce([q.logz for q in begin]) if begin else seen.logz
    log_w = seen.log_w + max(seen.logz - float(certain), 0.0)
    blend, verdict = blend_of(model, begin, (seen.x, log_p, log_w), logz, rng)
    uneven = verdict.shape > _HOPELESS and verdict.share < _EVEN
    poor = uneven or verdict.share < _LEAST or blend.weights[-1] > _OPEN
    beyond = unexplained(blend.log(seen.x), log_p, max(verdict.top, verdict.logz))
    if poor or np.exp(seen.log_w) @ beyond > _OPEN:
        prior = replace(density_prior_reference(model), scouted=best.scouted)
        if rest > _MUCH:
            return prior
        if rest > _TELL:
            text = (
                f"fitted reference: a look from the prior sees {100 * rest:.1g} % of the "
                "posterior beyond its reach, and no mixture does better; method='pt' is a "
                "cross-check"
            )
            best.warnings = (*best.warnings, Message("poor-reference", text))
        best.lost = rest
        return best
    mixture = mixture_of(blend, verdict.logz, best.scouted)
    mixture.lost = lost(mixture, verdict, (seen.x, log_p, seen.log_w), rng)
    mixture.warnings = (*mixture.warnings, *_funnelled(seen.x, np.exp(seen.log_w)))
    return mixture


def _uphill(
    model: DensityModel,
    modes: tuple[Mode, ...],
    seen: Scouting,
    beyond: Array,
    rng: np.random.Generator,
) -> tuple[Mode, ...]:
    """Modes that count, with those found uphill of what lies beyond the reference."""
    if not (beyond > 0.5).any():
        return modes
    tops = peaks(seen.x, seen.log_l, rng)
    tops = tops[beyond[tops] > 0.5][:_CLIMBS]
    found = further_modes(model, modes, seen.x[tops])
    new = (m for m in found if not any(m is known for known in modes))
    return modes + tuple(m for m in new if m.logz > found[0].logz - _LOW)


def _fit(
    model: DensityModel, modes: Sequence[Mode], several: bool, scales: bool
) -> DensityReference | None:
    """The best that was found, or None where the prior is better."""
    rng = np.random.default_rng(1)
    candidates, others = _candidates(model, modes, rng), []
    if several:
        candidates, others = candidates[:1], candidates[1:]  # the one that covers all of them
    fits = [_choose_tails(q, rng) for q in candidates]
    # among bad ones those that see the most mass
    best, verdict = max(fits, key=lambda fit: fit[1].rank(fit[1].logz))
    seen = [verdict.logz for _, verdict in fits if verdict.share * _TRIAL > _TELLING]
    telling = model.n <= _LARGEST_ADAPTED or not modes
    if not verdict.good and not several and telling:  # adapted to weights, it may forget a mode
        adapted = _choose_tails(_adapt(best, rng), rng)
        if adapted[1].shape < max(verdict.shape, _GOOD_SHAPE) or not np.isfinite(verdict.shape):
            best, verdict = adapted
    if scales and verdict.share < 1.0 / _CLEARLY:
        tried = [_choose_tails(q, rng) for q in others] or [(best, verdict)]
        rescaled = _rescale(max(tried, key=lambda fit: fit[1].rank(fit[1].logz))[0], rng)
        if rescaled is not None:
            rescaled = _over_all_modes(rescaled, rng)
            other, its = _choose_tails(rescaled, rng)
            if _better(its, verdict, several):
                best, verdict = other, its
    log_w, u = _weights(best, rng, 2 * _TRIAL)  # chosen for its verdict, it needs a fresh one
    near = model.n > _LARGEST_SCOUTED and _near(best, log_w, u)
    if model.prior is not None and not several and verdict.shape >= _BAD_SHAPE and not near:
        return None
    verdict = judged(log_w)
    best.logz, best.top, best.modes = verdict.logz, verdict.top, tuple(modes)
    best.warnings = () if near else _complaints(verdict, max(seen, default=-np.inf))
    return best


def _better(its: Verdict, verdict: Verdict, several: bool) -> bool:
    """Whether scales do better: where there were ``several`` modes, none may be forgotten."""
    if several and its.logz < verdict.logz - _MISSING:
        return False
    lighter = its.shape < max(verdict.shape, _GOOD_SHAPE)
    lighter |= its.share > _BY_FAR * verdict.share and its.shape < _HOPELESS
    return bool(lighter and its.share > _CLEARLY * verdict.share)


def _near(q: DensityReference, log_w: Array, u: Array) -> bool:
    """Whether the density differs from q by a little in each of many parameters.

    No weights are even then, but annealing from q is easy; unless the density has heavier tails,
    as its weights show by a slope along the square of the distance.
    """
    spread = float(log_w.std())
    if not spread < _EASY:
        return False
    squares = q.standardise(u) ** 2
    squares = np.column_stack([squares.sum(axis=1), squares])
    squares = (squares - squares.mean(axis=0)) / squares.std(axis=0)
    moved = (log_w - log_w.mean()) @ squares / log_w.size
    return bool(moved[0] < _FARTHER and moved[1:].max() < _ONE_FARTHER)


def fit_gaussian(
    model: DensityModel, laplace: DensityReference | None = None, *, seed: int = 0
) -> DensityReference | Mixture:
    """:func:`fit_density` with constant scales, as Riemannian moves need it."""
    return fit_density(model, laplace, scales=False, seed=seed)


def _complaints(verdict: Verdict, seen: float) -> tuple[Message, ...]:
    """Warnings, if there is reason to doubt that the reference covers the density."""
    if verdict.shape >= _BAD_SHAPE:
        reason = f"its importance weights have Pareto k = {verdict.shape:.2f}"
    elif seen > verdict.logz + _MISSING:
        reason = f"another start saw {seen - verdict.logz:.1f} nats more of log Z"
    else:
        return ()
    return (
        Message(
            "poor-reference",
            f"fitted reference: {reason}, so it does not cover the density well and annealing has "
            "to do the work; a prior= or a sampler= would help, and method='pt' is a cross-check",
        ),
    )


def judge(q: DensityReference, rng: np.random.Generator, n: int = _TRIAL) -> Verdict:
    """What n draws of q say."""
    return judged(_weights(q, rng, n)[0])


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
    found = []
    if modes := [m for m in modes if usable(m.cov)]:
        found.append(_gaussian(model, *_over(modes)))
    points = starts(model, rng, max(500, 20 * model.n))
    centre, spread = points.mean(axis=0), np.cov(points, rowvar=False).reshape(model.n, model.n)
    if usable(spread):
        found += [_gaussian(model, centre, s * spread) for s in (1.0, 4.0)]
    return found


def _over(modes: Sequence[Mode]) -> tuple[Array, Array]:
    """Mean and covariance of all modes together."""
    means, covs, logz = map(np.array, zip(*modes, strict=True))
    weight = np.exp(0.5 * (logz - logz.max()))  # a mode's share is known roughly only
    weight /= weight.sum()
    mean = weight @ means
    cov = np.einsum("k,kij->ij", weight, covs)
    return mean, cov + (weight[:, None] * (means - mean)).T @ (means - mean)


def _over_all_modes(q: DensityReference, rng: np.random.Generator) -> DensityReference:
    """q over other modes on lines through its mean; itself where there are none.

    In coordinates with constant scales: where the scale of others shrinks modes lie as close
    together as one likes in the model's own.
    """
    n = q.mean.size
    if n > _LARGEST_ADAPTED:
        return q
    z = rng.standard_normal((n, n))
    z /= np.linalg.norm(z, axis=1)[:, None]
    along = np.concatenate([np.diag(np.sqrt(np.diag(q.cov))), q.root.T, z @ q.root.T])
    steps = np.arange(_REACH + 1.0)
    away = np.concatenate([along, -along])[:, None] * steps[:, None]
    with np.errstate(all="ignore"):
        value = q.target.log_prob((q.mean + away).reshape(-1, n)).reshape(away.shape[:2])
    value = np.where(np.isnan(value), -np.inf, value)
    valley = np.minimum.accumulate(value, axis=1)
    with np.errstate(invalid="ignore"):
        peak = value - valley > _PROMINENT
    peak &= value > value.max() - _HEIGHT
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
    q: DensityReference, rng: np.random.Generator
) -> tuple[DensityReference, Verdict]:
    """The tails whose weights have the lightest tail of their own, or are the most even."""
    tried = []
    for h in _TAILS:
        check_interrupt()
        candidate = replace(q, tails=h)
        tried.append((candidate, judge(candidate, rng)))
        if h == 0.0 and tried[0][1].shape < 0.0 and tried[0][1].share > 0.5:
            return tried[0]
    return max(tried, key=lambda fit: fit[1].rank(-fit[1].shape))


def _adapt(q: DensityReference, rng: np.random.Generator) -> DensityReference:
    """Move the Gaussian to where its weights are, a little at a time."""
    n = int(min(max(2000, 60 * q.mean.size), 20_000))
    for _ in range(_ROUNDS):
        check_interrupt()
        drawn = _draw(q, rng, n)
        if drawn is None:
            break
        log_w, x, enough = drawn
        kappa, w = temper(log_w, enough)
        mean, cov = moments(x, w, enough)
        if not usable(cov):
            break
        q = _gaussian(q.model, mean, cov)
        if kappa == 1.0:
            break
    return q


def _rescale(q: DensityReference, rng: np.random.Generator) -> DensityReference | None:
    """The same where scales are learnt as well; None where there are none to be learnt.

    Once κ = 1 there are a few rounds with many draws, which are pooled in the end: how good a
    fit is depends on how well its scales are known where they are extreme.
    """
    n = int(min(max(4000, 200 * q.mean.size), 20_000))
    pool: list[tuple[Array, Array]] = []
    for k in range(_LONGER):
        check_interrupt()
        if k >= _ROUNDS and q.scales is None:
            break
        drawn = _draw(q, rng, n)
        if drawn is None:
            break
        log_w, u, enough = drawn
        kappa, w = temper(log_w, enough)
        with np.errstate(all="ignore"):
            x = u if q.scales is None else q.scales(u)
            inside = np.isfinite(x).all(axis=1)
        x, w = x[inside], w[inside] / w[inside].sum()
        if kappa == 1.0:
            pool.append((x, effective(log_w) * w))
            n = 20_000
        done = len(pool) > _SETTLED
        if done:
            x, w = np.concatenate([x for x, _ in pool]), np.concatenate([w for _, w in pool])
            w /= w.sum()
        scales = learn(x, w, q.scales)
        if scales is None and (kappa == 1.0 or k >= _SHOWING):
            return None
        mean, cov = moments(x if scales is None else scales.inverse(x), w, enough)
        if not usable(cov):
            break
        q = replace(_gaussian(q.model, mean, cov), scales=scales)
        if done:
            return q
    return None if q.scales is None else q


def _draw(
    q: DensityReference, rng: np.random.Generator, n: int
) -> tuple[Array, Array, float] | None:
    """Weighted draws of q with tails, and how many effective ones are enough."""
    enough = min(max(8.0 * q.mean.size, 0.05 * n), 0.5 * n)
    log_w, u = _weights(replace(q, tails=_WIDE), rng, n)
    log_w = np.where(np.isfinite(log_w), log_w, -np.inf)
    return None if np.isfinite(log_w).sum() < enough else (log_w, u, enough)
