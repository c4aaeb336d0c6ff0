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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .. import moves
from ..approximations.mixture import Mixture
from ..drivers.plan import Pilot, Plan
from ..execution.clock import Stopped
from ..messages import Message
from ..paths.families import family, make_path
from .base import Outcome, Problem
from .smc import run_plan, smc

Array = NDArray[np.float64]

_SCOUT = Pilot(cess=0.3, mixing=0.6, max_moves=4, particles=256)
_ROUNDS = 3  # of scouts, each after new modes were found
_STEEP = 60  # temperatures from which on the prior does not reach the posterior
_STRANGE = 0.01  # of Z, outside all modes, from which on one is told
_SCOUTED = 200  # seeds of scouts, and of components, are children from here on
_COMPONENT = 300
_LIGHTLY = 32, 16  # particles and islands for what is negligible
_RARE = 0.1  # of Z: what is rarer need not be known better
_DRAWS = 1000


@dataclass
class Scouted:
    """What a scout saw: how to climb, its share of Z, and draws from it."""

    plan: Plan
    logz: float
    draws: Array


def over_components(
    problem: Problem, mixture: Mixture, method: Callable[[Problem], Outcome]
) -> Outcome:
    """log Z = log Σ Z_c, whose errors are independent; draws in proportion to Z_c."""
    mixture, scouted = explore(problem, mixture)
    components = mixture.components[: -1 if scouted else None]
    target = problem.target_se
    expected = np.array([c.logz for c in components])
    expected = np.exp(expected - logsumexp(expected))
    parts = []
    for c, component in enumerate(components):
        problem.progress.phase(f"component {c + 1} of {len(components)}")
        part = _alone(problem, component, c)
        if target is not None:
            part.target_se = target / math.sqrt(len(components)) / max(expected[c], _RARE)
        parts.append(method(part))
    if scouted:
        parts.append(_rest(problem, mixture, scouted, parts))
    return _together(problem, mixture, parts)


def explore(problem: Problem, mixture: Mixture) -> tuple[Mixture, Scouted | None]:
    """A mixture that covers what scouts see, and the last one's report.

    Where the prior cannot reach the posterior in a reasonable number of steps it is left out.
    """
    extend = family(problem.model).extend
    if extend is None or mixture.components[-1].name != "prior":
        return mixture, None
    for k in range(_ROUNDS):
        scouted = _scout(problem, mixture, k)
        if scouted is None:
            return mixture.without_last(), None
        if scouted.logz - mixture.logz < math.log(_STRANGE):
            break
        extended = extend(mixture, scouted.draws)
        if len(extended.components) == len(mixture.components):
            break
        mixture = extended
    return mixture, scouted


def _scout(problem: Problem, mixture: Mixture, k: int) -> Scouted | None:
    """A short climb from the prior to what no component has a claim to."""
    path = make_path(mixture.components[-1])
    move = moves.get(family(problem.model).move(problem.model))
    move.prepare(path)
    steps = 0

    def stop() -> bool:
        nonlocal steps
        steps += 1
        return steps > _STEEP or problem.clock.stop()

    rng = np.random.default_rng(problem.child(_SCOUTED + k))
    problem.progress.phase("scout")
    try:
        climbed = _SCOUT.climb(path, move, rng, stop=stop)
    except Stopped:
        return None
    return Scouted(climbed.plan, climbed.log_z, move.to_latent(path, climbed.state[0]))


def _alone(problem: Problem, component: object, c: int) -> Problem:
    """The problem of one component's share."""
    return replace(
        problem,
        reference=component,
        seed=problem.child(_COMPONENT + c),
        checkpoint=problem.checkpoint.part(f"component {c}"),
        _path=None,
    )


def _rest(
    problem: Problem, mixture: Mixture, scouted: Scouted, parts: list[Outcome]
) -> Outcome:
    """The prior's share, by resample-move: the scout's plan will do where it is negligible."""
    share = math.exp(min(scouted.logz - logsumexp([part.logz for part in parts]), 0.0))
    part = _alone(problem, mixture.components[-1], len(parts))
    part.move = moves.get(family(problem.model).move(problem.model))
    part.betas = part.n_betas = None
    if share < _STRANGE:
        part.target_se, part.n_particles, part.n_islands = None, *_LIGHTLY
        return run_plan(part, scouted.plan)
    if problem.target_se is not None:
        part.target_se = problem.target_se / math.sqrt(2.0) / max(share, _RARE)
    return smc(part)


def _together(problem: Problem, mixture: Mixture, parts: list[Outcome]) -> Outcome:
    logz = np.array([part.logz for part in parts])
    total = float(logsumexp(logz))
    share = np.exp(logz - total)
    first = parts[int(np.argmax(np.nan_to_num(share)))]
    outcome = replace(
        first,
        logz=total,
        logz_se=float(np.sqrt(np.sum((share * [part.logz_se for part in parts]) ** 2))),
        samples=_samples(problem, parts, share),
        warnings=[
            warning
            for part, p in zip(parts, share, strict=True)
            if not p < _STRANGE
            for warning in part.warnings
        ],
        notes=list(first.notes),
        others=[],
    )
    told = ", ".join(
        f"{component.name} {part.logz:.3f} ({100 * p:.3g} %)"
        for component, part, p in zip(mixture.components, parts, share, strict=True)
    )
    outcome.notes.append(f"components share the posterior, log Z each: {told}")
    if mixture.components[-1].name == "prior" and not share[-1] < _STRANGE:
        text = (
            f"{100 * share[-1]:.2g} % of the posterior lie where no mode was found: there may be "
            "more; use method='smc' with reference='prior' to see"
        )
        outcome.warnings.append(Message("modes-missed", text))
    outcome.settings = {**first.settings, "reference": mixture.name, "components": len(parts)}
    return outcome


def _samples(problem: Problem, parts: list[Outcome], share: Array) -> Array | None:
    """Posterior draws of all components in proportion to their Z."""
    if not np.isfinite(share).all():
        return None
    rng = np.random.default_rng(problem.child(_SCOUTED - 1))
    chosen = []
    for part, count in zip(parts, rng.multinomial(_DRAWS, share / share.sum()), strict=True):
        if count and (part.samples is None or not len(part.samples)):
            return None
        if count:
            assert part.samples is not None
            chosen.append(part.samples[rng.integers(len(part.samples), size=count)])
    return rng.permutation(np.concatenate(chosen))
