r"""Where islands over θ start: a surrogate of EP's evidence, learnt from a few looks at it.

The first looks are at EP's optimum, less than a standard deviation away in every direction, and,
for other modes, at a Sobol' net all over the prior. Each further one is where the surrogate may
hide most: where :math:`p(\theta)\, e^{m(\theta)} (e^{v(\theta)} - 1)^{1/2}`, the standard
deviation of the density under the surrogate's Gaussian process, is largest. A trial with
unbiased estimates then tells what draws from the surrogate are worth. Where they are worth
little, one climb chooses temperatures by their conditional ESS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf
from scipy.stats import qmc

from ..execution.clock import Clock
from ..execution.job import Job
from ..execution.tasks import run_in_order
from ..messages import Message
from ..models.priors import Priors
from ..moves.base import take
from ..numerics.arrays import Array
from ..statistics import ladders
from ..statistics.resampling import systematic
from ..statistics.weights import Weights, incremental, pareto_shape
from .at_theta import Look, NoEvidence
from .integral import EvidenceAt, StudentMixture, SurrogateStart, ThetaCloud, ThetaPath, ThetaPlan
from .surrogate import Known, Surrogate

_MATTERS = 12.0  # nats below the best
_CESS = 0.6


class LooksAt(EvidenceAt, Protocol):
    """What is integrated, and EP's noiseless word on it."""

    @property
    def fewest(self) -> int:
        """Latent draws behind an estimate that cost little beside the fit."""

    def look(self, theta: Array) -> Look:
        """EP's evidence and its gradient, or :class:`.NoEvidence`."""

    def near(self, places: Array, looks: list[Look], root: Array, n_draws: int) -> LooksAt:
        """The same, begun from what was seen at some places, by so many latent draws."""


class ThetaPilot(NamedTuple):
    """What a pilot found, and the relative ESS of an island's weights."""

    path: ThetaPath
    start: SurrogateStart
    plan: ThetaPlan
    ess: float
    doubt: tuple[Array, Array]
    """Masses of places and the relative variance that errors there add, largest first."""
    n_draws: int
    notes: list[str]
    warnings: list[Message]

    def unseen(self, m: int, *, unseen: float = 0.35) -> float:
        r"""Relative variance that ``m`` draws may not show: of places too rare for them.

        A place of mass l/m is visited k times, which is Poisson: of the variance l v/m² that
        its error v adds, the spread of draws shows k, and the square of the error is (l - k)².
        With a part U of it added, the mean square of z is
        :math:`\sum_k e^{-l} l^k/k!\, (l - k)^2/(k + \min(U, l))`. Averaged over l from 0.1 to 10,
        evenly in its logarithm, this is 1.1 at U = 0.35.

        ``unseen``: expected draws below which a place is added to what their spread tells.
        """
        mass, variance = self.doubt
        before = np.cumsum(mass) - mass
        return float(np.clip(unseen / m - before, 0.0, mass) @ variance) / m


class Fit(NamedTuple):
    """A start, the surrogate in it, and weighted draws that show where its mass is."""

    start: SurrogateStart
    surrogate: Surrogate
    cloud: Array
    log_w: Array
    mean: Array
    root: Array
    wide: StudentMixture
    """A proposal for the case that nothing is known."""


