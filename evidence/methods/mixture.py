r"""Any method where the reference is a mixture: a scout, one component after the other, their sum.

Every component c has its share :math:`Z_c` of Z (:mod:`evidence.approximations.mixture`), which a
method estimates as if it were alone. The prior, the last component, is the *scout*: a short
tempered run, which shares nothing with the others but that it is kept away from where they are.
Mass it finds elsewhere is part of the sum; modes it finds become components; and what stays
unexplained is estimated by resample-move, to the error bar asked for, and warned about.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp, softmax

from .. import moves
from ..approximations.mixture import Mixture
from ..drivers.scout import STRANGE, Scouted, explore, scout, unexplained
from ..drivers.weighted import Stepped
from ..execution.clock import Stopped
from ..execution.meter import phase
from ..models.density.model import DensityModel
from ..models.gp import GPModel
from ..numerics.arrays import Array
from ..paths.families import family, is_stepped
from ..proposals.guide import CannotGuide
from .base import FIRST, Outcome, Problem
from .doubts import Doubt, widen
from .importance import fair_share
from .smc import run_plan, smc
from .weighted import StepTrial, run_guided, run_stepped, try_guide

_SCOUTED = 200  # seeds of scouts are children from here on; of components from 300
_UNSEEN = 0.02  # of an error bar: the part of it that nobody sees
_RARE = 0.1  # of Z: what is rarer need not be known better
_MATTERS = math.exp(STRANGE)
_BEYOND = 2.0  # standard errors by which draws see more than a climb, or walks than both


def over_components(
    problem: Problem, mixture: Mixture, method: Callable[[Problem], Outcome], little: float = 1e-4
) -> Outcome:
    """log Z = log Σ Z_c, whose errors are independent; draws in proportion to Z_c.

    A component expected to have less than the part ``little`` of Z is confirmed by few draws; if
    that is all there is outside the only mode, it is as if there were no mixture.
    """
    problem.progress.phase("scout")
    rng = np.random.default_rng(problem.child(_SCOUTED))
    with phase("scout"):
        found = problem.in_time(explore, mixture, rng, problem.clock.stop)
    if found is None and mixture.components[-1].name == "prior":
        mixture = mixture.without_last()
    mixture, scouted = found or (mixture, None)
    stepped = is_stepped(problem.model) and mixture.components[-1].name == "prior"
    drawn = _drawn(problem, mixture, scouted, stepped)
    if stepped and scouted is drawn is None:
        scouted = problem.in_time(scout, mixture, rng, problem.clock.stop)
    outside = max((view.logz for view in (scouted, drawn) if view is not None), default=math.inf)
    if len(mixture.components) == 2 and outside - mixture.logz < math.log(little):
        return method(replace(problem, reference=replace(mixture.components[0], share=None)))
    components = mixture.components[: None if scouted is drawn is None else -1]
    expected = np.array([c.logz for c in components])
    if components[-1].name == "prior":  # which may have as much as all others
        expected[-1] = logsumexp(expected[:-1])
    expected, parts = np.exp(expected - logsumexp(expected)), list[Outcome]()
    for c, component in enumerate(components):
        problem.progress.phase(f"component {c + 1} of {len(components)}")
        part = _alone(problem, component, c, len(components), expected[c])
        try:
            light = _at_a_glance(part, mixture, method) if expected[c] < little else None
            parts.append(light or method(part))
        except Stopped:
            parts.append(Outcome(component.name))
            text = "time was up: a component's share is the approximation's, without an error bar"
            parts[-1].warn("approximation-only", text)
    if scouted:
        parts.append(_rest(_climbed(problem, mixture, scouted, parts), drawn))
    elif drawn:
        parts.append(_more(problem, mixture, drawn, parts))
    outcome = _together(problem, mixture, scouted, parts)
    outcome.doubts.append(Doubt(_lost(problem.reference, outcome)))
    if scouted is drawn is None:
        outcome.notes.append("no scout from the prior could say whether there are other modes")
    return outcome


def _at_a_glance(
    problem: Problem, mixture: Mixture, method: Callable[[Problem], Outcome]
) -> Outcome | None:
    """A component's share by a few draws, where that is as little as was expected."""
    checkpoint = problem.checkpoint.part("at a glance")
    outcome = method(_lightly(replace(problem, checkpoint=checkpoint)))
    error = math.exp(min(outcome.logz - mixture.logz, 0.0)) * outcome.logz_se
    return outcome if error < _UNSEEN * problem.aim * _RARE else None


