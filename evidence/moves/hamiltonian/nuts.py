r"""The No-U-Turn sampler (Hoffman and Gelman 2014; multinomial: Betancourt 2017).

A trajectory of leapfrog steps (see :mod:`.hmc`) is doubled, forwards or backwards at random,
until it turns back on itself or diverges. The next state is one of its leaves z: within the new
half with probability proportional to exp(-H(z)), and that leaf replaces the one of the old half
with probability min(1, W'/W), where W and W' are the two halves' sums of exp(-H).

A stretch of 2^k leaves, from first to last in the order of integration, has turned unless

.. math:: p_{\rm first}\cdot\rho > 0 \quad\text{and}\quad p_{\rm last}\cdot\rho > 0,
          \qquad \rho = \sum_{\rm leaves} p,

and unless the same holds for either half together with the other half's nearest leaf (Stan).
The new half must not hold a turned stretch among those that halving it again and again gives.

Every live row of the batch is at the same leaf of the same doubling, so rows need no counters:
they only drop out. Leaf n = 0, 2, 4, … of a doubling leaves a *mark* in slot 1 + popcount(n). At
the last leaf of a stretch of 2^k, k > 1, whose own slot would be s, the marks of its first leaf
and of its second half's first are those in slots s - k and s - k + 1 (cf. Phan et al. 2019);
slot 0 holds the far end of the trajectory. That is N × depth numbers per row, three times,
instead of N × 2^depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...numerics.copies import copy
from ...numerics.jit import jit, reduction, vector_loop
from ...numerics.normal import standard_normal
from ...paths.base import TemperedPath
from ..base import Array, Beta, GradientMove, Info, Rng, Slope, per_row
from .hmc import kick, log_density


class Trees(NamedTuple):
    """One trajectory per row. Pairs hold the backward end (0) and the forward end (1)."""

    a: Array  # (2, M, N)
    p: Array  # (2, M, N)
    slope: Array  # (2, M, N)
    rho: Array  # (M, N), the sum of all momenta
    marks: Array  # (slots, 3, M, N): p of a leaf, p of the leaf before, ρ before
    drawn: Slope  # from the trajectory before this doubling
    fresh: Slope  # from the leaves of this doubling
    log_weight: Array  # (2, M), of the same two
    start: Array  # (M,), -H
    beta: Array
    eps: Array
    end: NDArray[np.intp]  # which end of a row grows
    alive: NDArray[np.bool_]
    diverged: NDArray[np.bool_]
    leaves: NDArray[np.intp]
    acceptance: Array  # (M,), sum over leaves


def plant(state: Slope, p: Array, beta: Array, eps: Array, gamma: Array, depth: int) -> Trees:
    """Trajectories of one state, with room for ``depth`` doublings."""
    m, n = p.shape
    start = np.empty(m)
    log_density(state.a, state.tilt, p, beta, gamma, start)
    marks = np.empty((max(depth, 2), 3, m, n))
    marks[0, 2] = 0.0
    return Trees(
        a=np.stack([state.a, state.a]), p=np.stack([p, p]),
        slope=np.stack([state.slope, state.slope]), rho=p.copy(), marks=marks,
        drawn=Slope(*(field.copy() for field in state)),
        fresh=Slope(*(np.empty_like(field) for field in state)), log_weight=np.zeros((2, m)),
        start=start, beta=beta, eps=eps, end=np.zeros(m, dtype=np.intp),
        alive=np.ones(m, dtype=np.bool_), diverged=np.zeros(m, dtype=np.bool_),
        leaves=np.zeros(m, dtype=np.intp), acceptance=np.zeros(m),
    )  # fmt: skip


@jit
def _aim(t, stiffness, rows, u, a):
    """Choose the end that grows and take the first leap from there, to the rows of ``a``."""
    for k, m in enumerate(rows):
        e = 1 if u[m] < 0.5 else 0
        t.end[m] = e
        t.log_weight[1, m] = -np.inf
        copy(t.p[1 - e, m], t.marks[0, 0, m])
        _mark_before(t, m, 1)
        _leap(t, stiffness, m, t.a[e, m], t.slope[e, m], a[k])


@vector_loop
def _leap(t, stiffness, m, a, slope, out):
    """Half a kick and a drift from ``a`` to ``out``."""
    e, b = t.end[m], t.beta[m]
    eps, p = t.eps[m] if e == 1 else -t.eps[m], t.p[e, m]
    for i in range(out.size):
        p[i] = kick(p[i], 0.5 * eps, b, slope[i], a[i], stiffness[i])
        out[i] = a[i] + eps * p[i]


@reduction
def _land(t, stiffness, m, a, slope):
    """The other half of the kick; returns twice the leaf's energy in base and momentum."""
    e, b = t.end[m], t.beta[m]
    eps, p, rho = t.eps[m] if e == 1 else -t.eps[m], t.p[e, m], t.rho[m]
    for i in range(a.size):
        p[i] = kick(p[i], 0.5 * eps, b, slope[i], a[i], stiffness[i])
        rho[i] += p[i]
    square = 0.0
    for i in range(a.size):
        square += a[i] * (a[i] * stiffness[i]) + p[i] * p[i]
    return square


