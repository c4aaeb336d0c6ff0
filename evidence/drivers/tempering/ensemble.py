r"""Parallel tempering: chains at all temperatures of a path, which swap places.

Level l keeps R states (one for each of R independent *ensembles*) distributed as p_β at β_l.
A sweep

1. draws level 0 afresh from the reference and moves every other level ``explore`` times;
2. records the tilts;
3. offers swaps between the levels l, l + 1 of each ensemble, accepted with probability

   .. math:: \alpha = \min\big(1,\ e^{(\beta_{l+1} - \beta_l)(h_l - h_{l+1})}\big),

   to the even l and the odd l in turn. That order is not reversible: what is accepted keeps
   travelling in its direction, and a ladder of many levels is crossed in time proportional to
   its length, not its square.

The mean of 1 - α is the rejection rate r_l, and Λ = Σ r_l the path's *communication barrier*: it
hardly depends on the ladder, and tells how many levels are needed and where (:mod:`.tuning`).
log Z comes from the recorded tilts (:mod:`.bridging`).

Reference: Syed, Bouchard-Côté, Deligiannidis, Doucet (2022), J. R. Stat. Soc. B 84, 321–350.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...execution.clock import Stopped
from ...moves.base import Move
from ...numerics.arrays import Array, Flags, Rng
from ...paths.gp import TemperedPath
from ..islands import KEEP
from ..plan import STRIDES, strided
from .segments import Integers, Schedule, Segment

EXPLORE = 3  # moves between two swaps


class Replicas:
    """The states of all levels and the parts of a sweep over them."""

    def __init__(
        self, path: TemperedPath, move: Move, schedule: Schedule, rng: Rng, x: Array | None,
        n_ensembles: int,
    ) -> None:  # fmt: skip
        self.path, self.move, self.rng = path, move, rng
        self.betas = schedule.betas
        self.n_ensembles = n_ensembles if x is None else x.shape[1]
        self.use(schedule.step_sizes)
        if x is None:
            self.states = [move.init_reference(rng, path, n_ensembles) for _ in self.betas]
        else:
            self.states = [move.init(path, level) for level in x]
        self.steps, self.acceptance = 0, np.zeros(self.betas.size)
        self.failures = np.zeros(self.betas.size, np.int64)
        self.gradients = np.zeros(self.betas.size, np.int64)

    def use(self, step_sizes: Array) -> None:
        """Give every level its step size, where the move has one."""
        self.step_sizes = step_sizes
        self.moves = [strided(self.move, step, 0, len(STRIDES)) for step in step_sizes]

    def explore(self, n_moves: int) -> Array | None:
        """Level 0 afresh, ``n_moves`` moves at the others: mean acceptance (L,) of full strides,
        None if there were none."""
        turns = (self.steps + np.arange(n_moves)) % len(STRIDES)
        self.steps += n_moves
        self.states[0] = self.move.init_reference(self.rng, self.path, self.n_ensembles)
        self.gradients[0] += self.n_ensembles
        acceptance = np.ones((n_moves, self.betas.size))
        for l in range(1, self.betas.size):
            state, beta = self.states[l], float(self.betas[l])
            for k, turn in enumerate(turns):
                state, info = self.moves[l][turn].step(self.rng, self.path, beta, state)
                acceptance[k, l] = info.acceptance.mean()
                self.failures[l] += info.failures
                self.gradients[l] += info.gradients
            self.states[l] = state
        self.acceptance += acceptance.sum(axis=0)
        full = np.array(STRIDES)[turns] == 1.0
        return acceptance[full].mean(axis=0) if full.any() else None

    @property
    def tilt(self) -> Array:
        """(L, R)"""
        return np.array([state.tilt for state in self.states])

    def swap(self, accepted: Flags) -> None:
        """Exchange the states of levels l and l + 1 in the ensembles accepted[l]."""
        for l in np.flatnonzero(accepted.any(axis=1)):
            rows = np.flatnonzero(accepted[l])
            for low, high in zip(self.states[l], self.states[l + 1], strict=True):
                held = low[rows]
                low[rows] = high[rows]
                high[rows] = held

    def latent(self, level: int) -> Array:
        """(R, N)"""
        return self.move.latent(self.path, self.states[level]).copy()


def swap_acceptance(betas: Array, tilt: Array) -> Array:
    """α between neighbours, (L - 1, R), from tilts (L, R); 0 where both are -inf."""
    with np.errstate(invalid="ignore"):
        log_ratio = np.diff(betas)[:, None] * (tilt[:-1] - tilt[1:])
    return np.exp(np.minimum(np.where(np.isnan(log_ratio), -np.inf, log_ratio), 0.0))


def follow(labels: Integers, direction: Integers, accepted: Flags) -> Flags:
    """Note one sweep's swaps in ``labels`` and ``direction``; who finished a round trip, (R,)."""
    for l in np.flatnonzero(accepted.any(axis=1)):
        labels[l : l + 2, accepted[l]] = labels[l : l + 2, accepted[l]][::-1]
    at = np.arange(labels.shape[1])
    top, bottom = labels[-1], labels[0]
    turned = direction[top, at] == 1
    direction[top[turned], at[turned]] = -1
    finished = direction[bottom, at] == -1
    direction[bottom, at] = 1
    return finished


