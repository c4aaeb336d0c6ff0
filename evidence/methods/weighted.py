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
from ..drivers.waves import Budget, Run
from ..drivers.weighted import Guided, Resampling, Stepped, Tilted, abreast, courses, run_weighted
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
from .base import FIRST, Doubt, Outcome, Problem, outcome_of_islands, warn_of_few_draws

Source = TypeVar("Source", Guided, Tilted)

_PER_ISLAND = 64, 1024  # guided draws where the target asks for fewer, by how many are cheap
_MEMORY = 2**22  # numbers in the draws of an island
_TRIAL, _LONG_TRIAL = 512, 4096
_FEWER = 128  # draws of a trial at a time
_UNEVEN = 0.1  # relative variance of a weight from which on the guide is taught
_LESSONS = 512, 1536  # further draws that it learns from, by how many are cheap
_HEAVY, _SMALL = 0.7, 0.1  # a tail's shape, and a variance too small for it to matter
_TILTED_TRIAL = 2000
_SMALL_ISLANDS, _SMALL_DRAWS = 8, 32  # of a trial in steps
_FEW_ISLANDS, _LONG = 4, 200_000  # of them, from so many latent values on
_PARTS = 32  # of a long run, whose variances add up
_UNLIKE = 3.1  # of a variance with three degrees of freedom 2.5 % are larger by this
_LARGEST_VARIANCE = 0.5  # of an island's log Z: beyond it the mean of 16 islands is skewed
_SHORT = 64  # latent values up to which weights without resampling say something
_MOST_DRAWS, _MEMORY_STEPS = 2**14, 2**28  # of an island in steps; numbers in them
_KEPT = 2**22  # numbers in the draws that islands in steps leave behind
_FEWEST_TILTED, _MARGIN = 128, 1.2  # draws of an island, and relative to what the trial says


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


def try_guide(problem: Problem, draws: int = _TRIAL) -> Trial[Guided]:
    """Prepare, and look at the weights of some ``draws``."""
    problem.progress.phase("guide")
    rng, stop = np.random.default_rng(problem.child(5)), problem.clock.stop
    with blas_for(problem.model.n):
        source = Guided.of(problem.reference)
        first = _look(source.guide, draws, rng, stop)
        weights = Weights(np.concatenate([log_w for _, log_w in first]))
        # of several modes a lesson may forget some
        teachable = problem.model.likelihood.log_concave and not stop()
        if weights.relative_variance > _UNEVEN and teachable:
            first += _look(source.guide, _between(problem, *_LESSONS), rng, stop)
            drawn, log_w = (np.concatenate(part, axis=-1) for part in zip(*first, strict=True))
            with contextlib.suppress(CannotGuide):
                guide = twisted(source.guide, drawn, log_w)
                heavy = guide.twist is not None and guide.twist.heavy
                again = _look(guide, _TRIAL, rng, stop)
                taught = Weights(np.concatenate([log_w for _, log_w in again]))
                if taught.relative_variance < weights.relative_variance or heavy:
                    return Trial(source._replace(guide=guide), taught)
    return Trial(source, weights)


def look_longer(problem: Problem, trial: Trial[Guided]) -> Trial[Guided]:
    """A guide judged by other, more weights: few tell the shape of a tail badly."""
    rng, stop = np.random.default_rng(problem.child(6)), problem.clock.stop
    with blas_for(problem.model.n):
        looks = _look(trial.source.guide, _LONG_TRIAL, rng, stop)
    return trial._replace(weights=Weights(np.concatenate([log_w for _, log_w in looks])))


def _look(
    guide: Guide, n: int, rng: np.random.Generator, stop: Callable[[], bool]
) -> list[tuple[Array, Array]]:
    """Draws and their log weights, in batches."""
    batches = [guide.draw(_FEWER, rng)]
    while len(batches) * _FEWER < n and not stop():
        batches.append(guide.draw(_FEWER, rng))
    return batches


