r"""Minimax tilting in islands, with posterior draws of the latent values.

A draw of the utilities :math:`r = y (z - m)` comes with a weight; islands resample theirs and
turn them into latent values, x given z being Gaussian (:mod:`evidence.moves.gradient.gibbs`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..execution.tasks import Stopped
from ..models.gp import GPModel
from ..moves.gradient.gibbs import latent_given_utilities, latent_root
from ..proposals.tilting import Proposal, draw, minimax_proposal, oriented
from ..statistics.resampling import systematic
from .islands import Islands

Array = NDArray[np.float64]

_KEEP = 64


class Tilted(NamedTuple):
    """The proposal for a probit model, and what leads from utilities to latent values."""

    proposal: Proposal
    y: Array
    mean: Array
    root: Array


def prepare(model: GPModel) -> Tilted:
    """O(N³), once."""
    cov = model.K.copy()
    cov.flat[:: model.n + 1] += 1.0
    proposal = minimax_proposal(*oriented(cov, model.y, model.mean))
    return Tilted(proposal, model.y, model.mean, latent_root(model))


def run_tilted(
    tilted: Tilted,
    n_islands: int,
    n_particles: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
) -> Islands:
    """``n_islands`` means of ``n_particles`` weights."""
    rng = np.random.default_rng(seed)
    started = time.perf_counter()
    rows, latent = [], []
    for _ in range(n_islands):
        if stop():
            raise Stopped
        z, log_w = draw(tilted.proposal, n_particles, rng)
        peak = log_w.max()
        w = np.exp(log_w - peak)
        rows.append((peak + np.log(w.mean()), w.mean() ** 2 / np.mean(w**2)))
        kept = min(_KEEP, n_particles)
        oriented = tilted.proposal.restore(z[:, systematic(w, rng, kept)])
        utilities = tilted.mean[:, None] + tilted.y[:, None] * oriented
        latent.append(latent_given_utilities(utilities, tilted.mean, tilted.root, rng))
    log_z, ess = np.array(rows).T
    relative = (1.0 / ess - 1.0) / (n_particles - 1.0)
    one, none = np.ones(1), np.zeros(1, dtype=np.int64)
    spent = np.array([time.perf_counter() - started])
    count = np.array([n_islands * n_particles])
    return Islands(
        log_z[None],
        np.array([ess.mean()]),
        one,
        np.full(1, np.nan),
        none,
        count,
        np.array([float(n_particles)]),
        spent,
        np.array(latent),
        relative,
    )
