"""What finished islands leave behind, whatever the method that ran them.

An *island* is one independent estimate of Z. Methods differ in how an island is run; what is
done with islands (:mod:`.waves`) is the same for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..statistics.diagnostics import log_mean

Array = NDArray[np.float64]


class Islands(NamedTuple):
    """G islands over T stages (temperatures after β = 0, or data points), arrays only."""

    log_z: Array
    """(T, G) cumulative log Ẑ of each island after each stage."""
    ess: Array
    """(T,) effective sample size relative to the number of particles, mean over islands."""
    acceptance: Array
    """(T,) mean acceptance probability of the moves."""
    mixing: Array
    """(T,) correlation of the tilt before and after the moves; NaN where there is no tilt."""
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


def summarise(islands: Islands) -> str:
    """What a progress bar says of finished islands besides their estimate."""
    known = islands.acceptance[np.isfinite(islands.acceptance)]
    acceptance = f", acc {known.mean():.2f}" if known.size else ""
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
        "beta": stages,
        "logz": np.array([e.value for e in estimates]),
        "logz_se": np.array([e.se for e in estimates]),
        "ess": mean("ess"),
        "acceptance": mean("acceptance"),
        "step_size": step_sizes,
        "particles": mean("particles"),
        "mixing": mean("mixing"),
        "failures": total("failures"),
        "gradients": total("gradients"),
        "seconds": total("seconds"),
    }


def posterior_draws(blocks: list[Islands], rng: np.random.Generator, n_draws: int) -> Array:
    """Draws from the posterior: islands in proportion to their Ẑ, then particles at random."""
    log_z = np.concatenate([b.log_z[-1] for b in blocks])
    w = np.exp(log_z - log_z.max())
    islands = np.searchsorted(
        np.cumsum(w) / w.sum(), (np.arange(n_draws) + rng.random()) / n_draws
    ).clip(0, w.size - 1)
    pools = [pool for b in blocks for pool in b.draws]
    chosen = np.empty((n_draws, pools[0].shape[1]))
    for island in np.unique(islands):
        rows = np.flatnonzero(islands == island)
        pool = pools[island]
        repeats = -(-rows.size // len(pool))
        order = np.concatenate([rng.permutation(len(pool)) for _ in range(repeats)])
        chosen[rows] = pool[order[: rows.size]]
    return chosen[rng.permutation(n_draws)]
