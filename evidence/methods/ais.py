"""Annealed importance sampling: many chains, no resampling; up, or up and down."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check_choice, check_count
from ..drivers.annealing import Descent, run_forward, run_reverse
from ..drivers.chains import run_chains
from ..drivers.crooks import bennett
from ..drivers.execution import Job, Stopped
from ..drivers.resample_move import Plan
from ..drivers.waves import Budget
from .base import Outcome, Problem, outcome_of_islands
from .smc import find_plan, stopped, warn_of_slow_mixing

Array = NDArray[np.float64]

_BLOCK = 64  # chains per task
_CAUTION = 4.0
_FEWEST, _MOST = 128, 2**17
_TUNE = 200  # steps that make posterior draws of a new chain, at least


def ais(
    problem: Problem,
    *,
    direction: str = "forward",
    posterior: ArrayLike | None = None,
    n_reverse: int | None = None,
) -> Outcome:
    """Annealed importance sampling; ``n_particles`` (or ``n_islands``) is the number of chains.

    ``direction="both"`` also goes down from posterior draws (``posterior``, shape (M, N), or
    ``n_reverse`` chains run for the purpose) and combines the two by Bennett's acceptance ratio.
    The gap between them shows whether the ladder is long enough.
    """
    check_choice("direction", direction, ("forward", "both"))
    check_count("n_reverse", n_reverse, 2)
    draws = None if posterior is None else _check_draws(posterior, problem.model.n)
    plan = find_plan(problem)
    if plan is None:
        return stopped("ais")
    chains = problem.n_particles or problem.n_islands or _chains(plan, problem.target_se)
    budget = Budget(problem.target_se, chains, _BLOCK, _MOST)
    run = problem.run(Job(run_forward, (problem.path, problem.move, plan)), budget)
    outcome = outcome_of_islands(problem, "ais", run, plan.betas, plan.step_sizes)
    outcome.settings = {"chains": int(run.final.size), "direction": direction}
    outcome.warnings += warn_of_slow_mixing(plan, problem.model.likelihood.name)
    if direction == "both" and run.blocks and not problem.clock.stop():
        if draws is None:
            draws = _posterior(problem, plan, n_reverse or min(int(run.final.size), 256))
        if draws is not None:
            _go_down(problem, plan, draws, run.final, outcome)
    return outcome


def _chains(plan: Plan, target_se: float | None) -> int:
    """Chains that should meet the target; a whole number of tasks for each half."""
    wanted = _CAUTION * plan.relative_variance / (target_se or 0.05) ** 2
    pairs = 2 * _BLOCK
    return int(np.ceil(np.clip(wanted, _FEWEST, _MOST / 8) / pairs)) * pairs


def _posterior(problem: Problem, plan: Plan, n: int) -> Array | None:
    """The last state of ``n`` chains at β = 1, each started from the reference."""
    problem.progress.phase("posterior draws")
    steps = max(_TUNE, 10 * int(plan.n_moves.max()))
    chains = run_chains(
        problem.path,
        problem.move,
        np.random.default_rng(problem.child(5)),
        problem.clock,
        _Silent(),
        beta=1.0,
        chains=n,
        tune=steps // 2,
        draws=1,
        thin=steps - steps // 2,
    )
    return None if problem.clock.stop() else chains.x[:, -1]


def _go_down(problem: Problem, plan: Plan, draws: Array, forward: Array, outcome: Outcome) -> None:
    """The reverse estimate, Bennett's, and what their gap says."""
    problem.progress.phase("down")
    try:
        down: Descent = run_reverse(
            problem.path, problem.move, plan, draws, problem.child(6), problem.clock.stop
        )
    except (Stopped, KeyboardInterrupt):
        problem.clock.interrupted.set()
        outcome.warnings.append("stopped on the way down: the forward estimate stands alone")
        return
    both = bennett(forward, down.log_w[-1])
    outcome.others += [
        ("ais_forward", outcome.logz, outcome.logz_se),
        ("ais_reverse", outcome.logz + both.gap, float(np.hypot(both.gap_se, outcome.logz_se))),
    ]
    outcome.logz, outcome.logz_se = both.value, both.se
    outcome.settings |= {"gap": both.gap, "gap_se": both.gap_se, "chains_down": len(draws)}
    if abs(both.gap) > 3.0 * both.gap_se + 0.05:
        outcome.warnings.append(
            f"forward and reverse estimates are {both.gap:.2f} ± {both.gap_se:.2f} nats apart: "
            "the ladder is too short; pass more temperatures (betas=)"
        )


def _check_draws(posterior: ArrayLike, n: int) -> Array:
    draws = np.asarray(posterior, dtype=float)
    if draws.ndim != 2 or draws.shape[1] != n or len(draws) < 2:
        raise ValueError(
            f"posterior must hold draws of the {n} latent values, shape (M, {n}), got "
            f"{draws.shape}; from ev.sample: draws.x.reshape(-1, {n})"
        )
    if not np.isfinite(draws).all():
        raise ValueError("posterior contains NaN or inf")
    return draws


class _Silent:
    """Where a progress bar would be."""

    def update(self, n: Any = 1) -> None: ...
