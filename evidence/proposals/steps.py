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
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..approximations.mixture import Share
from ..approximations.reference import GaussianReference
from ..execution.clock import check_interrupt
from ..gaussians.base import Constraint, Prior, Sites, Steps
from ..models.likelihoods.base import Likelihood
from ..numerics.arrays import Array, Indices
from ..numerics.copies import copy
from ..numerics.jit import jit
from ..numerics.normal import lanes_of, normal_over_student, standard_normal, student_factor
from .foresight import WIDTH, add_message, foresee
from .guide import Between, CannotGuide, check_weighed, never
from .integrals import (
    Draws,
    Integrand,
    data_of,
    draw_ahead,
    draw_alike,
    draw_with_one,
    draw_with_several,
    workspace,
)  # fmt: skip
from .integrals.shared import add

_BLOCK = 64  # latent values between two looks at the weights


class Owned(NamedTuple):
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


class Plan(NamedTuple):
    """All that latent values are drawn by, in their order; data are in the order of owners."""

    indptr: Indices
    indices: Indices
    weights: Array
    sd: Array
    constraint: Constraint
    """With no column where there is none."""
    loose: Array
    """Precision of every latent value in ``sd`` that the prior does not have, (n,)."""
    owned: Owned
    data: np.recarray[Any, Any]
    """As their owners see them (:data:`.integrals.records.DATUM`), (N,)."""
    theta: Array
    """Parameters of the likelihood, shape (N, P)."""
    hints: Array
    """Shape (N, K)."""
    messages: Array
    """What data to come say of every value beyond their sites, (n, …); see :mod:`.foresight`."""
    eldest: Indices
    """Of which value every one is the first child to be drawn, or -1, (n,)."""


class State(NamedTuple):
    """Draws on their way."""

    away: Array
    """Deviations of latent values from their means, (n, draws)."""
    rest: Array
    """What is left of constraints, (J, draws)."""
    log_weight: Array
    lanes: NDArray[np.uint64]
    """Of random numbers."""


def make_plan(
    steps: Steps, loose: Array, owned: Owned, sites: Sites, theta: Array, hints: Array,
    messages: Array, eldest: Indices,
) -> Plan:  # fmt: skip
    nothing = np.empty((0, 0))
    constraint = steps.constraint or Constraint(nothing, nothing, np.ones(0), np.zeros(0))
    return Plan(
        steps.indptr, steps.indices, steps.weights, steps.sd, constraint, loose, owned,
        data_of(owned.scale, sites), theta, hints, messages, eldest,
    )  # fmt: skip


def begin(plan: Plan, n: int, rng: np.random.Generator) -> State:
    """Of ``n`` draws."""
    away, rest = np.zeros((plan.sd.size, n)), np.repeat(plan.constraint.rest[:, None], n, axis=1)
    return State(away, rest, np.zeros(n), lanes_of(rng))