@jit
def _mark_before(t, m, slot):
    """What a mark holds of the way to its leaf."""
    copy(t.p[t.end[m], m], t.marks[slot, 1, m])
    copy(t.rho[m], t.marks[slot, 2, m])


@jit
def _weigh(t, m, log_w, u):
    """Count a leaf, unless it diverged; returns whether it is drawn."""
    diverged = -1000.0  # log weight of a leaf, relative to the start
    t.leaves[m] += 1
    if not diverged < log_w < np.inf:  # NaN included
        t.diverged[m], t.alive[m] = True, False
        return False
    t.acceptance[m] += np.exp(min(0.0, log_w))
    t.log_weight[1, m] = np.logaddexp(t.log_weight[1, m], log_w)
    return u < np.exp(log_w - t.log_weight[1, m])


@jit
def _advance(t, stiffness, rows, slot, levels, following, a, tilt, slope, u):
    """Land every row, and leap towards slot ``following``, if there is one.

    A row stops where it diverged or where one of the ``levels`` stretches that end here has
    turned; none ends at leaves 0, 2, 4, … Returns how many rows go on: they close ranks at the
    head of ``rows`` and ``a``.
    """
    count = 0
    for k in range(rows.size):
        m = rows[k]
        p = t.p[t.end[m], m]
        square = _land(t, stiffness, m, a[k], slope[k])
        if _weigh(t, m, t.beta[m] * tilt[k] - 0.5 * square - t.start[m], u[m]):
            _copy(a, tilt, slope, k, t.fresh, m)
        if levels == 0:
            copy(p, t.marks[slot, 0, m])
        elif _pair_turned(t.marks[slot - 1, 0, m], p):
            t.alive[m] = False
        else:
            _stop(t, m, slot - 2, slot - levels)
        if not t.alive[m]:
            continue
        if following == 0:
            copy(a[k], t.a[t.end[m], m])
            copy(slope[k], t.slope[t.end[m], m])
        else:
            if levels > 0:
                _mark_before(t, m, following)
            _leap(t, stiffness, m, a[k], slope[k], a[count])
        rows[count] = m
        count += 1
    return count


@jit
def _copy(a, tilt, slope, k, to, m):
    to.tilt[m] = tilt[k]
    copy(a[k], to.a[m])
    copy(slope[k], to.slope[m])


@jit
def _merge(t, rows, u):
    """Draw from both halves, with a bias towards the new one; returns how many rows go on."""
    count = 0
    for m in rows:
        old, new = t.log_weight[0, m], t.log_weight[1, m]
        if u[m] < np.exp(min(0.0, new - old)):
            _copy(t.fresh.a, t.fresh.tilt, t.fresh.slope, m, t.drawn, m)
        t.log_weight[0, m] = np.logaddexp(old, new)
        _stop(t, m, 0, 0)
        if t.alive[m]:
            rows[count] = m
            count += 1
    return count


@jit
def _stop(t, m, first, last):
    """Stop a row if a stretch from marks ``first`` down to ``last`` to here has turned."""
    for s in range(first, last - 1, -1):
        if _turned(t.marks, s, m, t.p[t.end[m], m], t.rho[m]):
            t.alive[m] = False
            return


