r"""Annealed importance sampling (Neal 2001), upwards from the reference and back down.

Many chains climb one ladder as the rows of a batch, whatever move moves them. With Σh the tilt
of :mod:`evidence.paths.gp`, a chain's weight is

.. math:: \log w = \log Z_q + \sum_{t=1}^T (\beta_t - \beta_{t-1}) \sum_n h_n(x_{t-1}),
          \qquad E\,w = Z,

where :math:`x_0 \sim q` and :math:`x_t` is what moves that leave :math:`p_{\beta_t}` invariant
make of :math:`x_{t-1}`: a weight takes x *before* the move at the next temperature. From draws
of the posterior the way down gives :math:`\log u`, minus the same sum over its own path, with
E u = 1/Z. What to make of the two is in :mod:`.crooks`.

References
----------
Neal (2001), Annealed importance sampling, Statistics and Computing 11, 125–139.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.tasks import Stopped
from ..messages import InputError
from ..moves.base import Move, scaled
from ..paths.gp import Path
from .islands import Islands
from .resample_move import STRIDES, Plan, correlation

Array = NDArray[np.float64]


def refine(plan: Plan, n: int, single: bool = False) -> Plan:
    """A plan of ``n`` temperatures spaced like those of ``plan``, with its moves or one each.

    Where the pilot put its temperatures close together, so does this one; step sizes are
    interpolated, and numbers of moves are those of the pilot's next temperature.
    """
    if n < 1:
        raise InputError(f"refine needs n ≥ 1 temperatures, got {n}")
    known = np.concatenate([[0.0], plan.betas])
    betas = np.interp(np.linspace(0.0, known.size - 1.0, n + 1)[1:], np.arange(known.size), known)
    betas[-1] = 1.0
    step_sizes = np.exp(np.interp(betas, plan.betas, np.log(plan.step_sizes)))
    following = np.searchsorted(plan.betas, betas)
    n_moves = np.ones(n, dtype=np.intp) if single else plan.n_moves[following]
    mixing = np.full(n, np.nan) if single else plan.mixing[following]
    variance = plan.relative_variance * plan.betas.size / n
    return Plan(betas, step_sizes, n_moves, mixing, variance)


def strided(move: Move, step_size: float, first: int, n: int) -> list[Move]:
    """``n`` moves of this step size in their turn of strides, ``first`` moves into a run."""
    if move.target is not None:
        move = replace(move, step_size=step_size)  # type: ignore[type-var]
    kinds = [scaled(move, stride) for stride in STRIDES]
    return [kinds[k % len(kinds)] for k in range(first, first + n)]


def run_forward(
    path: Path,
    move: Move,
    plan: Plan,
    n_islands: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
) -> Islands:
    """Climb ``plan`` with ``n_islands`` independent chains, each an island of one particle.

    ``log_z[-1]`` holds the G log weights and ``draws[g, 0]`` chain g's final state, a draw from
    the posterior when weighted by its island's Ẑ. ``ess`` is that of all chains together. The
    last temperature's moves come after the last weight: they only freshen the draws.
    """
    rng = np.random.default_rng(seed)
    state = move.init_reference(rng, path, n_islands)
    log_w = np.full(n_islands, path.log_z0)
    rows: list[tuple[Any, ...]] = []
    levels = _levels(plan, move)
    for step, beta, level in zip(_steps(plan), plan.betas, levels, strict=True):
        if stop():
            raise Stopped
        started = time.perf_counter()
        log_w = log_w + step * state.tilt
        state, moved = _run_level(rng, path, float(beta), level, state)
        rows.append((log_w, _ess(log_w), *moved, 1.0, time.perf_counter() - started))
    columns = (np.array(column) for column in zip(*rows, strict=True))
    draws = move.latent(path, state)[:, None, :]
    return Islands(*columns, draws, np.full(n_islands, np.nan))


class Descent(NamedTuple):
    """M chains that went down T steps; rows are in the order of the way down."""

    log_w: Array
    """(T, M) cumulative log u: the mean of exp(log_w[-1]) is an unbiased estimate of 1/Z."""
    ess: Array
    """(T,) effective sample size of these weights, relative to M."""
    acceptance: Array
    """(T,) mean acceptance probability of the moves after the weight; NaN after the last."""
    mixing: Array
    """(T,) correlation of the tilt before and after these moves."""
    failures: NDArray[np.int64]
    """(T,) rows whose numerics failed."""
    gradients: NDArray[np.int64]
    """(T,) evaluations of a row's likelihood, gradient or metric."""
    seconds: Array
    """(T,)"""


def run_reverse(
    path: Path,
    move: Move,
    plan: Plan,
    x: ArrayLike,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
) -> Descent:
    r"""Go down ``plan`` from posterior draws ``x``, shape (M, N): the forward run backwards.

    .. math:: \log u = -\log Z_q - \sum_{t=T}^1 (\beta_t - \beta_{t-1}) \sum_n h_n(x_t),
              \qquad x_T \sim p_1,\qquad E\,u = 1/Z,

    with :math:`x_{t-1}` what the moves of :math:`\beta_{t-1}`, the last one first, make of
    :math:`x_t`. E u = 1/Z needs moves that are invariant and rows that are draws of the
    posterior, each by itself; they need not be independent. Where every move is reversible,
    too, this path is the time reversal of the forward one.
    """
    rng = np.random.default_rng(seed)
    state = move.init(path, np.array(x, dtype=float, ndmin=2, order="C"))
    log_w = np.full(len(state.tilt), -path.log_z0)
    rows: list[tuple[Any, ...]] = []
    betas, levels = [0.0, *plan.betas[:-1]], [[], *_levels(plan, move)[:-1]]
    for step, beta, level in zip(_steps(plan)[::-1], betas[::-1], levels[::-1], strict=True):
        if stop():
            raise Stopped
        started = time.perf_counter()
        log_w = log_w - step * state.tilt
        state, moved = _run_level(rng, path, float(beta), level[::-1], state)
        rows.append((log_w, _ess(log_w), *moved, time.perf_counter() - started))
    return Descent(*(np.array(column) for column in zip(*rows, strict=True)))


def _steps(plan: Plan) -> Array:
    return np.diff(plan.betas, prepend=0.0)


def _levels(plan: Plan, move: Move) -> list[list[Move]]:
    """The moves of every temperature, in the order of the way up."""
    first = np.cumsum(plan.n_moves) - plan.n_moves
    return [
        strided(move, float(step_size), int(start), int(n))
        for step_size, start, n in zip(plan.step_sizes, first, plan.n_moves, strict=True)
    ]


def _run_level(
    rng: np.random.Generator, path: Path, beta: float, level: list[Move], state: Any
) -> tuple[Any, tuple[float, float, int, int]]:
    """The moves of one temperature: mean acceptance, mixing, failures, gradients."""
    before = state.tilt.copy()
    acceptance, failures, gradients = [], 0, 0
    for mover in level:
        state, info = mover.step(rng, path, beta, state)
        acceptance.append(float(info.acceptance.mean()))
        failures += info.failures
        gradients += info.gradients
    if not level:
        return state, (np.nan, np.nan, 0, 0)
    alive = np.isfinite(before) & np.isfinite(state.tilt)
    mixing = correlation(before[alive], state.tilt[alive]) if alive.any() else np.nan
    return state, (float(np.mean(acceptance)), mixing, failures, gradients)


def _ess(log_w: Array) -> float:
    """(mean w)² / mean w²."""
    peak = log_w.max()
    if not np.isfinite(peak):
        return 0.0
    w = np.exp(log_w - peak)
    return float(w.mean() ** 2 / np.mean(w * w))