@dataclass
class Looks:
    """Where EP's evidence has been computed, and what it was; None where it failed."""

    evidence: LooksAt
    priors: Priors
    clock: Clock
    theta: Array
    seen: list[Look | None] = field(default_factory=list)

    def at(self, theta: Array) -> None:
        """Look at those rows of θ where the prior has a density, on all cores."""
        inside = theta[self.priors.log_density(theta) > -np.inf]
        job, tasks = Job(_look, (self.evidence,)), [{"theta": row} for row in inside]
        self.seen += run_in_order(job, tasks, self.clock)
        self.theta = np.concatenate([self.theta, inside])

    def known(self, *, failed: float = 60.0) -> Known:
        """Values and slopes. Where numbers fail it is low and flat, and counts little.

        ``failed``: nats below the best as which a place without evidence counts.
        """
        p, height = self.theta.shape[1], self.priors.log_density(self.theta)
        value = np.array([np.nan if one is None else one.log_z for one in self.seen])
        gradient = np.array([np.zeros(p) if one is None else one.gradient for one in self.seen])
        lost = np.isnan(value)
        if lost.all():
            raise RuntimeError(
                "no hyperparameters near EP's optimum have an evidence: "
                "is the covariance positive definite there? pass a larger jitter to GPModel"
            )
        top = np.nanmax(value + height)
        value[lost] = top - failed - height[lost]
        return Known(self.theta, value, gradient, top - value - height)

    def surrogate(
        self, mean: Array, root: Array, knee: float = 20.0, step: float = 1e-4, *,
        bottom: float = 60.0,
    ) -> Surrogate:  # fmt: skip
        """Of what was seen, but for depths that no quadratic reaches; where that promises mass in
        one of these, of all that was seen, with the logarithms of depths beyond the ``knee``.

        In nats; of 10, 20, 40, 80 it takes the fewest looks at zero-inflated counts among those
        that are not too sure of themselves. The prior's slope is taken over a ``step``.

        ``bottom``: nats below the best beyond which looks are left out as long as nothing is
        amiss.
        """
        known, p = self.known(), self.theta.shape[1]
        plain = Surrogate.fit(known.upper(bottom), mean, root)
        deep, height = self.theta[known.depth >= bottom], self.priors.log_density
        if not len(deep):
            return plain
        top = float(np.max(known.value + height(self.theta)))
        promised = height(deep) + plain.mean(deep) + np.minimum(plain.variance(deep), _MATTERS)
        if promised.max() < top - _MATTERS:
            return plain
        depth = np.maximum(known.depth, 0.0)
        rate = 1.0 / np.maximum(depth / knee, 1.0)
        less = depth - depth * rate * (1.0 - np.log(rate))
        steps = step * np.eye(p)
        ends = np.array([height(self.theta + s) for s in (*steps, *-steps)])
        slope = np.nan_to_num((ends[:p] - ends[p:]).T / (2.0 * step), posinf=0.0, neginf=0.0)
        gradient = rate[:, None] * known.gradient - (1.0 - rate[:, None]) * slope
        bent = Known(known.theta, known.value + less, gradient, depth - less)
        return Surrogate.fit(bent, mean, root, knee)

    def evidence_near(self, root: Array, n_draws: int) -> LooksAt:
        """The evidence, begun from the nearest of the places that matter."""
        used = np.flatnonzero(self.known().depth < _MATTERS)
        return self.evidence.near(self.theta[used], [self.seen[i] for i in used], root, n_draws)  # type: ignore[misc]