@dataclass(frozen=True, eq=False)
class StepGuide:
    """What draws need."""

    steps: Steps
    plan: Plan
    likelihood: Likelihood
    log_z0: float
    needed: Indices
    """The last step at which every latent value is still needed, (n,)."""
    prior: Prior
    share: Share | None = None
    """Of the posterior, where the reference is one component of a mixture."""
    blind: int = 0
    """Values drawn first, before any datum is seen, with heavier tails than the reference's."""

    abreast: ClassVar[bool] = False
    """Whether islands are drawn side by side: whether calls cost more than numbers do."""

    @property
    def dearer(self) -> int:
        """A draw than others that are not integrated, in times: where a likelihood may have
        several modes each has a lattice of its own, of some 64 nodes, for every datum."""
        nodes = 0 if self.likelihood.log_concave else 64
        return 4 + nodes * self.plan.data.size // self.size

    @property
    def size(self) -> int:
        """Number of latent values."""
        return int(self.steps.order.size)

    @property
    def block(self) -> int:
        """Latent values between two looks at the weights."""
        blocks = 1024  # looks at the weights, at most
        return max(_BLOCK, -(-self.steps.order.size // blocks))

    @property
    def kinds(self) -> tuple[bool | None, ...]:
        """Whether values are drawn under one datum, under several, ahead, under constraints; or
        None: what no value needs is not compiled."""
        plan, counts = self.plan, np.diff(self.plan.owned.first)
        alone = plan.owned.scale[plan.owned.first[:-1][counts == 1]] != 0.0
        several = counts.max() > 1 or not alone.all()
        kinds = (alone.any(), several, plan.messages.size, plan.constraint.rest.size)
        return tuple(True if some else None for some in kinds)

    def draw(
        self, n: int, rng: np.random.Generator, between: Between = never, *, numbers: int = 2**22
    ) -> tuple[Traced, Array]:
        """``n`` draws, and their log weights; ``between`` as for :meth:`.Guide.draw`.

        ``numbers``: in the draws whose shares are found at a time.
        """
        size = self.size
        state = begin(self.plan, n, rng)
        how = (self.likelihood.kernel, self.likelihood.log_concave, self.plan)
        traced = Traced(self.steps, self.needed, state.away)
        for start in range(0, size, self.block):
            check_interrupt()
            stop = min(start + self.block, size)
            normals = standard_normal(rng, (stop - start, n))
            uniforms = rng.random((stop - start, n))
            if start == 0 and self.blind:
                normals[: self.blind] *= student_factor(n, rng)
                state.log_weight[:] = normal_over_student(normals[: self.blind])
            with np.errstate(over="ignore"):  # of lanes, where nothing is compiled
                draw_block(rng, *how, start, normals, uniforms, state, *self.kinds)
            check_weighed(state.log_weight)
            state = traced.resampled(stop, between(state.log_weight), state)
        if self.share is not None:
            for some in np.array_split(np.arange(n), -(-n * size // numbers)):
                drawn = self.prior.predictors(traced.take(some).T)
                state.log_weight[some] += self.share.log(drawn)
        return traced, state.log_weight


@dataclass(eq=False)
class Traced:
    """Draws whose values are where they were when they were needed last."""

    steps: Steps
    needed: Indices
    away: Array
    rows: list[Indices] = field(default_factory=list)
    """Values that were left behind at every resampling."""
    ancestors: list[Indices] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alive = np.arange(self.steps.order.size)

    def resampled(self, stop: int, chosen: Indices | None, state: State) -> State:
        """Go on with the chosen draws: values up to ``stop`` that are still needed follow."""
        if chosen is None:
            return state
        gone = self.needed[self.alive] < stop
        self.rows.append(self.alive[gone])
        self.ancestors.append(chosen)
        self.alive = self.alive[~gone]
        follow = self.alive[self.alive < stop]
        self.away[follow] = self.away[follow][:, chosen]
        return state._replace(rest=state.rest[:, chosen])

    def take(self, columns: Indices) -> Array:
        """Latent values of some of the draws, in the model's order, (n, len(columns))."""
        out = np.empty((self.steps.order.size, columns.size))
        for k, places in reversed([*enumerate([*self.rows, self.alive])]):
            values = self.away[places][:, columns] + self.steps.mean[places, None]
            out[self.steps.order[places]] = values
            if k:
                columns = self.ancestors[k - 1][columns]
        return out


def make_step_guide(reference: GaussianReference, *, positive: float = 1e-10) -> StepGuide:
    """The guide of a fitted reference to a model with a sparse or Markov prior.

    ``positive``: what of a conditional's precision must be left without the sites it owns.
    """
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
    if np.min(1.0 - (drop + loose) * variance) <= positive:
        raise CannotGuide(
            f"without the sites of one of its latent values the {reference.name} reference is not "
            "a distribution; use method='smc'"
        )
    needed = last_needed(steps)
    np.maximum.at(needed, owned.known, np.repeat(owners, np.diff(owned.known_first)))
    theta = np.ascontiguousarray(likelihood.theta(model.y)[:, order].T)
    hints = np.ascontiguousarray(likelihood.locations(model.y)[:, order].T)
    messages = _foreseen(likelihood.kernel, steps, owned, sites, theta)
    blind = 0
    if reference.share is not None and not messages.size and not likelihood.log_concave:
        blind = min(int(owners[0]), _BLOCK)  # one of several modes has no Gaussian's tails
    plan = make_plan(steps, loose, owned, sites, theta, hints, messages, _eldest(steps))
    log_z0 = reference.logz - log_loose
    return StepGuide(steps, plan, likelihood, log_z0, needed, model.prior, reference.share, blind)


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


def _owned(
    steps: Steps, design: csr_array, offset: Array, followed: Array, *, still: float = 1e-9
) -> Owned:
    """Data by owners: of those that see what the last free value determines, this is the one.

    ``still``: what a datum sees, of a sum that moves it, below which it does not.
    """
    A = in_order(design, steps)
    N, n = A.shape
    last = np.zeros(N, np.int64)  # a datum that sees nothing belongs to the first
    np.maximum.at(last, np.repeat(np.arange(N), np.diff(A.indptr)), A.indices)
    moves, sizes = A @ followed, csr_array((np.abs(A.data), A.indices, A.indptr), A.shape)
    at_last = np.abs(moves) > still * (sizes @ np.abs(followed))
    if at_last.any():
        last[at_last] = np.flatnonzero(followed)[0]
    order = np.argsort(last, kind="stable")
    A, last = A[order], last[order]
    data = np.repeat(np.arange(N), np.diff(A.indptr))
    own = A.indices == last[data]
    scale = np.zeros(N)
    scale[data[own]] = A.data[own]
    known_first = np.concatenate([[0], np.cumsum(np.bincount(data[~own], minlength=N))])
    return Owned(
        np.searchsorted(last, np.arange(n + 1)), np.where(at_last[order], moves[order], scale),
        A.indices[~own].astype(np.int64), known_first, A.data[~own],
        offset[order] + A @ steps.mean, order,
    )  # fmt: skip


def in_order(design: csr_array, steps: Steps) -> csr_array:
    """What is seen of values in the order in which they are drawn."""
    places = np.argsort(steps.order)[design.indices]
    return csr_array((design.data.copy(), places, design.indptr), shape=design.shape)


def last_needed(steps: Steps) -> Indices:
    """The last step at which others are drawn from every latent value, or it itself is."""
    needed = np.arange(steps.order.size)
    np.maximum.at(needed, steps.indices, np.repeat(needed, np.diff(steps.indptr)))
    return needed


@jit
def draw_block(
    rng, kernel, concave, plan, start, normals, uniforms, state, alone, several, ahead, bound
):  # fmt: skip
    """Draw the latent values from ``start`` on, one for every row of random numbers."""
    n = state.log_weight.size
    work, memory = workspace(n, state.lanes), np.empty((4, n))
    value, centre = memory[0], memory[1]
    constraint, owned, messages, eldest = plan.constraint, plan.owned, plan.messages, plan.eldest
    for b in range(len(normals)):
        k = start + b
        if ahead is not None and eldest[k] >= 0:  # what was foreseen is now drawn
            add_message(messages[eldest[k]], state.away[eldest[k]], -1.0, state.log_weight)
        root = _given_before(plan, state, k, value, centre)
        low, high = owned.first[k], owned.first[k + 1]
        free = constraint.sd[k:]
        if bound is not None and low < high and free[0] > 0.0 and not free[1:].any():
            _determine(plan, state, k, centre)
        known = np.empty((high - low, n))
        for i in range(low, high):
            _see(owned, state.away, i, known[i - low])
        own = slice(low, high)
        data, theta, hints = plan.data[own].copy(), plan.theta[own], plan.hints[own]
        for i in range(low, high):
            data[i - low].known = known[i - low, 0]
        f = Integrand(kernel, concave, data, theta, hints, root, messages[k])
        draws = Draws(value, normals[b], uniforms[b], state.log_weight)
        if low == high and ahead is not None and root > 0.0:
            draw_ahead(rng, f, draws, work)
        elif low == high:
            for m in range(n):
                value[m] += root * normals[b, m]
        elif root == 0.0:
            _weigh(f, known, value, state.log_weight)
        elif alone is not None and high - low == 1 and owned.scale[low] != 0.0:
            _draw_with_its_own(rng, f, known[0], draws, memory[2], memory[3], work)
        elif several is not None and k == 0:
            draw_alike(rng, f, draws, work)
        elif several is not None:
            together = owned.known_first[low] == owned.known_first[high]
            draw_with_several(rng, f, known, draws, work, together)
        if len(state.rest):
            for m in range(n):
                centre[m] = (value[m] - centre[m]) / plan.sd[k]
            for j in range(len(state.rest)):
                add(state.rest[j], -constraint.g[k, j], centre)
        copy(value, state.away[k])


@jit
def _given_before(plan, state, k, value, centre):
    """Means of a value given those before it, and its standard deviation; ``centre`` is without
    constraints, where there are some."""
    constraint, log_weight, loose = plan.constraint, state.log_weight, plan.loose[k]
    value[:] = 0.0
    for p in range(plan.indptr[k], plan.indptr[k + 1]):
        add(value, plan.weights[p], state.away[plan.indices[p]])
    root = plan.sd[k]
    if len(state.rest):
        copy(value, centre)
        for j in range(len(state.rest)):
            add(value, root * constraint.h[k, j], state.rest[j])
        root *= constraint.sd[k]
    if loose > 0.0:  # exp(½ε v²) times N(v; m, s²)
        left = 1.0 - loose * root * root
        for m in range(value.size):
            log_weight[m] += 0.5 * loose * value[m] * value[m] / left - 0.5 * math.log(left)
            value[m] /= left
        root /= math.sqrt(left)
    return root


@jit
def _see(owned, away, i, known):
    """What a datum sees of values before its owner."""
    known[:] = owned.base[i]
    for p in range(owned.known_first[i], owned.known_first[i + 1]):
        add(known, owned.known_scale[p], away[owned.known[p]])


@jit
def _draw_with_its_own(rng, f, known, draws, eta, uniforms, work):
    """Under one datum: what is drawn is its predictor."""
    n, a, message = draws.value.size, f.data[0].scale, f.message.copy()
    for m in range(n):
        eta[m] = known[m] + a * draws.value[m]
    copy(draws.uniforms, uniforms)
    if message.size:
        message[0], message[1] = known[0], message[1] / a
    f.data[0].scale, f.data[0].known = 1.0, 0.0
    root = abs(a) * f.root
    itself = Integrand(f.kernel, f.concave, f.data, f.theta, f.hints, root, message)
    inside = Draws(eta, draws.normals, uniforms, draws.log_weight)
    draw_with_one(rng, itself, inside, work, False)
    for m in range(n):
        draws.value[m] = (eta[m] - known[m]) / a


@jit
def _determine(plan, state, last, centre):
    """All values after the last free one, were that zero."""
    constraint, away = plan.constraint, state.away
    left, change, still = state.rest.copy(), np.empty(centre.size), np.empty(centre.size)
    away[last] = 0.0
    for m in range(centre.size):
        change[m] = -centre[m] / plan.sd[last]
    for k in range(last, plan.sd.size):
        if k > last:
            change[:] = 0.0
            for j in range(len(left)):
                add(change, constraint.h[k, j], left[j])
            for m in range(centre.size):
                still[m] = plan.sd[k] * change[m]
            for p in range(plan.indptr[k], plan.indptr[k + 1]):
                add(still, plan.weights[p], away[plan.indices[p]])
            copy(still, away[k])
        for j in range(len(left)):
            add(left[j], -constraint.g[k, j], change)


@jit
def _weigh(f, known, value, log_weight):
    """By data whose latent value is determined."""
    eta, out = np.empty(value.size), np.empty(4 * value.size)
    for i in range(f.data.size):
        datum, a = f.data[i], f.data[i].scale
        for m in range(value.size):
            eta[m] = known[i, m] + a * value[m]
        f.kernel(eta.ctypes, f.theta[i].ctypes, value.size, 1, 0, 1, out.ctypes)
        for m in range(value.size):
            tilt = out[m] - datum.c - eta[m] * (datum.nu - 0.5 * datum.tau * eta[m])
            log_weight[m] += -math.inf if math.isnan(tilt) else tilt
