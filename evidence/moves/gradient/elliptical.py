r"""Elliptical slice sampling (Murray, Adams and MacKay 2010) with the reference as base.

A draw v ~ N(0, C) spans an ellipse through the state,

.. math:: x(\theta) = m + (x - m)\cos\theta + v\sin\theta,

and θ is drawn uniformly from the part where β Σ h exceeds a random level, by shrinking a
bracket around θ = 0. Nothing to tune and nothing rejected. The ellipse is made in latent
space, so one N × N product serves the whole step and each further evaluation costs O(N).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...numerics.jit import jit, vector_loop
from ...paths.base import TemperedPath
from ...paths.gp import Path, row_tilt
from ..base import Array, Beta, Info, Latent, LatentMove, Rng, per_row


class Slices(NamedTuple):
    """One ellipse per row, and how far the search on it has come."""

    centre: Array  # (N,)
    start: Array  # (M, N)
    v: Array  # (M, N)
    beta: Array  # (M,)
    level: Array
    low: Array
    high: Array
    angle: Array  # to be tried next
    x: Array  # (M, N), what was tried last
    tilt: Array  # (M,)


@vector_loop
def _place(s, m):
    """Put x of a row where its angle points."""
    x, start, v = s.x[m], s.start[m], s.v[m]
    cosine, sine = math.cos(s.angle[m]), math.sin(s.angle[m])
    for i in range(x.size):
        x[i] = s.centre[i] + cosine * (start[i] - s.centre[i]) + sine * v[i]


@jit
def _found(s, m, tilt, u):
    """Whether the tilt is high enough; if not, the bracket shrinks and the next angle is drawn."""
    if s.beta[m] * tilt > s.level[m]:
        s.tilt[m] = tilt
        return True
    if s.angle[m] < 0.0:
        s.low[m] = s.angle[m]
    else:
        s.high[m] = s.angle[m]
    s.angle[m] = s.low[m] + (s.high[m] - s.low[m]) * u
    return False


@jit
def _search(kernel, theta, c, nu, tau, s, rows, u):
    """Try angles of every row in turn, row by row; returns the number of evaluations.

    Rows that are done are -1 afterwards.
    """
    out, evaluations = np.empty((4, s.centre.size)), 0
    for k, m in enumerate(rows):
        for j in range(u.shape[1]):
            _place(s, m)
            evaluations += 1
            if _found(s, m, row_tilt(kernel, theta, c, nu, tau, s.x[m], out), u[k, j]):
                rows[k] = -1
                break
    return evaluations


@jit
def _place_all(s, rows):
    for m in rows:
        if m >= 0:
            _place(s, m)


@jit
def _found_all(s, rows, tilt, u):
    k = 0
    for i, m in enumerate(rows):
        if m >= 0:
            if _found(s, m, tilt[k], u[i]):
                rows[i] = -1
            k += 1


def _search_together(path: TemperedPath, s: Slices, rows: NDArray[np.intp], u: Array) -> int:
    """The same with the tilts of all rows in one call, for any path."""
    evaluations = 0
    for column in u.T:
        _place_all(s, rows)
        tilt = path.tilt(s.x[rows[rows >= 0]])
        evaluations += len(tilt)
        _found_all(s, rows, tilt, column)
        if not len(tilt):
            break
    return evaluations


@dataclass
class EllipticalSlice(LatentMove):
    """Elliptical slice sampler; nothing to tune.

    Parameters
    ----------
    name : str
        What results call the move.
    """

    step_size: float = field(default=1.0, init=False, repr=False)
    target: float | None = field(default=None, init=False, repr=False)
    name: str = "elliptical"

    def step(self, rng: Rng, path: TemperedPath, beta: Beta, state: Latent) -> tuple[Latent, Info]:
        draws = 16  # angles of a row that are drawn at once
        rounds = 12  # its bracket is then 1e-40 wide: only rounding can get there
        m = len(state.x)
        beta = per_row(beta, m)
        v = self.draw(rng, path, m)
        with np.errstate(invalid="ignore"):  # a state of density zero at β = 0
            level = beta * state.tilt - rng.standard_exponential(m)
        high = rng.uniform(0.0, 2.0 * np.pi, m)
        low, x, tilt = high - 2.0 * np.pi, np.empty_like(state.x), np.empty(m)
        slices = Slices(path.mean, state.x, v, beta, level, low, high, high.copy(), x, tilt)
        rows, evaluations = np.arange(m), 0
        for _ in range(rounds):
            u = rng.random((rows.size, draws))
            with np.errstate(invalid="ignore"):
                if path.compiled:
                    assert isinstance(path, Path)
                    evaluations += _search(*path.tilt_arguments, slices, rows, u)
                else:
                    evaluations += _search_together(path, slices, rows, u)
            rows = rows[rows >= 0]
            if not rows.size:
                break
        x[rows], tilt[rows] = state.x[rows], state.tilt[rows]
        acceptance = np.ones(m)
        acceptance[rows] = 0.0
        return Latent(x, tilt), Info(acceptance, int(rows.size), evaluations)