def run_pilot(
    evidence: LooksAt, priors: Priors, centre: Array, sd: Array, rng: Generator, clock: Clock,
    variance: float = 0.1, n_draws: int | None = None, others: Sequence[Array] = (), *,
    n_trial: int = 16, climbers: int = 64, most_draws: int = 256, rounds: int = 3,
    good: float = 0.8, enough: float = 0.15, tail: float = 0.7,
) -> ThetaPilot:  # fmt: skip
    """A start that fits, from a first guess at it, and the ladder from there.

    ``others`` are further modes, about which it looks as it does about the ``centre``.

    Weights of this relative ``variance`` are good enough: a fifth of it is for the
    surrogate, a quarter for the latent draws behind an estimate, whose number is chosen where
    ``n_draws`` is None.

    ``n_trial``: θ of a trial; ``climbers``: θ that climb a ladder; ``most_draws``: latent draws
    behind an estimate; ``rounds``: trials after which the fit is as it is; ``good``: relative ESS
    of a trial after which nothing better is looked for; ``enough``: relative ESS at which the
    ladder needs one step; ``tail``: Pareto shape above which an error bar is doubtful.
    """
    sd = np.where(np.isfinite(sd) & (sd > 0), np.clip(sd, 0.01, 3.0), 1.0)
    sd = np.minimum(sd, np.ptp(priors.support(), axis=1) / np.sqrt(12.0))
    looks = Looks(evidence, priors, clock, np.zeros((0, centre.size)))
    draws, misfit = n_draws or evidence.fewest, 0.2 * variance
    fit = explore(looks, [centre, *others], sd, rng, misfit)
    for trial in range(rounds):
        path = ThetaPath(looks.evidence_near(fit.root, draws), priors, fit.start)
        cloud = try_out(path, n_trial, rng, clock)
        (ess, control), noise = worth_of(cloud), noise_of(cloud)
        wanted = draws
        if n_draws is None:
            wanted = int(draws * np.clip(4.0 * noise / variance, 1.0, most_draws / draws))
        if ess > good or trial == rounds - 1:
            break
        draws = wanted
        looks.at(cloud.theta)
        fit = refined(looks, fit, rng, misfit, len(looks.seen) + n_trial)
    if wanted > draws:
        ess = 1.0 / (1.0 + max(1.0 / ess - 1.0 - noise, 0.0) + noise * draws / wanted)
        path = replace(path, evidence=looks.evidence_near(fit.root, wanted))
    worth = (
        f"EP's evidence at {len(looks.seen)} settings of the hyperparameters was interpolated; of "
        f"what that draws, {n_trial} are worth"
    )
    if ess < enough:
        plan = _climb(path, try_out(path, climbers, rng, clock), fit.root, rng)
        steps = plan.betas.size
        notes = [f"{worth} {ess * n_trial:.1f}: tempered over {steps} steps"]
        nowhere = np.zeros(0), np.zeros(0)
        return ThetaPilot(path, fit.start, plan, _CESS / steps, nowhere, wanted, notes, [])
    notes, warnings = [f"{worth} {ess * n_trial:.1f}: not tempered"], []
    shape = pareto_shape(np.sort(cloud.tilt[np.isfinite(cloud.tilt)]))
    if ess < good and shape > tail:
        text = (
            f"the pilot's weights have a heavy tail (Pareto k = {shape:.2f}): the error bar may "
            "be too small; a prior that rules out what the data cannot tell helps"
        )
        warnings.append(Message("heavy-tail", text))
    plan = ThetaPlan(np.ones(1), fit.root, 0, control)
    return ThetaPilot(path, fit.start, plan, ess, hidden(fit, rng), wanted, notes, warnings)


def explore(
    looks: Looks, centres: Sequence[Array], sd: Array, rng: Generator, misfit: float, *,
    rare: float = 1e-4, near: float = 0.7,
) -> Fit:  # fmt: skip
    """Look at the modes, beside them, and far away; then where most may be hidden.

    ``rare``: share of a prior's mass beyond the looks along one axis; ``near``: standard
    deviations between the optimum and the looks beside it.
    """
    p, centre = sd.size, centres[0]
    low, high = box(looks.priors, centre)
    net = qmc.Sobol(p, rng=rng).random_base2(int(np.ceil(np.log2(2 * p + 3))))
    ends = [centre + np.diag(end - centre) for end in box(looks.priors, centre, rare)]
    beside = [part for at in centres for part in (at[None], at + near * np.diag(sd))]
    looks.at(np.vstack([*beside, low + (high - low) * net, *ends]))
    k = len(centres)
    wide = StudentMixture(
        np.array([0.5 / k] * k + [0.5]),
        np.array([*centres, 0.5 * (low + high)]),
        np.array([np.diag(1.5 * sd)] * k + [np.diag(0.3 * (high - low))]),
    )
    fit = fit_start(looks, centre, np.diag(sd), wide, rng)
    return refined(looks, fit, rng, misfit, 20 + 18 * p * k)