def run_segment(
    path: TemperedPath, move: Move, schedule: Schedule, x: Array | None, n_sweeps: int,
    seed: np.random.SeedSequence, stop: Callable[[], bool], *, parity: int = 0,
    reversible: bool = False, explore: int = EXPLORE, n_ensembles: int = 1,
    labels: Integers | None = None, direction: Integers | None = None,
) -> Segment:  # fmt: skip
    """``n_sweeps`` sweeps from the latent values ``x`` (L, R, N): a function of its arguments.

    With ``x=None``, ``n_ensembles`` ensembles start with draws from the reference at every
    level, and early sweeps are not in equilibrium. ``parity``, ``labels`` and ``direction``
    continue an earlier segment. ``reversible`` chooses between the even and the odd swaps by a
    coin instead of in turn.
    """
    rng = np.random.default_rng(seed)
    replicas = Replicas(path, move, schedule, rng, x, n_ensembles)
    levels, r = schedule.betas.size, replicas.n_ensembles
    if labels is None or direction is None:
        labels = np.repeat(np.arange(levels)[:, None], r, axis=1)
        direction = np.where(labels == 0, 1, 0)  # only who is at β = 0 has begun a journey
    else:
        labels, direction = labels.copy(), direction.copy()
    round_trips = np.zeros(r, np.int64)
    tilt = np.empty((r, n_sweeps, levels))
    rejection = np.zeros(levels - 1)
    spacing, draws = -(-n_sweeps // KEEP), []
    for sweep in range(n_sweeps):
        if stop():
            raise Stopped
        replicas.explore(explore)
        h = replicas.tilt
        tilt[:, sweep] = h.T
        if sweep % spacing == 0:
            draws.append(replicas.latent(-1))
        alpha = swap_acceptance(schedule.betas, h)
        rejection += np.sum(1.0 - alpha, axis=1)
        accepted = decide(rng, alpha, int(rng.integers(2)) if reversible else parity)
        replicas.swap(accepted)
        round_trips += follow(labels, direction, accepted)
        parity = 1 - parity
    return Segment(
        tilt, np.array([replicas.latent(l) for l in range(levels)]), rejection,
        replicas.acceptance / replicas.steps, replicas.failures, replicas.gradients, labels,
        direction, round_trips, np.stack(draws, axis=1), parity,
    )  # fmt: skip


def decide(rng: Rng, alpha: Array, parity: int) -> Flags:
    accepted = rng.random(alpha.shape) < alpha
    accepted[1 - parity :: 2] = False
    return accepted
