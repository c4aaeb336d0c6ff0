"""Posterior draws without a burn-in: copies of the exact draw that simulated data come with."""

from __future__ import annotations

import numpy as np

from .. import moves
from ..approximations.reference import GaussianReference
from ..drivers.plan import Pilot, run_moves, strided
from ..execution.arguments import check_count, seed_sequence
from ..execution.clock import check_interrupt, interruptible
from ..execution.keywords import hinted
from ..messages import InputError
from ..moves.base import Move
from ..numerics.arrays import Array
from ..numerics.threads import blas_for
from ..paths.families import fit_reference, make_path
from ..paths.gp import TemperedPath
from ..results.simulated import Simulated


@hinted
@interruptible()
def posterior_draws(
    simulated: Simulated,
    n: int,
    *,
    move: str | Move = "mgrad",
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
    >>> from evidence import GPModel, simulate
    >>> simulated = simulate(GPModel(K=np.eye(2), y=[1, -1]), random_seed=0)
    >>> posterior_draws(simulated, 5, random_seed=0).shape
    (5, 2)
    """
    check_count("n", n, 1, optional=False)
    check_count("n_moves", n_moves, 1)
    if not isinstance(simulated, Simulated):
        raise InputError(
            "simulated must come from ev.simulate (only there an exact draw is known), got "
            f"{type(simulated).__name__}; for draws from a posterior there is ev.sample, or "
            "result.samples of ev.log_evidence"
        )
    pilot_seed, seed = seed_sequence(random_seed).spawn(2)
    mover = moves.get(move)
    with blas_for(simulated.model.n):
        path = make_path(fit_reference(simulated.model, reference))
        mover.prepare(path)
        mover, enough = settle(path, mover, np.random.default_rng(pilot_seed))
        return path.parameters(spread(path, mover, simulated.x, n, n_moves or enough, seed))


def settle(
    path: TemperedPath, move: Move, rng: np.random.Generator, *, pilot: int = 128,
    rounds: int = 10, forget: int = 10,
) -> tuple[Move, int]:  # fmt: skip
    """The move with a step size for β = 1, and a number of moves that forgets the start.

    Found on draws from the reference, so that what moves exact draws does not depend on them.

    ``pilot``: particles that find a step size; ``rounds``: repetitions; ``forget``: times a
    pilot's number of moves, which leave the tilt a correlation below 0.4.
    """
    patient = Pilot(max_moves=96)
    state, longest = move.init_reference(rng, path, pilot), 1
    for _ in range(rounds):
        check_interrupt()
        state, move, n_moves, *_ = patient.settle(path, move, rng, 1.0, state)
        longest = max(longest, n_moves)
    return move, forget * longest


def spread(
    path: TemperedPath, move: Move, x: Array, n: int, n_moves: int, seed: np.random.SeedSequence
) -> Array:
    """States: copies of one posterior draw x, moved independently at β = 1."""
    rng = np.random.default_rng(seed)
    state = move.init(path, np.tile(path.latent(x), (n, 1)))
    state, *_ = run_moves(rng, path, 1.0, state, strided(move, move.step_size, 0, n_moves))
    return move.latent(path, state)