def refined(
    looks: Looks, fit: Fit, rng: Generator, misfit: float, most: int, *, rounding: float = 1e-4,
    least_surprise: float = 0.2, most_surprise: float = 25.0, n_check: int = 4,
    rare: float = 7.0, higher: float = 0.3,
) -> Fit:  # fmt: skip
    """Look until the surrogate is sure enough of itself, and nothing is amiss where it says less
    than looks nearby; it is told when it was too sure.

    ``rounding``: squared nats of rounding in a surrogate; ``least_surprise``: surprise, in the
    surrogate's variances, below which nothing is amiss; ``most_surprise``: surprise, in its
    variances, that counts at most; ``n_check``: looks of a check for each dimension, and once more
    (of 16 runs with clusters RMS z was 1.6 with 2, .84 with 4); ``rare``: nats below the best
    beyond which a surprise is none; ``higher``: nats above the start that are one. After one there
    are up to twice as many looks.
    """
    surprise, p, limit = 1.0, looks.theta.shape[1], 2 * most
    while len(looks.seen) < most and not looks.clock.stop():
        theta, left = next_looks(fit, rng, 1 + p)
        sure = left < misfit
        if sure:
            theta = unlike(looks, fit, n_check * (1 + p))
        mean, variance = fit.surrogate.mean(theta), fit.surrogate.variance(theta)
        looks.at(theta)
        known = looks.known()
        value, depth = known.value[-len(theta) :], known.depth[-len(theta) :]
        more = value + looks.priors.log_density(theta) - fit.start.log_density(theta)
        if sure and not np.any((depth < rare) & (more > higher)):
            break
        most = min(most + 2 * sure * len(theta), limit)
        seen = depth < _MATTERS
        if seen.any():
            squares = (value - mean)[seen] ** 2 / (variance[seen] + rounding)
            surprise = 0.5 * (surprise + min(float(squares.mean()), most_surprise))
        fit = fit_start(looks, fit.mean, fit.root, fit.wide, rng, max(surprise, least_surprise))
    return fit


def unlike(looks: Looks, fit: Fit, n: int) -> Array:
    """Where most would be beyond the start, were the evidence what it is at the nearest look, or
    as much less as its slope there says."""
    known, prior = looks.known(), looks.priors.log_density(fit.cloud)
    theta, prior = fit.cloud[prior > -np.inf], prior[prior > -np.inf]
    z = fit.surrogate.white(theta)
    apart = np.array([np.sum((z - at) ** 2, axis=1) for at in fit.surrogate.white(known.theta)])
    near, nearest = apart.argmin(axis=0), apart.min(axis=0)
    slope = np.sum(known.gradient[near] * (theta - known.theta[near]), axis=1)
    height = prior + known.value[near] + np.minimum(slope, 0.0)
    less = np.minimum(fit.start.log_density(theta) - height, -1e-9)
    excess = height + np.log(-np.expm1(less))
    picked = list[int]()
    for _ in range(n):
        picked.append(i := int(np.argmax(excess)))
        away = np.sum((z - z[i]) ** 2, axis=1)
        excess[away < nearest] = -np.inf
        nearest = np.minimum(nearest, away)
    return theta[picked]


def worth_of(cloud: ThetaCloud) -> tuple[float, bool]:
    """Relative effective sample size of draws, and whether it needs their control variate."""
    top = float(np.max(cloud.tilt))
    if not np.isfinite(top):
        return 0.0, False
    w = np.exp(cloud.tilt - top)
    with np.errstate(over="ignore", invalid="ignore"):  # a control that knows nothing
        parts = w, w - np.exp(cloud.control - top)
        plain, controlled = (float(np.var(part, ddof=1) / w.mean() ** 2) for part in parts)
    return 1.0 / (1.0 + min(plain, controlled)), controlled <= plain


def noise_of(cloud: ThetaCloud) -> float:
    """Variance of log Ẑ about EP's log Z."""
    alive = np.isfinite(cloud.target)
    gap = cloud.target[alive] - cloud.ep[alive]
    return float(gap.var(ddof=1)) if gap.size > 1 else 0.0


def try_out(path: ThetaPath, m: int, rng: Generator, clock: Clock) -> ThetaCloud:
    """Draws from the start with unbiased estimates of their evidence, on all cores."""
    theta = path.start.draw(rng, m)[0]
    tasks = [{"theta": row, "rng": child} for row, child in zip(theta, rng.spawn(m), strict=True)]
    clouds = run_in_order(Job(_one, (path,)), tasks, clock)
    return ThetaCloud(*map(np.concatenate, zip(*clouds, strict=True)))


