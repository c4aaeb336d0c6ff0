r"""How to climb from the reference to the posterior: temperatures, step sizes, numbers of moves.

A :class:`Pilot` with few particles climbs once and finds a :class:`Plan`: temperatures by
conditional ESS, for each a step size that meets the move's target acceptance, and as many moves
as it takes until the tilt has forgotten where it started. Drivers then follow the plan as it
stands, which is what makes their estimates unbiased.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..execution.clock import Stopped, check_interrupt
from ..moves.base import Info, Move, State, StateT, scaled, stacked, take
from ..numerics.arrays import Array, Indices, Rng
from ..paths.gp import TemperedPath
from ..statistics import ladders
from ..statistics.resampling import systematic
from ..statistics.weights import Weights, incremental

STRIDES = (1.0, 1.0, 0.125)  # every third step is short: it frees states that long ones leave


class Stage(NamedTuple):
    """A temperature and what is done there."""

    beta: float
    step_size: float
    n_moves: int


REFERENCE = Stage(0.0, 1.0, 0)


class Plan(NamedTuple):
    """What a pilot found: one entry per temperature after β = 0."""

    betas: Array
    step_sizes: Array
    n_moves: Indices
    mixing: Array
    """Correlation of the next weights before and after the moves of each temperature."""
    relative_variance: float
    """Rough variance of log Ẑ times the number of particles."""
    calls: float = 0.0
    """Evaluations of a user's functions on a particle's way up."""

    def expected_variance(self, caution: float = 4.0) -> float:
        """That of islands, ``caution`` times as much: a pilot sees about a quarter of it, as moves
        do not mix perfectly."""
        return caution * self.relative_variance

    @property
    def stages(self) -> list[Stage]:
        columns = (self.betas, self.step_sizes, self.n_moves)
        return list(map(Stage, *(column.tolist() for column in columns)))

    def refined(self, n: int, single: bool = False) -> Plan:
        """A plan of ``n`` temperatures spaced like these, with their moves or one each.

        Where the pilot put its temperatures close together, so does this one; step sizes are
        interpolated, and numbers of moves are those of the pilot's next temperature.
        """
        known = np.concatenate([[0.0], self.betas])
        place = np.linspace(0.0, known.size - 1.0, n + 1)[1:]
        betas = np.interp(place, np.arange(known.size), known)
        betas[-1] = 1.0
        step_sizes = np.exp(np.interp(betas, self.betas, np.log(self.step_sizes)))
        following = np.searchsorted(self.betas, betas)
        n_moves = np.ones(n, dtype=np.intp) if single else self.n_moves[following]
        mixing = np.full(n, np.nan) if single else self.mixing[following]
        variance = self.relative_variance * self.betas.size / n
        calls = self.calls * float(n_moves.sum() / self.n_moves.sum())
        return Plan(betas, step_sizes, n_moves, mixing, variance, calls)


class Climbed(NamedTuple):
    """A plan, and what the pilot that found it saw on its way."""

    plan: Plan
    log_z: float
    """Rough and a little too low: everything adapted to the weights that it is made of."""
    state: State
    """Particles at β = 1."""


class Settled(NamedTuple):
    """Where moves at one temperature led, and what they were in the end."""

    state: State
    move: Move
    n_moves: int
    mixing: float
    acceptance: float


@dataclass(frozen=True)
class Pilot:
    """How a plan is made: conditional ESS of a step, correlation at which the tilt has forgotten
    its start, the most moves for that, and the number of particles."""

    cess: float = 0.98
    mixing: float = 0.4
    max_moves: int = 24
    particles: int = 128

    def climb(
        self, path: TemperedPath, move: Move, rng: Rng, betas: Array | None = None,
        stop: Callable[[], bool] = lambda: False,
        report: Callable[[float, float, float], None] = lambda beta, ess, acceptance: None,
    ) -> Climbed:  # fmt: skip
        """Climb once, adapting everything: a plan, and what was seen on the way. ``report`` hears
        β, ESS and acceptance."""
        state, share = self.begin(path, move, rng)
        beta, variance, acceptance = 0.0, 1.0 / share - 1.0, np.nan
        log_z = path.log_z0 + float(np.log(share))
        rows: list[tuple[float, float, int, float]] = []
        while beta < 1.0:
            if stop():
                raise Stopped
            if betas is None:
                new = ladders.next_beta(state.tilt, beta, self.cess)
            else:
                new = float(betas[len(rows) + 1])
            weights = incremental(state.tilt, new - beta)
            ess = float(weights.ess)
            variance += 1.0 / ess - 1.0 if ess else np.inf
            log_z += float(Weights((new - beta) * state.tilt).log_mean)
            state = take(state, systematic(weights.relative, rng))
            beta = new
            if beta < 1.0:
                settled = self.settle(path, move, rng, beta, state)
                state, move, n_moves, mixing, acceptance = settled
            else:  # no weight follows: one move, so that posterior draws are not copies
                n_moves, mixing = 1, np.nan
            report(beta, ess, acceptance)
            rows.append((beta, move.step_size, n_moves, mixing))
        ladder, step_sizes, counts, mixings = map(np.array, zip(*rows, strict=True))
        plan = Plan(ladder, step_sizes, counts.astype(int), mixings, variance)
        return Climbed(plan, log_z, state)

    def begin(
        self, path: TemperedPath, move: Move, rng: Rng, few: int = 16, most: int = 2**14
    ) -> tuple[State, float]:
        """Particles of the reference, and 1. Where fewer than ``few`` of them have a density draws
        go on, up to so many, and particles are some that have: and their share. (Of a shell with
        half a per cent of the prior 128 draws showed next to nothing: a plan of one temperature.)
        """
        states, drawn, alive = list[State](), 0, 0
        while not drawn or (alive < few and drawn < most):
            check_interrupt()
            state = move.init_reference(rng, path, self.particles)
            rows = np.flatnonzero(np.isfinite(state.tilt))
            states.append(take(state, rows))
            drawn, alive = drawn + self.particles, alive + rows.size
        if drawn == self.particles or not alive:
            return state, 1.0
        return take(stacked(states), rng.integers(alive, size=self.particles)), alive / drawn

    def settle(
        self, path: TemperedPath, move: Move, rng: Rng, beta: float, state: State
    ) -> Settled:
        """Move and adapt the step size until the next weights have forgotten where they started.

        Weights, not tilts: a few particles behind a wall, a hundred nats too low, will weigh
        nothing wherever they go, and would be all that a correlation of tilts sees.
        """
        step = ladders.next_beta(state.tilt, beta, self.cess) - beta
        start = incremental(state.tilt, step).relative
        for k in range(1, self.max_moves + 1):
            check_interrupt()
            stride = STRIDES[(k - 1) % len(STRIDES)]
            state, info = scaled(move, stride).step(rng, path, beta, state)
            acceptance = float(info.acceptance.mean())
            if stride == 1.0 and move.target is not None:
                factor = np.exp(2.0 / np.sqrt(k) * (acceptance - move.target))
                move = sized(move, min(move.step_size * factor, move.longest))
            mixing = correlation(start, incremental(state.tilt, step).relative)
            if mixing < self.mixing:
                break
        return Settled(state, move, k, mixing, acceptance)


def sized(move: Move, step_size: float) -> Move:
    """The move with this step size; the move itself where there is nothing to tune."""
    if move.target is None:
        return move
    return replace(move, step_size=float(step_size))  # type: ignore[type-var]


def strided(move: Move, step_size: float, first: int, n: int) -> list[Move]:
    """``n`` moves of this step size in their turn of strides, ``first`` moves into a run."""
    move = sized(move, step_size)
    kinds = [scaled(move, stride) for stride in STRIDES]
    return [kinds[k % len(kinds)] for k in range(first, first + n)]


def run_moves(
    rng: Rng, path: TemperedPath, beta: float, state: StateT, moves: list[Move]
) -> tuple[StateT, list[Info], float]:
    """Moves at one temperature: the state, what they told, and how the tilt has mixed."""
    before, infos = state.tilt.copy(), []
    for move in moves:
        check_interrupt()
        state, info = move.step(rng, path, beta, state)
        infos.append(info)
    return state, infos, correlation(before, state.tilt) if moves else np.nan


def correlation(before: Array, after: Array, *, too_low: float = 1e100) -> float:
    """Of the rows that are not too low: a density may be zero where particles start.

    ``too_low``: tilts beyond it, of either sign, have no variance.
    """
    finite = (np.abs(before) < too_low) & (np.abs(after) < too_low)
    if not finite.all():
        before, after = before[finite], after[finite]
    if before.size < 2:
        return 0.0
    spread = before.std() * after.std()
    if not spread > 0.0:
        return 0.0
    return float(np.mean((before - before.mean()) * (after - after.mean())) / spread)
