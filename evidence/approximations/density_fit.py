r"""A Gaussian fitted to a density by its own importance weights, with tails as heavy as needed.

Begin where weights see most of the mass: at the modes found, at the prior, or at the sampler's
points. Some thousand weights tell whether that will do. If not, the Gaussian moves: its draws are
weighted by :math:`(p/q)^\kappa`, with κ ≤ 1 as large as leaves enough effective draws, and the
next Gaussian has their mean and covariance; until κ = 1. At last the tails are chosen whose
weights are the most even. The Pareto shape of the weights says how good the fit is, and a bad
one is a warning.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ..density.model import DensityModel
from ..diagnostics import pareto_shape
from .density_modes import find_modes, starts
from .density_reference import DensityReference, density_prior_reference

Array = NDArray[np.float64]

_TRIAL = 4096
_TAILS = (0.0, 0.05, 0.15, 0.4)
_GOOD_SHAPE, _GOOD_SHARE = 0.4, 0.1
_BAD_SHAPE = 0.5  # from here on weights have no variance
_TELLING, _MISSING = 20.0, 0.3  # effective draws that tell log Z, and how much may be missing
_ROUNDS = 20
_COMPARABLE = 5.0  # modes whose logz is this close to the best one count


def _rank(fit: tuple[DensityReference, Verdict]) -> tuple[bool, float]:
    """Among good ones the most even weights; among bad ones those that see the most mass."""
    verdict = fit[1]
    return verdict.good, verdict.share if verdict.good else verdict.logz


class Verdict(NamedTuple):
    """What weights say: Pareto shape, effective share of the draws, log of their mean."""

    shape: float
    share: float
    logz: float

    @property
    def good(self) -> bool:
        return self.shape < _GOOD_SHAPE and self.share > _GOOD_SHARE


def fit_density(model: DensityModel) -> DensityReference:
    """The reference that a DensityModel starts from unless told otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> model = DensityModel(lambda x: -1.5 * np.log1p(0.5 * x[0] ** 2), dim=1)  # Student's t
    >>> fit = fit_density(model)
    >>> fit.name, fit.tails > 0.0, bool(abs(fit.logz - 1.5 * np.log(2.0)) < 0.1)
    ('fitted', True, True)
    """
    started = time.perf_counter()
    modes = find_modes(model)
    several = sum(mode.logz > modes[0].logz - _COMPARABLE for mode in modes) > 1
    if several and model.prior is not None:
        reference = density_prior_reference(model)
        reference.seconds = time.perf_counter() - started
        return reference
    rng = np.random.default_rng(1)
    candidates = _candidates(model, rng)
    if several:
        candidates = candidates[:1]  # the one that covers all of them
    fits = [_choose_tails(model, q, rng) for q in candidates]
    best, verdict = max(fits, key=_rank)
    seen = [verdict.logz for _, verdict in fits if verdict.share * _TRIAL > _TELLING]
    if not verdict.good and not several:  # adapted to weights, it may well forget a mode
        adapted = _choose_tails(model, _adapt(model, best, rng), rng)
        if adapted[1].shape < max(verdict.shape, _GOOD_SHAPE) or not np.isfinite(verdict.shape):
            best, verdict = adapted
        if model.prior is not None and verdict.shape >= _BAD_SHAPE:
            reference = density_prior_reference(model)
            reference.seconds = time.perf_counter() - started
            return reference
    verdict = judge(model, best, rng, 2 * _TRIAL)  # chosen for its verdict, it needs a fresh one
    best.logz = verdict.logz
    best.seconds = time.perf_counter() - started
    best.modes = np.array([mode.x for mode in modes]) if modes else None
    best.warnings = _complaints(verdict, max(seen, default=-np.inf))
    return best


def _complaints(verdict: Verdict, seen: float) -> tuple[str, ...]:
    """Warnings, if there is reason to doubt that the reference covers the density."""
    if verdict.shape >= _BAD_SHAPE:
        reason = f"its importance weights have Pareto k = {verdict.shape:.2f}"
    elif seen > verdict.logz + _MISSING:
        reason = f"another start saw {seen - verdict.logz:.1f} nats more of log Z"
    else:
        return ()
    return (
        f"fitted reference: {reason}, so it does not cover the density well and annealing has to "
        "do the work; a prior= or a sampler= would help, and method='pt' is a cross-check",
    )


def judge(
    model: DensityModel, q: DensityReference, rng: np.random.Generator, n: int = _TRIAL
) -> Verdict:
    """What n draws of q say."""
    log_w, _ = _weights(model, q, rng, n)
    finite = log_w[np.isfinite(log_w)]
    if finite.size < n // 100:
        return Verdict(np.inf, 0.0, -np.inf)
    total = float(logsumexp(finite))
    share = float(np.exp(2.0 * total - logsumexp(2.0 * finite))) / n
    return Verdict(pareto_shape(np.sort(finite), n), share, total - np.log(n))


def _weights(
    model: DensityModel, q: DensityReference, rng: np.random.Generator, n: int
) -> tuple[Array, Array]:
    """Log weights of n draws, and the draws in the model's coordinates."""
    z = rng.standard_normal((n, model.n))
    log_q = q.log_base(z)
    warped = z
    if q.change is not None:
        log_q = log_q - q.change.log_slope(z).total
        warped = q.change(z)
    x = q.mean + warped @ q.root.T
    with np.errstate(all="ignore"):
        log_p = model.log_prob(x)
    return log_p - log_q, x


