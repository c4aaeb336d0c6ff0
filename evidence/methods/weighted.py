"""Independent weighted draws: a trial of their weights, the size of islands, islands.

Guided draws follow the reference's sites (:mod:`evidence.proposals.guide`); where the first
weights are uneven the guide learns from them (:mod:`evidence.proposals.twist`). Minimax tilting
(:mod:`evidence.proposals.tilting`), for probit, needs neither EP nor annealing.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ..drivers.islands import KEEP
from ..drivers.stopping import Budget, Run
from ..drivers.weighted import (
    Guided,
    Resampling,
    Stepped,
    Tailed,
    Tilted,
    abreast,
    courses,
    run_weighted,
)
from ..execution.arguments import check_choice
from ..execution.clock import within
from ..execution.job import Job
from ..messages import InputError
from ..models.latent import LatentModel
from ..numerics.arrays import Array
from ..numerics.threads import blas_for, run
from ..paths.families import is_stepped, sees_several
from ..proposals.guide import CannotGuide, Guide, make_net
from ..proposals.tilting import draw
from ..proposals.twist import twisted
from ..statistics.resampling import SCHEMES
from ..statistics.weights import Weights
from .base import (
    FIRST,
    Outcome,
    Problem,
    outcome_of_islands,
    warn_of_few_draws,
    warn_of_heavy_tail,
)
from .doubts import Doubt
from .importance import fair_share

Source = TypeVar("Source", Guided, Tailed, Tilted)


class Trial(NamedTuple, Generic[Source]):
    """Where draws come from and what their first weights look like."""

    source: Source
    weights: Weights


def guided(problem: Problem, *, resampling: str | None = "systematic") -> Outcome:
    """One latent value after the other, those to come as the reference's sites have them.

    An island's draws are resampled when they have become uneven, by ``resampling`` = systematic,
    stratified, residual or multinomial, or None: never.
    """
    if resampling is not None:
        check_choice("resampling", resampling, tuple(SCHEMES))
    if not (isinstance(problem.model, LatentModel) or sees_several(problem.model)):
        raise InputError(
            "method='guided' takes latent values one after the other and needs a GPModel or a "
            f"SparseModel, got a {type(problem.model).__name__}; use method='smc'"
        )
    if is_stepped(problem.model) or sees_several(problem.model):
        return run_stepped(problem, resampling)
    return run_guided(problem, try_guide(problem), resampling)


def orthant(problem: Problem) -> Outcome:
    """Minimax tilting; ``n_particles`` is the number of draws of an island."""
    return run_tilted(problem, try_tilting(problem))


def try_guide(
    problem: Problem, draws: int = 512, uneven: float = 0.1,
    lessons: tuple[int, int] = (512, 1536), again: int = 512,
) -> Trial[Guided]:  # fmt: skip
    """Prepare, and look at the weights of some ``draws``.

    Where a weight has a relative variance above ``uneven`` the guide learns from further draws,
    the first number of ``lessons`` or up to the second as far as they are cheap; ``again`` so
    many draws judge what it has learnt.
    """
    problem.progress.phase("guide")
    rng, stop = np.random.default_rng(problem.child(5)), problem.clock.stop
    with blas_for(problem.model.n):
        source = Guided.of(problem.reference)
        first = _look(source.guide, draws, rng, stop)
        weights = Weights(first[1])
        # of several modes a lesson may forget some
        teachable = problem.model.likelihood.log_concave and not stop()
        if weights.relative_variance > uneven and teachable:
            more = _look(source.guide, fair_share(problem, *lessons), rng, stop)
            drawn, log_w = (np.concatenate(two, axis=-1) for two in zip(first, more, strict=True))
            with contextlib.suppress(CannotGuide):
                guide = twisted(source.guide, drawn, log_w)
                heavy = guide.twist is not None and guide.twist.heavy
                taught = Weights(_look(guide, again, rng, stop)[1])
                if taught.relative_variance < weights.relative_variance or heavy:
                    return Trial(source._replace(guide=guide), taught)
    return Trial(source, weights)


def look_longer(problem: Problem, trial: Trial[Guided], draws: int = 4096) -> Trial[Guided]:
    """A guide judged by other, more weights, of so many ``draws``: few tell the shape of a tail
    badly."""
    rng, stop = np.random.default_rng(problem.child(6)), problem.clock.stop
    with blas_for(problem.model.n):
        return trial._replace(weights=Weights(_look(trial.source.guide, draws, rng, stop)[1]))


def _look(
    guide: Guide, n: int, rng: np.random.Generator, stop: Callable[[], bool], batch: int = 128
) -> tuple[Array, Array]:
    """At least n draws and their log weights, made a ``batch`` at a time."""
    batches = [guide.draw(batch, rng)]
    while len(batches) * batch < n and not stop():
        batches.append(guide.draw(batch, rng))
    drawn, log_w = zip(*batches, strict=True)
    return np.concatenate(drawn, axis=-1), np.concatenate(log_w)


def try_tilting(problem: Problem) -> Trial[Tilted]:
    """Prepare, and look at a few weights."""
    problem.progress.phase("minimax tilting")
    with blas_for(problem.model.n):
        source = Tilted.of(problem.model)
    return look_again(problem, Trial(source, Weights()))


def look_again(
    problem: Problem, trial: Trial[Tilted], draws: int = 2000, batch: int = 2000
) -> Trial[Tilted]:
    """Minimax tilting judged by more weights, in all of ``draws``, a ``batch`` at a time."""
    rng, weights = np.random.default_rng(problem.child(3)), trial.weights
    with blas_for(problem.model.n):
        while weights.n < draws and not (weights.n and problem.clock.stop()):
            weights.add(draw(trial.source.proposal, batch, rng)[1])
            rng = np.random.default_rng(problem.child(100 + weights.n // batch))
    return trial


def run_guided(
    problem: Problem, trial: Trial[Guided], resampling: str | None = "systematic",
    fewest: int = 64, margin: float = 1.5,
) -> Outcome:  # fmt: skip
    """Islands until the target is met; the trial's own draws only decide how large they are.

    An island has ``margin`` times the draws that the target asks for, or as many as are cheap if
    that is more, and no less than the ``fewest``.
    """
    variance = trial.weights.relative_variance
    wanted = max(fair_share(problem, fewest), margin * problem.particles_for(variance))
    n_particles = _size(problem, wanted, of_net=True)
    source, twist = trial.source, trial.source.guide.twist
    if problem.n_islands != 1:
        rng = np.random.default_rng(problem.child(7))
        source = source._replace(net=make_net(source.guide, n_particles, rng))
    more = {"resampling": resampling, "twisted": twist is not None}
    outcome, run = _islands(problem, "guided", trial._replace(source=source), n_particles, more)
    outcome.doubts.append(Doubt(run.se_of("ends"), least=True))
    warn_of_few_draws(outcome, run, n_particles, "the reference's sites guide badly here")
    warn_of_heavy_tail(outcome, trial.weights)
    return outcome


class StepTrial(NamedTuple):
    """A guide in steps, and the variance of log Ẑ times draws."""

    source: Stepped
    variance: float


def try_steps(
    problem: Problem, resampling: str | None = "systematic", uneven: float = 1000.0,
    longer: int = 256,
) -> StepTrial:  # fmt: skip
    """Prepare, and look at the spread of small islands; of ``longer`` ones where a draw's variance
    is ``uneven``."""
    problem.progress.phase("guide")
    with blas_for(problem.model.n):
        source = Stepped.of(problem.reference)
    # one latent value of several data is integrated: draws are alike but for their share of Z
    alike = source.guide.size == 1 < problem.model.y.size and problem.reference.share is None
    variance = 0.0 if alike else _variance_of_a_draw(problem, source, resampling)
    if uneven < variance < math.inf:  # one draw in a few may have made it
        variance = _variance_of_a_draw(problem, source, resampling, longer)
    return StepTrial(source, variance if variance < math.inf else math.inf)  # no draw met it


def _plain_weights(problem: Problem, trial: StepTrial, draws: int = 512) -> Weights:
    """Of ``draws`` never resampled."""
    rng = np.random.default_rng(problem.child(6))
    return Weights(trial.source.draw(draws, rng, lambda log_weight: None)[1])


def run_stepped(
    problem: Problem, resampling: str | None = "systematic", trial: StepTrial | None = None,
    together: int = 4, margin: float = 1.2, largest: float = 0.5, uneven: float = 0.1,
    fewest: int = 32, most: int = 2**14, memory: int = 2**28, kept: int = 2**22, short: int = 64,
) -> Outcome:  # fmt: skip
    """Islands whose draws are resampled on the way; small ones, run first, say how large; so many
    ``together``, side by side, where calls cost more than numbers do.

    With resampling the variance of an island's log Ẑ falls like one over its draws. They are
    ``margin`` times as many as meet the target, and leave it a variance of no more than
    ``largest``, beyond which the mean of 16 islands is skewed; where a draw's variance is above
    ``uneven``, few do not show the tails, and as many are made as are cheap. An island has
    ``fewest`` to ``most``, of ``memory`` numbers in all, and leaves up to ``kept`` of these. Of
    more than ``short`` latent values weights tell of nothing else than their number.
    """
    source, variance = try_steps(problem, resampling) if trial is None else trial
    size = source.guide.size
    keep = int(np.clip(kept // size, 1, KEEP))
    # the relative variance of a lognormal Ẑ with variance s² of its logarithm is exp(s²) - 1
    wave = problem.n_islands or FIRST
    allowed = math.log1p(wave * problem.aim**2)
    wanted = max(margin * variance / allowed, variance / largest)
    # few do not show the tails of one of several modes either
    many = variance > uneven or sees_several(problem.model) or problem.reference.share is not None
    cheap = fair_share(problem, 0, size=source.guide.dearer * size) if many else 0
    wanted = min(max(wanted, fewest, cheap), max(min(most, memory // size), fewest))
    n_particles = problem.n_particles or 16 * math.ceil(wanted / 16)
    options = {"resampling": resampling, "keep": keep, "n_particles": n_particles}
    job = Job(run_weighted, (source,), options)
    block = together if source.guide.abreast else Budget.block
    outcome, run = outcome_of_islands(problem, "guided", job, block=block)
    outcome.settings = {"move": None, "draws_per_island": n_particles, "resampling": resampling}
    outcome.settings["variance_of_a_draw"] = variance
    warn_of_few_draws(outcome, run, n_particles, "the reference's sites guide badly here")
    if trial is not None and sees_several(problem.model) and size <= short:
        warn_of_heavy_tail(outcome, _plain_weights(problem, trial))
    return outcome


def _variance_of_a_draw(
    problem: Problem, source: Stepped, resampling: str | None,
    draws: int = 32, islands: int = 8, few: int = 4, large: int = 200_000,
) -> float:  # fmt: skip
    """Variance of log Ẑ times draws, from small islands side by side, of so many ``draws`` each:
    as many as ``islands`` says, a ``few`` from ``large`` numbers of latent values on."""
    long = source.guide.size >= large
    counts = abreast(source, few if long else islands, draws)
    seeds, stop, found = problem.child(5).spawn(len(counts)), problem.clock.stop, {}

    def share(first: int, stride: int) -> None:
        with within(lambda flops: stop()):
            for i in range(first, len(counts), stride):
                rng, shape = np.random.default_rng(seeds[i]), (counts[i], draws)
                found[i] = courses(source, Resampling(source.log_z0, shape, rng, resampling))

    run(share, len(counts))
    log_z = np.concatenate([found[i] for i in range(len(counts))])
    whole = float(np.var(log_z[:, -1], ddof=1))
    return draws * (variance_by_parts(log_z, source.log_z0) if long else whole)


def variance_by_parts(courses: Array, start: float, n: int = 32, unlike: float = 3.1) -> float:
    """Variance of where courses of log Ẑ (rows) end, which a few of them do not tell.

    In a long run n parts forget each other: their variances add up, unless that of the ends is
    ``unlike`` times as large. (Of a variance with three degrees of freedom 2.5 % are by 3.1.)
    """
    ends = np.linspace(0, courses.shape[1] - 1, n + 1).round().astype(int)[1:]
    parts = np.diff(courses[:, ends], axis=1, prepend=start)
    added, whole = np.var(parts, axis=0, ddof=1).sum(), np.var(courses[:, -1], ddof=1)
    return float(whole if whole > unlike * added else added)


def run_tilted(
    problem: Problem, trial: Trial[Tilted], fewest: int = 128, margin: float = 1.2
) -> Outcome:
    """As :func:`run_guided`, of minimax tilting, with no more draws where these are cheap."""
    needed = margin * problem.particles_for(trial.weights.relative_variance)
    n_particles = _size(problem, max(needed, fewest))
    outcome, _ = _islands(problem, "orthant", trial, n_particles, {"reference": None})
    outcome.warnings += trial.weights.complaints()
    if trial.source.proposal.bound == math.inf:
        text = "Newton's method found no saddle point: weights are not tilted"
        outcome.warn("no-saddle-point", text)
    return outcome


def run_tailed(
    problem: Problem, source: Tailed, weights: Weights, fewest: int = 256, margin: float = 1.5
) -> Outcome:
    """As :func:`run_guided`, of draws with tails; ``fewest`` take a millisecond."""
    wanted = max(fewest, margin * problem.particles_for(weights.relative_variance))
    n_particles = _size(problem, wanted)
    outcome, run = _islands(problem, "importance", Trial(source, weights), n_particles, {})
    warn_of_few_draws(outcome, run, n_particles, "the posterior is far from Gaussian")
    return outcome


def _size(problem: Problem, wanted: float, of_net: bool = False, memory: int = 2**22) -> int:
    """Draws of an island, of up to ``memory`` numbers: islands are many rather than large. Points
    ``of_net`` are a power of two."""
    wanted = min(wanted, memory)
    draws = 2 ** math.ceil(math.log2(wanted)) if of_net else math.ceil(wanted)
    return problem.n_particles or min(draws, max(1024, memory // problem.model.n))


def _islands(
    problem: Problem, method: str, trial: Trial[Any], n_particles: int, settings: dict[str, Any]
) -> tuple[Outcome, Run]:
    options = {"n_particles": n_particles}
    if "resampling" in settings:
        options["resampling"] = settings["resampling"]
    job = Job(run_weighted, (trial.source,), options)
    outcome, run = outcome_of_islands(problem, method, job, independent=method == "orthant")
    outcome.settings = {"move": None, "draws_per_island": n_particles, **settings}
    outcome.settings["log_weight_sd"] = trial.weights.log_sd
    return outcome, run
