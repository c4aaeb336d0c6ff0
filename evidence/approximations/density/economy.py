r"""A mixture for a density that is dear to call: from few points, none of them lost.

A net of points from the prior, a climb from the highest of them, and further climbs from the
highest of what the Gaussians at modes leave unexplained (:func:`.mixing.unexplained`), until a
few in a row lead to nothing new. Then rounds of draws of a mixture of these Gaussians and the
prior: with K rounds of n_k draws from q_k so far, all of their draws have the weights

.. math:: w(x) = p(x) \Big/ \sum_k \frac{n_k}{n} q_k(x)

and move the mixture, until the last round's own weights are even and walks from weighted draws
(differential evolution) stay where the mixture reaches. Where several modes were found a finer
net looks for more. Where nothing leads uphill, as on a plateau, a short scout takes the place of
climbs.

It is not for answers that have to be precise: :func:`.search.fit_density` looks longer.

References: J.-M. Cornuet et al., Scandinavian Journal of Statistics 39 (2012) 798 (rounds); R. K.
Ursem, Congress on Evolutionary Computation (1999) 1633 (valleys); C. J. F. ter Braak, Statistics
and Computing 16 (2006) 239 (walks).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import logsumexp, ndtri

from ...execution.clock import Stopped, also, check_interrupt
from ...execution.meter import Allowance, Meter
from ...messages import Message
from ...models.density.model import DensityModel
from ...numerics.arrays import Array, Flags
from ...statistics.resampling import systematic
from .cloud import Cloud
from .mixing import Blend, audible, defended, improve, merged, unexplained, walk
from .modes import COMPARABLE, climb, not_numbers, peaks, starts
from .policy import FRUGAL
from .reference import DensityReference, Mode, Scouted, density_prior_reference
from .scout import scout
from .verdict import Rough, Verdict, judged, rough, temper, usable

LARGEST = 6  # dimensions in which a net finds modes
_NET = {True: 512, False: 1024}  # points, in one or two dimensions and in more
_PATIENCE = 1e-3  # nats that a climb's step must gain
_FRUITLESS = {False: 3, True: 8}  # climbs in a row that find nothing new, after several did;
_CLIMBS = 64  # and from one net
_SLOPES = 3  # climbs in all from points that no valley parts from the modes known
_LAST, _ADDED = 15, 0.02  # climbs that end a search which is cut short, and what they may add
_SOUGHT, _SOUGHT_BY = 2**14, 64  # evaluations and points of a scout where there is no mode
_ASKED = 48  # points that are asked whether a valley parts them from the modes known
_NEAREST = 4  # of these
_BETWEEN = np.array([0.15, 0.4, 0.7])  # of the way to one
_PER_DIMENSION, _DRAWS = 50, (128, 512)  # draws of a round
_ROUNDS = 24  # of them
_SHAPE, _SHARE, _EVEN = 0.6, 0.2, 0.85  # of weights that are even enough; of very even ones
_COUNTS = 7.0  # nats below the best mode that count
_MISSED = 0.25  # of the target
_FINER = 7  # times as many points make a finer net
LONGER = 200_000  # evaluations of a longer look
_PART = 0.5  # of the evaluations allowed may be spent here
_GUARD, _WIDER = 0.2, 2.0  # part of every component, and its variance, that guards its tails
_GROWTH = 0, 2, 24  # components that stay, that are added at a time, and in all
_WALKERS, _STEPS, _ARCHIVE = {False: 48, True: 512}, 10, 512  # from weighted draws
_WALKS = (2.5, 40), (10.0, 120)  # accepted steps of a walker, and steps at most; further ones
_EASY = 0.7  # where weights are not so even: mass may lie around the corner
_MOVING = 0.1  # acceptance below which walks tell nothing
_STALLED, _LOST = 3, 0.03  # rounds in a row in which shares so small ask for a scout
_HEAVY = np.log(10.0)  # of a weight that no draws have shown
_OUT, _CAUTION = {False: 0.05, True: 0.01}, 2.5  # may end where the mixture does not reach
_WIDE = 4.0  # times the variance, and heavy tails, in the place of a prior
_TAILS = 0.2


@dataclass
class Economy:
    """What evaluations so far have shown of a density."""

    model: DensityModel
    blend: Blend | None = None
    verdict: Verdict = field(default_factory=lambda: Verdict(np.inf, 0.0, -np.inf))
    """Of the last round's own draws."""
    modes: tuple[Mode, ...] = ()
    gaussians: list[DensityReference] = field(default_factory=list)
    """Laplace's, of all modes that have one."""
    lost: float = 0.0
    """The part of walks that ended where the mixture does not reach."""
    warnings: tuple[Message, ...] = ()
    x: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """All points, in the model's coordinates, (M, d)."""
    log_p: Array = field(default_factory=lambda: np.zeros(0))
    rounds: list[tuple[int, Blend]] = field(default_factory=list)
    """Draws and their mixtures, those of the last points."""
    mixed: Array = field(default_factory=lambda: np.zeros(0))
    """log Σ_k n_k q_k(x) of these points."""
    confirmed: bool = False
    """Whether weights are even and walks stay where the mixture reaches."""
    fruitless: int = 0
    sought: bool = False
    """Whether a scout began the mixture, as nothing leads uphill."""
    slopes: int = 0
    """Climbs from points that no valley parts from a mode."""
    gains: list[float] = field(default_factory=list)
    """log Z of what every climb from the present net found."""
    thorough: bool = False
    """Whether walks are so many that they tell a small loss."""

    @property
    def good(self) -> bool:
        """Whether weights are even enough to be relied on."""
        even = self.verdict.shape < _SHAPE or self.verdict.share > _EVEN
        return self.verdict.share > _SHARE and even

    @property
    def several(self) -> bool:
        """Whether more than one mode counts."""
        return sum(mode.logz > self.modes[0].logz - COMPARABLE for mode in self.modes) > 1

    def settled(self, meter: Meter | Allowance, over: bool) -> bool:
        """Whether to go on with what there is: it is good, or a longer look is out of reach."""
        enough = self.confirmed and self.model.n <= LARGEST
        return enough or over or meter.left < LONGER

    def reference(self, target_se: float) -> Blended:
        """What draws come from, as a reference.

        Where there are several modes, a net may have missed a small one: error bars are not
        below a quarter of the target.
        """
        assert self.blend is not None
        logz, warnings = self.verdict.logz, self.warnings
        if not self.confirmed:
            text = (
                f"draws of the mixture are worth {100 * self.verdict.share:.2g} % of their number "
                f"(Pareto k = {self.verdict.shape:.2f}), and evaluations were too few to make it "
                "reach further: the error bar may be too small"
            )
            warnings = (*warnings, Message("poor-reference", text))
        if self.model.n > LARGEST:
            text = (
                f"in {self.model.n} dimensions the points that evaluations allowed do not find "
                "every mode: there may be more"
            )
            warnings = (*warnings, Message("modes-missed", text))
        lost = _CAUTION * self.lost  # walks do not reach everywhere either
        lost = max(lost, _MISSED * target_se) if self.several else lost
        return Blended(self.model, self.proposal, self.verdict, logz, lost, warnings)

    def look(self, rng: np.random.Generator, n: int) -> None:
        """The net, where a density may be NaN; the first of the rounds where there is a prior."""
        model = self.model
        x = starts(model, rng, n) if model.prior is None else _net(model, rng, n)
        log_l = model.calls["logdensity"](model.arguments(x))
        self.warnings = not_numbers(model, log_l)
        rest = model.log_prior(x)
        self.x, self.log_p = x, np.where(np.isnan(log_l), -np.inf, log_l + rest)
        if model.prior is not None:
            self._count(n, Blend((density_prior_reference(model),), np.ones(1)))

    def _count(self, n: int, blend: Blend, first: bool = False) -> None:
        """One more mixture, whose ``n`` draws are the last points, or the first: every point and
        every mixture meet once."""
        total = self.mixed.size + n
        x = self.x[-total:]
        new, old = (x[:n], x[n:]) if first else (x[total - n :], x[: total - n])
        self.rounds.insert(0 if first else len(self.rounds), (n, blend))
        self.mixed = np.logaddexp(self.mixed, blend.log(old) + np.log(n))
        own = logsumexp([q.log(new) + np.log(size) for size, q in self.rounds], axis=0)
        self.mixed = np.concatenate([own, self.mixed] if first else [self.mixed, own])

    def climb(self) -> None:
        """Modes uphill of points that those known do not explain, beyond a valley."""
        rng = np.random.default_rng(self.log_p.size)
        asked, before = np.zeros(self.log_p.size, bool), -1
        while len(self.modes) > max(before, 1) or before < 0:
            before = len(self.modes)
            some = np.flatnonzero(self._beyond() & ~asked)
            tops = some[peaks(self.x[some], self.log_p[some], rng)][:_ASKED]
            few = rng.permutation(np.setdiff1d(some, tops))[: _ASKED - tops.size]
            asked[tops] = asked[few] = True
            slopes = []
            for one in [*tops, *few[np.argsort(-self.log_p[few])]]:
                if self.fruitless >= _FRUITLESS[len(self.modes) > 1] or len(self.gains) >= _CLIMBS:
                    break
                if not self._beyond([one]).all():
                    continue
                if self._apart(self.x[one], self.log_p[one]):
                    self._climb_from(self.x[one])
                else:
                    slopes.append(one)
            self._climb_slopes(slopes)

    def _climb_slopes(self, points: Sequence[int]) -> None:
        """The far side of a narrow mode may rise all the way to a broad one, without a valley."""
        fruitless = self.fruitless
        for one in points:
            if self.slopes >= _SLOPES or len(self.gains) >= _CLIMBS:
                break
            if self._beyond([one]).all():
                self.slopes += 1
                self._climb_from(self.x[one])
        self.fruitless = min(fruitless, self.fruitless)

    def _climb_from(self, start: Array) -> None:
        found = climb(self.model, start, self.modes, _PATIENCE)
        self.fruitless = 0 if found else self.fruitless + 1
        self.gains.append(found.logz if found else -np.inf)
        if found is not None:
            if usable(found.cov):
                self.gaussians.append(_at(self.model, found))
            self.modes = tuple(sorted([*self.modes, found], key=lambda mode: -mode.logz))
            self._include(found)

    def _apart(self, x: Array, log_p: float) -> bool:
        """Whether there is a valley between a point and each of the modes (Ursem 1999)."""
        if not self.modes:
            return True
        ends = np.array([mode.x for mode in self.modes])
        ends = ends[np.argsort(((ends - x) ** 2).sum(axis=1))[:_NEAREST]]
        between = x + _BETWEEN[:, None, None] * (ends - x)
        values = self.model.log_prob(between.reshape(-1, self.model.n))
        lowest = values.reshape(len(_BETWEEN), -1).min(axis=0)
        return bool((lowest < log_p).all())

    def _complete(self) -> bool:
        """Whether further climbs would hardly add to what the modes found hold together."""
        held = logsumexp([mode.logz for mode in self.modes] or [0.0])
        return len(self.gains) < _CLIMBS or logsumexp(self.gains[-_LAST:]) < held + np.log(_ADDED)

    def _include(self, mode: Mode) -> None:
        """A mode found late becomes a component, and weights have to be looked at again."""
        if self.blend is None or not usable(mode.cov):
            return
        *own, rest = self.blend.references
        weights = self.blend.weights[:-1]
        equal = weights.sum() / max(len(own), 1)
        own.append(_at(self.model, mode))
        self.blend = defended(own, np.append(weights, equal or 1.0), rest)
        self.verdict = self.verdict._replace(share=0.0)

    def _beyond(self, some: Sequence[int] | slice = slice(None)) -> Flags:
        """Points that no mode's Gaussian, nor the mixture without its defence, explains."""
        x, log_p = self.x[some], self.log_p[some]
        finite = np.isfinite(log_p)
        if not self.gaussians:
            return finite
        logz = float(logsumexp([q.logz for q in self.gaussians]))
        log_q = [q.log_density.log(x) + q.logz - logz for q in self.gaussians]
        if self.blend is not None and len(self.blend.references) > 1:
            log_q.append(self.blend.log_own(x))
            logz = max(logz, self.verdict.logz)
        return finite & (unexplained(np.max(log_q, axis=0), log_p, logz) > 0.5)

    def seek(self, rng: np.random.Generator, meter: Meter | Allowance) -> None:
        """On plateaus, where nothing leads uphill: a mixture for what a short scout sees."""
        assert self.blend is not None
        assert self.model.prior is not None
        self.sought = True
        budget = int(min(_SOUGHT, 0.5 * _PART * meter.left))
        screened = replace(FRUGAL, screened=8 * _SOUGHT_BY, screened_in_batches=8 * _SOUGHT_BY)
        cloud = Cloud(self.model).screen(rng, screened)
        seen = scout(cloud, rng, _SOUGHT_BY, budget=budget)
        if not np.isfinite(seen.se):
            return
        log_p = seen.log_l + self.model.prior.log_prob(seen.x)
        blend = improve(self.blend, seen.x, log_p, seen.log_w, seen.logz, rng, *_GROWTH)
        self.blend = audible(merged(blend))

    def begin(self) -> bool:
        """A mixture of the modes that count; False where there is none."""
        own = [_at(self.model, m) for m in self.modes if usable(m.cov)]
        own = [q for q in own if q.logz > own[0].logz - _COUNTS]
        if not own and self.model.prior is None:
            return False
        weights = np.exp([q.logz - own[0].logz for q in own])
        self.blend = audible(defended(own, weights, _rest(self.model, own, weights)))
        return True

    @property
    def proposal(self) -> Blend:
        """What draws come from: the mixture, with a wider copy of every component."""
        assert self.blend is not None
        *own, rest = self.blend.references
        weights = self.blend.weights
        wide = [replace(q, cov=_WIDER * q.cov) for q in own]
        weights = np.concatenate(
            [(1.0 - _GUARD) * weights[:-1], _GUARD * weights[:-1], weights[-1:]]
        )
        return Blend((*own, *wide, rest), weights)

    def round(self, rng: np.random.Generator, n: int) -> None:
        """Draws, and what they say."""
        assert self.blend is not None
        proposal = self.proposal
        x = proposal.draw(rng, n)
        log_p = self.model.log_prob(x)
        with np.errstate(invalid="ignore"):
            log_w = log_p - proposal.log(x)
        self.verdict = judged(np.where(np.isfinite(log_p), log_w, -np.inf))
        self.x, self.log_p = np.concatenate([self.x, x]), np.concatenate([self.log_p, log_p])
        self._count(n, proposal)

    def _weighted(self) -> tuple[Array, Array, Array, Array]:
        """Draws of all rounds, their log p, log q and log weights."""
        n = self.mixed.size
        x, log_p, log_q = self.x[-n:], self.log_p[-n:], self.mixed - np.log(n)
        return x, log_p, log_q, np.where(np.isfinite(log_p), log_p - log_q, -np.inf)

    def estimate(self) -> Rough:
        """log Z by all rounds' draws: rough, as they moved the mixture."""
        return rough(self._weighted()[3] if self.mixed.size else self.mixed)

    def move(self, rng: np.random.Generator) -> None:
        """The mixture to where the weights of all rounds are."""
        assert self.blend is not None
        x, _, log_q, log_w = self._weighted()
        enough = 4.0 * self.model.n + 50.0
        if np.isfinite(log_w).sum() < enough:
            return
        logz = float(logsumexp(log_w)) - np.log(log_w.size)
        kappa, w = temper(log_w, enough)
        with np.errstate(divide="ignore"):
            used = np.log(w)
        tempered = log_q + kappa * np.where(np.isfinite(log_w), log_w, 0.0)
        self.blend = improve(self.blend, x, tempered, used, kappa * logz, rng, *_GROWTH)
        self.blend = audible(merged(self.blend))

    def walk(self, rng: np.random.Generator) -> bool:
        """Whether walks from weighted draws stay where the mixture reaches; else it is moved.

        Steps are differences of such draws (differential evolution).
        """
        assert self.blend is not None
        walkers = _WALKERS[self.thorough]
        x, log_p, _, log_w = self._weighted()
        w = np.exp(log_w - log_w.max())
        w /= w.sum()
        archive = x[systematic(w, rng, _ARCHIVE)]
        chosen = rng.permutation(systematic(w, rng, walkers))
        start = x[chosen], log_p[chosen]
        kinds = self.blend.log_parts(archive)[:, :-1].argmax(axis=1) if self.several else None
        seen, values = np.zeros((0, walkers, self.model.n)), np.zeros((0, walkers))
        moved = 0.0
        logz = float(logsumexp(log_w)) - np.log(log_w.size)
        # a Gaussian thins out towards the corners of a plateau, where no weight has a tail
        reach = min(max(self.verdict.top, logz), logz + _HEAVY) if self.sought else logz
        for enough, most in _WALKS[: 1 if self.verdict.share > _EASY else 2]:
            while len(seen) < most and moved < enough:
                more, high, accepted = walk(self.model, start, archive, rng, _STEPS, kinds)
                seen, values = np.concatenate([seen, more]), np.concatenate([values, high])
                start, moved = (more[-1], high[-1]), moved + _STEPS * accepted
            self.lost = float(unexplained(self.proposal.log(seen[-1]), values[-1], reach).mean())
            stay = self.lost < _OUT[self.thorough] and moved > _MOVING * len(seen)
            if not stay:
                break
        if stay:
            return True
        x, log_p = np.concatenate([x, *seen]), np.concatenate([log_p, *values])
        half = np.full(values.size, 1.0 / values.size)
        with np.errstate(divide="ignore"):
            log_w = np.log(0.5 * np.concatenate([w, half]))
        self.blend = audible(merged(improve(self.blend, x, log_p, log_w, logz, rng, *_GROWTH)))
        return False

    def rounds_until_good(
        self, rng: np.random.Generator, most: int, meter: Meter | Allowance
    ) -> None:
        """Rounds, and climbs and walks from what they find."""
        n, shares = int(np.clip(_PER_DIMENSION * self.model.n, *_DRAWS)), list[float]()
        for k in range(most):
            check_interrupt()
            if k and meter.most is not None and meter.left < n + _PART * meter.most:
                return
            self.round(rng, n if meter.most is None else int(np.clip(_PART * meter.left, 16, n)))
            shares.append(self.verdict.share)
            if not self.good:
                lost = k + 1 >= _STALLED and max(shares[-_STALLED:]) < _LOST
                if lost and not self.sought and self.model.prior is not None:
                    self.seek(rng, meter)
                else:
                    self.move(rng)
                continue
            self.climb()
            if self.good and self.walk(rng):
                self.confirmed = self._complete()
                return

    def widen(self, rng: np.random.Generator) -> None:
        """A finer net, and climbs from it: where there are several modes there may be more."""
        n = _FINER * self.rounds[0][0]
        x = _net(self.model, rng, n)
        log_p = self.model.log_prob(x)
        self.x, self.log_p = np.concatenate([x, self.x]), np.concatenate([log_p, self.log_p])
        self._count(n, self.rounds[0][1], first=True)
        before, self.fruitless, self.gains = len(self.modes), 0, []
        self.climb()
        self.confirmed &= self._complete()
        self.confirmed &= len(self.modes) == before


