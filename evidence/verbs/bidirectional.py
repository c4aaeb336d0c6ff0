r"""Bounds on log Z from above and below, for data that are simulated.

With x ~ N(m, K) and y ~ p(y|x), x is a draw from the posterior given y. From it bidirectional
Monte Carlo goes down to the reference, which bounds log Z from above as annealing upwards does
from below (:mod:`evidence.drivers.crooks`). The bounds hold in expectation however badly moves
mix, so their distance tells what a ladder and a move are worth on data like these.

References
----------
Grosse, Ghahramani, Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte
Carlo, arXiv:1511.02543.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import ArrayLike

from .. import moves
from ..approximations.reference import GaussianReference
from ..drivers.annealing import Annealing
from ..drivers.crooks import bennett, bounds
from ..drivers.plan import Pilot
from ..execution.arguments import check_count, seed_sequence
from ..execution.clock import check_interrupt, interruptible
from ..execution.keywords import hinted
from ..models.gp import GPModel
from ..moves.base import Move
from ..numerics.threads import blas_for
from ..paths.families import fit_reference, make_path
from ..results.simulated import Bidirectional, Simulated
from .estimate import check_betas
from .posterior_draws import settle, spread
from .simulate import simulate


@hinted
@interruptible()
def bidirectional(
    model: GPModel | Simulated,
    *,
    reference: str | GaussianReference = "ep",
    move: str | Move = "mgrad",
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
    ladder, n_betas = check_betas(betas)
    mover = moves.get(move)
    data, pilot, up, start, down, pace = seed_sequence(random_seed).spawn(6)
    rng = np.random.default_rng(data)
    simulated = model if isinstance(model, Simulated) else simulate(model, rng)
    with blas_for(simulated.model.n):
        path = make_path(fit_reference(simulated.model, reference))
        mover.prepare(path)
        rng = np.random.default_rng(pilot)
        plan = Pilot().climb(path, mover, rng, ladder, check_interrupt).plan
        if n_betas is not None:
            plan = plan.refined(n_betas, single=True)
        settled, enough = settle(path, mover, np.random.default_rng(pace))
        x = spread(path, settled, simulated.x, n_chains, enough, start)
        annealing = Annealing(path, mover, plan)
        v = annealing.run(n_chains, 1, up).log_z[-1]
        u = annealing.reverse(x, down).log_z[-1]
    sandwich, combined, seconds = bounds(v, u), bennett(v, u), time.perf_counter() - started
    return Bidirectional(*sandwich[:4], *combined, v, u, plan, simulated, seconds)
