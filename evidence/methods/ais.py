"""Annealed importance sampling: many chains, no resampling; up, or up and down."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..drivers.annealing import Annealing
from ..drivers.chains import run_chains
from ..drivers.crooks import bennett, bounds
from ..drivers.islands import KEEP, posterior_draws
from ..drivers.plan import Plan
from ..drivers.smc import Loop, ResampleMove
from ..execution.arguments import array, check_choice, check_count
from ..execution.job import Job
from ..messages import InputError
from ..numerics.arrays import Array
from .base import Outcome, Problem, outcome_of_islands, stopped
from .smc import find_plan, warn_of_slow_mixing
from .wider_reference import wide_start

_BLOCK = 64  # chains per task


def ais(
    problem: Problem, most: int = 2**15, *, direction: str = "forward",
    posterior: ArrayLike | None = None, n_reverse: int | None = None,
) -> Outcome:  # fmt: skip
    """Annealed importance sampling; ``n_particles`` (or ``n_islands``) is the number of chains.

    ``direction="both"`` also goes down from posterior draws and combines the two by Bennett's
    acceptance ratio: ``posterior``, independent draws (M, N) or chains (chains, draws, N), or
    ``n_reverse`` chains run for the purpose. A gap between the two says that the ladder is too
    short; none says little where the draws, too, may have missed a part of the posterior. There
    are no more than ``most`` chains, and a quarter of these at first.
    """
    check_choice("direction", direction, ("forward", "both"))
    check_count("n_reverse", n_reverse, 2)
    if direction == "forward" and (posterior is not None or n_reverse is not None):
        raise InputError("posterior= and n_reverse= belong to direction='both'")
    draws = None
    if posterior is not None:
        width = len(getattr(problem.model, "names", ())) or problem.model.n
        shapes = ("draws", width), ("chains", "draws", width)
        draws = problem.path.latent(array("posterior", posterior, *shapes))
        if len(draws) < 2:
            raise InputError("posterior must hold two draws or chains at least, got one")
    problem = wide_start(problem)
    plan = find_plan(problem, single=True)
    if plan is None:
        return stopped("ais")
    chains = problem.n_particles or problem.n_islands or _chains(plan, problem.aim, most)
    job = Job(Loop.run, (Annealing(problem.path, problem.move, plan),), {"n_particles": 1})
    outcome, run = outcome_of_islands(
        problem, "ais", job, plan.betas, plan.step_sizes, first=chains, block=_BLOCK, most=most
    )
    outcome.settings = {"chains": int(run.final.size), "direction": direction}
    outcome.settings["reference"] = problem.reference.name
    warn_of_slow_mixing(outcome, plan, problem.model)
    if direction == "both" and run.blocks:
        if draws is None and not problem.clock.stop():
            draws = _posterior(problem, plan, n_reverse or min(int(run.final.size), 256))
        if draws is None or not _go_down(problem, plan, draws, run.final, outcome):
            outcome.warn("forward-only", "stopped before the way down: forward estimate only")
    return outcome


def _chains(plan: Plan, target: float, most: int, fewest: int = 256) -> int:
    """Chains that should meet the target, a multiple of the ``fewest``: a whole number of tasks
    for each group."""
    wanted = plan.expected_variance() / target**2
    return int(np.ceil(np.clip(wanted, fewest, most / 4) / fewest)) * fewest


def _posterior(problem: Problem, plan: Plan, n: int, least: int = 200) -> Array | None:
    """The last state of ``n`` chains at β = 1, each started where resample-move ends and at
    ``least`` so many steps long.

    Draws of the reference will not do: where one is a thousand nats too low a move whose step
    suits the others goes nowhere, and log u of its path is lower than all by as much.
    """
    problem.progress.phase("posterior draws")
    steps = max(least, 10 * int(plan.n_moves.max()))
    rng = np.random.default_rng(problem.child(5))
    loop = ResampleMove(problem.path, problem.move, plan)
    islands = problem.in_time(loop.run, -(-n // KEEP), KEEP, problem.child(9), problem.clock.stop)
    if islands is None:
        return None
    chains = problem.in_time(
        run_chains, problem.path, problem.move, rng, problem.clock,
        initial=posterior_draws([islands], rng, n), beta=1.0, chains=n, tune=steps // 2, draws=1,
        thin=steps - steps // 2,
    )  # fmt: skip
    return None if chains is None or problem.clock.stop() else chains.x[:, -1]


def _go_down(problem: Problem, plan: Plan, draws: Array, forward: Array, outcome: Outcome) -> bool:
    """The reverse estimate, Bennett's, and what their gap says; False when stopped."""
    problem.progress.phase("down")
    annealing, x = Annealing(problem.path, problem.move, plan), draws.reshape(-1, draws.shape[-1])
    down = problem.in_time(annealing.reverse, x, problem.child(6), problem.clock.stop)
    if down is None:
        return False
    chains = down.log_z[-1].reshape(draws.shape[:-1])  # draws of a chain are not independent
    both, reverse = bennett(forward, chains), bounds(forward, chains)
    outcome.others += [
        ("ais_forward", outcome.logz, outcome.logz_se),
        ("ais_reverse", reverse.reverse, reverse.reverse_se),
    ]
    outcome.logz, outcome.logz_se = both.value, both.se
    outcome.settings |= {"gap": both.gap, "gap_se": both.gap_se, "chains_down": len(draws)}
    if abs(both.gap) > 3.0 * both.gap_se + 0.05:
        reason = (
            "the ladder is too short; pass more temperatures (betas=)"
            if both.gap > 0.0
            else "reverse is the lower one, which a short ladder does not explain; the draws it "
            "starts from have not reached the posterior (longer chains, or another move=)"
        )
        apart = f"forward and reverse estimates are {both.gap:.2f} ± {both.gap_se:.2f} nats apart"
        outcome.warn("ways-disagree", f"{apart}: {reason}")
    return True
