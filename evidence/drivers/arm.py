r"""Adaptive resample-move: more particles where a step is hard (Fraccaro, Paquet and Winther).

Between two temperatures R particles with normalised weights :math:`w^i` estimate

.. math:: Z_{t+1}/Z_t \approx \sum_i w^i W(x^i), \qquad
          W = \exp\big(\Delta\beta \sum_n h_n\big).

Where their effective sample size falls below ``threshold`` R, the set grows: the base R
particles are copied, the copies are moved under the current target, and with :math:`R_t`
particles so far the weights of old and new are multiplied by :math:`R_t/(R_t + R)` and
:math:`R/(R_t + R)`, until the size is reached or ``i_max`` rounds have passed. Then R particles
are resampled. (Only the *absolute* size grows: ESS / :math:`R_t` tends to 1/(1 + v), with v the
relative variance of the weights, however many there are.)

What a new round consists of
    ``"copy"``
        the base particles with their weights.
    ``"anticipate"``
        ancestors resampled by :math:`w^i W(x^i)`, which the *next* target favours. Their
        copies x' carry :math:`\sum_j w^j W(x^j) / (R\,W(x^{\rm ancestor}))` before W(x') is
        applied. That pays where moves are short; where they forget, W(x')/W(x) is more uneven
        than W(x').
    ``"reseed"``
        draws of the current target by ``sampler``, all with weight 1/R.

At β = 0 every round is a set of fresh exact draws from the reference.

What is unbiased
    Each round is properly weighted for the current target given everything before it, whatever
    the moves' mixing, so with numbers of rounds fixed in advance (``particles``) the average
    over rounds makes :math:`\hat Z` exactly unbiased, resampling below a threshold included.
    Stopping on the ESS does not: a set that happens to miss large weights looks good and is
    kept, one that has them is diluted. :math:`\hat Z` is then low by a part of order 1/R; where
    it is a tenth of an island's sd, averaging a hundred islands makes it as large as the error
    bar. Take the numbers of rounds from a first run to be rid of it.

References
----------
M. Fraccaro, U. Paquet and O. Winther, An adaptive resample-move algorithm for estimating
normalizing constants, arXiv:1604.01972 (2016).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import repeat
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from ..execution.tasks import Stopped
from ..messages import InputError
from ..moves.base import Move, scaled, take
from ..paths.gp import Path
from ..statistics.resampling import SCHEMES, Pool
from .islands import Islands
from .resample_move import KEEP, STRIDES, Plan, correlation

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
More = Callable[[Pool], Rows]
Sampler = Callable[[np.random.Generator, float, int], Array]
Round = Callable[..., tuple[Any, Array]]


class _Climb:
    """All islands at the current temperature, and the work done since the last report."""

    def __init__(self, path: Path, move: Move, g: int, m: int, rng: np.random.Generator) -> None:
        self.path, self.move, self.rng = path, move, rng
        self.g, self.m, self.everyone = g, m, np.arange(g)
        self.state = move.init_reference(rng, path, g * m)
        self.log_w = np.full((g, m), -np.log(m))  # normalised within each island
        self.beta, self.n_moves, self.steps = 0.0, 0, 0
        self.infos: list[Any] = []

    def moved(self, state: Any) -> Any:
        """The moves that the plan has for this temperature."""
        for _ in range(self.n_moves):
            stride = STRIDES[self.steps % len(STRIDES)]
            state, info = scaled(self.move, stride).step(self.rng, self.path, self.beta, state)
            self.steps += 1
            self.infos.append(info)
        return state

    def weigh(self, beta: float, new_round: Round, more: More) -> tuple[Pool, Any]:
        """Weights of the next temperature, for as many rounds as it takes, and their states."""
        delta = beta - self.beta
        pool, states = Pool(self.g, self.m), [self.state]
        pool.add(self.everyone, self.log_w + self.increment(self.state, delta))
        while (short := more(pool)).size:
            state, log_w = new_round(self, short, delta)
            pool.add(short, log_w + self.increment(state, delta))
            states.append(state)
        return pool, _stack(states)

    def advance(self, pool: Pool, state: Any, poor: NDArray[np.bool_], scheme: str) -> None:
        """The survivors, R for each island, and their weights."""
        self.log_w = np.where(poor[:, None], -np.log(self.m), pool.log_w)
        self.state = take(state, pool.resample(poor, scheme, self.rng))

    def increment(self, state: Any, delta: float) -> Array:
        return delta * state.tilt.reshape(-1, self.m)

    def report(self) -> tuple[float, int, int]:
        """Mean acceptance, failures and gradients since the last report."""
        infos, self.infos = self.infos, []
        acceptance = float(np.mean([info.acceptance.mean() for info in infos]))
        return acceptance, sum(i.failures for i in infos), sum(i.gradients for i in infos)

    def draws(self, keep: int) -> Array:
        """Some particles of each island, without replacement, shape (G, kept, N)."""
        rows = self.rng.permuted(np.tile(np.arange(self.m), (self.g, 1)), axis=1)[:, :keep]
        index = (self.everyone[:, None] * self.m + rows).ravel()
        x = self.move.latent(self.path, take(self.state, index))
        return x.reshape(self.g, -1, self.path.n)


def _refresh(climb: _Climb, islands: Rows, delta: float) -> tuple[Any, Array]:
    m = islands.size * climb.m
    return climb.move.init_reference(climb.rng, climb.path, m), _even(islands, climb.m)


def _copy(climb: _Climb, islands: Rows, delta: float) -> tuple[Any, Array]:
    rows = islands[:, None] * climb.m + np.arange(climb.m)
    return climb.moved(take(climb.state, rows.ravel())), climb.log_w[islands]


def _anticipate(climb: _Climb, islands: Rows, delta: float, *, scheme: str) -> tuple[Any, Array]:
    increment = climb.increment(climb.state, delta)[islands]
    following = climb.log_w[islands] + increment
    chosen = np.empty(increment.shape, np.intp)
    for k, log_w in enumerate(following):
        chosen[k] = SCHEMES[scheme](np.exp(log_w - log_w.max()), climb.rng, climb.m)
    total = logsumexp(following, axis=1, keepdims=True)
    log_w = total - np.log(climb.m) - np.take_along_axis(increment, chosen, axis=1)
    rows = islands[:, None] * climb.m + chosen
    return climb.moved(take(climb.state, rows.ravel())), log_w


def _reseed(
    climb: _Climb, islands: Rows, delta: float, *, sampler: Sampler | None
) -> tuple[Any, Array]:
    assert sampler is not None
    x = sampler(climb.rng, climb.beta, islands.size * climb.m)
    return climb.move.init(climb.path, x), _even(islands, climb.m)


def _even(islands: Rows, m: int) -> Array:
    return np.full((islands.size, m), -np.log(m))


def run_arm(
    path: Path,
    move: Move,
    plan: Plan,
    n_islands: int,
    n_particles: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
    *,
    threshold: float = 0.7,
    i_max: int = 50,
    resampling: str = "residual",
    generate: str = "copy",
    sampler: Sampler | None = None,
    particles: ArrayLike | None = None,
    keep: int = KEEP,
) -> Islands:
    """Run ``n_islands`` islands as one batch, following the temperatures of ``plan``.

    Parameters
    ----------
    plan : Plan
        Temperatures after β = 0, and the step size and the number of moves at each.
    n_particles : int
        R, the base number of particles.
    threshold, i_max : float, int
        Rounds of R are generated while ESS < ``threshold`` R, at most ``i_max`` of them.
    resampling : str
        A scheme of :mod:`.resampling`.
    generate : str
        ``"copy"``, ``"anticipate"`` or ``"reseed"``, see the module's docstring.
    sampler : callable, optional
        ``sampler(rng, beta, m)`` returns draws of p_β, shape (m, N), for ``"reseed"``.
    particles : array (T,), optional
        Particles at each step, as in the result of an earlier run, rounded to multiples of R.
        Rounds then no longer depend on ``threshold``, and Ẑ is exactly unbiased.
    keep : int
        Posterior draws kept per island.

    Returns
    -------
    Islands
        ``particles`` holds the mean R_t of each step; ``variance`` is NaN.
    """
    _check(threshold, i_max, resampling, generate, sampler)
    rounds: dict[str, Round] = {
        "copy": _copy,
        "anticipate": partial(_anticipate, scheme=resampling),
        "reseed": partial(_reseed, sampler=sampler),
    }
    more: Iterable[More]
    if particles is None:
        more = repeat(growing(threshold, i_max, stop), plan.betas.size)
    else:
        more = map(fixed_rounds, as_rounds(particles, n_particles, plan.betas.size), repeat(stop))
    if stop():
        raise Stopped
    climb = _Climb(path, move, n_islands, n_particles, np.random.default_rng(seed))
    log_z = np.full(n_islands, path.log_z0)
    reports: list[tuple[Any, ...]] = []
    for beta, step_size, n_moves, more_here in zip(
        plan.betas, plan.step_sizes, plan.n_moves, more, strict=True
    ):
        started = time.perf_counter()
        new_round: Round = rounds[generate] if climb.beta > 0.0 else _refresh
        pool, state = climb.weigh(float(beta), new_round, more_here)
        log_z = log_z + pool.log_ratio
        ess = pool.ess / (pool.rounds * n_particles)
        climb.advance(
            pool, state, (pool.rounds > 1) | (ess < threshold) | (beta == 1.0), resampling
        )
        climb.beta, climb.n_moves = float(beta), int(n_moves)
        if move.target is not None:
            climb.move = replace(move, step_size=float(step_size))  # type: ignore[type-var]
        before = climb.state.tilt
        climb.state = climb.moved(climb.state)
        mixing = correlation(before, climb.state.tilt)
        acceptance, failures, gradients = climb.report()
        grown = n_particles * pool.rounds.mean()
        seconds = time.perf_counter() - started
        reports.append(
            (log_z, ess.mean(), acceptance, mixing, failures, gradients, grown, seconds)
        )
    columns = [np.array(column) for column in zip(*reports, strict=True)]
    return Islands(*columns, climb.draws(keep), np.full(n_islands, np.nan))


def _stack(states: list[Any]) -> Any:
    if len(states) == 1:
        return states[0]
    return type(states[0])(*(np.concatenate(field) for field in zip(*states, strict=True)))


def as_rounds(particles: ArrayLike, n_particles: int, n_steps: int) -> NDArray[np.intp]:
    """Rounds beyond the first that come nearest to the wanted numbers of particles."""
    particles = np.asarray(particles, dtype=float)
    if particles.shape != (n_steps,):
        raise InputError(
            f"particles must have one entry for each of the {n_steps} steps, got shape "
            f"{particles.shape}"
        )
    if not (np.isfinite(particles).all() and (particles > 0.0).all()):
        raise InputError("particles must be positive and finite")
    return np.maximum(np.rint(particles / n_particles), 1.0).astype(np.intp) - 1


def _check(
    threshold: float, i_max: int, resampling: str, generate: str, sampler: Sampler | None
) -> None:
    check_options(threshold, i_max, resampling)
    if generate not in ("copy", "anticipate", "reseed"):
        raise InputError(f"generate must be 'copy', 'anticipate' or 'reseed', got {generate!r}")
    if (sampler is None) == (generate == "reseed"):
        raise InputError(
            "generate='reseed' and sampler= belong together: sampler(rng, beta, m) returns m "
            f"draws of the current target; got generate={generate!r}, sampler={sampler!r}"
        )


def growing(threshold: float, i_max: int, stop: Callable[[], bool]) -> More:
    """Which islands need another round: those with ESS < ``threshold`` R, up to ``i_max``."""

    def more(pool: Pool) -> Rows:
        if stop():
            raise Stopped
        poor = (pool.ess < threshold * pool.n_particles) & (pool.rounds <= i_max)
        return np.flatnonzero(poor)

    return more


def fixed_rounds(extra: int, stop: Callable[[], bool]) -> More:
    """Every island needs ``extra`` rounds."""

    def more(pool: Pool) -> Rows:
        if stop():
            raise Stopped
        return np.flatnonzero(pool.rounds <= extra)

    return more


def check_options(threshold: float, i_max: int, resampling: str) -> None:
    """What adaptive resample-move asks of its options, whatever the targets."""
    if not (isinstance(threshold, Real) and 0.0 <= threshold <= 1.0):
        raise InputError(f"threshold must be a relative ESS between 0 and 1, got {threshold!r}")
    if not (isinstance(i_max, int | np.integer) and i_max >= 0):
        raise InputError(f"i_max must be an integer ≥ 0, got {i_max!r}")
    if resampling not in SCHEMES:
        raise InputError(f"resampling must be one of {', '.join(SCHEMES)}, got {resampling!r}")
