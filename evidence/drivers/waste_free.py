r"""Waste-free resample-move: every state on the way is a particle.

Of N particles M are resampled; each makes P - 1 moves, and the M chains of length P = N/M are
the next N particles (Dau and Chopin 2022). Nothing that was computed is thrown away, and long
chains take care of slow mixing. Seen as a particle filter whose particles are whole chains,
Ẑ is unbiased for a fixed plan like the ordinary one.

What a chain inherits from its ancestors makes variances that one island could report of itself
too small by a third and more where moves mix slowly, so it reports none: the error bar is the
spread of islands.

References
----------
H.-D. Dau and N. Chopin, Waste-free sequential Monte Carlo, J. R. Stat. Soc. B 84 (2022) 114.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..execution.tasks import Stopped
from ..moves.base import Move, scaled, take
from ..paths.gp import Path
from ..statistics.resampling import SCHEMES
from .islands import Islands
from .resample_move import KEEP, STRIDES, Plan, correlation

Array = NDArray[np.float64]


def run_waste_free(
    path: Path,
    move: Move,
    plan: Plan,
    n_islands: int,
    n_particles: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
    resampling: str = "systematic",
    length: int = 8,
) -> Islands:
    """Islands of ``n_particles`` (rounded up to whole chains), ``length`` of them per chain."""
    if stop():
        raise Stopped
    rng, resample = np.random.default_rng(seed), SCHEMES[resampling]
    g, p = n_islands, length
    chains = max(2, -(-n_particles // p))
    state = move.init_reference(rng, path, p * g * chains)  # rows: link, island, chain
    log_z = np.full(g, path.log_z0)
    rows: list[tuple[Any, ...]] = []
    beta, size = 0.0, chains * p
    for step_size, new in zip(plan.step_sizes, plan.betas, strict=True):
        if stop():
            raise Stopped
        started = time.perf_counter()
        log_w = (new - beta) * state.tilt.reshape(p, g, chains)
        peak = log_w.max(axis=(0, 2), keepdims=True)
        dead = peak[0, :, 0] == -np.inf  # nothing is left to go on with, Ẑ = 0
        log_w[:, dead], peak[:, dead] = 0.0, 0.0
        w = np.exp(log_w - peak)
        mean_w = w.mean(axis=(0, 2))
        log_z = log_z + np.where(dead, -np.inf, peak[0, :, 0] + np.log(mean_w))
        ess = mean_w**2 / np.mean(w * w, axis=(0, 2))
        beta = float(new)
        by_island = w.transpose(1, 0, 2).reshape(g, size)
        index = np.array([resample(one, rng, chains) for one in by_island])
        link, chain = np.divmod(index, chains)
        first = take(state, (link * g * chains + np.arange(g)[:, None] * chains + chain).ravel())
        current = move if move.target is None else replace(move, step_size=float(step_size))
        links, acceptance, failures, gradients = [first], 0.0, 0, 0
        for k in range(p - 1):
            copy = take(links[-1], np.arange(g * chains))  # steps work in place
            after, info = scaled(current, STRIDES[k % len(STRIDES)]).step(rng, path, beta, copy)
            links.append(after)
            acceptance += float(info.acceptance.mean()) / (p - 1)
            failures += info.failures
            gradients += info.gradients
        mixing = correlation(links[0].tilt, links[-1].tilt)
        state = type(first)(*(np.concatenate(fields) for fields in zip(*links, strict=True)))
        spent = time.perf_counter() - started
        rows.append(
            (log_z, ess.mean(), acceptance, mixing, failures, gradients, float(size), spent)
        )
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    kept = rng.permutation(size)[:KEEP]
    link, chain = np.divmod(kept, chains)
    index = link * g * chains + np.arange(g)[:, None] * chains + chain
    draws = move.latent(path, take(state, index.ravel())).reshape(g, kept.size, path.n)
    return Islands(*columns, draws, np.full(g, np.nan))
