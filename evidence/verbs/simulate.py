r"""Data simulated from a model, and the exact posterior draw that comes with them.

With x ~ N(m, K) and y ~ p(y|x), x is a draw from the posterior given y. From it bidirectional
Monte Carlo goes down to the reference, which bounds log Z from above as annealing upwards does
from below (:mod:`.drivers.crooks`). The bounds hold in expectation however badly moves mix, so
their distance tells what a ladder and a move are worth on data like these.

References
----------
Grosse, Ghahramani, Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte
Carlo, arXiv:1511.02543.
"""

from __future__ import annotations

import copy
import numbers
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import moves
from ..approximations.reference import GaussianReference
from ..drivers import resample_move
from ..drivers.annealing import refine, run_forward, run_reverse, strided
from ..drivers.crooks import bennett, bounds
from ..drivers.resample_move import Plan, Settings
from ..execution.arguments import check_count, seed_sequence
from ..execution.tasks import factorising
from ..messages import InputError
from ..models.gp import GPModel
from ..moves.base import Move
from ..paths.families import fit_reference, make_path
from ..paths.gp import TemperedPath
from ..statistics import ladders

Array = NDArray[np.float64]

_PILOT, _ROUNDS = 128, 10  # particles and repetitions that find a step size
_PATIENT = Settings(max_moves=96)
_FORGET = 10  # times a pilot's number of moves, which leave the tilt a correlation below 0.4


class Simulated(NamedTuple):
    """The model with simulated data, and the latent values the data came from."""

    model: GPModel
    """With the simulated data in the place of its own."""
    x: Array
    """(N,) an exact draw from the posterior of ``model``."""
    y: Array
    """(N,) the data, ``model.y``."""


def simulate(model: GPModel, random_seed: int | np.random.Generator | None = None) -> Simulated:
    """Draw x ~ N(m, K) and y ~ p(y|x), and put y in the place of the model's data.

    The new model shares all but the data with the old one; nothing is factorised again.

    Parameters
    ----------
    model : GPModel
    random_seed : int or Generator, optional
        Same seed, same data.

    Returns
    -------
    Simulated
        ``simulated.model``, ``simulated.x``, ``simulated.y``.

    Examples
    --------
    >>> model = GPModel(K=np.eye(3), y=[0, 0, 0], likelihood="poisson")
    >>> simulated = simulate(model, random_seed=1)
    >>> simulated.y, simulated.model.K is model.K
    (array([2., 3., 2.]), True)
    """
    if not isinstance(model, GPModel):
        raise InputError(f"model must be a GPModel, got {type(model).__name__}")
    rng = np.random.default_rng(seed_sequence(random_seed))
    x = model.prior.draw(rng)
    new = copy.copy(model)
    new.y, notes = model.likelihood.check(model.likelihood.simulate(x, rng))
    new.theta = model.likelihood.theta(new.y)
    new.notes = notes + tuple(note for note in model.notes if not note.startswith("y:"))
    return Simulated(new, x, new.y)


def posterior_draws(
    simulated: Simulated,
    n: int,
    *,
    move: Any = "mgrad",
    n_moves: int | None = None,
    reference: str | GaussianReference = "ep",
    random_seed: int | np.random.Generator | None = None,
) -> Array:
    """``n`` copies of the exact draw, each moved by itself: (n, N).

    Each row is exactly a draw from the posterior, but rows depend on each other through their
    common start, less so the more ``n_moves``.

    Parameters
    ----------
    simulated : Simulated
        From :func:`simulate`.
    n : int
        Number of draws.
    move, reference
        As in :func:`evidence.log_evidence`.
    n_moves : int, optional
        Moves of each copy. By default a pilot run finds a number that leaves little of the
        common start.
    random_seed : int or Generator, optional
        Same seed, same draws.

    Returns
    -------
    array (n, N)

    Examples
    --------
    >>> simulated = simulate(GPModel(K=np.eye(2), y=[1, -1]), random_seed=0)
    >>> posterior_draws(simulated, 5, random_seed=0).shape
    (5, 2)
    """
    check_count("n", n, 1)
    check_count("n_moves", n_moves, 1)
    if not isinstance(simulated, Simulated):
        raise InputError(
            "simulated must come from ev.simulate (only there an exact draw is known), got "
            f"{type(simulated).__name__}"
        )
    pilot_seed, seed = seed_sequence(random_seed).spawn(2)
    mover = moves.get(move)
    with factorising(simulated.model.n):
        path = make_path(fit_reference(simulated.model, reference))
        mover.prepare(path)
        mover, enough = _settle(path, mover, np.random.default_rng(pilot_seed))
        return _spread(path, mover, simulated.x, n, n_moves or enough, seed)


