"""What parallel tempering leaves behind: segments, and several of them as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...numerics.arrays import Array

Integers = NDArray[np.int64]


class Schedule(NamedTuple):
    """The levels: β from 0 to 1, and the step size of the move at each."""

    betas: Array
    step_sizes: Array


class Segment(NamedTuple):
    """What some sweeps of R ensembles over L levels left behind, arrays only.

    Attributes
    ----------
    tilt : array
        (R, sweeps, L) Σ h at every level, after its moves and before the swaps.
    x : array
        (L, R, N) where the latent values are at the end.
    swap_rejection : array
        (L - 1,) sum of 1 - α over sweeps and ensembles, whether a swap was due or not.
    acceptance : array
        (L,) mean acceptance probability of the moves; 1 at β = 0.
    failures : array
        (L,) rows whose numerics failed.
    gradients : array
        (L,) evaluations of a row's likelihood, gradient or metric.
    labels : array
        (L, R) which replica of its ensemble is at each level at the end.
    direction : array
        (L, R) of replica k, by label: 1 since it was at β = 0, -1 since it was at β = 1
        after that, 0 if it has not been at β = 0.
    round_trips : array
        (R,) journeys from β = 0 to β = 1 and back that ended in these sweeps.
    draws : array
        (R, kept, N) latent values at β = 1, evenly spaced over the sweeps.
    parity : int
        Which swaps a following segment begins with: those of even l or of odd l.
    """

    tilt: Array
    x: Array
    swap_rejection: Array
    acceptance: Array
    failures: Integers
    gradients: Integers
    labels: Integers
    direction: Integers
    round_trips: Integers
    draws: Array
    parity: int


def consecutive(segments: Sequence[Segment]) -> Segment:
    """Segments of the same ensembles, one after the other, as one."""
    return _joined(segments, 1)._replace(round_trips=np.sum([s.round_trips for s in segments], 0))


def side_by_side(segments: Sequence[Segment]) -> Segment:
    """Segments of different ensembles, equally many sweeps each, as one; none goes on from it."""
    round_trips = np.concatenate([segment.round_trips for segment in segments])
    return _joined(segments, 0)._replace(round_trips=round_trips)


def _joined(segments: Sequence[Segment], axis: int) -> Segment:
    """Tilts and draws joined, sums and the mean of what all have counted, the rest as the last."""
    counts = ("swap_rejection", "failures", "gradients")
    sums: dict[str, Any] = {n: np.sum([getattr(s, n) for s in segments], axis=0) for n in counts}
    tilt = np.concatenate([s.tilt for s in segments], axis)
    draws = np.concatenate([s.draws for s in segments], axis)
    work = [s.tilt.shape[0] * s.tilt.shape[1] for s in segments]
    acceptance = np.average([s.acceptance for s in segments], axis=0, weights=work)
    return segments[-1]._replace(acceptance=acceptance, tilt=tilt, draws=draws, **sums)


def trace_columns(whole: Segment, schedule: Schedule, log_z: Array) -> dict[str, Array]:
    """One entry per level; ``swap_rate`` and ``barrier`` concern the pairs below it."""
    rejection = whole.swap_rejection / (whole.tilt.shape[0] * whole.tilt.shape[1])
    return {
        "beta": schedule.betas, "logz": log_z, "acceptance": whole.acceptance,
        "swap_rate": np.concatenate([[np.nan], 1.0 - rejection]),
        "barrier": np.concatenate([[0.0], np.cumsum(rejection)]), "failures": whole.failures,
        "gradients": whole.gradients, "step_size": schedule.step_sizes,
    }  # fmt: skip
