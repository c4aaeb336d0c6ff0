r"""Guided draws of latent values that have a sparse order: as :mod:`.guide`, step by step.

Latent values u are drawn one after the other, each a regression on few before it
(:class:`~evidence.gaussians.base.Steps`), and data see :math:`\eta_i = \sum_k a_{ik} u_k + o_i`.
A datum is *owned* by the last of its latent values to be drawn; then :math:`\eta_i` is a known
number plus :math:`a_{ik} u_k`, and

.. math:: r_k(u_k) \propto q(u_k|u_{<k}) \prod_{i\ \text{owned}} \frac{p(y_i|\eta_i)}{t_i(\eta_i)},
          \qquad Z = Z_q\, E\Big[\prod_k w_k\Big]

with w_k the integral of the right hand side: one-dimensional, with several data in it for a
random effect (:mod:`.integrals`). Unbiasedness survives resampling of the draws on the way, and it
is resampling that makes the error grow with the root of the number of latent values only. Where
latent values form a tree, draws look ahead (:mod:`.foresight`), and there is little to resample.
Only those values that are still needed are resampled; the others are traced back at the end.

*Constraints* C u = r change mean and variance of every step, the last ones being determined: the
data that see these are owned by the last value that is free, of which they are functions. What
an intrinsic prior has been held by ("ground") is taken away at the step that draws it.

Reference: sequential Monte Carlo with the sites as twisting functions, P. Guarniero, A. M.
Johansen and A. Lee, J. Am. Stat. Assoc. 112 (2017) 1636.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..approximations.mixture import Share
from ..approximations.reference import GaussianReference
from ..execution.clock import check_interrupt
from ..gaussians.base import Constraint, Prior, Sites, Steps
from ..models.likelihoods.base import Likelihood
from ..numerics.arrays import Array, Indices
from ..numerics.jit import jit, vector_loop
from ..numerics.normal import lanes_of, standard_normal
from .foresight import WIDTH, add_message, foresee
from .guide import CannotGuide
from .integrals import draw_ahead, draw_alike, draw_with_one, draw_with_several, scratch

_BLOCK, _BLOCKS = 64, 1024  # latent values between two looks at the weights; looks at most
_NUMBERS = 2**22  # in the draws whose shares are found at a time
_STILL = 1e-9  # what a datum sees, of a sum that moves it, below which it does not
_POSITIVE = 1e-10  # what of a conditional's precision must be left without the sites it owns


@dataclass(frozen=True, eq=False)
class Owned:
    """Which data are owned by the k-th latent value drawn, and what else they see."""

    first: Indices
    """Those of the k-th are ``first[k]:first[k + 1]``, shape (n + 1,)."""
    scale: Array
    """a of the owner, (N,), in the order of owners."""
    known: Indices
    """Other latent values they see, by place in the order: ``known_first`` separates data."""
    known_first: Indices
    known_scale: Array
    base: Array
    """Predictors where all latent values are at their means, (N,)."""
    data: Indices
    """Which datum each is, (N,)."""


@dataclass(frozen=True, eq=False)
class StepGuide:
    """What draws need; data are in the order of their owners."""

    steps: Steps
    owned: Owned
    sites: Sites
    theta: Array
    """Parameters of the likelihood, shape (N, P)."""
    hints: Array
    """Shape (K, N)."""
    likelihood: Likelihood
    log_z0: float
    loose: Array
    """Precision of every latent value in ``steps`` that the prior does not have, (n,)."""
    needed: Indices
    """The last step at which every latent value is still needed, (n,)."""
    prior: Prior
    messages: Array
    """What data to come say of every value beyond their sites, (n, …); see :mod:`.foresight`."""
    eldest: Indices
    """Of which value every one is the first child to be drawn, or -1, (n,)."""
    share: Share | None = None
    """Of the posterior, where the reference is one component of a mixture."""

    dearer: ClassVar[int] = 4
    """A draw than others that are not integrated, in times."""

    @property
    def size(self) -> int:
        """Number of latent values."""
        return int(self.steps.order.size)

    @property
    def block(self) -> int:
        """Latent values between two looks at the weights."""
        return max(_BLOCK, -(-self.steps.order.size // _BLOCKS))

    def draw(
        self,
        n: int,
        rng: np.random.Generator,
        between: Callable[[Array], Indices | None] = lambda log_weight: None,
    ) -> tuple[Traced, Array]:
        """``n`` draws, and their log weights; ``between`` as for :meth:`.Guide.draw`."""
        steps, owned, size = self.steps, self.owned, self.steps.order.size
        away, log_weight, lanes = np.empty((size, n)), np.zeros(n), lanes_of(rng)
        constraint = steps.constraint
        if constraint is None:
            nothing = np.empty((0, 0))
            constraint = Constraint(nothing, nothing, np.ones(0), np.zeros(0))
        rest = np.repeat(constraint.rest[:, None], n, axis=1)
        shape = (steps.indptr, steps.indices, steps.weights, steps.sd, steps.mean)
        data = (
            owned.first, owned.scale, owned.known, owned.known_first, owned.known_scale,
            owned.base, *self.sites, self.theta, self.hints, self.messages,
            self.eldest,
        )  # fmt: skip
        kernel, concave = self.likelihood.kernel, self.likelihood.log_concave
        traced = Traced(steps, away, [], [])
        alive = np.empty(0, np.int64)
        done = 0  # values that resampling has not to care about, or has already
        for start in range(0, size, self.block):
            check_interrupt()
            stop = min(start + self.block, size)
            normals = standard_normal(rng, (stop - start, n))
            uniforms = rng.random((stop - start, n))
            with np.errstate(over="ignore"):  # of lanes, where nothing is compiled
                _draw_block(
                    rng, kernel, concave, start, shape, data, self.loose,
                    (constraint.g, constraint.h, constraint.sd), rest, normals, uniforms, away,
                    log_weight, lanes,
                )  # fmt: skip
            if np.isnan(log_weight).any():
                raise CannotGuide(
                    "modes of the likelihood are too narrow for the distance between them; use "
                    "method='smc'"
                )
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
        if self.share is not None:
            for some in np.array_split(np.arange(n), -(-n * size // _NUMBERS)):
                log_weight[some] += self.share.log(self.prior.predictors(traced.take(some).T))
        return traced, log_weight


@dataclass(frozen=True, eq=False)
class Traced:
    """Draws whose values are where they were when they were needed last."""

    steps: Steps
    away: Array
    rows: list[Indices]
    """Values that were left behind at every resampling; then those at the end."""
    ancestors: list[Indices]

    def take(self, columns: Indices) -> Array:
        """Latent values of some of the draws, in the model's order, (n, len(columns))."""
        out = np.empty((self.steps.order.size, columns.size))
        for k in range(len(self.rows) - 1, -1, -1):
            places = self.rows[k]
            values = self.away[places][:, columns] + self.steps.mean[places, None]
            out[self.steps.order[places]] = values
            if k:
                columns = self.ancestors[k - 1][columns]
        return out


