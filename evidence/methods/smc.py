"""Tempered resample-move to an error bar, with as many particles everywhere or adaptively."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..drivers.islands import Islands
from ..drivers.plan import Pilot, Plan, strided
from ..drivers.smc import Adaptive, Loop, ResampleMove, Sampler, WasteFree
from ..execution.arguments import check_choice, check_count, number
from ..execution.clock import Stopped, check_interrupt
from ..execution.job import Job
from ..execution.meter import phase
from ..messages import InputError
from ..models.density.model import DensityModel
from ..moves.base import Move
from ..statistics.resampling import SCHEMES
from .base import FIRST, Outcome, Problem, outcome_of_islands, stopped
from .importance import fair_share
from .wider_reference import wide_start

_STUCK_ADVICE = (
    "where moves mix this slowly more islands would only make a doubtful error bar smaller"
)


class Seen(NamedTuple):
    """A pilot's particles at the end, in the model's coordinates."""

    x: NDArray[np.float64]


def smc(
    problem: Problem, *, resampling: str = "systematic", waste_free: int | None = None
) -> Outcome:
    """Resample-move with ``resampling`` = systematic, stratified, residual or multinomial.

    ``waste_free`` = P keeps all states of chains of length P as particles.
    """
    check_choice("resampling", resampling, tuple(SCHEMES))
    check_count("waste_free", waste_free, 2)
    problem = wide_start(problem)
    plan = find_plan(problem)
    return stopped("smc") if plan is None else run_plan(problem, plan, resampling, waste_free)


def run_plan(
    problem: Problem, plan: Plan, resampling: str = "systematic", waste_free: int | None = None
) -> Outcome:
    """Islands that follow the plan."""
    n_particles = choose_particles(problem, plan)
    loop = ResampleMove(problem.path, problem.move, plan, resampling)
    if waste_free is not None:
        loop = WasteFree(problem.path, problem.move, plan, resampling, length=waste_free)
        n_particles = waste_free * max(2, -(-n_particles // waste_free))
    return _climb(problem, "smc", loop, n_particles, resampling=resampling)


def arm(
    problem: Problem, *, threshold: float = 0.7, i_max: int = 50, generate: str = "copy",
    sampler: Sampler | None = None, resampling: str = "residual", freeze: bool = True,
) -> Outcome:  # fmt: skip
    """Adaptive resample-move; ``n_particles`` is the base number R of an island.

    Rounds of R particles are added until the effective sample size is ``threshold`` R, at most
    ``i_max`` of them: by ``generate`` = "copy", moved copies; "anticipate", copies of those that
    the next temperature favours; or "reseed", draws ``sampler(rng, beta, m)`` (m, N).

    A number of particles that depends on their weights biases Ẑ; with ``freeze`` a few islands
    find the numbers and all others take them as they are, which is exactly unbiased.
    """
    check_choice("generate", generate, ("copy", "anticipate", "reseed"))
    if (generate == "reseed") != (sampler is not None):
        raise InputError("generate='reseed' and sampler= belong together: give both or neither")
    check_growth(threshold, i_max, resampling)
    problem = wide_start(problem)
    plan = find_plan(problem)
    if plan is None:
        return stopped("arm")
    n_particles = choose_particles(problem, plan)
    loop = Adaptive(
        problem.path, problem.move, plan, resampling, threshold, i_max,
        generate=generate, sampler=sampler,
    )  # fmt: skip
    if freeze:
        pilot = grown(problem, loop, n_particles)
        if pilot is None:
            return stopped("arm")
        loop = replace(loop, particles=pilot.particles)
    return _climb(problem, "arm", loop, n_particles, frozen=freeze)


def _climb(
    problem: Problem, method: str, loop: ResampleMove, n_particles: int, **settings: Any
) -> Outcome:
    plan = loop.plan
    job = Job(Loop.run, (loop,), {"n_particles": n_particles})
    outcome, run = outcome_of_islands(
        problem, method, job, plan.betas, plan.step_sizes, independent=plan.betas.size == 1,
        patience=_STUCK_ADVICE if stuck(plan).size else "",
    )  # fmt: skip
    outcome.settings = {"particles_per_island": n_particles, **settings}
    outcome.settings["reference"] = problem.reference.name
    warn_of_slow_mixing(outcome, plan, problem.model)
    if isinstance(problem.model, DensityModel) and run.blocks and not stuck(plan).size:
        draws = np.concatenate([run.blocks[i].draws for i in sorted(run.blocks)])
        warn_of_drift(problem, outcome, loop, draws)
    return outcome


def warn_of_drift(
    problem: Problem, outcome: Outcome, loop: ResampleMove, draws: NDArray[np.float64],
    telling: int = 8, by_chance: float = 5e-4, further: tuple[int, int] = (8, 96),
) -> None:  # fmt: skip
    """Where moves take the draws of islands (G, kept, N), all in one direction, elsewhere.

    Draws of the posterior stay draws of the posterior. Where particles came too late into a part
    of it, such as the narrow end of a funnel, moves go on to fill it and the mean tilt drifts: of
    that mass islands say nothing, nor does their spread, nor do a pilot's weights.

    Where there are no ``telling`` islands no drift is looked for, and one that either sign has
    with probability ``by_chance`` is none. There are half as many ``further`` moves as on the way,
    but no fewer than the first of these numbers and no more than the second.
    """
    islands, kept, n = draws.shape
    if islands < telling or problem.clock.stop():
        return
    n_moves = int(np.clip(loop.plan.n_moves.sum() // 2, *further))
    moves = strided(loop.move, float(loop.plan.step_sizes[-1]), 0, n_moves)
    rng = np.random.default_rng(problem.child(9))

    def drift() -> Settling:
        state = loop.move.init(problem.path, draws.reshape(-1, n))
        before, later = state.tilt.copy(), np.zeros(islands * kept)
        for k, move in enumerate(moves):
            if problem.clock.stop():
                raise Stopped
            check_interrupt()
            state, _ = move.step(rng, problem.path, 1.0, state)
            if k >= len(moves) // 3:
                later += (state.tilt - before) / (len(moves) - len(moves) // 3)
        return Settling(later.reshape(islands, kept).mean(axis=1))

    with phase("run"), np.errstate(invalid="ignore"):
        found = problem.once("settling", Settling, drift)
    if found is None or not (spread := found.drift.std(ddof=1)) > 0.0:
        return
    t = float(found.drift.mean() / spread * np.sqrt(islands))
    if abs(t) > -stdtrit(islands - 1, by_chance):
        text = (
            f"{len(moves)} further moves change the mean tilt of the posterior's draws by "
            f"{found.drift.mean():+.2g} nats ({abs(t):.1f} standard errors): moves are too slow "
            "for parts of the posterior, such as a narrow end, and log Z may be too low by more "
            "than its error bar; coordinates without such a part (x = scale * z, or the reverse) "
            "are the remedy"
        )
        outcome.warn("slow-mixing", text)


class Settling(NamedTuple):
    """What further moves change."""

    drift: NDArray[np.float64]
    """Of every island's mean tilt, in nats."""


