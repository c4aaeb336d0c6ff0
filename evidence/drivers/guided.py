"""Islands of draws guided by a reference's sites (:mod:`evidence.proposals.guide`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..approximations.reference import GaussianReference
from ..execution.tasks import Stopped
from ..moves.gradient.gibbs import latent_given_utilities, latent_root
from ..proposals.guide import Guide, make_guide
from ..statistics.genealogy import Genealogy
from ..statistics.resampling import SCHEMES, systematic
from .islands import Islands

Array = NDArray[np.float64]

_RESAMPLE_BELOW = 0.5  # relative ESS
_KEEP = 64


class Guided(NamedTuple):
    """A guide, and what leads from probit's utilities to latent values."""

    guide: Guide
    mean: Array
    root: Array | None
    net: NDArray[np.uint32] | None = None
    """Digits that islands share, of no use to a single one, whose error bar they would spoil."""


def prepare(reference: GaussianReference) -> Guided:
    """O(N³), once."""
    guide, model = make_guide(reference), reference.model
    return Guided(guide, model.mean, latent_root(model) if guide.utilities else None)


def run_guided(
    guided: Guided,
    n_islands: int,
    n_particles: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
    resampling: str | None = "systematic",
) -> Islands:
    r"""``n_islands`` estimates of Z from ``n_particles`` draws each.

    After a block of coordinates at which the effective sample size has dropped below one half
    the draws are resampled (``resampling=None``: never), and the means of the weights since
    then multiply: Ẑ stays unbiased.
    """
    guide, rng = guided.guide, np.random.default_rng(seed)
    started = time.perf_counter()
    estimates, latent = [], []
    for _ in range(n_islands):
        if stop():
            raise Stopped
        island = _Island(n_particles, resampling, rng)
        drawn, log_w = guide.draw(n_particles, rng, island.between, guided.net)
        w, log_mean = _normalised(log_w)
        log_z = guide.log_z0 + island.log_z + log_mean
        variance = island.family.variance(w[None])[0]
        estimates.append((log_z, w.mean() ** 2 / np.mean(w * w), variance))
        mixed = rng.permutation(n_particles)  # every so-many-th draw of a net is a part of space
        kept = drawn[:, mixed[systematic(w[mixed], rng, min(_KEEP, n_particles))]]
        if guided.root is not None:
            kept = latent_given_utilities(kept, guided.mean, guided.root, rng).T
        latent.append(kept.T)
    log_z, ess, variances = np.array(estimates).T
    return Islands(
        log_z[None],
        np.array([ess.mean()]),
        np.ones(1),
        np.full(1, np.nan),
        np.zeros(1, dtype=np.int64),
        np.array([n_islands * n_particles]),
        np.array([float(n_particles)]),
        np.array([time.perf_counter() - started]),
        np.array(latent),
        variances,
    )


class _Island:
    """The resampling of one island, and the part of log Ẑ that is settled."""

    def __init__(self, n_particles: int, resampling: str | None, rng: np.random.Generator) -> None:
        self.scheme = None if resampling is None else SCHEMES[resampling]
        self.rng = rng
        self.log_z = 0.0
        self.family = Genealogy(1, n_particles, resampling or "systematic")

    def between(self, log_w: Array) -> NDArray[np.intp] | None:
        """Columns to go on with, or None; weights start again from one."""
        if self.scheme is None:
            return None
        w, log_mean = _normalised(log_w)
        if log_mean == -np.inf or w.mean() ** 2 > _RESAMPLE_BELOW * np.mean(w * w):
            return None
        self.log_z += log_mean
        log_w[:] = 0.0
        chosen = self.scheme(w, self.rng)
        self.family.resample(chosen[None], np.ones(1, dtype=bool))
        return chosen


def _normalised(log_w: Array) -> tuple[Array, float]:
    """Weights relative to the largest, and the log of their mean."""
    top = float(log_w.max())
    if not top > -np.inf:
        return np.ones_like(log_w), -np.inf
    w = np.exp(log_w - top)
    return w, top + float(np.log(w.mean()))
