r"""Draws of a reference in steps, weighted with data that see several predictors.

As in :mod:`.steps` latent values are drawn one after the other, here from q as it is; a datum's
weight :math:`p(y_n|\eta_n)/t_n(\eta_n)` is taken as soon as the last of its latent values is
there, and draws are resampled on the way: the error grows with the root of the number of data
only. Likelihoods may fall more slowly than q does, and weights have heavy tails then: few values
are all scaled by one Student factor; of many, where a parameter is predicted by its logarithm,
each is drawn from q times a tilt, as in :mod:`.data`, by the data that it completes, and by those
that the next one will, which is integrated out approximately.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ..approximations.predictors.ep import nodes
from ..approximations.predictors.reference import BlockReference
from ..execution.clock import check_interrupt
from ..gaussians.base import Sites, Steps
from ..gaussians.blocks import BlockSites
from ..models.likelihoods.gaussian import Gaussian
from ..models.likelihoods.predicted import Several
from ..numerics.arrays import Array, Indices
from ..numerics.normal import normal_over_student, standard_normal, student_factor
from .data import LATTICE, draw_tilted
from .guide import Between, never
from .steps import Owned, Plan, Traced, begin, draw_block, in_order, last_needed, make_plan

_FEW = 32  # of them, that are scaled by a Student factor


class _Seen(NamedTuple):
    """Data that a latent value completes, as far as they see another one."""

    data: Indices
    some: Indices
    """Which of those that it completes."""
    column: Array
    """What their predictors see of the other one, (P, r)."""
    design: csr_array
    base: Array


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
    plan: Plan
    needed: Indices
    block: int
    """Latent values between two looks at the weights: one, where they are drawn with a tilt."""
    kept: dict[tuple[int, int], _Seen | None] = field(default_factory=dict)
    abreast: ClassVar[bool] = True

    @property
    def dearer(self) -> int:
        """A draw than others, in times."""
        return 64 if self.block == 1 else 4

    def draw(
        self, n: int, rng: np.random.Generator, between: Between = never
    ) -> tuple[Traced, Array]:
        """``n`` draws, and their log weights; ``between`` as for :meth:`.Guide.draw`."""
        steps, size = self.steps, self.steps.order.size
        state = begin(self.plan, n, rng)
        traced, away = Traced(steps, self.needed, state.away), state.away
        scale = np.ones(n)
        if size <= _FEW:
            scale, drawn = student_factor(n, rng), np.empty((size, n))
        for k, start in enumerate(range(0, size, self.block)):
            check_interrupt()
            stop = min(start + self.block, size)
            if self.block == 1 and (tilt := self._foreseen(k, away)) is not None:
                normals, ratio = draw_tilted(*tilt, rng.random((2, n)))
                normals = normals[None]
                state.log_weight[:] += ratio
            else:
                normals = standard_normal(rng, (stop - start, n)) * scale
            if size <= _FEW:
                drawn[start:stop] = normals
            with np.errstate(over="ignore"):
                numbers = (start, normals, normals, state)  # and no data
                draw_block(rng, Gaussian.kernel, False, self.plan, *numbers, *[None] * 4)
            state.log_weight[:] += self._tilt(slice(self.ends[k], self.ends[k + 1]), away)
            if size <= _FEW:  # and looked at once
                continue
            state = traced.resampled(stop, between(state.log_weight), state)
        if size <= _FEW:
            state.log_weight[:] += normal_over_student(drawn)
        return traced, state.log_weight

    @property
    def size(self) -> int:
        """Number of latent values."""
        return int(self.steps.order.size)

    def _foreseen(self, k: int, away: Array, *, ahead: int = 4) -> tuple[Array, Array] | None:
        """Tilts of the k-th latent value (G, n), and where; None where no data ask for one.

        ``ahead``: nodes by which the next latent value is integrated out.
        """
        # where tilts are evaluated with the next latent value integrated out
        coarse = np.array([-6.0, -3.5, -1.75, -0.6, 0.6, 1.75, 3.5, 6.0])
        due, following = self._seen(k, k), self._seen(k + 1, k)
        own = self._rows(k)
        alone = due is following is None or self.plan.loose[k] > 0.0
        if alone or self.steps.constraint is not None:
            return None
        lattice = LATTICE if following is None else coarse
        u = own[1] @ away[own[0]] + self.steps.sd[k] * lattice[:, None]
        tilt = np.zeros(u.shape)
        if due is not None:
            eta = self._known(due, away)[:, :, None] + due.column[:, :, None, None] * u
            tilt += self._weight(due.data, eta)
        if following is not None:
            (before, weights), (z, log_w) = self._rows(k + 1), nodes(1, ahead)
            follows = before == k
            next_u = (weights * ~follows) @ away[before] + weights[follows].sum() * u
            next_u = next_u + self.steps.sd[k + 1] * z[:, 0, None, None]
            last = self._seen(k + 1, k + 1)
            assert last is not None
            moved = last.column[:, following.some, None, None, None] * next_u
            moved = moved + following.column[:, :, None, None, None] * u
            known = self._known(following, away)[:, :, None, None]
            each = self._weight(following.data, known + moved) + log_w[:, None, None]
            tilt += np.logaddexp.reduce(np.maximum(each, -1e300), axis=0)
        return np.maximum(tilt, -1e300), lattice

    def _rows(self, k: int) -> tuple[Indices, Array]:
        """Latent values that the mean of the k-th hangs on, and how."""
        own = slice(self.steps.indptr[k], self.steps.indptr[k + 1])
        return self.steps.indices[own], self.steps.weights[own]

    def _seen(self, owner: int, k: int) -> _Seen | None:
        """Data that one latent value completes and that see the k-th; kept, as all draws ask."""
        if (owner, k) not in self.kept:
            self.kept[owner, k] = self._look(owner, k)
        return self.kept[owner, k]

    def _look(self, owner: int, k: int) -> _Seen | None:
        if owner == self.size:
            return None
        data = self.order[self.ends[owner] : self.ends[owner + 1]]
        if not data.size:
            return None
        rows = self._places(data)
        column = self.design[rows.ravel()][:, [k]].toarray().reshape(rows.shape)
        some = np.flatnonzero(column.any(axis=0))
        if not some.size:
            return None
        places = rows[:, some].ravel()
        return _Seen(data[some], some, column[:, some], self.design[places], self.base[places])

    def _places(self, data: Indices) -> Indices:
        """Rows of the design, (P, r)."""
        return data + self.y.size * np.arange(len(self.likelihood.predictors))[:, None]

    def _known(self, seen: _Seen, away: Array) -> Array:
        """Predictors by the latent values drawn so far, others at their means, (P, r, n)."""
        eta = seen.design @ away + seen.base[:, None]
        return eta.reshape(-1, seen.data.size, away.shape[1])

    def _tilt(self, some: slice, away: Array) -> Array:
        """Σ log p/t of some of the data."""
        data = self.order[some]
        if not data.size:
            return np.zeros(away.shape[1])
        rows = self._places(data)
        eta = self.design[rows.ravel()] @ away + self.base[rows.ravel(), None]
        return self._weight(data, eta.reshape(*rows.shape, -1))

    def _weight(self, data: Indices, eta: Array) -> Array:
        """Σ log p/t of data at predictors (P, r, …)."""
        shape = eta.shape[2:]
        eta = eta.reshape(*eta.shape[:2], -1)
        eta = np.ascontiguousarray(eta.transpose(2, 0, 1))
        own = self.sites.of(data)
        with np.errstate(over="ignore", invalid="ignore"):
            each = self.likelihood.at(data).log_probs(self.y[data], eta) - own.log(eta)
        total = each.sum(axis=1)
        return np.where(np.isnan(total), -np.inf, total).reshape(shape)


def make_block_guide(reference: BlockReference, *, stride: int = 16) -> BlockGuide:
    """The guide of a fitted reference.

    ``stride``: latent values between two looks at the weights.
    """
    model, q = reference.model, reference.gaussian
    prior, steps, N = model.prior, q.steps(), model.y.size
    size, P = steps.order.size, len(model.likelihood.predictors)
    design = in_order(prior.design, steps)
    base = design @ steps.mean + prior.offset
    seen = np.repeat(np.arange(P * N) % N, np.diff(design.indptr))
    last, needed = np.zeros(N, np.int64), last_needed(steps)
    np.maximum.at(last, seen, design.indices)
    np.maximum.at(needed, design.indices, last[seen])
    order = np.argsort(last, kind="stable")
    block = 1 if model.likelihood.steep and size > _FEW else stride
    starts = np.append(np.arange(0, size, block), size)
    ends = np.searchsorted(last[order], starts)
    loose, log_loose = getattr(q.turned, "loosened", (np.zeros(size), 0.0))
    return BlockGuide(
        steps, design, base, order, ends, reference.sites, model.likelihood, model.observed,
        reference.logz - log_loose, _no_data(steps, loose[steps.order]), needed, block,
    )  # fmt: skip


def _no_data(steps: Steps, loose: Array) -> Plan:
    """Of latent values alone: data are weighed here."""
    none, places, size = np.empty(0), np.empty(0, np.int64), steps.order.size
    first, known = np.zeros(size + 1, np.int64), np.zeros(1, np.int64)
    owned = Owned(first, none, places, known, none, none, places)
    sites, theta = Sites(none, none, none), np.empty((0, 1))
    return make_plan(
        steps, loose, owned, sites, theta, theta, np.empty((size, 0)), np.full(size, -1)
    )