def make_step_guide(reference: GaussianReference) -> StepGuide:
    """The guide of a fitted reference to a model with a sparse or Markov prior."""
    model, likelihood = reference.model, reference.model.likelihood
    q, design = reference.gaussian, model.prior.design
    assert design is not None
    steps = q.steps()
    owned = _owned(steps, design, model.prior.offset, _followed(steps))
    order = owned.data
    sites = Sites(*(np.ascontiguousarray(part[order]) for part in reference.sites))
    loose, log_loose = getattr(q, "loosened", (np.zeros(steps.order.size), 0.0))
    loose = loose[steps.order]
    variance = np.where(steps.sd > 0.0, steps.sd, 1.0) ** 2
    if steps.constraint is not None:
        variance *= np.maximum(steps.constraint.sd, 0.0) ** 2
    drop = np.zeros(steps.order.size)
    owners = np.repeat(np.arange(steps.order.size), np.diff(owned.first))
    np.add.at(drop, owners, owned.scale**2 * sites.tau)
    if np.min(1.0 - (drop + loose) * variance) <= _POSITIVE:
        raise CannotGuide(
            f"without the sites of one of its latent values the {reference.name} reference is not "
            "a distribution; use method='smc'"
        )
    needed = np.arange(steps.order.size)
    _last_needed(steps.indptr, steps.indices, owned.known_first, owned.known, owners, needed)
    theta = np.ascontiguousarray(likelihood.theta(model.y)[:, order].T)
    hints = np.ascontiguousarray(likelihood.locations(model.y)[:, order])
    messages = _foreseen(likelihood.kernel, steps, owned, sites, theta)
    log_z0 = reference.logz - log_loose
    return StepGuide(
        steps, owned, sites, theta, hints, likelihood, log_z0, loose, needed, model.prior,
        messages, _eldest(steps), reference.share,
    )  # fmt: skip


def _eldest(steps: Steps) -> Indices:
    """On a tree."""
    out = np.full(steps.order.size, -1)
    parents, which = np.unique(steps.indices, return_index=True)
    out[np.repeat(np.arange(out.size), np.diff(steps.indptr))[which]] = parents
    return out