def grown(problem: Problem, loop: Loop, n_particles: int, pilots: int = 4) -> Islands | None:
    """Some islands, ``pilots``, that choose their numbers of particles; None when time is up."""

    def grow() -> Islands:
        problem.progress.phase("pilot")
        islands = loop.run(pilots, n_particles, problem.child(7), problem.clock.stop)
        return islands._replace(draws=np.zeros((0, 0, 0)))

    return problem.once("pilot", Islands, grow)


def check_growth(threshold: float, i_max: int, resampling: str) -> None:
    """What adaptive resample-move asks of its options, over temperatures or over data."""
    check_choice("resampling", resampling, tuple(SCHEMES))
    check_count("i_max", i_max, 0, optional=False)
    number("threshold", threshold, least=0.0, most=1.0)  # a relative ESS


def find_plan(
    problem: Problem, pilot: Pilot | None = None, name: str = "plan", single: bool = False
) -> Plan | None:
    """The pilot's plan, or the checkpoint's; None when time was up before.

    A number of temperatures given by the user comes with the pilot's moves, or a ``single`` one.
    """
    problem.prepare(problem.move)

    def climb() -> Plan:
        problem.progress.phase("pilot", "β")
        guide, meter = pilot or default_pilot(problem.move), problem.clock.meter
        before = meter.total
        rng, stop = np.random.default_rng(problem.child(0)), problem.clock.stop
        report = problem.progress.climbing
        found = guide.climb(problem.path, problem.move, rng, problem.betas, stop, report)
        calls = (meter.total - before) / guide.particles
        if isinstance(problem.model, DensityModel):
            x = problem.move.latent(problem.path, found.state)
            problem.checkpoint.put(f"{name}, seen", Seen(problem.path.to_shared(x)))
        plan = found.plan._replace(calls=calls)
        return plan if problem.n_betas is None else plan.refined(problem.n_betas, single)

    return problem.once(name, Plan, climb)


def default_pilot(move: Move) -> Pilot:
    """It has fewer particles where every move of every particle factorises matrices."""
    return Pilot(particles=32) if move.riemannian else Pilot()


def choose_particles(
    problem: Problem, plan: Plan, few: int = 64, fewest: int = 32, most: float = 4096.0,
    soon: tuple[float, float] = (0.7, 3.0),
) -> int:  # fmt: skip
    """Particles per island, so that the first wave should meet the target, and end in time.

    An island's own relative variance is kept below 1/4, where its spread is a fair measure.
    Where the pilot could not mix, effort is not the remedy and the allowance stays at a ``few``.
    Where these allow it there are no less than the ``fewest``, and never more than ``most``. The
    part ``soon`` of the seconds left is what evaluations may take that are as slow as they were on
    average: in batches, which are larger now, they are faster.
    """
    if problem.n_particles is not None:
        return problem.n_particles
    if plan.calls:
        each = plan.calls * (problem.n_islands or FIRST)
        most = max(min(problem.clock.affordable(soon[problem.model.vectorized]) / each, most), 2.0)
    if stuck(plan).size:
        return int(min(few, most))
    variance = plan.expected_variance()
    if plan.betas.size == 1 and not problem.move.riemannian:  # small weights may be rare
        fewest = fair_share(problem)
    return int(min(max(problem.particles_for(variance), 4.0 * variance, fewest), most))


def stuck(plan: Plan, correlation: float = 0.6) -> NDArray[np.intp]:
    """Temperatures at which the full allowance of moves left the tilt correlated, by more than
    ``correlation``, with where it had been."""
    return np.flatnonzero(plan.mixing > correlation)


def warn_of_slow_mixing(outcome: Outcome, plan: Plan, model: Any) -> None:
    """Where an error bar could be wrong whatever the number of particles."""
    slow = stuck(plan)
    if slow.size:
        text = (
            f"moves mix slowly at {slow.size} of {plan.betas.size} temperatures (first at "
            f"β = {plan.betas[slow[0]]:.3g}): log Z may be too low and its error bar too "
            "small; do not trust it without a cross-check"
        )
        if model.orthant:
            text += " (method='orthant' is one for probit)"
        outcome.warn("slow-mixing", text)