def _between(problem: Problem, fewest: int, most: int) -> int:
    """So many draws as are cheap."""
    return min(max(fewest, problem.cheap // problem.model.n), most)


def try_tilting(problem: Problem) -> Trial[Tilted]:
    """Prepare, and look at a few weights."""
    problem.progress.phase("minimax tilting")
    with blas_for(problem.model.n):
        source = Tilted.of(problem.model)
    return look_again(problem, Trial(source, Weights()), _TILTED_TRIAL)


def look_again(problem: Problem, trial: Trial[Tilted], draws: int) -> Trial[Tilted]:
    """Minimax tilting judged by more weights."""
    rng, weights = np.random.default_rng(problem.child(3)), trial.weights
    with blas_for(problem.model.n):
        while weights.n < draws and not (weights.n and problem.clock.stop()):
            weights.add(draw(trial.source.proposal, _TILTED_TRIAL, rng)[1])
            rng = np.random.default_rng(problem.child(100 + weights.n // _TILTED_TRIAL))
    return trial


def run_guided(
    problem: Problem, trial: Trial[Guided], resampling: str | None = "systematic"
) -> Outcome:
    """Islands until the target is met; the trial's own draws only decide how large they are."""
    variance = trial.weights.relative_variance
    fewest = max(_between(problem, *_PER_ISLAND), 1.5 * problem.particles_for(variance))
    n_particles = _size(problem, 2 ** math.ceil(math.log2(min(fewest, _MEMORY))))
    source, twist = trial.source, trial.source.guide.twist
    if problem.n_islands != 1:
        rng = np.random.default_rng(problem.child(7))
        source = source._replace(net=make_net(source.guide, n_particles, rng))
    more = {"resampling": resampling, "twisted": twist is not None}
    outcome, run = _islands(problem, "guided", trial._replace(source=source), n_particles, more)
    outcome.doubts.append(Doubt(run.ends_se, least=True))
    warn_of_few_draws(outcome, run, n_particles, "the reference's sites guide badly here")
    shape = trial.weights.shape
    if shape > _HEAVY and variance > _SMALL:
        outcome.warn(
            "heavy-tail",
            f"the weights of {trial.weights.n} guided draws have a heavy tail (Pareto k = "
            f"{shape:.2f}): the error bar may be too small; method='smc' is a cross-check",
        )
    return outcome


class StepTrial(NamedTuple):
    """A guide in steps, and the variance of log Ẑ times draws."""

    source: Stepped
    variance: float


def try_steps(problem: Problem, resampling: str | None = "systematic") -> StepTrial:
    """Prepare, and look at the spread of small islands."""
    problem.progress.phase("guide")
    with blas_for(problem.model.n):
        source = Stepped.of(problem.reference)
    # one latent value of several data is integrated: draws are alike but for their share of Z
    alike = source.guide.size == 1 < problem.model.y.size and problem.reference.share is None
    variance = 0.0 if alike else _variance_of_a_draw(problem, source, resampling)
    return StepTrial(source, variance if variance < math.inf else math.inf)  # no draw met it


def warn_of_heavy_tail(outcome: Outcome, problem: Problem, trial: StepTrial) -> None:
    """Where weights of draws that were never resampled have a tail that islands may not meet."""
    if trial.source.guide.size > _SHORT:  # where they tell of nothing else than their number
        return
    rng = np.random.default_rng(problem.child(6))
    weights = Weights(trial.source.draw(_TRIAL, rng, _never)[1])
    k = weights.shape
    if k > _HEAVY and weights.relative_variance > _SMALL:
        outcome.warn(
            "heavy-tail",
            f"the weights of {weights.n} draws have a heavy tail (Pareto k = {k:.2f}): log Z may "
            "be too low and its error bar too small; method='smc' is a cross-check",
        )


def _never(log_weight: Array) -> None:
    """Draws are not resampled."""


def run_stepped(
    problem: Problem,
    resampling: str | None = "systematic",
    trial: StepTrial | None = None,
    together: int = 4,
) -> Outcome:
    """Islands whose draws are resampled on the way; small ones, run first, say how large; so many
    ``together``, side by side, where calls cost more than numbers do.

    With resampling the variance of an island's log Ẑ falls like one over its draws.
    """
    source, variance = try_steps(problem, resampling) if trial is None else trial
    size = source.guide.size
    keep = int(np.clip(_KEPT // size, 1, KEEP))
    # the relative variance of a lognormal Ẑ with variance s² of its logarithm is exp(s²) - 1
    wave = problem.n_islands or FIRST
    allowed = math.log1p(wave * (problem.target_se or 0.05) ** 2)
    wanted = max(_MARGIN * variance / allowed, variance / _LARGEST_VARIANCE)
    # whose tails few draws do not show, nor those of one of several modes
    many = variance > _UNEVEN or sees_several(problem.model) or problem.reference.share is not None
    cheap = min(problem.cheap // source.guide.dearer // size, _PER_ISLAND[1]) if many else 0
    most = max(min(_MOST_DRAWS, _MEMORY_STEPS // size), _SMALL_DRAWS)
    wanted = min(max(wanted, _SMALL_DRAWS, cheap), most)
    n_particles = problem.n_particles or 16 * math.ceil(wanted / 16)
    options = {"resampling": resampling, "keep": keep, "n_particles": n_particles}
    job = Job(run_weighted, (source,), options)
    block = together if source.guide.abreast else Budget.block
    outcome, run = outcome_of_islands(problem, "guided", job, block=block)
    outcome.settings = {"move": None, "draws_per_island": n_particles, "resampling": resampling}
    outcome.settings["variance_of_a_draw"] = variance
    warn_of_few_draws(outcome, run, n_particles, "the reference's sites guide badly here")
    if trial is not None and sees_several(problem.model):
        warn_of_heavy_tail(outcome, problem, trial)
    return outcome


def _variance_of_a_draw(problem: Problem, source: Stepped, resampling: str | None) -> float:
    """Variance of log Ẑ times draws, from small islands side by side."""
    long = source.guide.size >= _LONG
    counts = abreast(source, _FEW_ISLANDS if long else _SMALL_ISLANDS, _SMALL_DRAWS)
    seeds, stop, found = problem.child(5).spawn(len(counts)), problem.clock.stop, {}

    def share(first: int, stride: int) -> None:
        with within(lambda flops: stop()):
            for i in range(first, len(counts), stride):
                rng, shape = np.random.default_rng(seeds[i]), (counts[i], _SMALL_DRAWS)
                found[i] = courses(source, Resampling(source.log_z0, shape, rng, resampling))

    run(share, len(counts))
    log_z = np.concatenate([found[i] for i in range(len(counts))])
    whole = float(np.var(log_z[:, -1], ddof=1))
    return _SMALL_DRAWS * (variance_by_parts(log_z, source.log_z0) if long else whole)


def variance_by_parts(courses: Array, start: float) -> float:
    """Variance of where courses of log Ẑ (rows) end, which a few of them do not tell.

    In a long run parts forget each other: their variances add up, unless the ends say otherwise.
    """
    ends = np.linspace(0, courses.shape[1] - 1, _PARTS + 1).round().astype(int)[1:]
    parts = np.diff(courses[:, ends], axis=1, prepend=start)
    added, whole = np.var(parts, axis=0, ddof=1).sum(), np.var(courses[:, -1], ddof=1)
    return float(whole if whole > _UNLIKE * added else added)


def run_tilted(problem: Problem, trial: Trial[Tilted]) -> Outcome:
    """As :func:`run_guided`, of minimax tilting."""
    needed = _MARGIN * problem.particles_for(trial.weights.relative_variance)
    n_particles = _size(problem, max(_FEWEST_TILTED, math.ceil(min(needed, _MEMORY))))
    outcome, _ = _islands(problem, "orthant", trial, n_particles, {"reference": None})
    outcome.warnings += trial.weights.complaints()
    if trial.source.proposal.bound == math.inf:
        text = "Newton's method found no saddle point: weights are not tilted"
        outcome.warn("no-saddle-point", text)
    return outcome


def _size(problem: Problem, wanted: int) -> int:
    """Draws of an island: islands are many rather than large."""
    return problem.n_particles or min(wanted, max(1024, _MEMORY // problem.model.n))


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