def _foreseen(kernel: object, steps: Steps, owned: Owned, sites: Sites, theta: Array) -> Array:
    """Messages of children, where latent values form a tree."""
    n = steps.order.size
    tree = np.diff(steps.indptr).max() <= 1 and not owned.known.size
    if not (tree and steps.indices.size and steps.constraint is None):
        return np.empty((n, 0))
    messages = np.zeros((n, WIDTH))
    shape = (steps.indptr, steps.indices, steps.weights, steps.sd)
    data = (owned.first, owned.scale, owned.base)
    foresee(kernel, shape, data, tuple(sites), theta, messages)
    return messages


def _followed(steps: Steps) -> Array:
    """How much every latent value moves with the last one that constraints leave free, (n,).

    Zero for all before it; those after it are determined once it is drawn.
    """
    slopes, constraint = np.zeros(steps.order.size), steps.constraint
    if constraint is None or constraint.sd[-1] > 0.0 or not constraint.sd.any():
        return slopes
    last = int(np.flatnonzero(constraint.sd)[-1])
    slopes[last], rest = 1.0, -constraint.g[last] / steps.sd[last]
    for k in range(last + 1, slopes.size):
        own = slice(steps.indptr[k], steps.indptr[k + 1])
        moved = float(constraint.h[k] @ rest)
        slopes[k] = steps.weights[own] @ slopes[steps.indices[own]] + steps.sd[k] * moved
        rest = rest - constraint.g[k] * moved
    return slopes


def _owned(steps: Steps, design: object, offset: Array, followed: Array) -> Owned:
    """Data by owners: of those that see what the last free value determines, this is the one."""
    from scipy.sparse import csr_array

    n = steps.order.size
    place = np.empty(n, np.int64)
    place[steps.order] = np.arange(n)
    A = csr_array(design)
    where, data = place[A.indices], np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    base = offset + np.bincount(data, A.data * steps.mean[where], minlength=A.shape[0])
    last = np.full(A.shape[0], 0, np.int64)  # a datum that sees nothing belongs to the first
    np.maximum.at(last, data, where)
    moves = np.bincount(data, A.data * followed[where], minlength=A.shape[0])
    size = np.bincount(data, np.abs(A.data * followed[where]), minlength=A.shape[0])
    at_last = np.abs(moves) > _STILL * size
    if at_last.any():
        last[at_last] = np.flatnonzero(followed)[0]
    by_owner = np.argsort(last, kind="stable")
    first = np.searchsorted(last[by_owner], np.arange(n + 1))
    rank = np.empty_like(by_owner)
    rank[by_owner] = np.arange(by_owner.size)
    scale, own = np.zeros(A.shape[0]), where == last[data]
    scale[rank[data[own]]] = A.data[own]
    scale[rank[at_last]] = moves[at_last]
    others = np.argsort(rank[data[~own]], kind="stable")
    counts = np.bincount(rank[data[~own]], minlength=A.shape[0])
    known_first = np.concatenate([[0], np.cumsum(counts)])
    return Owned(
        first, scale, where[~own][others], known_first, A.data[~own][others], base[by_owner],
        by_owner,
    )  # fmt: skip


@jit
def _last_needed(indptr, indices, known_first, known, owners, needed):
    for k in range(needed.size):
        for p in range(indptr[k], indptr[k + 1]):
            needed[indices[p]] = k
    for i in range(owners.size):
        for p in range(known_first[i], known_first[i + 1]):
            needed[known[p]] = max(needed[known[p]], owners[i])


@vector_loop
def _add(value, factor, row):
    """value += factor · row."""
    for m in range(value.size):
        value[m] += factor * row[m]