def _lightly(part: Problem, particles: int = 64, islands: int = 16) -> Problem:
    """What is negligible, without a target: so many ``particles`` and ``islands`` will do."""
    part.target_se, part.n_particles, part.n_islands = None, particles, islands
    return part


def _alone(problem: Problem, base: object, c: int, of: int = 1, share: float = 1.0) -> Problem:
    """The problem of one component's share, which is about so much of Z, and one ``of`` so many
    whose errors add up."""
    target = problem.target_se and problem.target_se / math.sqrt(of) / max(share, _RARE)
    checkpoint, seed = problem.checkpoint.part(f"component {c}"), problem.child(300 + c)
    problem = replace(problem, target_se=target, checkpoint=checkpoint, seed=seed)
    return replace(problem, reference=base, _path=None)


def _drawn(
    problem: Problem, mixture: Mixture, scouted: Scouted | None, stepped: bool,
    never: float = -30.0, check: int = 2048,
) -> Outcome | None:  # fmt: skip
    """The prior's share by guided draws, unless a trial of ``check`` says that climbs hide
    nothing, or a climb sees a log share below ``never``: 12 nats too low, it is low enough."""
    seen = scouted if isinstance(problem.model, GPModel) else None
    told = seen.logz - mixture.logz if seen else -math.inf  # relative to all
    if not stepped and not told > never:
        return None
    part = _alone(problem, mixture.components[-1], len(mixture.components))
    part.target_se, part.n_particles, part.n_islands = None, fair_share(problem), FIRST
    part.checkpoint = problem.checkpoint.part("draws of the prior")
    try:
        if stepped:
            guide = (source := Stepped.of(part.reference)).guide
            part.n_particles = fair_share(problem, size=guide.dearer * guide.size)
            return run_stepped(part, trial=StepTrial(source, math.nan))
        trial = try_guide(part, check)
        log_share = trial.source.log_z0 + float(trial.weights.log_mean) - mixture.logz
        most = math.exp(min(log_share, 0.0)) * (1.0 + _BEYOND * trial.weights.se)
        hidden = most - math.exp(min(told, 0.0))
        return run_guided(part, trial) if hidden > _UNSEEN * part.aim else None
    except (CannotGuide, Stopped):
        return None


def _more(problem: Problem, mixture: Mixture, drawn: Outcome, parts: list[Outcome]) -> Outcome:
    """The prior's share in steps: the first draws, or as many as its part of Z asks for."""
    if problem.target_se is None:
        return drawn
    logz = [drawn.logz, *(part.logz for part in parts)]
    share = math.exp(drawn.logz - logsumexp(logz))
    if share * drawn.logz_se > problem.target_se / math.sqrt(len(logz)):
        with suppress(CannotGuide):  # one draw in thousands may meet what none of the first did
            last = _alone(problem, mixture.components[-1], len(parts), len(logz), share)
            return run_stepped(last)
    return drawn


def _rest(climbed: Outcome, drawn: Outcome | None) -> Outcome:
    """The prior's share as a climb sees it, or as draws do where these see more.

    A climb reaches what no draw meets, but ends in a few of many narrow modes; draws are spread
    over all of them.
    """
    if drawn is None or not drawn.logz > climbed.logz:
        return climbed
    less = math.exp(climbed.logz - drawn.logz)
    if 1.0 - less < _BEYOND * math.hypot(drawn.logz_se, less * climbed.logz_se):
        return climbed
    drawn.warnings = [*climbed.warnings, *drawn.warnings]
    return drawn


def _climbed(
    problem: Problem, mixture: Mixture, scouted: Scouted, parts: list[Outcome],
    small: float = 0.5, few_dimensions: int = 6,
) -> Outcome:  # fmt: skip
    """The prior's share, by resample-move: the scout's plan will do where it is negligible, and
    what the scout saw where that is far below the error bar asked for, and its rough error below
    the part ``small`` of that of other components. In ``few_dimensions`` slices reach all modes.
    """
    logz = np.array([part.logz for part in parts])
    share = float(scouted.logz - logsumexp(logz))
    known = math.exp(min(share, 0.0))
    error = known * scouted.se
    others = np.linalg.norm(softmax(logz) * [part.logz_se for part in parts])
    if error < _UNSEEN * problem.aim and not error > small * others:
        return Outcome("scout", scouted.logz, scouted.se, samples=scouted.samples)
    part = _alone(problem, mixture.components[-1], len(parts), 2, known)
    part.move = moves.get(family(problem.model).move(problem.model))
    part.betas = part.n_betas = None
    if share < STRANGE:
        return run_plan(_lightly(part), scouted.plan)
    if isinstance(part.model, DensityModel) and part.model.n <= few_dimensions:
        part.move = moves.get("elliptical")  # no gradient leads from one of many modes to another
    return smc(part)


