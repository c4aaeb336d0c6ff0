r"""A look at a posterior that shares nothing with the Gaussian fitted to it, from its prior.

Prior mass is halved again and again, the half of low likelihood thrown away and the other half
copied and moved within :math:`L > L^*` (nested sampling in batches, or multilevel splitting):

.. math:: Z = \int_0^1 L(X)\, dX,\qquad X(L^*) = \Pr_{\rm prior}(L > L^*)

Unlike tempering it passes phase transitions: a narrow peak on broad ground is found as soon as
its likelihood is the highest there is, however little of the posterior it holds by then. Moves
are slice sampling along differences of other points, which have the scale and the direction of
whatever the points have found. The answer is a rough one: its points say where mass lies, its
log Z whether a precise one has missed something.

References: J. Skilling, Bayesian Analysis 1 (2006) 833; R. M. Neal, Annals of Statistics 31
(2003) 705 (slices); C. J. F. ter Braak, Statistics and Computing 16 (2006) 239 (differences).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...execution.clock import check_interrupt
from ...models.density.model import DensityModel
from ...numerics.arrays import Array, Flags
from .cloud import Cloud

_REST = 1e-3  # of Z may be left to find
_SHRINKS = 14  # of a slice, before a point stays
_LONG = 0.2  # share of steps that reach as far as other modes
_CORRELATED, _PER_DIMENSION = 2.0, 0.2  # how much larger than of independent points variances are


class Scouting(NamedTuple):
    """Points of all heights, what they stand for, and an estimate of log Z."""

    x: Array
    """In the model's coordinates, (M, d)."""
    log_l: Array
    """log likelihoods, (M,)"""
    log_w: Array
    """log shares of Z, normalised, (M,)"""
    logz: float
    se: float
    """Infinite where the budget was spent before the top was reached."""
    most: float
    """What log Z may be where that is so: what is left of the prior has the highest likelihood."""
    left: Flags
    """Points that stand for what is left of the prior."""
    evaluations: int
    """Those after the first draws of the prior."""

    def __repr__(self) -> str:
        return f"Scouting(log Z = {self.logz:.2f} ± {self.se:.2f}, {self.evaluations} evaluations)"