@jit
def _draw_block(
    rng, kernel, concave, start, shape, data, loose, constraint, rest, normals, uniforms, away,
    log_weight, lanes,
):  # fmt: skip
    """Draw the latent values from ``start`` on, as deviations from their means."""
    indptr, indices, weights, sds, _ = shape
    (
        first,
        scales,
        seen,
        seen_first,
        seen_scale,
        bases,
        c,
        nu,
        tau,
        theta,
        hints,
        messages,
        eldest,
    ) = data
    g, h, freedom = constraint
    n, constraints = log_weight.size, rest.shape[0]
    memory, one, zero = scratch(n, lanes), np.ones(1), np.zeros(1)
    value, centre, eta, uniform = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    message = np.empty(messages.shape[1])
    for b in range(normals.shape[0]):
        k = start + b
        if message.size and eldest[k] >= 0:  # what was foreseen is now drawn
            add_message(messages[eldest[k]], away[eldest[k]], -1.0, log_weight)
        value[:] = 0.0
        for p in range(indptr[k], indptr[k + 1]):
            _add(value, weights[p], away[indices[p]])
        root = sds[k]
        if constraints:
            centre[:] = value
            for j in range(constraints):
                _add(value, root * h[k, j], rest[j])
            root *= freedom[k]
        if loose[k] > 0.0 and root > 0.0:  # exp(½ε v²) times N(v; m, s²)
            left = 1.0 - loose[k] * root * root
            for m in range(n):
                log_weight[m] += 0.5 * loose[k] * value[m] * value[m] / left - 0.5 * math.log(left)
                value[m] /= left
            root /= np.sqrt(left)
        low, high = first[k], first[k + 1]
        if constraints and low < high and freedom[k] > 0.0 and not freedom[k + 1 :].any():
            _determine(k, shape, g, h, centre, rest, away)
        if low == high and message.size and root > 0.0:
            draw_ahead(
                rng, kernel, theta, root, value, normals[b], uniforms[b], log_weight, memory,
                messages[k],
            )  # fmt: skip
        elif low == high or root == 0.0:
            for m in range(n):
                value[m] += root * normals[b, m]
        if root == 0.0 and loose[k] > 0.0:
            for m in range(n):
                log_weight[m] += 0.5 * loose[k] * value[m] * value[m]
        if low < high:
            own = slice(low, high)
            sites = (c[own], nu[own], tau[own])
            known = np.empty((high - low, n))
            alike = start == 0 and b == 0
            for i in range(low, high):
                known[i - low] = bases[i]
                for p in range(seen_first[i], seen_first[i + 1]):
                    _add(known[i - low], seen_scale[p], away[seen[p]])
            if root == 0.0:
                _weigh(kernel, theta[own], scales[own], sites, known, value, log_weight)
            elif high - low == 1 and scales[low] != 0.0:
                a = scales[low]
                for m in range(n):
                    eta[m] = known[0, m] + a * value[m]
                uniform[:] = uniforms[b]
                message[:] = messages[k]
                if message.size:
                    message[0], message[1] = known[0, 0], message[1] / a
                draw_with_one(
                    rng, kernel, concave, (theta[own], one, zero, *sites), hints[:, low],
                    abs(a) * root, eta, uniform, log_weight, memory, message, False,
                )  # fmt: skip
                for m in range(n):
                    value[m] = (eta[m] - known[0, m]) / a
            else:
                given = (theta[own], scales[own], known[:, 0].copy(), *sites)
                if alike:
                    draw_alike(
                        rng, kernel, concave, given, hints[:, own], root, value, uniforms[b],
                        log_weight, memory, messages[k],
                    )  # fmt: skip
                else:
                    draw_with_several(
                        rng, kernel, concave, given, known, hints[:, own], root, value,
                        normals[b], uniforms[b], log_weight, memory, messages[k],
                        seen_first[low] == seen_first[high],
                    )  # fmt: skip
        if constraints:
            for m in range(n):
                centre[m] = (value[m] - centre[m]) / sds[k]
            for j in range(constraints):
                _add(rest[j], -g[k, j], centre)
        away[k] = value


@jit
def _determine(last, shape, g, h, centre, rest, away):
    """All values after the last free one, were that zero."""
    indptr, indices, weights, sds, _ = shape
    left, change, still = rest.copy(), np.empty(centre.size), 0.0 * centre
    away[last] = 0.0
    change[:] = -centre / sds[last]
    for k in range(last, sds.size):
        if k > last:
            change[:] = 0.0
            for j in range(left.shape[0]):
                _add(change, h[k, j], left[j])
            still[:] = sds[k] * change
            for p in range(indptr[k], indptr[k + 1]):
                _add(still, weights[p], away[indices[p]])
            away[k] = still
        for j in range(left.shape[0]):
            _add(left[j], -g[k, j], change)


@jit
def _weigh(kernel, theta, scale, sites, known, value, log_weight):
    """Of data whose latent value is determined."""
    c, nu, tau = sites
    eta, out = np.empty(value.size), np.empty(4 * value.size)
    for i in range(c.size):
        for m in range(value.size):
            eta[m] = known[i, m] + scale[i] * value[m]
        kernel(eta.ctypes, theta[i].ctypes, value.size, 1, 0, 1, out.ctypes)
        for m in range(value.size):
            tilt = out[m] - c[i] - eta[m] * (nu[i] - 0.5 * tau[i] * eta[m])
            log_weight[m] += -math.inf if math.isnan(tilt) else tilt
