r"""Sequential Monte Carlo over data for probit models: one label after the other.

With y_n = sign z_n the latent utilities are z ~ N(m, K + I), and target t is z_1, …, z_t given
the first t labels of an ordering. In the oriented variables r = y (z - m), with
:math:`C = y (K + I) y` and :math:`M = L^{-1}`, L the lower Cholesky factor of C, the next one is

.. math:: r_{t+1} \mid r_{1..t} \sim N(\mu, s^2), \qquad
          \mu = -\frac{1}{M_{t+1,t+1}} \sum_{j \le t} M_{t+1,j}\, r_j, \quad
          s = \frac{1}{M_{t+1,t+1}},

and a label agrees with it with probability :math:`W = \Phi\big((\mu + y m)/s\big)`, the
incremental weight. Particles are weighted by W, resampled when their effective sample size is
below ``threshold``, and extended by exact draws of r_{t+1} given its label. Gibbs sweeps over
r_1, …, r_t then spread them out: each coordinate is a truncated normal given the others, with
the precision of the first t, which grows by a rank-one term whose last row is the border,

.. math:: P_{t+1} = \begin{pmatrix} P_t & 0 \\ 0 & 0 \end{pmatrix} + M_{t+1,:}^T M_{t+1,:}.

With R fixed, :math:`\hat Z = \prod_t \sum_i w_t^i W_t(r^i)` is exactly unbiased for the
evidence: weights do not depend on the draws they precede, sweeps leave the targets invariant,
and whether to resample or to sweep is decided by the past. With ``i_max`` > 0 rounds of swept
copies are added as in :class:`.smc.Adaptive`, and stopping them on the effective sample size
makes Ẑ low by a part of order 1/R; numbers of particles taken from an earlier run do not.

References: M. Fraccaro, U. Paquet and O. Winther, arXiv:1604.01972 (2016); N. Chopin, Biometrika
89 (2002) 539 (sequences of data); C. C. Holmes and L. Held, Bayesian Anal. 1 (2006) 145.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.special import log_ndtr

from ..messages import InputError
from ..moves.base import Info
from ..moves.gradient.gibbs import LatentGivenUtilities, latent_given_utilities, sweep
from ..numerics.arrays import Array, Flags, Indices, Rng
from ..numerics.jit import jit
from ..numerics.truncated import upper_tail
from ..statistics.weights import Weights
from .islands import KEEP
from .smc import Loop, Population

if TYPE_CHECKING:
    from ..models.gp import GPModel

Rows = Indices


class Prepared(NamedTuple):
    """What all islands share, O(N³): in the order of the data sequence, and oriented."""

    model: GPModel
    order: Rows
    inverse: Array  # M = L⁻¹, lower triangular
    lower: Array  # -y m: r exceeds it
    given: LatentGivenUtilities  # in the order of the model


def prepare(model: GPModel, order: str | ArrayLike = "tail", rng: Rng | None = None) -> Prepared:
    """Everything that is computed once for a model and an ordering, see :func:`ordering`."""
    order = ordering(model, order, rng)
    y = model.y[order]
    cov = (model.K[np.ix_(order, order)] + np.eye(model.n)) * np.outer(y, y)
    factor, _ = dpotrf(cov, lower=1, clean=1)
    inverse, _ = dtrtri(factor, lower=1)
    given = latent_given_utilities(model)
    return Prepared(model, order, np.ascontiguousarray(inverse), -y * model.mean[order], given)


def ordering(model: GPModel, how: str | ArrayLike = "tail", rng: Rng | None = None) -> Rows:
    """In which order the data come, a permutation of 0, …, N - 1.

    ``"given"`` keeps theirs, ``"random"`` shuffles them, and ``"tail"`` takes next the label
    that is the least likely given the expected utilities of those before it (Gibson, Glasbey
    and Elston 1994), so that what is surprising is met while few variables depend on it.

    >>> from evidence import GPModel
    >>> model = GPModel(K=np.eye(3), y=[1, -1, 1], mean=[0.0, 2.0, -1.0])
    >>> ordering(model, "tail").tolist()
    [1, 2, 0]
    """
    if isinstance(how, str) and how in _ORDERS:
        return _ORDERS[how](model, np.random.default_rng(rng))
    order = np.asarray(how)
    if order.shape != (model.n,) or not np.array_equal(np.sort(order), np.arange(model.n)):
        given = repr(how) if isinstance(how, str) else f"an array of shape {order.shape}"
        raise InputError(
            f"order must be one of {', '.join(_ORDERS)} or a permutation of 0, …, {model.n - 1} "
            f"(each number once), got {given}"
        )
    return order.astype(np.intp)


def _smallest_tail_first(model: GPModel) -> Rows:
    """Pivoted Cholesky factor of C with the tail probability as the pivot's criterion."""
    n, y = model.n, model.y
    cov = (model.K + np.eye(n)) * np.outer(y, y)
    lower, variance, mean = -y * model.mean, np.diag(cov).copy(), np.zeros(n)
    columns, order, left = np.empty((n, n)), np.empty(n, np.intp), np.ones(n, bool)
    for t in range(n):
        bound = (lower - mean) / np.sqrt(variance)
        i = int(np.argmax(np.where(left, bound, -np.inf)))
        order[t], left[i] = i, False
        column = (cov[i] - columns[:t, i] @ columns[:t]) / np.sqrt(variance[i])
        columns[t] = column
        hazard = np.exp(-0.5 * bound[i] ** 2 - log_ndtr(-bound[i])) / np.sqrt(2.0 * np.pi)
        mean += column * hazard
        variance = np.where(left, np.maximum(variance - column**2, 1.0), 1.0)
    return order


