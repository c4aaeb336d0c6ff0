r"""Draws of a reference in steps, weighted with data that see several predictors.

As in :mod:`.steps` latent values are drawn one after the other, here from q as it is; a datum's
weight :math:`p(y_n|\eta_n)/t_n(\eta_n)` is taken as soon as the last of its latent values is
there, and draws are resampled on the way: the error grows with the root of the number of data
only. Of few values all are scaled by one Student factor, as their likelihoods may fall more slowly
than q does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammaln

from ..approximations.predictors.reference import BlockReference
from ..execution.clock import check_interrupt
from ..gaussians.base import Constraint, Steps
from ..gaussians.blocks import BlockSites
from ..models.likelihoods.gaussian import Gaussian
from ..models.likelihoods.predicted import Several
from ..numerics.arrays import Array, Indices
from ..numerics.normal import lanes_of, standard_normal
from .steps import Traced, _draw_block, _last_needed

_BLOCK = 16  # latent values between two looks at the weights
_FEW, _DF = (
    32,
    5.0,
)  # of them, that are scaled, by a Student factor with so many degrees of freedom


@dataclass(frozen=True, eq=False)
class BlockGuide:
    """What draws need; data are in the order in which they are weighted."""

    steps: Steps
    design: csr_array
    """What the P predictors of every datum see of values in the order of steps, (P·N, n)."""
    base: Array
    """Predictors where all latent values are at their means, (P·N,)."""
    order: Indices
    """Data by the last of the latent values they see, (N,)."""
    ends: Indices
    """How many data see no value but the first k·block, for every k."""
    sites: BlockSites
    likelihood: Several
    y: Array
    log_z0: float
    loose: Array
    needed: Indices

    dearer: ClassVar[int] = 4

    def draw(
        self,
        n: int,
        rng: np.random.Generator,
        between: Callable[[Array], Indices | None] = lambda log_weight: None,
    ) -> tuple[Traced, Array]:
        """``n`` draws, and their log weights; ``between`` as for :meth:`.Guide.draw`."""
        steps, size = self.steps, self.steps.order.size
        away, log_weight = np.zeros((size, n)), np.zeros(n)
        constraint = steps.constraint
        if constraint is None:
            nothing = np.empty((0, 0))
            constraint = Constraint(nothing, nothing, np.ones(0), np.zeros(0))
        rest = np.repeat(constraint.rest[:, None], n, axis=1)
        shape = (steps.indptr, steps.indices, steps.weights, steps.sd, steps.mean)
        held = (constraint.g, constraint.h, constraint.sd)
        traced, lanes = Traced(steps, away, [], []), lanes_of(rng)
        scale = np.ones(n)
        if size <= _FEW:
            scale, square = np.sqrt(_DF / rng.chisquare(_DF, n)), np.zeros(n)
        alive, done = np.empty(0, np.int64), 0
        for k, start in enumerate(range(0, size, _BLOCK)):
            check_interrupt()
            stop = min(start + _BLOCK, size)
            normals = standard_normal(rng, (stop - start, n)) * scale
            if size <= _FEW:
                square += np.sum(normals**2, axis=0)
            with np.errstate(over="ignore"):
                _draw_block(
                    rng, Gaussian.kernel, False, start, shape, _no_data(size), self.loose, held,
                    rest, normals, normals, away, log_weight, lanes,
                )  # fmt: skip
            log_weight += self._tilt(slice(self.ends[k], self.ends[k + 1]), away)
            if size <= _FEW:  # and looked at once
                continue
            chosen = between(log_weight)
            if chosen is not None:
                alive = np.concatenate([alive, np.arange(done, stop)])
                still = self.needed[alive] >= stop
                traced.rows.append(alive[~still])
                traced.ancestors.append(chosen)
                alive, done = alive[still], stop
                away[alive] = away[alive][:, chosen]
                rest = rest[:, chosen]
        traced.rows.append(np.concatenate([alive, np.arange(done, size)]))
        if size <= _FEW:
            log_weight += _normal_over_student(square, size)
        return traced, log_weight

    @property
    def size(self) -> int:
        """Number of latent values."""
        return int(self.steps.order.size)

    def _tilt(self, some: slice, away: Array) -> Array:
        """Σ log p/t of some of the data."""
        data, N = self.order[some], self.y.size
        if not data.size:
            return np.zeros(away.shape[1])
        P = len(self.likelihood.predictors)
        rows = (data + N * np.arange(P)[:, None]).ravel()
        eta = (self.design[rows] @ away + self.base[rows, None]).reshape(P, data.size, -1)
        eta = np.ascontiguousarray(eta.transpose(2, 0, 1))
        own = BlockSites(self.sites.c[data], self.sites.nu[:, data], self.sites.W[data])
        with np.errstate(over="ignore", invalid="ignore"):
            each = self.likelihood.at(data).log_probs(self.y[data], eta) - own.log(eta)
        total = each.sum(axis=1)
        return np.where(np.isnan(total), -np.inf, total)


def make_block_guide(reference: BlockReference) -> BlockGuide:
    """The guide of a fitted reference."""
    model, q = reference.model, reference.gaussian
    prior, steps, N = model.prior, q.steps(), model.y.size
    size, P = steps.order.size, len(model.likelihood.predictors)
    place = np.empty(size, np.int64)
    place[steps.order] = np.arange(size)
    A = prior.design
    design = csr_array((A.data, place[A.indices], A.indptr), shape=A.shape)
    base = A @ steps.mean[place] + prior.offset
    seen = np.repeat(np.arange(P * N) % N, np.diff(design.indptr))
    last, needed, nothing = np.zeros(N, np.int64), np.arange(size), np.empty(0, np.int64)
    np.maximum.at(last, seen, design.indices)
    _last_needed(steps.indptr, steps.indices, np.zeros(1, np.int64), nothing, nothing, needed)
    np.maximum.at(needed, design.indices, last[seen])
    order = np.argsort(last, kind="stable")
    starts = np.append(np.arange(0, size, _BLOCK), size)
    ends = np.searchsorted(last[order], starts)
    loose, log_loose = getattr(q.turned, "loosened", (np.zeros(size), 0.0))
    return BlockGuide(
        steps, design, base, order, ends, reference.sites, model.likelihood, model.y,
        reference.logz - log_loose, loose[steps.order], needed,
    )  # fmt: skip


def _normal_over_student(square: Array, d: int) -> Array:
    """log of N(z; 0, I) over a Student density in d dimensions, from the squares of z."""
    constant = gammaln(0.5 * _DF) - gammaln(0.5 * (_DF + d)) + 0.5 * d * np.log(0.5 * _DF)
    return constant + 0.5 * (_DF + d) * np.log1p(square / _DF) - 0.5 * square


def _no_data(size: int) -> tuple[Array | Indices, ...]:
    """Data for :mod:`.steps`, of which it has to weigh none."""
    none, places = np.empty(0), np.empty(0, np.int64)
    first, known = np.zeros(size + 1, np.int64), np.zeros(1, np.int64)
    theta, hints, messages = np.empty((0, 1)), np.empty((1, 0)), np.empty((size, 0))
    eldest = np.full(size, -1)
    return (
        first, none, places, known, none, none, none, none, none, theta, hints, messages, eldest,
    )  # fmt: skip