def _lost(mixture: Mixture, outcome: Outcome, caution: float = 2.5) -> float:
    """What walks saw beyond all components, if it exceeds, beyond noise, the prior's share, and
    that of components found since; times ``caution``: walks do not reach everywhere either."""
    rest = outcome.components[len(mixture.components) - 1 :]
    counted = sum(math.exp(logz - outcome.logz) for _, logz, _ in rest)
    seen, noise = mixture.lost
    if counted > 0.5 * seen and not seen - _BEYOND * noise > counted:
        return 0.0
    return min(caution * max(seen + noise - counted, 0.0), 1.0)


def _together(
    problem: Problem, mixture: Mixture, scouted: Scouted | None, parts: list[Outcome]
) -> Outcome:
    """The sum of all shares, with draws and warnings of those that matter."""
    for part, component in zip(parts, mixture.components, strict=True):
        widen(part)
        if math.isnan(part.logz):  # time was over: what there is, without an error bar
            rest = -np.inf if scouted is None else scouted.logz
            part.logz = rest if component.name == "prior" else component.logz
    logz = np.array([part.logz for part in parts])
    total = float(logsumexp(logz))
    share = np.exp(logz - total)
    first = parts[int(np.argmax(np.nan_to_num(share)))]
    pairs = list(zip(parts, share, strict=True))
    errors = np.array([p * part.logz_se if p > 0.0 else p for part, p in pairs])
    errors = np.append(errors, _unmet(parts, share))
    samples, component = _samples(problem, parts, share)
    rows = [(c.name, p.logz, p.logz_se) for c, p in zip(mixture.components, parts, strict=True)]
    told_of = dict.fromkeys(w for part, p in pairs if not p < _MATTERS for w in part.warnings)
    outcome = replace(
        first, logz=total, logz_se=float(np.sqrt(np.sum(errors**2))), samples=samples, others=[],
        components=rows, component=component, warnings=list(told_of), notes=list(first.notes),
    )  # fmt: skip
    each = (f"{n} {z:.3f} ({100 * p:.3g} %)" for (n, z, _), p in zip(rows, share, strict=True))
    outcome.notes.append(f"components share the posterior, log Z each: {', '.join(each)}")
    if scouted:
        outcome.warnings += unexplained(float(logz[-1] - total))
    outcome.settings = {**first.settings, "reference": mixture.name, "components": len(parts)}
    return outcome


def _unmet(parts: list[Outcome], share: Array) -> Array:
    """What the others have, ε of Z, and none of a component's n draws may have met.

    Draws go where others have their shares, too, and know of these by the few that do. None does
    with probability exp(-nε), and the component's estimate is ε too high then. That counts
    ε exp(-nε/4): with half of nε errors were 1.6 to 2.1 of the error bar where none did.
    """
    sizes = [part.settings.get("draws_per_island", np.inf) for part in parts]
    n = np.array(sizes) * [max(part.islands.size, 1) for part in parts]
    rest = np.maximum(1.0 - share, 1e-300)
    return rest * np.exp(-0.25 * n * rest)


def _samples(problem: Problem, parts: list[Outcome], share: Array) -> tuple[Array | None, Array]:
    """Posterior draws of all components in proportion to their Z, and of which each one is."""
    if not np.isfinite(share).all():
        return None, np.zeros(0)
    rng = np.random.default_rng(problem.child(_SCOUTED - 1))
    chosen, counts = [], rng.multinomial(problem.n_draws, share / share.sum())
    for part, count in zip(parts, counts, strict=True):
        if not count:
            continue
        if part.samples is None or not len(part.samples):
            return None, np.zeros(0)
        chosen.append(part.samples[rng.integers(len(part.samples), size=count)])
    order = rng.permutation(problem.n_draws)
    return np.concatenate(chosen)[order], np.repeat(np.arange(float(len(parts))), counts)[order]
