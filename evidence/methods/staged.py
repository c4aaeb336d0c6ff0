"""Draws in two stages where some parameters tell the scale of others: what particles come to late.

:mod:`evidence.approximations.density.staged` makes the proposal, from a pilot's particles; here it
is tried, and its islands are run. Where its weights are too uneven for that they may still see
more than annealing did: then annealing's error bar is as wide as the gap.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..approximations.density.blend import Blend, Blended, unexplained
from ..approximations.density.policy import NORMAL
from ..approximations.density.staged import TRIAL, Staged, fit_staged
from ..approximations.mixture import Mixture
from ..drivers.plan import Plan
from ..drivers.weighted import Proposed, run_weighted
from ..execution.clock import also
from ..execution.job import Job
from ..execution.meter import phase
from ..numerics.arrays import Array
from ..paths.density import own_path
from ..statistics.resampling import systematic
from ..statistics.weights import Weights
from .base import FIRST, MARGIN, SURE, Outcome, Problem, outcome_of_islands, warn_of_few_draws
from .doubts import Doubt
from .smc import Seen, choose_particles


def try_stages(problem: Problem, plan: Plan, name: str, per_move: int = 4) -> Staged | None:
    """A proposal in two stages, where there is one and its cost is in proportion to the rest.

    ``name`` is that of the plan, whose pilot saw the posterior's bulk; a particle's move takes
    about ``per_move`` evaluations.
    """
    seen = problem.checkpoint.get(f"{name}, seen", Seen)
    # a component's share is not the posterior; one temperature says that the reference has it all
    if seen is None or problem.reference.share is not None or plan.betas.size == 1:
        return None
    climb = int(plan.n_moves.sum()) * FIRST * choose_particles(problem, plan) * per_move
    return _fitted(problem, seen.x, climb, name)


def stages_for(
    problem: Problem, mixture: Mixture | Blended, seen: tuple[Array, Array] | None = None,
    ended: Array | None = None, least: float = 0.01, looks: int = 1024, bulk: float = 32.0,
    particles: int = 128,
) -> Staged | None:  # fmt: skip
    """The same instead of a mixture's components or draws, which it needs no scout for; None
    where there is no such proposal, or none to rely on, or where a mixture whose search left
    nothing open reaches all that it does but for ``least`` of the posterior. Its bulk is seen by
    ``particles`` resampled from points and log weights ``seen``, or ``looks`` draws of the
    mixture, of more than ``bulk`` effective ones, and what is to be reached by where walks
    ``ended``."""
    drawn = mixture if isinstance(mixture, Blended) else mixture.blended
    if drawn is None or problem.annealed:
        return None
    problem = replace(problem, reference=mixture)
    rng = np.random.default_rng(problem.child(31))
    x, log_w = drawn.blend.weighted(rng, looks) if seen is None else seen
    weights = Weights(log_w)
    if not float(weights.ess) * len(x) > bulk:
        return None
    x = x[rng.permutation(systematic(weights.relative, rng, particles))]
    x = x if ended is None else np.concatenate([x, ended])
    closed = isinstance(mixture, Blended) and mixture.scouted is None
    staged = _fitted(problem, x, 0, "mixture", 1 if closed else None)
    if staged is None or not reliable(staged):
        return None
    return None if closed and _beyond(drawn.blend, staged, rng) < least else staged


def over_stages(problem: Problem, staged: Staged) -> Outcome:
    """Islands of such draws, and what they are worth in words."""
    outcome = run_stages(problem, staged)
    outcome.notes.insert(0, f"auto: {describe(staged)}")
    return outcome


def _beyond(
    blend: Blend, staged: Staged, rng: np.random.Generator, heavy: float = NORMAL.heavy[0]
) -> float:
    """The part of the posterior, by weighted draws in stages, that the other one hardly has: where
    its own weights would be ``heavy`` times what :func:`.unexplained` minds, 30 times the mean. Of
    centred walks and groups .05 to .15 are there, of five hierarchies without a neck nothing."""
    x, log_w = staged.weighted(rng, TRIAL)
    w = np.exp(log_w - log_w.max())
    log_p = staged.model.log_prob(x)
    log_q = blend.log(x) + math.log(heavy)
    return float(w @ unexplained(log_q, log_p, staged.verdict.logz) / w.sum())


def reliable(
    staged: Staged, enough: float = 50.0, shape: float = 0.67, unseen: float = 0.02
) -> bool:
    """Whether its weights tell their variance, by effective draws enough and this Pareto shape, of
    all of the posterior but for particles ``unseen``."""
    evident = staged.verdict.share * TRIAL > enough and staged.verdict.shape < shape
    return evident and staged.unseen < unseen


class Spent(NamedTuple):
    """Evaluations until a decision, which a run that goes on from a file takes as it was."""

    evaluations: int


def _fitted(
    problem: Problem, x: Array, planned: int, name: str, most: int | None = None, dearer: int = 4,
    of_bad: int = 20, part: float = NORMAL.part, marginals: int = 6000, newton: int = 3,
) -> Staged | None:  # fmt: skip
    """The proposal, unless it costs far more than all that was spent and is ``planned``: ``most``
    times as much where that is given; else four times, with a bad reference twenty, and twice as
    many of them where evaluations come in batches; or more than a ``part`` of what is left. It
    costs the Hessians of so many ``marginals`` of parents, ``newton`` of each. It is given up
    after that ``part`` of the time that is left."""
    model = problem.model
    if not problem.free or model.n < 2:
        return None
    c = model.n - 1
    hessian = 2 * c if model.has_gradient else c * (c + 1)
    clock = problem.clock
    spent = problem.once(f"{name}, spent", Spent, lambda: Spent(clock.meter.total))
    done = 0 if spent is None else spent.evaluations
    cost = marginals * newton * hessian
    if most is None:
        most = NORMAL.scaled(model, of_bad if problem.reference.warnings else dearer)
    if cost > most * (done + planned) or cost > part * clock.meter.left:
        return None
    left = clock.remaining()
    if left is not None and cost * _seconds_each(problem, x, done) > part * left:
        return None
    problem.progress.phase("stages")
    seed = int(problem.child(30).generate_state(1)[0])
    with phase("pilot"), also(clock.part(part).expired), np.errstate(all="ignore"):
        staged = problem.in_time(fit_staged, model, x, seed)
    if staged is None or not (staged.unseen or getattr(problem.reference, "several", False)):
        return staged
    return replace(staged, unseen=staged.unseen + 1.0 / len(x))  # one more may have been there


def _seconds_each(problem: Problem, x: Array, done: int) -> float:
    """What an evaluation takes: as those before, fits included, or in batches as one does now."""
    mean = problem.clock.elapsed() / max(done, 1)
    if not problem.model.vectorized:
        return mean
    started = time.perf_counter()
    problem.model.log_prob(x)
    return min(mean, (time.perf_counter() - started) / len(x))


def describe(staged: Staged) -> str:
    """In words, what was found and what its draws are worth."""
    model, verdict = staged.model, staged.verdict
    known = len(model.names) == model.n
    names = [model.names[i] if known else f"coordinate {i}" for i in staged.inner.parents]
    tell = f"{names[0]} tells" if len(names) == 1 else f"{', '.join(names)} tell"
    return (
        f"{tell} the scale of the other parameters; draws of these first, of the "
        f"others by Laplace's method then, are worth {100 * verdict.share:.2g} % of their "
        f"number (Pareto k = {verdict.shape:.2f})"
    )


def run_stages(
    problem: Problem, staged: Staged, margin: float = MARGIN, fewest: int = 128, most: int = 4096,
) -> Outcome:  # fmt: skip
    """Islands of such draws, a ``margin`` more than the trial says."""
    variance = 1.0 / max(staged.verdict.share, 1e-3) - 1.0
    wanted = max(margin * problem.particles_for(variance), 4.0 * variance, fewest)
    n_particles = problem.n_particles or math.ceil(min(wanted, most))
    problem = replace(problem, _path=own_path(problem.model))  # in whose coordinates draws are
    job = Job(run_weighted, (Proposed(staged),), {"n_particles": n_particles})
    outcome, run = outcome_of_islands(problem, "importance", job, independent=True)
    outcome.settings = {"move": None, "draws_per_island": n_particles, "reference": "staged"}
    if staged.unseen:
        outcome.doubts.append(Doubt(staged.unseen))
        outcome.notes.append(
            f"auto: {100 * staged.unseen:.2g} % of the particles before lie where such draws do "
            "not come, and the error bar is wider by as much"
        )
    warn_of_few_draws(outcome, run, n_particles, "Laplace's method guides badly here")
    return outcome


def compare_with_stages(staged: Staged, outcome: Outcome, sure: float = SURE) -> None:
    """A warning, and an error bar as wide as the gap, where few draws saw clearly more."""
    verdict = staged.verdict
    se = math.sqrt(max(1.0 / max(verdict.share, 1e-6) - 1.0, 0.0) / TRIAL)
    gap = verdict.logz - outcome.logz
    if gap > sure * math.hypot(se, float(np.nan_to_num(outcome.logz_se))):
        outcome.doubt(
            "neck-missed",
            f"draws in two stages, into the narrow end where parameters tell the scale of others, "
            f"see log Z = {verdict.logz:.2f} ± {se:.2f}: annealing may have missed a part of it; "
            "the error bar is as wide as the gap",
            gap,
        )
