r"""When cheap draws are trusted: verdicts on guided draws, the reference's own, and tilting's.

n weights with the relative variance v are worth n/(1 + v) draws, and :math:`v / \text{target}^2`
of them reach a target; if their tail, of the Pareto shape k, is light enough that they tell v.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..drivers.weighted import Guided, Tilted
from ..models.density.model import DensityModel
from ..moves.gradient.crank_nicolson import PCN
from ..statistics.weights import Weights
from .base import Problem
from .weighted import Trial

MOST = 2**16  # draws a method may need
MOST_GUIDED = 2**20  # which makes do with fewer than any other would
DOUBTFUL = 0.2  # worth of a draw from which on more of them tell whether a tail is heavy
_SAFE_TAIL = 0.67  # Pareto shape up to which a thousand weights tell their variance


class Verdict(NamedTuple):
    """Draws needed for the target (infinite: do not), the reason in words, a draw's worth."""

    draws: float
    reason: str
    worth: float = 0.0


def _reliable(
    shape: float, worth: float, n: int, enough: float = 50.0, alike: float = 0.99
) -> bool:
    """Whether n weights worth so many draws tell their variance: ``enough`` of them, whose tail
    is of no interest where they are worth more than the part ``alike`` of n, nearly constant (of
    145 Gaussian processes with such weights and k above .67 RMS z is .92, and 3 the largest)."""
    return worth >= enough and (shape < _SAFE_TAIL or worth > alike * n)


def judge_guide(trial: Trial[Guided], name: str, target: float, margin: float = 1.5) -> Verdict:
    """Whether guided draws are enough, ``margin`` times as many as the trial says."""
    weights, variance, shape = trial.weights, trial.weights.relative_variance, trial.weights.shape
    worth = weights.n / (1.0 + variance)
    by = f"the {name} sites" + (" and a learnt twist" if trial.source.guide.twist else "")
    what = f"{weights.n} draws guided by {by} are worth {worth:.0f} (Pareto k = {shape:.2f})"
    if not _reliable(shape, worth, weights.n):
        return Verdict(math.inf, f"{what}: their weights are too uneven to rely on")
    draws = margin * variance / target**2
    if draws > MOST_GUIDED:
        return Verdict(draws, f"{what}: too few for the target")
    return Verdict(draws, f"{what}: they are enough, annealing is not needed")


def judge_importance(
    problem: Problem, target: float, trials: tuple[int, int] = (1024, 8192),
    margin: float = 1.5, fair: float = 0.25,
) -> Verdict:  # fmt: skip
    """Whether q's own draws are enough, ``margin`` times as many as the first of ``trials`` says,
    or a longer second one. Where q is a fit to draws, one must be worth the part ``fair``."""
    move = PCN()
    problem.prepare(move)
    rng = np.random.default_rng(problem.child(4))
    free = not isinstance(problem.model, DensityModel)  # of calls of a user's function
    for n in trials:
        weights = Weights(move.init_reference(rng, problem.path, n).tilt)
        ess, shape = float(weights.ess), weights.shape
        if _reliable(shape, ess * n, n) or ess < DOUBTFUL or not free:
            break
    what = (
        f"{n} draws from the {problem.reference.name} reference are worth "
        f"{ess * n:.0f} (Pareto k = {shape:.2f})"
    )
    if not _reliable(shape, ess * n, n):
        return Verdict(math.inf, f"{what}: their weights are too uneven, so annealing is needed")
    if problem.reference.name == "fitted" and ess < fair:
        return Verdict(math.inf, f"{what}: such a fit may miss narrow ends, so one anneals")
    draws = margin * (1.0 / ess - 1.0) / target**2
    if draws > MOST:
        return Verdict(draws, f"{what}: annealing is cheaper")
    return Verdict(draws, f"{what}: importance sampling is enough, annealing is not needed", ess)


def judge_tilting(trial: Trial[Tilted], target: float, largest_sd: float = 6.0) -> Verdict:
    """Whether minimax tilting can be trusted here, whose log weights have no larger standard
    deviation than ``largest_sd``."""
    weights = trial.weights
    what = f"{weights.n} of minimax tilting's log weights have sd {weights.log_sd:.1f}"
    draws = weights.relative_variance / target**2
    if weights.complaints() or weights.log_sd > largest_sd or draws > MOST:
        return Verdict(math.inf, f"{what}: too uneven to rely on")
    return Verdict(draws, f"{what}: it is chosen")
