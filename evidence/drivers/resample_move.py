r"""Tempered resample-move (an SMC sampler) in independent islands.

A *pilot* with few particles finds a :class:`Plan`: temperatures by conditional ESS, a step size
and a number of moves for each. *Islands* then run the plan as it stands. With the plan fixed in
advance, every island's

.. math:: \hat Z = Z_q \prod_t \sum_i W_t^i \exp(\Delta\beta_t \sum_n h_n(x_t^i))

is unbiased for Z whatever the number of particles, so the answer is the mean of Ẑ over islands
(not of log Ẑ) and its error bar comes from their spread, with no assumption about mixing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..execution.tasks import Stopped
from ..moves.base import Move, scaled, take
from ..paths.gp import Path
from ..statistics import ladders
from ..statistics.genealogy import Genealogy
from ..statistics.resampling import SCHEMES, systematic
from .islands import Islands

Array = NDArray[np.float64]

_RESAMPLE_BELOW = 0.7  # relative ESS
_TOO_LOW = 1e100  # tilts beyond it, of either sign, have no variance
STRIDES = (1.0, 1.0, 0.125)  # every third step is short: it frees states that long ones leave
KEEP = 64  # posterior draws kept per island


class Plan(NamedTuple):
    """What a pilot found: one entry per temperature after β = 0."""

    betas: Array
    step_sizes: Array
    n_moves: NDArray[np.intp]
    mixing: Array
    """Correlation of the tilt before and after the moves of each temperature."""
    relative_variance: float
    """Rough variance of log Ẑ times the number of particles."""


@dataclass(frozen=True)
class Settings:
    """How a plan is made."""

    cess: float = 0.98
    mixing: float = 0.4
    max_moves: int = 24
    pilot_particles: int = 128


def plan(
    path: Path,
    move: Move,
    rng: np.random.Generator,
    settings: Settings,
    betas: Array | None = None,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[float, float, float], None] = lambda beta, ess, acceptance: None,
) -> Plan:
    """Climb once with few particles, adapting everything; ``report`` β, ESS and acceptance."""
    move = replace(move)  # type: ignore[type-var]
    m = settings.pilot_particles
    state = move.init_reference(rng, path, m)
    beta, variance, acceptance = 0.0, 0.0, np.nan
    rows: list[tuple[float, float, int, float]] = []
    while beta < 1.0:
        if stop():
            raise Stopped
        if betas is None:
            new = ladders.next_beta(state.tilt, beta, settings.cess)
        else:
            new = float(betas[len(rows) + 1])
        ess = ladders.conditional_ess(state.tilt, new - beta)
        variance += 1.0 / ess - 1.0
        w = np.exp((new - beta) * (state.tilt - state.tilt.max()))
        state = take(state, systematic(w, rng))
        beta = new
        if beta < 1.0:
            state, n_moves, mixing, acceptance = move_until_mixed(
                rng, path, move, beta, state, settings
            )
        else:  # no weight follows: one move, so that posterior draws are not copies
            n_moves, mixing = 1, np.nan
        report(beta, ess, acceptance)
        rows.append((beta, move.step_size, n_moves, mixing))
    ladder, step_sizes, n_moves, mixing = (np.array(column) for column in zip(*rows, strict=True))
    return Plan(ladder, step_sizes, n_moves.astype(int), mixing, variance)


def move_until_mixed(
    rng: np.random.Generator,
    path: Path,
    move: Move,
    beta: float,
    state: Any,
    settings: Settings,
) -> tuple[Any, int, float, float]:
    """Move and adapt the step size until the tilt has forgotten where it started."""
    start = state.tilt.copy()
    mixing = 1.0
    for k in range(1, settings.max_moves + 1):
        stride = STRIDES[(k - 1) % len(STRIDES)]
        state, info = scaled(move, stride).step(rng, path, beta, state)
        if stride == 1.0 and move.target is not None:
            factor = np.exp(2.0 / np.sqrt(k) * (info.acceptance.mean() - move.target))
            move.step_size = float(min(move.step_size * factor, move.longest))
        mixing = correlation(start, state.tilt)
        if mixing < settings.mixing:
            break
    return state, k, mixing, float(info.acceptance.mean())


def correlation(before: Array, after: Array) -> float:
    """Of the rows that are not too low: a density may be zero where particles start."""
    finite = (np.abs(before) < _TOO_LOW) & (np.abs(after) < _TOO_LOW)
    if not finite.all():
        before, after = before[finite], after[finite]
    if before.size < 2:
        return 0.0
    spread = before.std() * after.std()
    if not spread > 0.0:
        return 0.0
    return float(np.mean((before - before.mean()) * (after - after.mean())) / spread)


def run_islands(
    path: Path,
    move: Move,
    plan: Plan,
    n_islands: int,
    n_particles: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
    resampling: str = "systematic",
) -> Islands:
    """Run ``n_islands`` islands of ``n_particles`` each as one batch, following ``plan``."""
    if stop():
        raise Stopped
    rng, resample = np.random.default_rng(seed), SCHEMES[resampling]
    g, m = n_islands, n_particles
    state = move.init_reference(rng, path, g * m)
    log_w = np.zeros((g, m))  # normalised within each island: mean exp = 1
    log_z = np.full(g, path.log_z0)
    family = Genealogy(g, m, resampling)
    rows: list[tuple[Any, ...]] = []
    beta, steps = 0.0, 0
    for step_size, new, n_moves in zip(plan.step_sizes, plan.betas, plan.n_moves, strict=True):
        if stop():
            raise Stopped
        started = time.perf_counter()
        log_w += (new - beta) * state.tilt.reshape(g, m)
        peak = log_w.max(axis=1, keepdims=True)
        dead = peak[:, 0] == -np.inf  # nothing is left to go on with, Ẑ = 0
        log_w[dead], peak[dead] = 0.0, 0.0
        w = np.exp(log_w - peak)
        mean_w = w.mean(axis=1, keepdims=True)
        log_z = log_z + np.where(dead, -np.inf, (peak + np.log(mean_w))[:, 0])
        log_w -= peak + np.log(mean_w)
        ess = mean_w[:, 0] ** 2 / np.mean(w * w, axis=1)
        beta = float(new)
        if beta == 1.0:
            variance = family.variance(w)
        poor = ess < (_RESAMPLE_BELOW if beta < 1.0 else np.inf)
        if poor.any():
            index = np.arange(g * m).reshape(g, m)
            for i in np.flatnonzero(poor):
                index[i] = i * m + resample(w[i], rng)
            log_w[poor] = 0.0
            family.resample(index, poor)
            state = take(state, index.ravel())
        current = move if move.target is None else replace(move, step_size=float(step_size))
        start = state.tilt.copy()
        acceptance, failures, gradients = 0.0, 0, 0
        for _ in range(n_moves):
            stride = STRIDES[steps % len(STRIDES)]
            state, info = scaled(current, stride).step(rng, path, beta, state)
            steps += 1
            acceptance += float(info.acceptance.mean()) / n_moves
            failures += info.failures
            gradients += info.gradients
        rows.append(
            (
                log_z,
                ess.mean(),
                acceptance if n_moves else np.nan,
                correlation(start, state.tilt),
                failures,
                gradients,
                float(m),
                time.perf_counter() - started,
            )
        )
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    kept = np.arange(0, m, max(1, -(-m // KEEP)))
    index = (np.arange(g)[:, None] * m + kept).ravel()
    draws = move.latent(path, take(state, index)).reshape(g, kept.size, path.n)
    return Islands(*columns, draws, variance)