def box(
    priors: Priors, centre: Array, beyond: float = 0.01, *, far: float = 6.0
) -> tuple[Array, Array]:
    """Where the priors have all their mass but ``beyond``, and not too far from ``centre``.

    ``far``: distance of wide looks from the optimum, in standard deviations at most.
    """
    ends = []
    for unit, support in zip(np.eye(centre.size), priors.support() - centre[:, None], strict=True):
        t = np.linspace(*np.clip(support, -far, far), 1201)  # type: ignore[call-overload]
        density = priors.log_density(centre + t[:, None] * unit)
        density = np.exp(density - density.max())
        share = np.cumsum(density) / density.sum()
        ends.append(t[np.searchsorted(share, [0.5 * beyond, 1.0 - 0.5 * beyond])])
    return tuple(centre + np.array(ends).T)


def fit_start(
    looks: Looks, mean: Array, root: Array, wide: StudentMixture, rng: Generator,
    surprise: float = 1.0, *, highest: float = 10.0, floor: float = 0.01, n_cloud: int = 2048,
    per_island: int = 800, largest: int = 16384, fits: int = 6, fitting: float = 0.6,
) -> Fit:  # fmt: skip
    """A surrogate of what was seen, in these units, and a proposal that fits it.

    Its variances are larger by ``surprise``, the mean square of its last errors in their units.

    ``highest``: nats that the evidence may exceed all that was seen by, and deviations of the
    posterior over which it may rise as fast as the prior falls (where they contradict each other,
    by ten nats on one); ``floor``: share of the proposal in a start; ``n_cloud``: draws that show
    a surrogate's mass; ``per_island``: draws of a cloud, times its relative ESS, for an island;
    ``largest``: draws of a cloud at most; ``fits``: mixtures in a row, at most; ``fitting``:
    relative ESS of a mixture that fits.
    """
    known, proposal = looks.known(), wide
    surrogate = looks.surrogate(mean, root)
    surrogate = replace(surrogate, scale=surrogate.scale * np.sqrt(surprise))
    height = known.value + looks.priors.log_density(known.theta)
    ends = known.theta[height.argmax()] + 0.01 * np.array([root.T, -root.T])
    falls = np.subtract(*map(looks.priors.log_density, ends)) / 0.02  # the prior, on a deviation
    rises = float(np.linalg.norm(np.nan_to_num(falls, posinf=0.0, neginf=0.0)))
    ceiling = known.value.max() + highest * (1.0 + rises), height.max() + 1.0
    start = SurrogateStart(looks.priors, surrogate, ceiling, wide)
    for _ in range(fits):
        start = replace(start, proposal=proposal)
        cloud = proposal.draw(rng, n_cloud)[0]
        log_w = start.log_density(cloud) - proposal.log_density(cloud)
        weights = Weights(log_w)
        mean, root = moments(cloud, weights.relative, root)
        if weights.ess > fitting:
            break
        proposal = mixture(cloud, weights.relative, mean, root, wide, rng)
    wanted = np.clip(per_island / max(float(weights.ess), 1e-9), per_island, largest)
    size = 2 ** int(np.ceil(np.log2(wanted)))
    start = replace(start, floor=float(weights.log_mean) + np.log(floor), size=size)
    return Fit(start, surrogate, cloud, log_w, mean, root, wide)


def mixture(
    cloud: Array, w: Array, mean: Array, root: Array, wide: StudentMixture, rng: Generator, *,
    components: int = 8, width: float = 0.3,
) -> StudentMixture:  # fmt: skip
    """Student-t's about groups of weighted draws, and a tenth of the ``wide`` ones.

    ``components``: of a mixture, at most; ``width``: width of a component at least, in posterior
    standard deviations.
    """
    z = solve_triangular(root, (cloud - mean).T, lower=True).T
    seeds = z[systematic(w, rng, components)]
    nearest = np.argmin(np.sum((z[:, None] - seeds) ** 2, axis=2), axis=1)
    parts = [(0.1 * share, *part) for share, *part in zip(*wide, strict=True)]
    for k in np.unique(nearest):
        own = np.where(nearest == k, w, 0.0)
        if own.sum() > 0.0:
            at = own @ z / own.sum()
            cov = ((z - at).T * own) @ (z - at) / own.sum() + width**2 * np.eye(at.size)
            part = mean + root @ at, root @ np.linalg.cholesky(cov)
            parts.append((0.9 * own.sum() / w.sum(), *part))
    return StudentMixture(*map(np.array, zip(*parts, strict=True)))


