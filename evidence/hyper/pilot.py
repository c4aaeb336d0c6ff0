"""Where islands over θ start, and the ladder they climb: a pilot run finds both.

The start is a Student-t with the curvature of EP's evidence at its optimum. Where its draws
fit badly, it is widened to the moments of their tempered weights; where it still takes more than
one step to the target, one climb chooses temperatures by their conditional ESS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.linalg.lapack import dpotrf

from ..messages import Message
from ..models.priors import Priors
from ..moves.base import take
from ..numerics.arrays import Array
from ..statistics import ladders
from ..statistics.resampling import systematic
from ..statistics.weights import conditional_ess, incremental, pareto_shape
from .integral import EvidenceAt, ThetaCloud, ThetaPath, ThetaPlan, ThetaStart

_SIZE = 64
_ROUNDS = 4
_GOOD = 0.5  # relative ESS of a round after which no better start is looked for
_ENOUGH = 0.15  # relative ESS at which the ladder needs one step
_QUARTER = 0.25  # of the weights should count where the next start is learnt
_CESS = 0.6
_MOVES = 3
_INFLATE = 1.2  # of the curvature's standard deviations: tails matter more than the middle
_LONGEST = 24  # steps of a ladder
_TAIL = 0.7  # Pareto shape above which an error bar is doubtful


class ThetaPilot(NamedTuple):
    """What a pilot found, and the relative ESS of an island's weights."""

    path: ThetaPath
    plan: ThetaPlan
    ess: float
    notes: list[str]
    warnings: list[Message]


def run_pilot(
    evidence: EvidenceAt,
    priors: Priors,
    centre: Array,
    sd: Array,
    rng: Generator,
    stop: Callable[[], bool],
) -> ThetaPilot:
    """A start that fits, from a first guess at it, and the ladder from there."""
    sd = np.where(np.isfinite(sd) & (sd > 0), np.clip(sd, 0.01, 3.0), 1.0)
    start, ess = ThetaStart(centre, np.diag(_INFLATE * sd)), -1.0
    for trial in range(_ROUNDS):
        if trial and stop():
            break
        tried = ThetaPath(evidence, priors, start)
        drawn = tried.draw(_SIZE, rng)
        alive = take(drawn, np.flatnonzero(np.isfinite(drawn.tilt)))
        if not alive.tilt.size:
            raise RuntimeError(
                "no hyperparameters near EP's optimum have an evidence: "
                "is the covariance positive definite there? pass a larger jitter to GPModel"
            )
        if (share := conditional_ess(drawn.tilt, 1.0)) > ess:
            ess, path, cloud = share, tried, drawn
        if share > _GOOD:
            break
        heat = ladders.next_beta(drawn.tilt, 0.0, _QUARTER)
        w = incremental(alive.tilt, heat).relative
        root = _spread(alive.theta, w, start.root / _INFLATE)
        start = ThetaStart(w @ alive.theta / w.sum(), _INFLATE * root)
    worth = f"{_SIZE} draws around EP's optimum are worth"
    if ess < _ENOUGH:
        plan = _climb(path, cloud, rng)
        steps = plan.betas.size
        notes = [f"{worth} {ess * _SIZE:.1f}: tempering over {steps} steps"]
        return ThetaPilot(path, plan, _CESS / steps, notes, [])
    notes, warnings = [f"{worth} {ess * _SIZE:.0f}: no tempering"], []
    shape = pareto_shape(np.sort(cloud.tilt[np.isfinite(cloud.tilt)]))
    if shape > _TAIL:
        text = (
            f"the pilot's weights have a heavy tail (Pareto k = {shape:.2f}): the error bar may "
            "be too small; a prior that rules out what the data cannot tell helps"
        )
        warnings.append(Message("heavy-tail", text))
    return ThetaPilot(path, ThetaPlan(np.ones(1), path.start.root, 0), ess, notes, warnings)


def _climb(path: ThetaPath, cloud: ThetaCloud, rng: Generator) -> ThetaPlan:
    """Climb once from ``cloud`` by conditional ESS, then keep ladder and walk as they are."""
    betas: list[float] = []
    beta = 0.0
    while beta < 1.0:
        longest = len(betas) == _LONGEST - 1
        new = 1.0 if longest else ladders.next_beta(cloud.tilt, beta, _CESS)
        w = incremental(cloud.tilt, new - beta).relative
        root = _spread(cloud.theta, w, path.start.root)
        cloud, beta = take(cloud, systematic(w, rng)), new
        betas.append(beta)
        for _ in range(_MOVES if beta < 1.0 else 0):
            cloud, _ = path.walk(rng, root, beta, cloud)
    return ThetaPlan(np.array(betas), root, _MOVES)


def _spread(theta: Array, w: Array, otherwise: Array) -> Array:
    """Lower root of the weighted covariance; ``otherwise`` where too few count for one."""
    w = w / w.sum()
    centred = theta - w @ theta
    cov = (w[:, None] * centred).T @ centred
    if 1.0 / np.sum(w * w) < 4.0 * theta.shape[1]:
        return otherwise
    root, info = dpotrf(cov, lower=1, clean=1)
    return root if info == 0 else otherwise