_ORDERS: dict[str, Callable[[GPModel, Rng], Rows]] = {
    "given": lambda model, rng: np.arange(model.n),
    "random": lambda model, rng: rng.permutation(model.n),
    "tail": lambda model, rng: _smallest_tail_first(model),
}


@jit
def _extend(mean, sd, lower, u, r):
    """Exact draws of the next coordinate above its bound."""
    for m in range(r.size):
        r[m] = max(mean[m] + sd * upper_tail((lower - mean[m]) / sd, u[m]), lower)


@dataclass
class Front(Population):
    """r of all particles, coordinates along rows: the first t of them are in play."""

    prepared: Prepared = field(kw_only=True)

    def __post_init__(self) -> None:
        n, self.t = self.prepared.model.n, 0
        self.r, self._spare = (np.empty((n, self.log_w.size)) for _ in range(2))
        self._precision, self._grown = np.zeros((n, n)), 0
        self.rounds: list[Array] = []
        self.means: list[Array] = []

    @property
    def present(self) -> Array:
        """The particles, one in each column, as far as they go."""
        return self.r[: self.t]

    @property
    def by_island(self) -> Array:
        """The same, (t, G, R)."""
        return self.present.reshape(self.t, *self.log_w.shape)

    def columns(self, islands: NDArray[Any]) -> Array:
        """A copy of some islands' particles."""
        return self.by_island[:, islands].reshape(self.t, -1)

    def predict(self, r: Array) -> Array:
        """log W of the next label, (islands, R), given a further round of particles r; the mean
        of the next coordinate is kept with them until they are resampled and extended."""
        row, t = self.prepared.inverse[self.t], self.t
        mean = (row[:t] @ r) / -row[t]
        self.rounds.append(r)
        self.means.append(mean)
        log_w = log_ndtr((mean - self.prepared.lower[t]) * row[t])
        return log_w.reshape(-1, self.log_w.shape[1])

    def survive(self, index: Rows) -> None:
        """Columns ``index`` of the particles of all rounds."""
        stacked = np.concatenate(self.rounds, axis=1) if len(self.rounds) > 1 else self.rounds[0]
        np.take(stacked, index, axis=1, out=self._spare[: self.t], mode="clip")
        self.r, self._spare = self._spare, self.r
        self.means = [np.concatenate(self.means)[index]]

    def extend(self) -> None:
        """Exact draws of one more coordinate, given its label."""
        sd, lower = 1.0 / self.prepared.inverse[self.t, self.t], self.prepared.lower[self.t]
        (mean,) = self.means
        _extend(mean, sd, lower, self.rng.random(mean.size), self.r[self.t])
        self.t += 1
        self.rounds, self.means = [], []
        self.infos.append(Info(np.ones(1), 0, 0))

    def sweep(self, r: Array, sweeps: int) -> None:
        """Gibbs sweeps over columns of the first t coordinates, in place."""
        t, lower = self.t, self.prepared.lower
        for k in range(self._grown, t):
            row = self.prepared.inverse[k, : k + 1]
            self._precision[: k + 1, : k + 1] += np.outer(row, row)
        self._grown = t
        precision = self._precision[:t, :t]
        sd = 1.0 / np.sqrt(np.diag(precision))
        for _ in range(sweeps):
            sweep(precision, sd, lower[:t], self.rng.random((*r.shape, 1)), r)
        self.infos.append(Info(np.ones(1), 0, sweeps * r.shape[1]))

    def latent(self, index: Rows) -> Array:
        """Latent values x given the utilities of some particles, shape (index.size, N)."""
        model, order = self.prepared.model, self.prepared.order
        z = np.empty((model.n, index.size))
        z[order] = model.mean[order, None] + model.y[order, None] * self.r[:, index]
        return self.prepared.given.draw(z, self.rng)


@dataclass(frozen=True)
class Sequential(Loop[Front, int]):
    """Particles take one datum after the other; ``mixing`` and ``variance`` are NaN.

    After each datum islands that were resampled are swept, ``sweeps`` times: to sweep the
    others, too, costs more for the same error.
    """

    prepared: Prepared
    sweeps: int = 1
    resampling: str = "residual"
    threshold: float = 0.7
    i_max: int = 0
    particles: Array | None = None

    @property
    def stages(self) -> range:
        return range(self.prepared.model.n)

    def start(self, rng: Rng, n_islands: int, n_particles: int) -> Front:
        log_w, log_z = np.zeros((n_islands, n_particles)), np.zeros(n_islands)
        return Front(rng, log_w, log_z, prepared=self.prepared)

    def weigh(self, population: Front, stage: int) -> Weights:
        return Weights(population.log_w + population.predict(population.present))

    def short(self, population: Front, weights: Weights, t: int) -> Rows:
        return super().short(population, weights, t) if t > 1 else np.empty(0, np.intp)

    def another_round(self, population: Front, stage: int, islands: Rows) -> Array:
        copies = population.columns(islands)
        population.sweep(copies, self.sweeps)
        return population.log_w[islands] + population.predict(copies)

    def survive(self, population: Front, index: Rows, poor: Flags) -> None:
        population.survive(index.ravel())

    def move_all(self, population: Front, stage: int, poor: Flags) -> float:
        population.extend()
        if poor.all():
            population.sweep(population.present, self.sweeps)
        elif poor.any():
            moved = population.columns(poor)
            population.sweep(moved, self.sweeps)
            population.by_island[:, poor] = moved.reshape(population.t, poor.sum(), -1)
        return np.nan

    def draws(self, population: Front) -> Array:
        rows = np.arange(population.log_w.size).reshape(population.log_w.shape)
        kept = population.rng.permuted(rows, axis=1)[:, :KEEP]
        return population.latent(kept.ravel()).reshape(*kept.shape, -1)
