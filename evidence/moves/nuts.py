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
they only drop out. Leaf n of a doubling leaves a *mark* in slot 1 + popcount(n). At the last
leaf of a stretch of 2^k, in slot s, the marks of its first leaf and of its second half's first
are those in slots s - k and s - k + 1 (cf. Phan et al. 2019); slot 0 holds the far end of the
trajectory. That is N × (depth + 1) numbers per row, three times, instead of N × 2^depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import jit, reduction
from .._normal import standard_normal
from ..path import Path
from .base import GradientMove, Info, Slope, per_row
from .hmc import log_density

Array = NDArray[np.float64]

_DIVERGED = -1000.0  # log weight of a leaf, relative to the start


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
    marks = np.empty((depth + 1, 3, m, n))
    marks[0, 2] = 0.0
    return Trees(
        a=np.stack([state.a, state.a]),
        p=np.stack([p, p]),
        slope=np.stack([state.slope, state.slope]),
        rho=p.copy(),
        marks=marks,
        drawn=Slope(*(field.copy() for field in state)),
        fresh=Slope(*(np.empty_like(field) for field in state)),
        log_weight=np.zeros((2, m)),
        start=start,
        beta=beta,
        eps=eps,
        end=np.zeros(m, dtype=np.intp),
        alive=np.ones(m, dtype=np.bool_),
        diverged=np.zeros(m, dtype=np.bool_),
        leaves=np.zeros(m, dtype=np.intp),
        acceptance=np.zeros(m),
    )


@jit
def _aim(t, rows, u):
    """Choose the end that grows."""
    for m in rows:
        t.end[m] = 1 if u[m] < 0.5 else 0
        t.log_weight[1, m] = -np.inf
        for i in range(t.rho.shape[1]):
            t.marks[0, 0, m, i] = t.p[1 - t.end[m], m, i]


@jit
def _leap(t, gamma, rows, slot, a):
    """Half a kick and a drift of the growing end; its coordinates also go to ``a``."""
    for k, m in enumerate(rows):
        e, b = t.end[m], t.beta[m]
        eps = t.eps[m] if e == 1 else -t.eps[m]
        for i in range(a.shape[1]):
            t.marks[slot, 1, m, i] = t.p[e, m, i]
            t.marks[slot, 2, m, i] = t.rho[m, i]
            x = t.a[e, m, i]
            p = t.p[e, m, i] + 0.5 * eps * (b * t.slope[e, m, i] - x / gamma[i])
            x += eps * p
            t.p[e, m, i] = p
            t.a[e, m, i] = x
            a[k, i] = x


@jit
def _land(t, gamma, rows, slot, a, tilt, slope, u):
    """The other half of the kick; weigh the leaf, and draw it or not."""
    for k, m in enumerate(rows):
        e, b = t.end[m], t.beta[m]
        eps = t.eps[m] if e == 1 else -t.eps[m]
        square = 0.0
        for i in range(a.shape[1]):
            pull = a[k, i] / gamma[i]
            p = t.p[e, m, i] + 0.5 * eps * (b * slope[k, i] - pull)
            square += a[k, i] * pull + p * p
            t.p[e, m, i] = p
            t.slope[e, m, i] = slope[k, i]
            t.rho[m, i] += p
            t.marks[slot, 0, m, i] = p
        log_w = b * tilt[k] - 0.5 * square - t.start[m]
        t.leaves[m] += 1
        if not _DIVERGED < log_w < np.inf:  # NaN included
            t.diverged[m], t.alive[m] = True, False
            continue
        t.acceptance[m] += np.exp(min(0.0, log_w))
        t.log_weight[1, m] = np.logaddexp(t.log_weight[1, m], log_w)
        if u[m] < np.exp(log_w - t.log_weight[1, m]):
            _copy(a, tilt, slope, k, t.fresh, m)


@jit
def _copy(a, tilt, slope, k, to, m):
    to.tilt[m] = tilt[k]
    for i in range(a.shape[1]):
        to.a[m, i] = a[k, i]
        to.slope[m, i] = slope[k, i]


@jit
def _merge(t, rows, u):
    """Draw from both halves, with a bias towards the new one."""
    for m in rows:
        old, new = t.log_weight[0, m], t.log_weight[1, m]
        if u[m] < np.exp(min(0.0, new - old)):
            _copy(t.fresh.a, t.fresh.tilt, t.fresh.slope, m, t.drawn, m)
        t.log_weight[0, m] = np.logaddexp(old, new)


@jit
def _stop(t, rows, first, last):
    """Stop rows in which a stretch from marks ``first`` down to ``last`` to here has turned."""
    for m in rows:
        for s in range(first, last - 1, -1):
            if _turned(t.marks, s, m, t.p[t.end[m], m], t.rho[m]):
                t.alive[m] = False
                break


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
        Mass matrix, see :mod:`evidence.coordinates`; default ``"base"``.
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

    def step(
        self, rng: np.random.Generator, path: Path, beta: float | Array, state: Slope
    ) -> tuple[Slope, Info]:
        trees = self.grow(rng, path, beta, state)
        acceptance = trees.acceptance / trees.leaves
        return trees.drawn, Info(acceptance, int(trees.diverged.sum()), int(trees.leaves.sum()))

    def grow(
        self, rng: np.random.Generator, path: Path, beta: float | Array, state: Slope
    ) -> Trees:
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
        self,
        rng: np.random.Generator,
        path: Path,
        trees: Trees,
        rows: NDArray[np.intp],
        depth: int,
    ) -> NDArray[np.intp]:
        """Add 2^depth leaves to every row; returns the rows that go on."""
        frame, m = self.frame(path), trees.alive.size
        _aim(trees, rows, rng.random(m))
        for leaf in range(2**depth):
            slot, levels = 1 + leaf.bit_count(), (leaf ^ (leaf + 1)).bit_count() - 1
            a = np.empty((rows.size, path.n))
            _leap(trees, frame.gamma, rows, slot, a)
            new = self.evaluate(path, frame, a)
            _land(trees, frame.gamma, rows, slot, *new, rng.random(m))
            _stop(trees, rows, slot - 1, slot - levels)
            rows = rows[trees.alive[rows]]
            if not rows.size:
                return rows
        _merge(trees, rows, rng.random(m))
        _stop(trees, rows, 0, 0)
        return rows[trees.alive[rows]]
