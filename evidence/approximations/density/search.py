r"""Where the mass of a density is: one search, whose result is a proposal to draw from.

1. *Screen*: independent draws of the prior, which begin the cloud (:mod:`.cloud`).
2. *Climb* to modes, from a few draws.
3. *Halve* (:mod:`.halving`): further draws, from the prior to the highest likelihood.
4. *Rounds*: Gaussians (:mod:`.blend`) learn from the posterior as the cloud shows it, and their
   draws add to the cloud, until their own weights are even.
5. *Tests* that send it back to the rounds: a climb from what the Gaussians leave unexplained that
   ends in a mode out of reach; walks from weighted draws (:mod:`.walks`) that end there; a last
   round of uneven weights; climbs from fresh draws of the prior that end in modes out of reach.

A density without a prior is seen as a likelihood under a Gaussian fitted to it, made much wider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from ...execution.clock import Stopped
from ...execution.meter import Allowance, Meter, phase
from ...messages import InputError, Message
from ...models.density.model import DensityModel
from ...models.density.priors import GaussianPrior
from ...models.density.symmetry import Chart
from ...numerics.arrays import Array, Flags, Indices
from ...statistics.resampling import systematic
from .blend import Blend, Blended, at_modes, learnt, log_normal, placed, unexplained, whitened
from .cloud import Cloud, Rebased, resolution
from .halving import halve
from .modes import climb, costly, further_modes, peaks, starts, wide, with_likeliest
from .policy import NORMAL, Policy
from .reference import Mode, pooled, usable_modes
from .scan import scan
from .verdict import Rough, Verdict, judged, rough, temper, usable
from .walks import walk

_BETWEEN = np.array([0.15, 0.4, 0.7])  # of the way to one of them
_PEAKS = 4096  # points of the largest excess
_STEPS = 10  # of a walk at a time


def bounded(model: DensityModel, modes: Sequence[Mode], far: float = 3.0) -> GaussianPrior | None:
    """What stands in for a uniform prior where all coordinates have two limits: as wide as a
    logistic density, which it is here; None where a mode is so many of its deviations ``far``, as
    of 3 is nearer to a limit than .4 % of the way: halving would begin in its tail."""
    sd, closed = np.pi / np.sqrt(3.0), model.limits is not None and model.limits.closed
    near = all(np.abs(mode.x).max() < far * sd for mode in modes)
    return GaussianPrior(np.zeros(model.n), sd**2) if closed and near else None


@dataclass
class Search:
    """What a search has found, and how to go on."""

    model: DensityModel
    rng: np.random.Generator
    policy: Policy = NORMAL
    allowed: Meter | Allowance = field(default_factory=Meter)
    modes: tuple[Mode, ...] | None = None
    """The best first; climbed to where they are not given."""
    doubts: tuple[Message, ...] = ()
    """What is wrong with the density's values."""
    cloud: Cloud = field(init=False)
    blend: Blend | None = None
    verdict: Verdict = field(default_factory=Verdict)
    """Of the last round's own draws."""
    missing: float = np.inf
    """log of the part of Z that may lie above where halving ended; -inf where it did not."""
    lost: float = 0.0
    """The part of walks that ended where the proposal does not reach."""
    confirmed: bool = False
    """Whether weights are even, and neither climbs nor walks lead elsewhere."""
    cut: bool = False
    """Whether evaluations or time ended it."""
    hurried: Callable[[], bool] = lambda: False
    """Whether weights are to be tested as they are: time is scarce."""
    halved: Callable[[], bool] = lambda: False
    """Whether halving has had its part of the time."""
    elsewhere: Callable[[Search], bool] = lambda search: False
    """Whether draws of another kind reach where walks ended: asked once, before more rounds."""
    ended: Array | None = None
    """Some of where the last walks ended that was out of reach."""
    shares: list[float] = field(default_factory=list)
    surprises: list[tuple[int, int]] = field(default_factory=list)
    """Fresh climbs that ended out of reach, where some did, and all of them,"""
    uphill: tuple[int, int] = (0, 0)
    """and the same of the last climbs from what is not explained."""
    _open: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """Points that nothing explains yet, among the first"""
    _known: int = 0
    _sloping: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """Points that no valley parts from a mode known."""
    _fruitless: int = 0
    """Climbs since the last that found a mode"""

    def __post_init__(self) -> None:
        self.cloud = Cloud(self.model)

    def run(self) -> Search:
        """As much as it takes, or what there was when evaluations or time were over."""
        self.cut = True
        with suppress(Stopped):
            self._screen()
            late = costly(self.model) and not self.unlooked
            early, self.modes = self.modes is None and not late, self.modes or ()
            if self.model.guesses is not None:  # the best of them leads to a mode
                x = self.model.inward(self.model.guesses)
                x = x[np.isfinite(x).all(axis=1)]
                best = np.argsort(-self.model.log_prob(x))[:1]
                self.modes = further_modes(self.model, self.modes, x[best])
            for at, values in self.model.scanned:
                most = 0.06 * self.policy.part * self.allowed.left  # eight draws take each of them
                self._scan(at, max(int(min(values or self.policy.scanned, most)), 2))
            if early:
                self._climb()
            if self.model.prior is not None or self._rebase():
                self._halve()
                if late or not (self.modes or self.unlooked):
                    self._climb()
                    self._climb_from_afar()
                    if self.missing > -np.inf and not self.cloud.of_p and self._wide():
                        self._halve()
                if self._begin():
                    self._rounds()
            self.cut = False
        if self.missing == np.inf and self.cloud.kept.size:  # it was cut on the way up
            self.missing = self.cloud.ahead
        return self

    def _screen(self) -> None:
        most = self.policy.screen(self.model, few=self.model.density is not None)
        n = int(min(most, max(self.allowed.left / 8, 32)))
        with phase("scout"):
            if self.model.prior is not None:
                self.cloud.screen(self.rng, n)
            elif self.modes is None:  # points to climb from
                self.cloud.z = x = starts(self.model, self.rng, n // 2)
                self.cloud.log_l = self.model.log_prob(x)

    def _scan(self, at: int, values: int) -> None:
        """Climb from peaks along one coordinate, of draws that few are better than."""
        log_w = self.posterior(self.policy.alive(self.model))[2]
        with phase("scout"):
            points = scan(self.cloud, at, log_w, self.rng, values, self.policy.climbs)
        self.modes = further_modes(self.model, self.modes or (), placed(self.model, points))

    def _rebase(self, tries: int = 20, smaller: float = 0.25, rounding: float = 1e-9) -> bool:
        """Put a Gaussian in the place of a prior, much wider than all modes together, definite by
        a part of its variances beyond ``rounding``; made anew where climbs from far outside it
        find more modes. False where there is none. Where edges are modes these tell no widths, and
        no draw may have a likelihood: so many ``tries`` have variances ``smaller`` each time (of a
        box in five dimensions one or two were)."""
        for _ in range(self.policy.surprises):
            if not (own := self.counting()):
                return False
            mean, cov = pooled(own, 1.0)
            cov = 0.5 * (cov + cov.T) + rounding * np.diag(np.diag(cov))
            box = bounded(self.model, own)
            self.stand_in(prior := box or GaussianPrior(mean, self.policy.reach**2 * cov))
            self._climb_from_afar()
            if box or len(self.counting()) <= len(own):
                break
        for k in range(1, tries):
            with suppress(InputError):
                self._screen()
                return True
            self.stand_in(GaussianPrior(prior.mean, smaller**k * prior.cov))
        self._screen()
        return True

    def stand_in(self, prior: GaussianPrior) -> None:
        """See the density as a likelihood under a prior."""
        self.model = Rebased(self.model.density or self.model, prior)
        self.cloud, self._known = Cloud(self.model, of_p=True), 0
        self._open = self._sloping = self._open[:0]

    def counting(self) -> list[Mode]:
        """Modes that count, and whose Gaussians can be drawn from."""
        own = usable_modes(self.modes or ())
        return [mode for mode in own if mode.logz > own[0].logz - self.policy.counts]

    def _wide(self, wider: float = 1.2) -> bool:
        """Whether a mode has ``wider`` times the prior's variance: levels are of log p then."""
        own = self.counting()
        covs = at_modes(self.model, np.ones(len(own)), own, self.policy).covs if own else np.eye(1)
        return bool(np.linalg.eigvalsh(covs).max() > wider)

    def _halve(self, sought: int = 2**14, looked: float = 0.5) -> None:
        """Halve, by ``sought`` evaluations where nobody asked for any, and no climb found a mode.

        In batches so many draws of all levels' Gaussians for each of the prior are ``looked`` at
        beside those that weigh: a core within a slab was found by 4 of 8 seeds without, by all
        with."""
        policy, most = self.policy, float(self.policy.halved[self.model.vectorized])
        if not most and self.counting():
            self.missing = -np.inf  # nobody looked, nor said so
            return
        self.cloud.of_p |= self._wide()
        most = min(most or sought, self.allowed.left * policy.part)
        with phase("scout"):
            self.missing = halve(self.cloud, self.rng, policy, max(most, 1.0), self.halved)
            if self._parting:
                most = min(looked * policy.screen(self.model), self.allowed.left / 8)
                self.cloud.look(self.rng, int(most))

    def _begin(self) -> bool:
        """Gaussians from the cloud, and those at modes; False where there are none."""
        if self.cloud.rounds or not self.counting():
            self._move()
        if own := self.counting():
            weights = np.exp([0.5 * (m.logz - own[0].logz) for m in own])
            known = self.blend
            new = at_modes(self.model, weights, own, self.policy, known.chart if known else None)
            self.blend = known.with_more(0.5 * new.weights, new.means, new.covs) if known else new
        return self.blend is not None

    def _rounds(self, growth: float = 0.6) -> None:
        """Rounds until nothing speaks against the last one; every one has the part ``growth`` of
        the first one's draws more than that before."""
        policy, n = self.policy, self.policy.drawn(self.model)
        enough = self.allowed.left * policy.part
        for k in range(policy.rounds):
            if k and self.allowed.left < n + enough:
                return
            more = int(n * (1.0 + growth * k))
            self._round(int(min(more, max(self.allowed.left * policy.part, 16))))
            if self._hopeless:
                return
            if not self.good:
                self._move()
                if self._stalled or (k + 1) % policy.late == 0:
                    self._climb()
            elif not self._climb() and (self._walk() or self._reached()):
                if policy.judged and not self.confirmed:
                    self._round(policy.judged)
                if not (self.confirmed or self.good):
                    self._move()
                elif self.confirmed or not self._surprised():
                    self.confirmed = True
                    return
        if self.policy.last:
            self._last()

    def _reached(self) -> bool:
        """Whether what walks came to is left to draws of another kind, and nothing else is."""
        asked, self.elsewhere = self.elsewhere, lambda search: False
        self.confirmed = asked(self) and not self._surprised()
        return self.confirmed

    def _last(self, times: int = 2) -> None:
        """What rounds made no more even may be met by many draws: modes too many to be named. As
        no round follows, walks may end out of reach as often as they may at most. So many
        ``times``: climbs from many draws name more of them."""
        for _ in range(times):
            self._round(self.policy.last)
            self.confirmed = self._sound and self._walk(last=True)
            over = self.confirmed or self.hurried() or self.verdict.share < self.policy.least
            if over or self.allowed.left < 4.0 * self.policy.last:
                return
            self._move()
            self._climb()

    def _round(self, n: int) -> None:
        assert self.blend is not None
        log_w = self.cloud.add(self.rng, self.blend, n)
        self.cloud.own.append(log_w)
        self.verdict = judged(log_w)
        self.shares.append(self.verdict.share)

    @property
    def good(self) -> bool:
        """Whether weights are even enough to be relied on, or in a hurry sound."""
        its, (shape, even) = self.verdict, self.policy.even
        if self.hurried():
            return self._sound
        share = self.policy.least if self._stalled else even
        return its.share > share and (its.shape < shape or its.share > self.policy.very_even)

    @property
    def _sound(self) -> bool:
        """Whether so many draws as there were know their mean."""
        return self.verdict.share > self.policy.least and self.verdict.shape < self.policy.sound

    @property
    def _hopeless(self) -> bool:
        """Whether rounds lead nowhere: weights stay uneven, or climbs from anywhere go on to end
        out of reach; or modes are more than a proposal has Gaussians, and most climbs end in one
        more. (Of 1,024 in ten dimensions 524 were named in 100 seconds: annealing takes 30.)"""
        many = len(self.counting()) > self.policy.components and self.hidden > 0.5
        baffled = len(self.surprises) >= self.policy.surprises and self.hidden > self.policy.nearly
        countless = many and self._parting and self.model.density is None
        return baffled or countless or (self._stalled and max(self.shares) < self.policy.least)

    @property
    def _stalled(self) -> bool:
        """Whether rounds make weights no more even."""
        last = self.policy.stalled
        early, late = self.shares[:-last], self.shares[-last:]
        return bool(early) and max(late) <= max(early)

    @property
    def hidden(self) -> float:
        """About the part of climbs that end in modes unknown, where nothing was confirmed."""
        new, climbs = np.sum(self.surprises[-self.policy.surprises :] or [self.uphill], axis=0)
        return float((new + 1.0) / (climbs + 2.0)) if new and not self.confirmed else 0.0

    @property
    def unlooked(self) -> bool:
        """Whether nothing but a few draws of the prior and climbs says where mass is."""
        return not self.policy.halved[self.model.vectorized]

    @property
    def sight(self) -> Rough:
        """log Z by the last round's draws."""
        return rough(self.cloud.own[-1]) if self.cloud.own else Rough(-np.inf, np.inf)

    @property
    def estimate(self) -> float:
        """log Z by the whole cloud, which learnt from itself."""
        return float(logsumexp(self.cloud.log_w + self.cloud.log_l[self.cloud.kept]))

    @property
    def noise(self) -> float:
        """Its standard error: as if it had not, and as far as late rounds are from it, each of
        which says log Z by draws of a proposal of its own."""
        w = np.exp(self.posterior()[2])
        late = [rough(one).logz for one in self.cloud.own[-self.policy.stalled :]]
        apart = np.mean(np.square(np.array(late) - self.estimate)) if late else 0.0
        return float(np.sqrt(np.sum(w * w) + apart))

    def rough(self) -> Rough:
        """log Z by the cloud's independent draws or, where their weights have no variance, by all
        of several rounds' and as much above as the highest: what there is without an answer."""
        own = self.cloud.estimate()
        if own.se < np.inf or len(self.shares) < self.policy.late:
            return own
        above = np.logaddexp(0.0, self.missing - self.estimate)
        return Rough(self.estimate, float(np.hypot(self.noise, above)), n=self.cloud.kept.size)

    def posterior(self, enough: float = 0.0) -> tuple[Array, Array, Array]:
        """Points that stand for the posterior, or what leads there where fewer than ``enough``
        effective draws show it: z, log p and log shares of it."""
        cloud = self.cloud
        z, log_l = cloud.z[cloud.kept], cloud.log_l[cloud.kept]
        _, log_w = temper(log_l, enough, cloud.log_w)
        return z, log_l + log_normal(z), log_w - logsumexp(log_w)

    def _move(self) -> None:
        """The Gaussians to where the posterior is, or what leads there if few draws show it."""
        cloud, enough = self.cloud, 4.0 * self.model.n + 50.0
        z, log_w, log_l = cloud.z[cloud.kept], cloud.log_w, cloud.log_l[cloud.kept]
        if log_w.size < enough:
            return
        beta, tilted = temper(log_l, enough, log_w)
        points, log_z = (z, log_normal(z) + beta * log_l, tilted), float(logsumexp(tilted))
        self.blend = learnt(self.blend, self.model, points, log_z, self.rng, self.policy)
        if beta < 1.0 and cloud.own:  # too few draws to say that a mode is none
            self._include([mode for mode in self.counting() if self._out_of_reach(mode)])

    def _out_of_reach(self, mode: Mode) -> bool:
        """Whether the proposal, if there is one, has next to nothing at a mode."""
        if self.blend is None:
            return True
        at = whitened(self.model, mode.x[None])
        reach = max(self.verdict.top, self.verdict.logz)
        return bool(unexplained(self._log_q(at), self.cloud.log_p(at), reach)[0] > 0.5)

    def _beyond(self, z: Array, log_p: Array) -> Array:
        """The excess of log p over what is known, of points where it is clear; -inf elsewhere.
        Where valleys are asked for, all counts that is not explained at all."""
        log_z, known = -np.inf, np.full(log_p.shape, -np.inf)
        if self.blend is not None:
            known, log_z = self.blend.log_own(z), self.verdict.logz
        own = usable_modes(self.modes or ())
        if own and self.model.prior is not None:
            total = float(logsumexp([m.logz for m in own]))
            weights = np.maximum(np.exp([m.logz - total for m in own]), 1e-300)
            gaussians = at_modes(self.model, weights, own, self.policy)
            known, log_z = np.maximum(known, gaussians.log_own(z)), max(log_z, total)
        with np.errstate(invalid="ignore"):
            least = 0.0 if self._parting else 0.5
            clear = np.isfinite(log_p) & (unexplained(known, log_p, log_z) > least)
            return np.where(clear, log_p - known, -np.inf)

    @property
    def _parting(self) -> bool:
        """Whether points are asked for valleys: where batches are cheap, and nobody is frugal."""
        return self.model.vectorized and not self.unlooked

    def _climb(self) -> bool:
        """Whether there are new modes out of reach, uphill of points beyond what is known. Of 131
        within reach in 17 dimensions, where change points make many, none was worth a round."""
        policy, grown = self.policy, 0
        which, z, log_p, excess = self._unknown()
        most, again = policy.fruitless
        climbed, self._fruitless = 0, min(self._fruitless, most - again)
        high, far = peaks(z, log_p, self.rng), np.argsort(-excess, kind="stable")[:_PEAKS]
        first = self._valleys(which, z, log_p, far, high) if self._parting else self._open[:0]
        far = far[peaks(z[far], excess[far], self.rng)]
        tops = np.unique(np.append(high[: 3 * policy.climbs], far[: 3 * policy.climbs]))
        tops = tops[np.argsort(-log_p[tops], kind="stable")]
        order = np.array([*dict.fromkeys([*first, *tops])], dtype=np.intp)
        beyond = np.ones(order.size, dtype=bool)
        for k, one in enumerate(order):
            if self._fruitless >= most or climbed >= 2 * policy.climbs:
                break
            if not beyond[k]:
                continue
            found = climb(self.model, placed(self.model, z[one]), self.modes or ())
            self._open = self._open[self._open != which[one]]
            climbed += 1
            self._fruitless += 1
            if found is not None:
                counts, away = self._counts(found), self._out_of_reach(found)
                self._fruitless *= not away
                grown += counts and away and self.blend is not None
                self._know([found])
                if counts:
                    self._include([found])
                beyond = self._beyond(z[order], log_p[order]) > -np.inf
        self.uphill = grown, climbed
        return grown > 0

    def _climb_from_afar(self) -> None:
        at = wide(self.model, placed(self.model, self._afar(self.policy.tests)))
        self.modes = with_likeliest(self.model, further_modes(self.model, self.modes or (), at))

    def _afar(self, n: int) -> Array:
        """Draws of the prior; of what stands in for one every third is twice as far out, and every
        third four times: nobody said how far apart modes may lie."""
        z = self.rng.standard_normal((n, self.model.n))
        return z * 2.0 ** (np.arange(n) % 3)[:, None] if self.model.density else z

    def _counts(self, mode: Mode) -> bool:
        best = max((m.logz for m in self.modes or ()), default=-np.inf)
        return usable(mode.cov) and mode.logz > max(best, self.verdict.logz) - self.policy.counts

    def _surprised(self) -> bool:
        """Whether climbs from fresh draws of the prior end in modes that the proposal does not
        reach. Where one after the other does, more are hidden (Good and Turing: their share is
        the chance that the next one does). There are as many climbs as modes that count, or
        twice as many: of 128 that are alike eight climbs leave six unknown more often than not."""
        n, new = self.policy.tests, list[Mode]()
        n = max(n, self.policy.scaled(self.model, len(self.counting()))) if n else 0
        least = self.verdict.logz - self.policy.counts
        for z in self._afar(n):
            found = climb(self.model, placed(self.model, z), (*(self.modes or ()), *new))
            if found and found.logz > least and usable(found.cov) and self._out_of_reach(found):
                new.append(found)
        if new:
            self.surprises.append((len(new), n))
            self._know(new)
            self._include(new)
        return bool(new)

    def _know(self, new: list[Mode]) -> None:
        self.modes = tuple(sorted([*(self.modes or ()), *new], key=lambda mode: -mode.logz))

    def _include(self, new: list[Mode], rare: float = 0.1) -> None:
        """Modes found late, or lost, become components, which are given the part ``rare`` of an
        equal share of the draws at least."""
        if self.blend is None or not new:
            return
        most = 1.0 / (self.blend.size + len(new))
        more = np.array([m.logz - self.verdict.logz for m in new])
        equal = np.exp(np.minimum(more, 0.0)).clip(rare * most, most)
        modal = at_modes(self.model, equal, new, self.policy, self.blend.chart)
        self.blend = self.blend.with_more(equal, modal.means, modal.covs)

    def _unknown(self, compared: int = 2**16) -> tuple[Indices, Array, Array, Array]:
        """Points beyond what is known, their log p and its excess: among new points, and those
        that were beyond before and stood out. Of the highest so many are ``compared``."""
        cloud = self.cloud
        some = np.append(self._open, np.arange(self._known, cloud.log_l.size))
        z, log_p = cloud.z[some], cloud.log_l[some]
        if self.model.prior is not None:
            log_p = log_p + log_normal(z)
        excess = self._beyond(z, log_p)
        clear = np.flatnonzero(excess > -np.inf)
        high = clear[np.argsort(-log_p[clear], kind="stable")][:compared]
        far = clear[np.argsort(-excess[clear], kind="stable")][:_PEAKS]
        clear = np.unique(np.append(high, far))
        self._open, self._known = some[clear], cloud.log_l.size
        return self._open, z[clear], log_p[clear], excess[clear]

    def _valleys(
        self, which: Indices, z: Array, log_p: Array, far: Indices, high: Indices
    ) -> Indices:
        """Of the largest excess, and of the peaks of log p, the points that a valley parts from
        all modes known, the highest first: a narrow mode has few points, which slopes of wide
        ones surpass, and so do tails that Gaussians do not have."""
        most = int(min(_PEAKS, self.policy.part * self.allowed.left / 26))  # 13 calls for each
        some = np.unique(np.append(far[:most], high[:most]))
        some = some[~np.isin(which[some], self._sloping)]
        parts = np.array_split(some, 1 + some.size // 256)  # time may be up between two of them
        apart = np.concatenate([self._apart(z[part]) for part in parts])
        self._sloping = np.append(self._sloping, which[some[~apart]])
        return np.asarray(some[apart][np.argsort(-log_p[some[apart]], kind="stable")])

    def _apart(self, z: Array) -> Flags:
        """Points with a valley between them and each of the four modes that are nearest (R. K.
        Ursem, Congress on Evolutionary Computation (1999) 1633)."""
        if not self.modes or not len(z):
            return np.ones(len(z), bool)
        x, ends = placed(self.model, z), np.array([mode.x for mode in self.modes])
        near = np.argsort(cdist(x, ends), axis=1)[:, :4]
        between = x[:, None] + _BETWEEN[:, None, None, None] * (ends[near] - x[:, None])
        rows = np.concatenate([x, between.reshape(-1, self.model.n)])
        at, values = np.split(self.model.log_prob(rows), [len(x)])
        lowest = values.reshape(-1, *near.shape).min(axis=0)
        return np.asarray((lowest < at[:, None]).all(axis=1))

    def parted(self, z: Array, beyond: Array) -> float:
        """The part of what is beyond reach at points of the cloud above its level that a valley
        parts from all modes; of all else slopes say that it leads to these."""
        cloud, most = self.cloud, max(self.policy.part * self.allowed.left / 26, 0.0)
        n = self.policy.scaled(self.model, int(min(8 * self.policy.climbs, most)))
        w = np.where(cloud.height < cloud.level, 0.0, np.exp(cloud.log_w) * beyond) + 1e-300
        return float(self._apart(z[systematic(w / w.sum(), self.rng, n)]).mean()) if n else 1.0

    def _log_q(self, z: Array) -> Array:
        assert self.blend is not None
        return self.blend.log_ratio(z) + log_normal(z)

    def _starts(self, n: int, reach: float, among: int = 8) -> tuple[Indices, Array]:
        """Points to walk from, and what each counts: half of them as their weights say, half where
        the proposal is thin. They are chosen from ``among`` times as many weighted draws."""
        z, log_p, log_w = self.posterior()
        many = systematic(np.exp(log_w), self.rng, among * n)
        ratio = np.exp(np.minimum(log_p[many] - self._log_q(z[many]), reach) - reach)
        favour = 1.0 + ratio / ratio.mean()
        chosen = self.rng.permutation(systematic(favour / favour.sum(), self.rng, n))
        return many[chosen], 1.0 / favour[chosen] / np.sum(1.0 / favour[chosen])

    def _walk(
        self, last: bool = False, kept: int = 512, better: float = 0.8, slow: float = 0.1,
        shortest: float = 1 / 16,
    ) -> bool:  # fmt: skip
        """Whether the proposal reaches where walks from weighted draws end; else it is moved
        there. It may leave out more where that made it no ``better`` the last time, where no round
        follows (``last``), and in a hurry. Differences of points ``kept`` are steps of walks.

        Those by Gaussians tell nothing where they are accepted less often than is ``slow``. Below
        twice of it they become half as long, down to the part ``shortest`` of those for normal
        densities, which a thin shell never accepts.
        """
        assert self.blend is not None
        policy, its, log_z, log_f = self.policy, self.model, self.verdict.logz, self.cloud.log_p
        walkers, outside, stages = policy.walked[-1 if its.vectorized else bool(its.density)]
        before, last = better * (self.lost or np.inf), last or self.hurried()
        reach = min(max(self.verdict.top, log_z), log_z + np.log(policy.heavy[0]))
        times = max(policy.heavy[1] * self.cloud.own[-1].size, 1.0)
        z, log_p, log_w = self.posterior()
        archive = z[systematic(np.exp(log_w), self.rng, kept)]
        first, own = self._starts(walkers, reach)
        at, scale, moved, lost = (z[first], log_p[first]), 1.0, 0.0, list[float]()
        seen, values = [], []
        for stage, (enough, most) in enumerate(stages):
            if stage and not self._doubtful(stage, walkers * most):
                return True
            while len(lost) * _STEPS < most and moved < enough:
                more, high, went = walk(log_f, at, archive, self.blend, self.rng, _STEPS, scale)
                at, moved = (more[-1], high[-1]), moved + _STEPS * went
                scale = max(scale / (1.0 + (went < 2.0 * slow)), shortest)
                seen.append(more.reshape(-1, z.shape[1]))
                values.append(high.ravel())
                log_q, parts = self._log_q(at[0]), (reach, reach + np.log(times))
                beyond, rest = (unexplained(log_q, at[1], part) for part in parts)
                lost.append(float(min(own @ beyond, times * (own @ rest))))
            now = float(np.mean(lost[len(lost) // 2 :]))
            longer = self.hurried() and not self._parting  # few walks, and these had more time
            self.lost = max(now, self.lost) if longer else now
            went = moved / (steps := _STEPS * len(lost))
            if not (now < outside[last or now > before] and went > slow):
                break
        else:
            return True
        some = systematic(own * beyond + 1e-300, self.rng, policy.climbs)
        self.ended = placed(self.model, at[0][some])
        z, log_p = np.concatenate([z, *seen]), np.concatenate([log_p, *values])
        points = z, log_p, np.append(log_w, np.tile(np.log(own / steps), steps))
        self.blend = learnt(self.blend, self.model, points, log_z, self.rng, self.policy)
        return False

    def _doubtful(self, stage: int, cost: int, worth: float = 0.2, bare: float = 2.0) -> bool:
        """Whether walks that stayed are to go on, at the cost of so many evaluations: few walks,
        of one point at a time, where that is the part ``worth`` of all that were made, or ``bare``
        without a prior."""
        if stage == 1 and not self.hurried():  # of one point they cost more than they tell
            return self._parting or self.verdict.share <= self.policy.very_even
        if self.hurried() or cost > self.allowed.left * self.policy.part:
            return False
        small = cost < (bare if self.model.density else worth) * sum(self.allowed.counts.values())
        return self.lost > self.policy.unexplained if self.model.vectorized else small

    def blended(self, caution: float = 2.5) -> Blended:
        """What draws come from, as a reference; what is out of its reach counts ``caution`` times,
        as walks do not see all of it either."""
        assert self.blend is not None
        warnings = self.doubts
        if not self.confirmed:
            text = (
                f"draws of the mixture are worth {100 * self.verdict.share:.2g} % of their number "
                f"(Pareto k = {self.verdict.shape:.2f}), and evaluations were too few to make it "
                "reach further: the error bar may be too small"
            )
            warnings = (*warnings, Message("poor-reference", text))
        alive = np.isfinite(self.cloud.log_l[: self.cloud.screened])
        blind = alive.sum() < resolution(alive.size) * alive.size  # as large ones are unseen
        blind |= self.model.n > self.policy.low_dimension and self.unlooked
        if blind:
            text = (
                f"in {self.model.n} dimensions {alive.sum()} draws with a likelihood do not find "
                "every mode, there may be more: a higher effort=, or vectorized=True, meets more"
            )
            warnings = (*warnings, Message("modes-missed", text))
        sure = self.confirmed and not blind
        lost = max(caution * self.lost, 0.0 if sure else self.policy.rough)
        its = Blended(self.model, self.blend, self.verdict, lost, warnings)
        return replace(its, modes=self._parts(self.blend.chart), converged=self.confirmed)

    def _parts(self, chart: Chart) -> Array:
        """Modes that count, whitened; of those that an angle's cut has parted one."""
        rows = np.array([mode.x for mode in self.counting()]).reshape(-1, self.model.n)
        at, kept = whitened(self.model, rows), [0]
        if len(at) < 2 or not chart.cut.any():
            return at

        def height(z: Array) -> Array:
            flat = log_normal(chart.inward(z)) - log_normal(z)
            return self.cloud.log_p(z) + flat

        for i in range(1, len(at)):
            rows = chart.between(at[i], at[kept], np.array([0.0, *_BETWEEN, 1.0]))
            log_p = height(rows.reshape(-1, self.model.n)).reshape(-1, len(kept))
            if (log_p[1:-1].min(axis=0) < np.minimum(log_p[0], log_p[-1])).all():
                kept.append(i)
        return at[kept]
