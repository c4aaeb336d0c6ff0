"""The method chosen from what cheap trials say; the result tells what was chosen and why.

In this order, the first that promises the target:

1. importance sampling from the reference, when a thousand draws are nearly worth their number;
   where they cannot be guided also when they are worth less, if a moderate number is enough;
2. draws guided by the reference's sites, when some hundreds of them say that a moderate number
   is enough and that their weights have no heavy tail: annealing is not needed;
3. for probit, minimax tilting, when two thousand draws say the same of its weights;
4. resample-move, when its pilot mixes;
5. for probit, minimax tilting after a longer look at its weights;
6. resample-move with more moves between temperatures, then with other moves.

Where one anneals and a pilot's particles show that some parameters tell the scale of others,
draws in two stages (:mod:`.staged`) take the place of 4 and 6 if their weights allow it.

Who gives ``move=`` or ``betas=`` asks for annealing: only 4 and 6 are tried then, and a move that
was given is not replaced.

Trials are judged (:mod:`.trust`) by counts of work, not by a stopwatch: the same seed makes the
same choice.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from .. import moves
from ..approximations.gp.exact import draw_exact, fit_exact, has_closed_form
from ..approximations.gp.modes import mixture_of
from ..drivers.plan import Pilot
from ..drivers.weighted import Guided, Tilted, may_be_even, try_tailed
from ..models.gp import GPModel
from ..numerics.threads import blas_for
from ..paths.families import family, fit_reference, is_stepped, sees_several
from ..proposals.guide import CannotGuide
from . import weighted
from .base import Outcome, Problem, stopped
from .importance import fair_share, plain_draws
from .mixture import over_components
from .smc import find_plan, run_plan, stuck
from .staged import compare_with_stages, describe, reliable, run_stages, try_stages
from .trust import DOUBTFUL, MOST, MOST_GUIDED, judge_guide, judge_importance, judge_tilting
from .wider_reference import wide_start, with_ease

_OTHER_MOVES = ("splitting", "rmhmc")
_LARGE = 400  # from this N on factorising moves are not tried


def auto(problem: Problem, *, frugal: bool = False) -> Outcome:
    """Guided draws, importance sampling, minimax tilting or resample-move, whichever fits.

    ``frugal``: no more draws than the target asks for, even where they are cheap.
    """
    problem = replace(problem, frugal=frugal)
    annealed = problem.annealed
    if (sees_several(problem.model) or is_stepped(problem.model)) and not annealed:
        return _in_steps(problem)
    if isinstance(problem.model, GPModel) and has_closed_form(problem.model) and not annealed:
        return _exact(problem)
    notes: list[str] = []
    trial = None
    alone = getattr(problem.reference, "share", None) is None
    if alone and not problem.reference.converged and problem.reference.name != "laplace":
        problem = _second_reference(problem, notes)
    if not annealed:
        outcome = _from_reference(problem, problem.aim, notes)
        if outcome is None and problem.model.orthant:
            trial = weighted.try_tilting(problem)
            verdict = judge_tilting(trial, problem.aim)
            notes.append(verdict.reason)
            if verdict.draws <= MOST:
                outcome = weighted.run_tilted(problem, trial)
        if outcome is not None:
            return _with_notes(outcome, notes)
    wide = wide_start(problem)
    if wide is not problem:
        notes.append("the posterior's tails are heavier than EP's: annealing starts wider")
    outcome = _with_notes(anneal(wide, trial, notes), notes)
    outcome.settings.setdefault("reference", wide.reference.name)
    return outcome


def _exact(problem: Problem) -> Outcome:
    """The closed form, and draws of the posterior."""
    q = fit_exact(problem.model, "ep")
    draws = draw_exact(problem.model, problem.n_draws, np.random.default_rng(problem.child(2)))
    outcome = Outcome("exact", q.logz, q.rounding, samples=draws)
    outcome.settings = {"reference": None, "move": None}
    note = "noise is normal: log Z has a closed form, and its error is rounding"
    return _with_notes(outcome, [note])


def _in_steps(problem: Problem, even: float = 0.8, uneven: float = 0.1) -> Outcome:
    """Draws of the reference, guided in steps unless each is worth the part ``even`` without; with
    a t's tails where a guided one has a variance above ``uneven``; annealing where a trial of
    their weights asks for it."""
    notes, several = list[str](), sees_several(problem.model)
    if several and not problem.reference.converged and problem.reference.name != "laplace":
        problem = _second_reference(problem, notes)
    plain = judge_importance(problem, problem.aim) if may_be_even(problem.reference) else None
    if plain is not None and plain.worth > even and plain.draws <= MOST:
        notes.append(plain.reason)
        # to evaluate a datum takes as long as to draw a few numbers
        size = 8 * max(problem.model.n, problem.model.y.size)
        return _with_notes(_drawn(problem, plain.draws, fair_share(problem, 64, size=size)), notes)
    try:
        trial = weighted.try_steps(problem)
        tailed = try_tailed(problem.reference) if trial.variance > uneven else None
        if tailed is not None:
            notes.append("draws have a t's tails about EP's Gaussian: guided ones are uneven")
            return _with_notes(weighted.run_tailed(problem, *tailed), notes)
        draws = trial.variance / problem.aim**2
        few = draws <= (MOST if several else MOST_GUIDED)
        if few or (not several and trial.source.guide.size > _LARGE):
            notes.append("draws follow the reference, and are weighted datum by datum")
            return _with_notes(weighted.run_stepped(problem, trial=trial), notes)
        notes.append(f"draws in steps have weights of variance {trial.variance:.3g}: too uneven")
    except CannotGuide as error:
        notes.append(str(error))
    wide = problem if several or problem.reference.share is None else with_ease(problem)
    if wide is not problem:  # a component: others see what lies beyond its reach
        verdict = judge_importance(wide, problem.aim)
        notes.append(verdict.reason)
        if verdict.draws <= MOST:
            return _with_notes(_drawn(wide, verdict.draws, fair_share(problem)), notes)
    problem = replace(problem, checkpoint=problem.checkpoint.part("annealed"))
    if not several and problem.reference.share is None and problem.reference.name != "prior":
        # no scout looks for mass that EP does not have, where models are drawn in steps
        mixture = mixture_of([problem.reference], prior=True)
        problem = replace(problem, reference=mixture, _path=None)
        return over_components(problem, mixture, partial(_shared, notes=notes))
    return _with_notes(anneal(problem, None, notes), notes)


def _shared(problem: Problem, notes: list[str]) -> Outcome:
    """A component's share; annealed where it has all of Z: its draws in steps were too uneven."""
    alone = problem.reference.share is None
    return _with_notes(anneal(problem, None, notes), notes) if alone else auto(problem)