def scout(
    cloud: Cloud,
    rng: np.random.Generator,
    n: int,
    highest: float = -np.inf,
    *,
    budget: int,
) -> Scouting:
    """Climb with n points from a cloud of draws of the prior, for no more evaluations than a
    ``budget``; ``highest`` is a log likelihood known from elsewhere.

    Examples
    --------
    >>> from evidence import GaussianPrior
    >>> from evidence.approximations.density.policy import NORMAL
    >>> model = DensityModel(lambda x: -0.5 * np.sum(x**2, axis=1), dim=2,
    ...                      prior=GaussianPrior(np.zeros(2)), vectorized=True)
    >>> rng = np.random.default_rng(0)
    >>> found = scout(Cloud(model).screen(rng, NORMAL), rng, 128, budget=100_000)
    >>> bool(abs(found.logz + np.log(2.0)) < 4.0 * found.se)
    True
    """
    model, moves, spent = cloud.model, 4 + cloud.model.n, 0
    halves = [_Half(cloud.z[g::2], cloud.log_l[g::2], n // 2) for g in (0, 1)]
    while spent < budget and sum(half.climb(rng, highest) for half in halves):
        others = [half.z for half in halves[::-1]]
        spent += _move(model, rng, halves, others, moves)
    most = float(logsumexp([half.most(highest) for half in halves])) - np.log(2.0)
    alive = [half.log_l.size for half in halves]
    for half in halves:
        half.bury(np.ones(half.log_l.size, bool))
    left = [np.arange(half.size) >= half.size - n for half, n in zip(halves, alive, strict=True)]
    z, log_l, log_mass, variances = (
        np.concatenate(part) for part in zip(*(half.dead() for half in halves), strict=True)
    )
    weights = log_mass + log_l - np.log(2.0)
    logz, se = _sum(weights), np.inf
    if all(half.done for half in halves) and np.isfinite(logz):
        apart = half_gap(halves)
        se = float(np.sqrt(0.5 * np.exp(weights - logz) @ variances + 1.0 / n + apart))
    weights = weights - logz if np.isfinite(logz) else weights
    return Scouting(cloud.at(z), log_l, weights, logz, se, most, np.concatenate(left), spent)


class _Half:
    """One of two populations, each of which tells the other which way to move."""

    def __init__(self, z: Array, log_l: Array, n: int) -> None:
        self.z, self.log_l, self.n = z, log_l, n
        self.log_x, self.log_z, self.variance = 0.0, -np.inf, 0.0
        self.limit, self.copies, self.done = -np.inf, 0, False
        self._dead: list[tuple[Array, Array, Array, Array]] = []

    def climb(self, rng: np.random.Generator, highest: float) -> bool:
        """Throw the lower half away and copy the upper one; False at the top."""
        self.copies = 0
        if self.done:
            return False
        limit = _limit(self.log_l, self.n // 2)
        alive = self.log_l > limit
        top = max(float(self.log_l.max(initial=-np.inf)), highest)
        if top == -np.inf:  # nothing has a likelihood
            self.done = True
            return False
        ahead = self.log_x + top - np.logaddexp(self.log_z, self.log_x + top)
        if not alive.any() or not ahead > np.log(_REST):
            self.done = True
            return False
        share = float(alive.mean())
        self.bury(~alive)
        factor = _CORRELATED + _PER_DIMENSION * self.z.shape[1]
        self.variance += factor * (1.0 - share) / (share * alive.size)
        self.log_x, self.limit = self.log_x + np.log(share), limit
        some = rng.permutation(np.flatnonzero(alive))[: self.n]
        self.copies = self.n - some.size
        some = np.concatenate([some, rng.choice(some, self.copies)])
        self.z, self.log_l = self.z[some], self.log_l[some]
        return True

    def most(self, highest: float) -> float:
        """log Z if all points that are left have the highest likelihood."""
        top = max(float(self.log_l.max(initial=-np.inf)), highest)
        return float(np.logaddexp(self.log_z, self.log_x + top))

    @property
    def copied(self) -> slice:
        """The last points; none where they were enough from the beginning, however many."""
        return slice(len(self.z) - self.copies, None)

    def bury(self, these: Flags) -> None:
        """Keep points for the sum."""
        z, log_l = self.z[these], self.log_l[these]
        mass = self.log_x - np.log(max(these.size, 1))
        self._dead.append((z, log_l, np.full(len(z), mass), np.full(len(z), self.variance)))
        self.log_z = np.logaddexp(self.log_z, _sum(log_l) + mass)

    @property
    def size(self) -> int:
        """Points that are kept."""
        return sum(len(log_l) for _, log_l, _, _ in self._dead)

    def dead(self) -> tuple[Array, ...]:
        """Points, log likelihoods, log prior masses, variances of the latter."""
        return tuple(np.concatenate(part) for part in zip(*self._dead, strict=True))


def half_gap(halves: list[_Half]) -> float:
    """What two halves that disagree add to the variance."""
    gap = halves[0].log_z - halves[1].log_z
    return 0.25 * gap * gap if np.isfinite(gap) else np.inf


def _sum(log_w: Array) -> float:
    return float(logsumexp(log_w)) if np.isfinite(log_w).any() else -np.inf


def _log_l(model: DensityModel, z: Array) -> Array:
    assert model.prior is not None
    return model.log_likelihood(model.prior.mean + z @ model.prior.chol.T)


def _limit(log_l: Array, keep: int) -> float:
    """The likelihood that about ``keep`` points exceed; a plateau is reached before it is left."""
    if log_l.size <= keep:
        return float(log_l.min(initial=-np.inf))
    limit = np.partition(log_l, log_l.size - keep - 1)[log_l.size - keep - 1]
    below = log_l[log_l < limit]
    if np.count_nonzero(log_l > limit) < keep // 2 and below.size:
        return float(below.max())
    return float(limit)


def _move(
    model: DensityModel,
    rng: np.random.Generator,
    halves: list[_Half],
    others: list[Array],
    moves: int,
) -> int:
    """Move the copies by slices of the prior within L > limit; how many calls that took."""
    z = np.concatenate([half.z[half.copied] for half in halves])
    log_l = np.concatenate([half.log_l[half.copied] for half in halves])
    limit = np.repeat([half.limit for half in halves], [half.copies for half in halves])
    calls, m = 0, len(z)
    for _ in range(moves):
        check_interrupt()
        step = np.concatenate(
            [
                _differences(rng, other, half.copies)
                for other, half in zip(others, halves, strict=True)
            ]
        )
        height = -0.5 * np.einsum("mi,mi->m", z, z) - rng.exponential(size=m)
        low = -rng.random(m)
        high = low + 1.0
        open_ = np.arange(m)
        for _ in range(_SHRINKS):
            t = low[open_] + (high - low)[open_] * rng.random(open_.size)
            new = z[open_] + t[:, None] * step[open_]
            inside = -0.5 * np.einsum("mi,mi->m", new, new) > height[open_]
            value = np.full(open_.size, -np.inf)
            if inside.any():
                value[inside] = _log_l(model, new[inside])
                calls += int(inside.sum())
            good = value > limit[open_]
            z[open_[good]], log_l[open_[good]] = new[good], value[good]
            open_, t = open_[~good], t[~good]
            low[open_] = np.where(t < 0.0, t, low[open_])
            high[open_] = np.where(t < 0.0, high[open_], t)
            if not open_.size:
                break
    start = 0
    for half in halves:
        its = slice(start, start + half.copies)
        half.z[half.copied], half.log_l[half.copied] = z[its], log_l[its]
        start += half.copies
    return calls


def _differences(rng: np.random.Generator, points: Array, m: int) -> Array:
    """m steps between pairs of points, most of them as long as one coordinate is wide."""
    d = points.shape[1]
    a, b = rng.integers(len(points), size=(2, m))
    reach = np.where(rng.random(m) < _LONG, 2.0, 3.0 / np.sqrt(d))
    step = (points[a] - points[b]) * reach[:, None]
    same = ~step.any(axis=1)
    width = 3.0 / np.sqrt(d) * points.std(axis=0)
    step[same] = width * rng.standard_normal((int(same.sum()), d))
    return step
