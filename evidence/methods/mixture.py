"""Any method on a posterior with several modes: one component after the other, then their sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from ..approximations.mixture import Mixture
from ..messages import Message
from .base import Outcome, Problem

_SEED = 200  # components' seeds are children from here on
_RARE = 0.1  # of the posterior: what is rarer need not be known better
_COUNTS = 0.01  # of the posterior from which a component's warnings are the result's
_DRAWS = 1000


def over_components(
    problem: Problem, mixture: Mixture, method: Callable[[Problem], Outcome]
) -> Outcome:
    """log Z = log Σ Z_c, whose errors are independent; draws in proportion to Z_c."""
    parts = []
    for c, component in enumerate(mixture.components):
        target = problem.target_se
        if target is not None:
            target /= math.sqrt(len(mixture.components)) * max(mixture.weights[c], _RARE)
        part = replace(
            problem,
            reference=component,
            target_se=target,
            seed=problem.child(_SEED + c),
            checkpoint=problem.checkpoint.part(f"component {c}"),
            _path=None,
        )
        parts.append(method(part))
    return _together(problem, mixture, parts)


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
            if not p < _COUNTS
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
    if share[-1] > _COUNTS:
        text = (
            f"{100 * share[-1]:.2g} % of the posterior lie where no mode was found, only draws "
            "from the prior: there may be more; use method='smc' with reference='prior' to see"
        )
        outcome.warnings.append(Message("modes-missed", text))
    outcome.settings = {**first.settings, "reference": mixture.name, "components": len(parts)}
    return outcome


def _samples(problem: Problem, parts: list[Outcome], share: np.ndarray) -> np.ndarray | None:
    """Posterior draws of all components in proportion to their Z."""
    if not np.isfinite(share).all():
        return None
    rng = np.random.default_rng(problem.child(_SEED - 1))
    chosen = []
    for part, count in zip(parts, rng.multinomial(_DRAWS, share / share.sum()), strict=True):
        if count and (part.samples is None or not len(part.samples)):
            return None
        if count:
            assert part.samples is not None
            chosen.append(part.samples[rng.integers(len(part.samples), size=count)])
    return rng.permutation(np.concatenate(chosen))