def _gaussian(
    model: DensityModel, mean: Array, cov: Array, tails: float = 0.0
) -> DensityReference:
    return DensityReference("fitted", model, mean, cov, 0.0, tails)


def _candidates(model: DensityModel, rng: np.random.Generator) -> list[DensityReference]:
    """Where one may begin: all modes, the points to start from, twice as wide."""
    found = []
    modes = [m for m in find_modes(model) if _usable(m.cov)]
    if modes:
        logz = np.array([mode.logz for mode in modes])
        weight = np.exp(0.5 * (logz - logz.max()))  # a mode's share is known roughly only
        weight /= weight.sum()
        means = np.array([mode.x for mode in modes])
        mean = weight @ means
        cov = np.einsum("k,kij->ij", weight, np.array([mode.cov for mode in modes]))
        cov += (weight[:, None] * (means - mean)).T @ (means - mean)
        found.append(_gaussian(model, mean, cov))
    points = starts(model, rng, max(500, 20 * model.n))
    centre, spread = points.mean(axis=0), np.cov(points, rowvar=False).reshape(model.n, model.n)
    if _usable(spread):
        found += [_gaussian(model, centre, s * spread) for s in (1.0, 4.0)]
    return found


def _usable(cov: Array) -> bool:
    if not np.isfinite(cov).all():
        return False
    s = np.linalg.eigvalsh(cov)
    return bool(s[0] > 1e-13 * s[-1])


def _choose_tails(
    model: DensityModel, q: DensityReference, rng: np.random.Generator
) -> tuple[DensityReference, Verdict]:
    """The tails whose weights have the lightest tail of their own, or are the most even."""
    tried = []
    for h in _TAILS:
        candidate = _gaussian(model, q.mean, q.cov, h)
        tried.append((candidate, judge(model, candidate, rng)))
        if h == 0.0 and tried[0][1].shape < 0.0 and tried[0][1].share > 0.5:
            return tried[0]
    return max(
        tried, key=lambda fit: (fit[1].good, fit[1].share if fit[1].good else -fit[1].shape)
    )


def _adapt(model: DensityModel, q: DensityReference, rng: np.random.Generator) -> DensityReference:
    """Move the Gaussian to where its weights are, a little at a time."""
    d = model.n
    n = int(min(max(2000, 60 * d), 20_000))
    enough = min(max(8.0 * d, 0.05 * n), 0.5 * n)
    tails = 0.15
    for _ in range(_ROUNDS):
        q = _gaussian(model, q.mean, q.cov, tails)
        log_w, x = _weights(model, q, rng, n)
        log_w = np.where(np.isfinite(log_w), log_w, -np.inf)
        if np.isfinite(log_w).sum() < enough:
            break
        kappa = _temper(log_w, enough)
        w = np.exp(kappa * (log_w - log_w.max()))
        w /= w.sum()
        mean = w @ x
        cov = (w[:, None] * (x - mean)).T @ (x - mean)
        # a few effective draws tell a large covariance badly: keep a share of the old one
        keep = d / (d + 0.5 * enough)
        cov = (1.0 - keep) * cov + keep * np.diag(np.diag(cov))
        if not _usable(cov):
            break
        q = _gaussian(model, mean, cov)
        if kappa == 1.0:
            break
    return q


def _temper(log_w: Array, enough: float) -> float:
    """The largest κ ≤ 1 for which weights^κ leave ``enough`` effective draws."""

    def effective(kappa: float) -> float:
        a = kappa * log_w
        return float(np.exp(2.0 * logsumexp(a) - logsumexp(2.0 * a)))

    if effective(1.0) >= enough:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective(middle) >= enough else (low, middle)
    return max(low, 1e-6)