@dataclass(frozen=True, eq=False)
class Bidirectional:
    """Bounds on log Z of simulated data and Bennett's estimate, each with a standard error.

    Made by :func:`bidirectional`, where there is an example.
    """

    lower: float
    """Mean of the forward log weights: at most log Z in expectation."""
    lower_se: float
    """Its standard error."""
    upper: float
    """Minus the mean of the reverse log weights: at least log Z in expectation."""
    upper_se: float
    """Its standard error."""
    logz: float
    """Bennett's acceptance ratio."""
    logz_se: float
    """Its standard error."""
    gap: float
    """Reverse minus forward log mean weight: zero but for noise where log Z is known well."""
    gap_se: float
    """Its standard error."""
    forward: Array
    """(n_chains,) log weights of paths up."""
    reverse: Array
    """(n_chains,) log weights of paths down; the mean of exp(reverse) estimates 1/Z."""
    plan: Plan
    """Temperatures, step sizes and numbers of moves of all paths."""
    simulated: Simulated
    """The data, and the exact draw that paths down start from."""
    seconds: float
    """Wall-clock time."""


def bidirectional(
    model: GPModel | Simulated,
    *,
    reference: str | GaussianReference = "ep",
    move: Any = "mgrad",
    betas: str | int | ArrayLike = "adaptive",
    n_chains: int = 128,
    random_seed: int | np.random.Generator | None = None,
) -> Bidirectional:
    """Bidirectional Monte Carlo: bounds on log Z of data simulated from a model.

    Parameters
    ----------
    model : GPModel or Simulated
        Whose log Z to bound. A GPModel's own data are not used: others are simulated from it.
    reference, move
        As in :func:`evidence.log_evidence`.
    betas : "adaptive", int or array
        The ladder: a pilot run's, with as many moves as it found; that many temperatures spaced
        like the pilot's, with one move each; or an explicit one, with a pilot's moves.
    n_chains : int
        Chains up, and chains down.
    random_seed : int or Generator, optional
        Same seed, same answer.

    Returns
    -------
    Bidirectional
        ``result.lower``, ``result.upper``, ``result.logz``, ``result.gap``, with their errors.

    Notes
    -----
    Paths down start from copies of the one exact draw, each moved at β = 1 before. The upper
    bound holds in expectation over data and draws whatever these moves achieve; ``upper_se``,
    ``logz_se`` and ``gap_se`` take the copies as independent, which is good where they have
    forgotten their start.

    Examples
    --------
    >>> model = GPModel(K=4.0 * (0.5 * np.eye(3) + 0.5), y=[1, 1, -1])
    >>> result = bidirectional(model, n_chains=64, random_seed=0)
    >>> result.lower - 3 * result.lower_se < result.logz < result.upper + 3 * result.upper_se
    True
    """
    started = time.perf_counter()
    check_count("n_chains", n_chains, 2)
    mover = moves.get(move)
    data, pilot, up, start, down, settle = seed_sequence(random_seed).spawn(6)
    simulated = (
        model if isinstance(model, Simulated) else simulate(model, np.random.default_rng(data))
    )
    with factorising(simulated.model.n):
        path = make_path(fit_reference(simulated.model, reference))
        mover.prepare(path)
        plan = _plan(path, mover, betas, np.random.default_rng(pilot))
        settled, enough = _settle(path, mover, np.random.default_rng(settle))
        x = _spread(path, settled, simulated.x, n_chains, enough, start)
        v = run_forward(path, mover, plan, n_chains, up).log_z[-1]
        u = run_reverse(path, mover, plan, x, down).log_w[-1]
    sandwich, combined = bounds(v, u), bennett(v, u)
    return Bidirectional(
        *sandwich[:4], *combined, v, u, plan, simulated, time.perf_counter() - started
    )


def _plan(
    path: TemperedPath, move: Move, betas: str | int | ArrayLike, rng: np.random.Generator
) -> Plan:
    """The ladder asked for."""
    if isinstance(betas, str) and betas != "adaptive":
        raise InputError(f"betas must be 'adaptive', a whole number or a vector, got {betas!r}")
    number = isinstance(betas, numbers.Integral)
    if number:
        check_count("betas", betas, 1)
    explicit = None if number or isinstance(betas, str) else ladders.check(betas)
    plan = resample_move.plan(path, move, rng, Settings(), explicit)
    return refine(plan, int(betas), single=True) if number else plan


def _settle(path: TemperedPath, move: Move, rng: np.random.Generator) -> tuple[Move, int]:
    """The move with a step size for β = 1, and a number of moves that forgets the start.

    Found on draws from the reference, so that what moves exact draws does not depend on them.
    """
    move = replace(move)  # type: ignore[type-var]
    state = move.init_reference(rng, path, _PILOT)
    longest = 1
    for _ in range(_ROUNDS):
        state, n_moves, *_ = resample_move.move_until_mixed(rng, path, move, 1.0, state, _PATIENT)
        longest = max(longest, n_moves)
    return move, _FORGET * longest


def _spread(
    path: TemperedPath, move: Move, x: Array, n: int, n_moves: int, seed: np.random.SeedSequence
) -> Array:
    """Copies of one posterior draw, moved independently at β = 1."""
    rng = np.random.default_rng(seed)
    state = move.init(path, np.tile(x, (n, 1)))
    for mover in strided(move, move.step_size, 0, n_moves):
        state, _ = mover.step(rng, path, 1.0, state)
    return move.latent(path, state)