@dataclass(frozen=True, eq=False)
class Blended:
    """A mixture that is drawn from as a whole: a reference for importance sampling alone."""

    model: DensityModel
    blend: Blend
    verdict: Verdict
    logz: float
    lost: float = 0.0
    """The part of the posterior that may be out of reach."""
    warnings: tuple[Message, ...] = ()
    scouted: Scouted | None = None
    """What a look from the prior said, if there was one."""
    name = "mixture"
    converged = True


def economise(
    model: DensityModel, seed: int, meter: Meter | Allowance, *, thorough: bool = False
) -> Economy:
    """As much as it takes, or what there was when evaluations or time were over.

    Examples
    --------
    >>> from evidence import GaussianPrior
    >>> model = DensityModel(lambda x: -0.5 * x @ x, dim=2, prior=GaussianPrior(np.zeros(2)))
    >>> economy = economise(model, 0, Meter())
    >>> economy.good, len(economy.modes), bool(abs(economy.verdict.logz + np.log(2.0)) < 0.1)
    (True, 1, True)
    """
    rng, economy = np.random.default_rng([seed, 3]), Economy(model, thorough=thorough)
    net = _NET[model.n <= 2]
    with suppress(Stopped):
        economy.look(rng, net if meter.most is None else min(net, max(meter.most // 8, 32)))
        enough = meter.left * _PART
        with suppress(Stopped), also(lambda: meter.left < enough):
            economy.climb()
        if economy.begin():
            if not economy.modes and model.prior is not None and meter.left > 2 * _SOUGHT:
                economy.seek(rng, meter)
            economy.rounds_until_good(rng, _ROUNDS, meter)
        if economy.several and model.prior is not None and meter.left * _PART > _FINER * net:
            economy.widen(rng)
            if not economy.confirmed:
                economy.rounds_until_good(rng, _ROUNDS, meter)
    return economy


def _net(model: DensityModel, rng: np.random.Generator, n: int) -> Array:
    """Draws of the prior, more evenly spread than independent ones."""
    from scipy.stats import qmc

    assert model.prior is not None
    points = qmc.Sobol(model.n, rng=rng).random_base2(int(np.ceil(np.log2(n))))[:n]
    z = ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))
    return model.prior.mean + z @ model.prior.chol.T


def _at(model: DensityModel, mode: Mode) -> DensityReference:
    """Laplace's Gaussian."""
    return DensityReference("fitted", model, mode.x, mode.cov, mode.logz)


def _rest(
    model: DensityModel, own: Sequence[DensityReference], weights: Array
) -> DensityReference:
    """The prior, or something wide in its place."""
    if model.prior is not None:
        return density_prior_reference(model)
    share = weights / weights.sum()
    mean = share @ np.array([q.mean for q in own])
    cov = sum(
        s * (q.cov + np.outer(q.mean - mean, q.mean - mean))
        for s, q in zip(share, own, strict=True)
    )
    return DensityReference("wide", model, mean, _WIDE * cov, 0.0, tails=_TAILS)