def moments(theta: Array, w: Array, otherwise: Array) -> tuple[Array, Array]:
    """Weighted mean and lower root of the covariance; ``otherwise`` where too few count."""
    w = w / w.sum()
    mean = w @ theta
    centred = theta - mean
    if 1.0 / np.sum(w * w) < 4.0 * theta.shape[1]:
        return mean, otherwise
    root, info = dpotrf((w[:, None] * centred).T @ centred, lower=1, clean=1)
    return mean, root if info == 0 else otherwise


def doubts(
    fit: Fit, rng: Generator, *, candidates: int = 384, power: float = 0.3
) -> tuple[Array, Array, Array]:
    """Places with their covariance under the surrogate, and their masses.

    ``candidates``: draws that may be looked at; ``power``: power of weights by which candidates
    are chosen, since tails matter.
    """
    heat = np.exp(power * (fit.log_w - fit.log_w.max()))
    chosen = np.unique(systematic(heat, rng, candidates))
    theta = fit.cloud[chosen]
    cov = fit.surrogate.covariance(theta)
    w = np.exp((1.0 - power) * (fit.log_w[chosen] - fit.log_w.max()))
    return theta, cov, w / w.sum()


def hidden(fit: Fit, rng: Generator, *, largest_variance: float = 3.0) -> tuple[Array, Array]:
    r"""Masses of places under the start, and what an error of the surrogate adds to the relative
    variance of weights there, largest first: with an error :math:`\epsilon \sim N(0, v)`

    .. math:: c^2\, E(e^\epsilon - 1)^2 / \bar c^2,

    c being the weight expected, which is small where the start has more than the surrogate.

    ``largest_variance``: variance of the surrogate's log that counts, at most.
    """
    theta, cov, mass = doubts(fit, rng)
    c = np.exp(fit.start.control(theta, fit.start.log_density(theta)))
    v = np.minimum(np.diag(cov), largest_variance)
    spread = np.maximum(np.exp(2.0 * v) - 2.0 * np.exp(0.5 * v) + 1.0, 0.0)
    added = (c / (mass @ c)) ** 2 * spread
    order = np.argsort(-added)
    return mass[order], added[order]


def next_looks(fit: Fit, rng: Generator, n: int) -> tuple[Array, float]:
    """Where the surrogate may hide most, and its mean variance under itself."""
    theta, cov, mass = doubts(fit, rng)
    left = float(mass @ np.minimum(np.diag(cov), 1.0))
    log_s, picked = fit.start.log_density(theta), []
    for _ in range(n):
        var = np.maximum(np.diag(cov), 1e-12)
        sd = 0.5 * (var + np.log(-np.expm1(-var)))  # log of that of exp(normal)
        picked.append(i := int(np.argmax(log_s + sd)))
        cov = cov - np.outer(cov[i], cov[i]) / (cov[i, i] + 1e-9)
    return theta[picked], left


def _look(evidence: LooksAt, theta: Array, stop: object) -> Look | None:
    try:
        return evidence.look(theta)
    except NoEvidence:
        return None


def _one(path: ThetaPath, theta: Array, rng: Generator, stop: object) -> ThetaCloud:
    return path.at(theta[None], rng)


def _climb(
    path: ThetaPath, cloud: ThetaCloud, otherwise: Array, rng: Generator, *, moves: int = 3,
    most_steps: int = 24,
) -> ThetaPlan:  # fmt: skip
    """Climb once from ``cloud`` by conditional ESS, then keep ladder and walk as they are.

    ``moves``: of a step of the ladder; ``most_steps``: steps of a ladder.
    """
    betas: list[float] = []
    beta = 0.0
    while beta < 1.0:
        longest = len(betas) == most_steps - 1
        new = 1.0 if longest else ladders.next_beta(cloud.tilt, beta, _CESS)
        w = incremental(cloud.tilt, new - beta).relative
        _, root = moments(cloud.theta, w, otherwise)
        cloud, beta = take(cloud, systematic(w, rng)), new
        betas.append(beta)
        for _ in range(moves if beta < 1.0 else 0):
            cloud, _ = path.walk(rng, root, beta, cloud)
    return ThetaPlan(np.array(betas), root, moves)
