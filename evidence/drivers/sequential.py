r"""Sequential Monte Carlo over data for probit models: one label after the other.

With y_n = sign z_n the latent utilities are z ~ N(m, K + I), and target t is z_1, …, z_t given
the first t labels of an ordering. In the oriented variables r = y (z - m), with
:math:`C = y (K + I) y` and :math:`M = L^{-1}`, L the lower Cholesky factor of C, the next one is

.. math:: r_{t+1} \mid r_{1..t} \sim N(\mu, s^2), \qquad
          \mu = -\frac{1}{M_{t+1,t+1}} \sum_{j \le t} M_{t+1,j}\, r_j, \quad
          s = \frac{1}{M_{t+1,t+1}},

and a label agrees with it with probability :math:`W = \Phi\big((\mu + y m)/s\big)`, the
incremental weight. Particles are weighted by W, resampled when their effective sample size is
below ``threshold`` R, and extended by exact draws of r_{t+1} given its label. Gibbs sweeps over
r_1, …, r_t then spread them out: each coordinate is a truncated normal given the others, with
the precision of the first t, which grows by a rank-one term whose last row is the border,

.. math:: P_{t+1} = \begin{pmatrix} P_t & 0 \\ 0 & 0 \end{pmatrix} + M_{t+1,:}^T M_{t+1,:}.

With R fixed, :math:`\hat Z = \prod_t \sum_i w_t^i W_t(r^i)` is exactly unbiased for the
evidence: weights do not depend on the draws they precede, sweeps leave the targets invariant,
and whether to resample or to sweep is decided by the past. With ``adaptive=True`` rounds of
swept copies are added as in :mod:`.arm`, and stopping them on the effective sample size makes
Ẑ low by a part of order 1/R; numbers of rounds taken from an earlier run (``particles``) do not.

References: M. Fraccaro, U. Paquet and O. Winther, arXiv:1604.01972 (2016); N. Chopin, Biometrika
89 (2002) 539 (sequences of data); C. C. Holmes and L. Held, Bayesian Anal. 1 (2006) 145.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.special import log_ndtr

from ..execution.tasks import Stopped
from ..gaussians.dense import posterior_root
from ..messages import InputError
from ..models import likelihoods
from ..models.gp import GPModel
from ..moves.gradient.gibbs import _BLOCK, _sweep_block
from ..numerics.jit import jit
from ..numerics.truncated import upper_tail
from ..statistics.resampling import Pool
from .arm import More, as_rounds, check_options, fixed_rounds, growing
from .islands import Islands
from .resample_move import KEEP

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_ORDERS = ("given", "random", "tail")


class Prepared(NamedTuple):
    """What all islands share, O(N³): in the order of the data sequence, and oriented."""

    model: GPModel
    order: Rows
    inverse: Array  # M = L⁻¹, lower triangular
    lower: Array  # -y m: r exceeds it
    root: Array  # A with A Aᵀ = (K⁻¹ + I)⁻¹, in the order of the model


def prepare(
    model: GPModel, order: str | ArrayLike = "tail", rng: np.random.Generator | None = None
) -> Prepared:
    """Everything that is computed once for a model and an ordering, see :func:`ordering`."""
    order = ordering(model, order, rng)
    y = model.y[order]
    cov = (model.K[np.ix_(order, order)] + np.eye(model.n)) * np.outer(y, y)
    factor, _ = dpotrf(cov, lower=1, clean=1)
    inverse, _ = dtrtri(factor, lower=1)
    root = posterior_root(model.prior, np.ones(model.n)).factor
    return Prepared(model, order, np.ascontiguousarray(inverse), -y * model.mean[order], root)


def ordering(
    model: GPModel, how: str | ArrayLike = "tail", rng: np.random.Generator | None = None
) -> Rows:
    """In which order the data come, a permutation of 0, …, N - 1.

    ``"given"`` keeps theirs, ``"random"`` shuffles them, and ``"tail"`` takes next the label
    that is the least likely given the expected utilities of those before it (Gibson, Glasbey
    and Elston 1994), so that what is surprising is met while few variables depend on it.

    >>> model = GPModel(K=np.eye(3), y=[1, -1, 1], mean=[0.0, 2.0, -1.0])
    >>> ordering(model, "tail").tolist()
    [1, 2, 0]
    """
    _require_probit(model)
    if isinstance(how, str):
        if how == "given":
            return np.arange(model.n)
        if how == "random":
            return np.random.default_rng(rng).permutation(model.n)
        if how == "tail":
            return _smallest_tail_first(model)
        raise InputError(
            f"order must be one of {', '.join(_ORDERS)} or a permutation, got {how!r}"
        )
    order = np.asarray(how)
    if order.shape != (model.n,) or not np.array_equal(np.sort(order), np.arange(model.n)):
        raise InputError(
            f"order must be a permutation of 0, …, {model.n - 1} (each number once), got an array "
            f"of shape {order.shape}"
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


@jit
def _grow(precision, row):
    """P += row rowᵀ for the leading block that the row reaches."""
    for i in range(row.size):
        for j in range(row.size):
            precision[i, j] += row[i] * row[j]


@jit
def _extend(mean, sd, lower, u, r):
    """Exact draws of the next coordinate above its bound."""
    for m in range(r.size):
        r[m] = max(mean[m] + sd * upper_tail((lower - mean[m]) / sd, u[m]), lower)


class _Front:
    """r of all particles, coordinates along rows: the first t of them are in play."""

    def __init__(self, prepared: Prepared, width: int, rng: np.random.Generator) -> None:
        n = prepared.model.n
        self.prepared, self.rng, self.t = prepared, rng, 0
        self.r, self._spare = np.empty((n, width)), np.empty((n, width))
        self._precision, self._grown = np.zeros((n, n)), 0

    def predict(self, r: Array) -> tuple[Array, Array]:
        """Mean of the next coordinate given columns of the first t, and log W of its label."""
        row, t = self.prepared.inverse[self.t], self.t
        mean = (row[:t] @ r) / -row[t]
        return mean, log_ndtr((mean - self.prepared.lower[t]) * row[t])

    def extend(self, mean: Array) -> None:
        """One more coordinate, given its label and its predictive mean."""
        sd, lower = 1.0 / self.prepared.inverse[self.t, self.t], self.prepared.lower[self.t]
        _extend(mean, sd, lower, self.rng.random(mean.size), self.r[self.t])
        self.t += 1

    def sweep(self, r: Array, sweeps: int) -> None:
        """Gibbs sweeps over columns of the first t coordinates, in place."""
        t, lower = self.t, self.prepared.lower
        while self._grown < t:
            self._grown += 1
            row = self.prepared.inverse[self._grown - 1, : self._grown]
            _grow(self._precision, row)
        precision = self._precision[:t, :t]
        sd = 1.0 / np.sqrt(np.diag(precision))
        for _ in range(sweeps):
            u = self.rng.random((*r.shape, 1))
            for start in range(0, t, _BLOCK):
                b = slice(start, start + _BLOCK)
                pull = precision[b] @ r
                _sweep_block(pull, precision[b, b].copy(), sd[b], lower[:t][b], u[b], r[b])

    def survive(self, rounds: list[Array], index: Rows) -> None:
        """Columns ``index`` of the particles of all rounds."""
        stacked = rounds[0] if len(rounds) == 1 else np.concatenate(rounds, axis=1)
        np.take(stacked, index, axis=1, out=self._spare[: self.t], mode="clip")
        self.r, self._spare = self._spare, self.r

    def draws(self, index: Rows) -> Array:
        """Latent values x given the utilities of some particles, shape (index.size, N)."""
        model, order, root = self.prepared.model, self.prepared.order, self.prepared.root
        z = np.empty((model.n, index.size))  # minus its mean
        z[order] = model.y[order, None] * self.r[:, index]
        noise = self.rng.standard_normal(z.shape)
        return model.mean + (root.T @ z + noise).T @ root.T


def run_sequential(
    model: GPModel,
    n_islands: int,
    n_particles: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
    *,
    order: str | ArrayLike | Prepared = "tail",
    sweeps: int = 1,
    move_every: int | None = None,
    threshold: float = 0.7,
    adaptive: bool = False,
    i_max: int = 50,
    particles: ArrayLike | None = None,
    resampling: str = "residual",
    keep: int = KEEP,
) -> Islands:
    """Run ``n_islands`` islands of ``n_particles`` each through the data, as one batch.

    Parameters
    ----------
    order : str, permutation or Prepared
        See :func:`ordering`; what :func:`prepare` returned saves doing it again. A random order
        is the same for all islands of the call.
    sweeps : int
        Gibbs sweeps over the utilities so far, whenever there are any.
    move_every : int, optional
        Islands sweep after every so many data, and after they were resampled. ``None``: only
        then, which costs the least for a given error.
    threshold : float
        Islands are resampled when ESS < ``threshold`` R.
    adaptive : bool
        Adaptive resample-move: before that, rounds of R swept copies are added until the
        effective sample size is ``threshold`` R, at most ``i_max`` of them.
    particles : array (N,), optional
        Particles at each step, as in the result of an earlier adaptive run, rounded to multiples
        of R: as many rounds for every island, and Ẑ exactly unbiased again.
    resampling : str
        A scheme of :mod:`.resampling`.
    keep : int
        Posterior draws kept per island.

    Returns
    -------
    Islands
        One stage per datum; ``mixing`` and ``variance`` are NaN, ``draws`` are latent x.
    """
    _require_probit(model)
    check_options(threshold, i_max, resampling)
    _check(sweeps, move_every)
    if particles is not None and adaptive:
        raise InputError("adaptive=True chooses the numbers of particles; particles= fixes them")
    fixed = (
        np.zeros(model.n, int) if particles is None else as_rounds(particles, n_particles, model.n)
    )
    if stop():
        raise Stopped
    rng = np.random.default_rng(seed)
    shared = order if isinstance(order, Prepared) else prepare(model, order, rng)
    if shared.model is not model:
        raise InputError("order was prepared for another model; call prepare(model, order)")
    g, m = n_islands, n_particles
    front = _Front(shared, g * m, rng)
    grow = growing(threshold, i_max, stop)
    more = repeat(grow, model.n) if adaptive else map(fixed_rounds, fixed, repeat(stop))
    log_w, log_z = np.full((g, m), -np.log(m)), np.zeros(g)
    reports: list[tuple[Any, ...]] = []
    for t, more_here in enumerate(more, start=1):
        started = time.perf_counter()
        pool, rounds, mean, work = _weigh(front, log_w, sweeps, more_here)
        log_z = log_z + pool.log_ratio
        ess = pool.ess / (pool.rounds * m)
        poor = (pool.rounds > 1) | (ess < threshold) | (t == model.n)
        log_w = np.where(poor[:, None], -np.log(m), pool.log_w)
        if poor.any():
            index = pool.resample(poor, resampling, rng)
            front.survive(rounds, index)
            mean = mean[index]
        front.extend(mean)
        everyone = t == model.n or (move_every is not None and t % move_every == 0)
        moving = np.ones(g, bool) if everyone else poor
        work += _sweep_islands(front, moving, m, sweeps)
        grown, seconds = m * pool.rounds.mean(), time.perf_counter() - started
        reports.append((log_z, ess.mean(), 1.0, np.nan, 0, work, grown, seconds))
    rows = rng.permuted(np.tile(np.arange(m), (g, 1)), axis=1)[:, :keep]
    draws = front.draws((np.arange(g)[:, None] * m + rows).ravel()).reshape(g, -1, model.n)
    columns = [np.array(column) for column in zip(*reports, strict=True)]
    return Islands(*columns, draws, np.full(g, np.nan))


def _weigh(
    front: _Front, log_w: Array, sweeps: int, more: More
) -> tuple[Pool, list[Array], Array, int]:
    """Weights of the next label for as many rounds as it takes, their particles and predictive
    means, and the number of rows swept."""
    g, m = log_w.shape
    pool, rounds, work = Pool(g, m), [front.r[: front.t]], 0
    mean, increment = front.predict(rounds[0])
    pool.add(np.arange(g), log_w + increment.reshape(g, m))
    means = [mean]
    while front.t and (short := more(pool)).size:
        copies = rounds[0].reshape(-1, g, m)[:, short].reshape(front.t, -1)
        front.sweep(copies, sweeps)
        mean, increment = front.predict(copies)
        pool.add(short, log_w[short] + increment.reshape(-1, m))
        rounds.append(copies)
        means.append(mean)
        work += sweeps * mean.size
    return pool, rounds, np.concatenate(means), work


def _sweep_islands(front: _Front, moving: NDArray[np.bool_], m: int, sweeps: int) -> int:
    """Sweep some of the islands; the number of rows swept."""
    r = front.r[: front.t]
    if moving.all():
        front.sweep(r, sweeps)
    elif moving.any():
        by_island = r.reshape(-1, moving.size, m)
        some = by_island[:, moving].reshape(front.t, -1)
        front.sweep(some, sweeps)
        by_island[:, moving] = some.reshape(front.t, -1, m)
    return sweeps * m * int(moving.sum())


def _require_probit(model: GPModel) -> None:
    if not isinstance(model.likelihood, likelihoods.Probit):
        raise InputError(
            "sequential Monte Carlo over the data needs likelihood 'probit', got "
            f"{model.likelihood.name!r}; use method 'smc'"
        )


def _check(sweeps: int, move_every: int | None) -> None:
    if not (isinstance(sweeps, int | np.integer) and sweeps >= 1):
        raise InputError(f"sweeps must be an integer ≥ 1, got {sweeps!r}")
    if move_every is not None and not (
        isinstance(move_every, int | np.integer) and move_every >= 1
    ):
        raise InputError(f"move_every must be an integer ≥ 1 or None, got {move_every!r}")