@reduction
def _pair_turned(first, last):
    """The criterion for two leaves."""
    along_first = along_last = 0.0
    for i in range(last.size):
        rho = first[i] + last[i]
        along_first += first[i] * rho
        along_last += last[i] * rho
    return not min(along_first, along_last) > 0.0


@reduction
def _turned(marks, s, m, last, rho):
    """The criterion for the whole stretch and for either half with its neighbour."""
    whole_first = whole_last = left_first = left_last = right_first = right_last = 0.0
    for i in range(last.size):
        first, p_left, p_right = marks[s, 0, m, i], marks[s + 1, 1, m, i], marks[s + 1, 0, m, i]
        before, middle = marks[s, 2, m, i], marks[s + 1, 2, m, i]
        whole, left, right = rho[i] - before, middle - before + p_right, rho[i] - middle + p_left
        whole_first += first * whole
        whole_last += last[i] * whole
        left_first += first * left
        left_last += p_right * left
        right_first += p_left * right
        right_last += last[i] * right
    whole_least = min(whole_first, whole_last)
    return not min(whole_least, left_first, left_last, right_first, right_last) > 0.0


@dataclass
class NUTS(GradientMove):
    """The No-U-Turn sampler.

    Parameters
    ----------
    step_size : float
        ε of a leapfrog step, in units of the mass.
    coordinates : {"identity", "diagonal", "base", "prior", "expected"}, optional
        Mass matrix, see :mod:`evidence.paths.coordinates`; default ``"base"``.
    max_depth : int
        A trajectory doubles at most so often.
    jitter : float
        Every row's ε is multiplied by 1 ± jitter, drawn afresh for each trajectory.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.

    Notes
    -----
    ``Info.acceptance`` is a row's mean of min(1, exp(-ΔH)) over the leaves visited, and
    ``Info.failures`` counts the rows with a divergence, ΔH ≥ 1000.
    """

    step_size: float = 0.5
    target: float | None = 0.8
    name: str = "nuts"
    max_depth: int = 8
    jitter: float = 0.1

    def step(self, rng: Rng, path: TemperedPath, beta: Beta, state: Slope) -> tuple[Slope, Info]:
        trees = self.grow(rng, path, beta, state)
        acceptance = trees.acceptance / trees.leaves
        return trees.drawn, Info(acceptance, int(trees.diverged.sum()), int(trees.leaves.sum()))

    def grow(self, rng: Rng, path: TemperedPath, beta: Beta, state: Slope) -> Trees:
        """Double until every row has stopped. A row's random numbers depend on no other row."""
        m = len(state.a)
        eps = self.step_size * (1.0 + self.jitter * rng.uniform(-1.0, 1.0, m))
        p = standard_normal(rng, state.a.shape)
        gamma = self.frame(path).gamma
        trees = plant(state, p, per_row(beta, m), eps, gamma, self.max_depth)
        rows = np.arange(m)
        for depth in range(self.max_depth):
            if rows.size:
                rows = self.double(rng, path, trees, rows, depth)
        return trees

    def double(
        self, rng: Rng, path: TemperedPath, trees: Trees, rows: NDArray[np.intp], depth: int
    ) -> NDArray[np.intp]:
        """Add 2^depth leaves to every row; returns the rows that go on, in the same memory."""
        frame, m = self.frame(path), trees.alive.size
        stiffness, a = 1.0 / frame.gamma, np.empty((rows.size, path.n))
        _aim(trees, stiffness, rows, rng.random(m), a)
        for leaf in range(2**depth):
            slot, levels = 1 + leaf.bit_count(), (leaf ^ (leaf + 1)).bit_count() - 1
            following = 1 + (leaf + 1).bit_count() if leaf + 1 < 2**depth else 0
            new = self.evaluate(path, frame, a[: rows.size])
            count = _advance(trees, stiffness, rows, slot, levels, following, *new, rng.random(m))
            rows = rows[:count]
            if not count:
                return rows
        return rows[: _merge(trees, rows, rng.random(m))]
