"""Draws guided by the reference's sites; see :mod:`evidence.proposals.guide`.

Where the first weights are uneven the guide learns from them (:mod:`evidence.proposals.twist`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..drivers.guided import Guided, prepare, run_guided
from ..drivers.waves import Budget
from ..execution.arguments import check_choice
from ..execution.tasks import Job, factorising
from ..messages import InputError
from ..models.gp import GPModel
from ..proposals.guide import CannotGuide, Guide, make_net
from ..proposals.tilting import Weights
from ..proposals.twist import twisted
from ..statistics.diagnostics import pareto_shape
from ..statistics.resampling import SCHEMES
from .base import Outcome, Problem, outcome_of_islands

Array = NDArray[np.float64]

_FIRST = 16
_CHEAP = 2**18  # numbers to draw: hundredths of a second
_PER_ISLAND = 64, 1024  # draws where the target asks for fewer, by how many are cheap
_MEMORY = 2**22  # numbers in the draws of an island
_TRIAL = 512
_FEWER = 128  # draws of a trial at a time
_UNEVEN = 0.1  # relative variance of a weight from which on the guide is taught
_LESSONS = 512, 1536  # further draws that it learns from, by how many are cheap
_FEW = 10.0  # effective draws of an island
_HEAVY, _SMALL = 0.7, 0.1  # a tail's shape, and a variance too small for it to matter


class Trial(NamedTuple):
    """The guide and what its first weights look like."""

    guided: Guided
    weights: Weights


def guided(problem: Problem, *, resampling: str | None = "systematic") -> Outcome:
    """One latent value after the other, those to come as the reference's sites have them.

    An island's draws are resampled when they have become uneven, by ``resampling`` = systematic,
    stratified, residual or multinomial, or None: never.
    """
    if resampling is not None:
        check_choice("resampling", resampling, tuple(SCHEMES))
    if not isinstance(problem.model, GPModel):
        raise InputError(
            "method='guided' takes latent values one after the other and needs a GPModel, "
            f"got a {type(problem.model).__name__}; use method='smc'"
        )
    return run_trial(problem, try_guide(problem), resampling)


def try_guide(problem: Problem) -> Trial:
    """Prepare, and look at a few weights."""
    problem.progress.phase("guide")
    rng, stop = np.random.default_rng(problem.child(5)), problem.clock.stop
    with factorising(problem.model.n):
        found = prepare(problem.reference)
        weights, first = Weights(), _look(found.guide, _TRIAL, rng, stop)
        for _, log_w in first:
            weights.add(log_w)
        if weights.relative_variance > _UNEVEN and not stop():
            first += _look(found.guide, _between(*_LESSONS, problem.model.n), rng, stop)
            drawn, log_w = (np.concatenate(part, axis=-1) for part in zip(*first, strict=True))
            with contextlib.suppress(CannotGuide):
                guide, taught = twisted(found.guide, drawn, log_w), Weights()
                for _, log_w in _look(guide, _TRIAL, rng, stop):
                    taught.add(log_w)
                if taught.relative_variance < weights.relative_variance:
                    return Trial(found._replace(guide=guide), taught)
    return Trial(found, weights)


def _look(
    guide: Guide, n: int, rng: np.random.Generator, stop: Callable[[], bool]
) -> list[tuple[Array, Array]]:
    """Draws and their log weights, in batches."""
    batches = [guide.draw(_FEWER, rng)]
    while len(batches) * _FEWER < n and not stop():
        batches.append(guide.draw(_FEWER, rng))
    return batches


def _between(fewest: int, most: int, size: int) -> int:
    """So many draws of ``size`` numbers as are cheap."""
    return min(max(fewest, _CHEAP // size), most)


def run_trial(problem: Problem, trial: Trial, resampling: str | None = "systematic") -> Outcome:
    """Islands until the target is met; the trial's own draws only decide how large they are."""
    target = problem.target_se or 0.05
    needed = trial.weights.relative_variance / target**2 / (problem.n_islands or _FIRST)
    most = max(1024, _MEMORY // problem.model.n)  # islands are many rather than large
    at_least = max(_between(*_PER_ISLAND, problem.model.n), 1.5 * needed)
    n_particles = problem.n_particles or min(2 ** math.ceil(math.log2(at_least)), most)
    options = {"n_particles": n_particles, "resampling": resampling}
    shared = trial.guided
    if problem.n_islands != 1:
        rng = np.random.default_rng(problem.child(7))
        shared = shared._replace(net=make_net(shared.guide, n_particles, rng))
    job = Job(run_guided, (shared,), options)
    run = problem.run(job, Budget(problem.target_se, problem.n_islands or _FIRST))
    outcome = outcome_of_islands(problem, "guided", run, np.ones(1), np.full(1, np.nan))
    outcome.settings = {
        "move": None,
        "draws_per_island": n_particles,
        "resampling": resampling,
        "twisted": trial.guided.guide.twist is not None,
        "log_weight_sd": float(trial.weights.log_sd),
    }
    if run.blocks:
        ess = float(np.mean([b.ess[-1] for b in run.blocks.values()])) * n_particles
        if ess < _FEW and n_particles > _FEW:
            outcome.warnings.append(
                f"an island's {n_particles} draws are worth {ess:.1f}: the reference's sites "
                "guide badly here; use method='smc', or 'auto'"
            )
    shape = pareto_shape(trial.weights.tail)
    if shape > _HEAVY and trial.weights.relative_variance > _SMALL:
        outcome.warnings.append(
            f"the weights of {trial.weights.n} guided draws have a heavy tail (Pareto k = "
            f"{shape:.2f}): the error bar may be too small; method='smc' is a cross-check"
        )
    return outcome
