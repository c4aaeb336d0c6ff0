"""What finished islands leave behind, whatever the method that ran them.

An *island* is one independent estimate of Z. Methods differ in how an island is run; what is
done with islands (:mod:`.stopping`) is the same for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..moves.base import Info
from ..numerics.arrays import Array, Rng
from ..statistics.diagnostics import log_mean
from ..statistics.resampling import systematic

KEEP = 64  # posterior draws kept per island


class Row(NamedTuple):
    """One stage of some islands, with the fields of :class:`Islands`."""

    log_z: Array
    ess: float
    acceptance: float = np.nan
    mixing: float = np.nan
    failures: int = 0
    gradients: int = 0
    particles: float = 1.0
    seconds: float = 0.0

    @classmethod
    def of(
        cls, log_z: Array, ess: float, infos: Sequence[Info], started: float,
        mixing: float = np.nan, particles: float = 1.0,
    ) -> Row:  # fmt: skip
        """With what the steps of the stage told, and the time since it ``started``."""
        proposed = [info.acceptance for info in infos if info.acceptance.size]
        acceptance = np.mean([one.mean() for one in proposed]) if proposed else np.nan
        failures, gradients = (sum(i.failures for i in infos), sum(i.gradients for i in infos))
        seconds = time.perf_counter() - started
        return cls(log_z, ess, float(acceptance), mixing, failures, gradients, particles, seconds)


class Islands(NamedTuple):
    """G islands over T stages (temperatures after β = 0, or data points), arrays only."""

    log_z: Array
    """(T, G) cumulative log Ẑ of each island after each stage."""
    ess: Array
    """(T,) effective sample size relative to the number of particles, mean over islands."""
    acceptance: Array
    """(T,) mean acceptance probability of the moves; NaN where there are none."""
    mixing: Array
    """(T,) correlation of the tilt before and after the moves; NaN where there are none."""
    failures: NDArray[np.int64]
    """(T,) rows whose numerics failed, all islands together."""
    gradients: NDArray[np.int64]
    """(T,) evaluations of a row's likelihood, gradient or metric, all islands together."""
    particles: Array
    """(T,) mean number of particles of an island."""
    seconds: Array
    """(T,)"""
    draws: Array
    """(G, kept, N) latent values from the posterior, equally weighted within an island."""
    variance: Array
    """(G,) each island's own estimate of the relative variance of its Ẑ; NaN where none."""
    ends: Array
    """(G,) the part of it that the outermost of evenly spread draws make; zero for others."""
    lost: Array
    """(G,) log of what rows whose numerics failed would have added to Ẑ, as far as is known."""

    @classmethod
    def of(
        cls, rows: Sequence[Row], draws: Array, variance: Array | None = None,
        ends: Array | None = None, lost: Array | None = None,
    ) -> Islands:  # fmt: skip
        """From one row per stage."""
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        given, n = ((variance, np.nan), (ends, 0.0), (lost, -np.inf)), len(draws)
        columns += [draws, *(np.full(n, else_) if x is None else x for x, else_ in given)]
        return cls(*columns)


def summarise(islands: Islands) -> str:
    """What a progress bar says of finished islands besides their estimate."""
    measured = islands.acceptance[np.isfinite(islands.acceptance)]
    acceptance = f", acc {measured.mean():.2f}" if measured.size else ""
    return f"ESS {islands.ess.mean():.2f}{acceptance}"


def trace_columns(stages: Array, blocks: list[Islands], step_sizes: Array) -> dict[str, Array]:
    """One row per stage (its β, say), islands combined."""
    estimates = [log_mean(row) for row in np.concatenate([b.log_z for b in blocks], axis=1)]
    sizes = np.array([b.log_z.shape[1] for b in blocks], dtype=float)

    def mean(name: str) -> Array:
        return np.average([getattr(b, name) for b in blocks], axis=0, weights=sizes)

    def total(name: str) -> Array:
        return np.sum([getattr(b, name) for b in blocks], axis=0).astype(float)

    return {
        "beta": stages, "logz": np.array([e.value for e in estimates]),
        "logz_se": np.array([e.se for e in estimates]), "ess": mean("ess"),
        "acceptance": mean("acceptance"), "step_size": step_sizes, "particles": mean("particles"),
        "mixing": mean("mixing"), "failures": total("failures"), "gradients": total("gradients"),
        "seconds": total("seconds"),
    }  # fmt: skip


def posterior_draws(
    blocks: list[Islands], rng: Rng, n_draws: int,
    parameters: Callable[[Array], Array] = lambda draws: draws,
) -> Array:  # fmt: skip
    """Draws from the posterior: islands in proportion to their Ẑ, then particles at random.

    Rows are of ``parameters(latent values)``; of these, which may be large, nothing is copied.
    """
    log_z = np.concatenate([b.log_z[-1] for b in blocks])
    top = log_z.max()  # -inf where no island has met the posterior: then any of them
    share = np.exp(log_z - top) if top > -np.inf else np.ones(log_z.size)
    islands, rows = systematic(share, rng, n_draws), np.empty(n_draws, np.intp)
    pools = [pool for b in blocks for pool in b.draws]
    chosen = [(i, np.flatnonzero(islands == i)) for i in np.unique(islands)]
    for island, own in chosen:
        size = len(pools[island])
        orders = [rng.permutation(size) for _ in range(-(-own.size // size))]
        rows[own] = np.concatenate(orders)[: own.size]
    places, out = np.argsort(rng.permutation(n_draws)), np.empty((0, 0))
    for island, own in chosen:
        pool = parameters(pools[island])
        if not out.size:
            out = np.empty((n_draws, pool.shape[1]))
        out[places[own]] = pool[rows[own]]
    return out