def _from_reference(
    problem: Problem, target: float, notes: list[str],
    nearly_all: float = 0.8, eigen: int = 500, eased: int = 4,
) -> Outcome | None:  # fmt: skip
    """Draws from the reference, guided where its sites can, if that is enough.

    Guided ones are not even tried where others are each worth ``nearly_all`` of a draw, and come
    first above ``eigen`` latent values: eigenvectors, which the others take, cost more there. Of a
    reference that was widened draws are ``eased`` times fewer: their worth is limited anyway.
    """
    if getattr(problem.reference, "scales", None) is not None:
        notes.append(
            "the reference learnt from draws which coordinates tell the scale of others; weights "
            "say nothing of the narrow ends that none of them saw, moves may reach them"
        )
        return None
    wide = with_ease(problem)
    dear = problem.model.orthant or problem.model.n > eigen
    first = None if dear else judge_importance(wide, target)
    if first is not None and first.worth >= nearly_all and wide is problem:
        wide = wide_start(problem)  # a fit tells of a tail before a draw does
        if wide is not problem:
            first = judge_importance(wide, target)
    if first is None or first.worth < nearly_all:  # a guided draw may cost a hundred others
        trial = _try_guide(problem, notes)
        if trial is not None:
            verdict = judge_guide(trial, problem.reference.name, target)
            if verdict.draws == math.inf and float(trial.weights.ess) > DOUBTFUL:
                trial = weighted.look_longer(problem, trial)
                verdict = judge_guide(trial, problem.reference.name, target)
            notes.append(verdict.reason)
            return weighted.run_guided(problem, trial) if verdict.draws <= MOST_GUIDED else None
    verdict = first or judge_importance(wide, target)
    notes.append(verdict.reason)
    if verdict.draws > MOST:
        return None
    return _drawn(wide, verdict.draws, fair_share(problem) // (1 if wide is problem else eased))


def _drawn(problem: Problem, draws: float, fewest: int) -> Outcome:
    """As many draws of the reference, and in an island at least ``fewest``."""
    per_island = max(fewest, math.ceil(draws / 16))
    return plain_draws(replace(problem, n_particles=problem.n_particles or per_island))


def _try_guide(problem: Problem, notes: list[str]) -> weighted.Trial[Guided] | None:
    """A trial of guided draws, where there is such a thing."""
    if not isinstance(problem.model, GPModel):
        return None
    try:
        return weighted.try_guide(problem)
    except CannotGuide as error:
        notes.append(str(error))
        return None


def anneal(
    problem: Problem, trial: weighted.Trial[Tilted] | None, notes: list[str], max_moves: int = 96,
    patience: float = 0.3, look: int = 16_000, largest_sd: float = 10.0,
) -> Outcome:  # fmt: skip
    """Resample-move, with more effort where the pilot shows that moves mix slowly.

    Further pilots have ``max_moves`` and the part ``patience`` of the time; after the first, a
    ``look`` at so many draws tells whether minimax tilting, for probit, will do, if the standard
    deviation of their log weights is below ``largest_sd``.
    """
    patient = Pilot(max_moves=max_moves)
    attempts = [(problem.move, Pilot()), (problem.move, patient)]
    free = problem.model.n < _LARGE and not problem.own_move
    if free and getattr(problem.model, "has_gradient", True):
        others = _OTHER_MOVES if problem.path.riemannian else _OTHER_MOVES[:1]
        attempts += [(moves.get(name), patient) for name in others if name != problem.move.name]
    best, staged = None, None
    for i, (move, pilot) in enumerate(attempts):
        if best is not None and problem.clock.elapsed() > patience * (
            problem.clock.max_seconds or math.inf
        ):
            notes.append("no time for other moves")
            break
        attempt = replace(problem, move=move, seed=problem.child(10 + i))
        plan = find_plan(attempt, pilot, f"plan {i}")
        if plan is None:
            break
        worst = float(np.nanmax(plan.mixing, initial=0.0))
        if best is None or worst < best[0]:
            best = worst, attempt, plan
        what = f"{plan.betas.size} temperatures, {int(plan.n_moves.sum())} {move.name} moves"
        mixes = not stuck(plan).size
        if mixes:
            notes.append(f"resample-move: the pilot mixes ({what})")
        else:
            notes.append(f"the pilot mixes slowly ({what}, tilt correlation up to {worst:.2f})")
        if staged is None and not problem.annealed and family(problem.model).counted:
            staged = try_stages(attempt, plan, f"plan {i}")
            if staged is not None:
                notes.append(describe(staged))
                if reliable(staged):
                    return run_stages(attempt, staged)
        if mixes:
            break
        if trial is not None and i == 0:
            weighted.look_again(problem, trial, look)
            verdict = judge_tilting(trial, problem.aim, largest_sd)
            notes.append(verdict.reason)
            if verdict.draws <= MOST:
                return weighted.run_tilted(problem, trial)
    if best is None:
        return stopped("smc")
    _, attempt, plan = best
    outcome = run_plan(attempt, plan)
    outcome.settings["move"] = attempt.move.name
    if staged is not None:
        compare_with_stages(staged, outcome)
    return outcome


def _second_reference(problem: Problem, notes: list[str]) -> Problem:
    """Laplace's reference, when its draws are worth more than those of one that failed."""
    with blas_for(problem.model.n):
        other = replace(problem, reference=fit_reference(problem.model, "laplace"), _path=None)
    first, second = (judge_importance(p, 1.0) for p in (problem, other))
    if not other.reference.converged or second.draws >= first.draws:
        return problem
    name = problem.reference.name
    notes.append(f"{name} did not converge; annealing starts from the laplace reference instead")
    return other


def _with_notes(outcome: Outcome, notes: list[str]) -> Outcome:
    outcome.notes = [f"auto: {note}" for note in notes] + outcome.notes
    return outcome
