r"""Evidence with hyperparameters integrated out, and their posterior.

.. math:: \log Z = \log \int p(\theta)\, Z(\theta)\, d\theta,\qquad
          Z(\theta) = \int p(y|x, \theta)\, N(x; m, K_\theta)\, dx

Where Z(θ) is a formula, or latent values are few, that is the evidence of a density in a few
dimensions, and so is EP's of few data under many hyperparameters, times how far it is off
(:mod:`evidence.hyper.direct`). Else it is found by islands over θ
(:mod:`evidence.hyper.integral`). Before them come EP's optimum and a pilot, that learns a
surrogate of EP's evidence from a few dozen fits: islands draw θ from that.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..approximations.density.policy import EFFORTS
from ..drivers.smc import Loop
from ..drivers.stopping import NEAR, Budget, Run
from ..execution import arguments
from ..execution.checkpoint import digest
from ..execution.clock import Clock, Stopped, interruptible, within
from ..execution.job import Job
from ..execution.keywords import hinted
from ..execution.options import told
from ..execution.progress import Progress
from ..hyper.at_theta import GuidedEvidence, NoEvidence, check_few, climb, ep_at
from ..hyper.direct import ClosedForm, EPEvidence, density_over
from ..hyper.integral import ThetaIslands
from ..hyper.pilot import LooksAt, ThetaPilot, run_pilot
from ..messages import InputError, Message, messages
from ..methods.base import FIRST, Outcome, Problem, outcome_of_islands
from ..methods.doubts import Doubt, widen
from ..models.base import DataModel
from ..models.density.model import DensityModel
from ..models.formulas.jzs import Ratios
from ..models.formulas.ties import check_ties
from ..models.priors import Priors, held
from ..models.scales import to_line
from ..models.types import Described
from ..numerics.arrays import Array
from ..numerics.threads import blas_for, single_blas
from ..results.evidence import Estimate, EvidenceResult
from ..results.hyper import HyperDraws, IntegratedEvidence
from ..results.optimum import Optimum
from ..statistics.resampling import evenly
from ..statistics.weights import Weights
from ._call import DEFAULT_TARGET_SE, FINE, Call
from .optimise import optimise

if TYPE_CHECKING:
    from ._options import Effort

_LARGEST = 512  # θ of an island
#: of the search, which an integral over all of the prior leaves behind
_OF_SEARCH = {
    "at-bound", "found-once", "no-curvature", "restarts-disagree", "several-fixed-points",
    "starts-failed", "stopped-early",
}  # fmt: skip


@hinted
def integrated_evidence(
    model: Described,
    priors: Mapping[str, Any] | None = None,
    *,
    fixed: Iterable[str] = (),
    target_se: float | None = None,
    n_particles: int | None = None,
    n_islands: int | None = None,
    n_draws: int | None = None,
    effort: Effort = "normal",
    max_seconds: float | None = None,
    random_seed: int | np.random.Generator | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
) -> IntegratedEvidence:
    r"""Estimate log ∫ p(θ) Z(θ) dθ with a calibrated error bar.

    Parameters
    ----------
    model : GPModel, SparseModel, PredictorsModel or SoftmaxModel
        Its hyperparameters are where the search for EP's optimum starts. (More than three classes
        have Laplace's in its place.)
    priors : mapping of str to frozen scipy.stats distribution, its text or "flat", optional
        Of natural values, by name or unambiguous ending; ``"flat"`` is N(0, 10²) for the log. By
        default the model's own (:meth:`evidence.GPModel.with_priors`).
    fixed : list of str
        Hyperparameters held at the model's values. Every free one needs a prior or a place here.
    target_se : float, optional
        Islands are added until the standard error is about this small (default 0.05, unless
        ``n_particles`` or ``n_islands`` fixes the budget).
    n_particles, n_islands : int, optional
        Hyperparameter settings per island (by default the pilot tells), and islands (16).
    n_draws : int, optional
        Latent draws behind every estimate of Z(θ); by default the pilot tells (16 to 256).
    effort : {"normal", "frugal", "thorough"}
        How hard a search over hyperparameters tries where Z(θ) is a formula.
    max_seconds, random_seed, executor, checkpoint, progressbar
        As in :func:`evidence.log_evidence`; the optimum is always finished.

    Returns
    -------
    IntegratedEvidence
        ``result.logz``, ``result.logz_se``, ``result.theta``, ``result.table``,
        ``result.optimum``, ``result.plot()``, …

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> from scipy.stats import lognorm
    >>> x = np.linspace(0, 3, 12)
    >>> model = ev.GPModel(x, np.where(np.sin(4 * x) > 0, 1, -1), "4.0 * RBF(0.5)")
    >>> priors = {"length_scale": lognorm(1.0), "constant_value": lognorm(1.0, scale=4.0)}
    >>> result = ev.integrated_evidence(
    ...     model, priors, target_se=0.2, random_seed=0, progressbar=False
    ... )
    >>> bool(result.logz_se < 0.3), result.theta.shape
    (True, (1000, 2))
    """
    arguments.check_kind("model", model, Described)
    arguments.check_count("n_draws", n_draws, 2)
    arguments.check_choice("effort", effort, tuple(EFFORTS))
    check_few(model)
    call = Call(
        target_se, n_particles, n_islands, max_seconds, random_seed=random_seed,
        executor=executor, checkpoint=checkpoint, progressbar=progressbar, size=n_draws or 256,
    )  # fmt: skip
    prior = chosen_priors(model, priors, fixed)
    if not isinstance(prior, Ratios):
        check_ties(model, {n: p for n, p in prior.items() if hasattr(p, "logpdf")})
    same = priors is None and model.priors is not None and len(prior) == len(model.priors)
    call.until_target(FINE if isinstance(prior, Ratios) else DEFAULT_TARGET_SE)
    with blas_for(model.n):  # of small matrices its threads wait for each other, and are busy
        given = (call.n_particles, call.n_islands, n_draws) != (None, None, None)  # of islands
        words: dict[str, Any] = {"by_ep": (0, 0)} if given else {}
        density = density_over(model, prior, **words)
        if isinstance(density, DensityModel):
            result = _directly(call, model, prior, density, effort)
            result.source = model if same else None
            return result
    call.begin(model, lambda: _identity(call, model, prior, n_draws))
    with interruptible(call.clock), call.under_way() as progress:
        start, pilot = _begun(call, model, prior, n_draws, density, progress)
        islands = _Islands(Outcome("islands"), Run(Budget(call.target_se)), n_particles)
        if pilot is not None:
            islands = _run_islands(call, model, pilot, progress)
    widen(islands.outcome, call.target_se, NEAR)
    result = _result(call, model, prior, start, pilot, islands)
    result.source = model if same else None
    return told(result)


def _directly(
    call: Call, model: Described, prior: Priors, density: DensityModel, effort: Effort,
    estimates: int = 128,
) -> IntegratedEvidence:  # fmt: skip
    """The evidence of a density over hyperparameters is the answer; of EP's, with the mean of so
    many unbiased ``estimates`` relative to it (their standard deviation is .03 of 40 counts)."""
    from .estimate import log_evidence

    clock = Clock(call.max_seconds)
    if effort == "normal" and density.frugal:
        effort = "frugal"
    found, log_p = log_evidence(density, effort=effort, **call.words), density.functions.logdensity
    drawn = getattr(log_p, "drawn", None)
    values = drawn(found.samples) if drawn else found.samples[:, density.n - len(prior) :]
    theta = to_line(values, prior.lows)
    optimum, logz_ep, some = None, math.nan, found.samples
    if isinstance(log_p, EPEvidence) or model.likelihood.name == "gaussian":
        logz_ep = found.logz
    if isinstance(log_p, EPEvidence) and len(theta):
        some = some[:estimates]
        with within(clock.last_moment):
            found = _corrected(found, log_p, some, np.random.default_rng(call.random_seed))
    if len(theta) and drawn is None:
        values = density.log_prob(density.inward(some))  # -inf where they round to a wall
        best = model.hyperparameters.with_logs(prior.free, theta[int(np.argmax(values))])
        with within(clock.last_moment), suppress(RuntimeError, Stopped):  # EP may fail there
            optimum = _optimum(model.at(np.clip(best, *model.hyperparameters.bounds.T)), prior)
    ep = Estimate("ep", logz_ep, math.nan, found.rows[-1].seconds)
    integrated = Estimate("integrated", found.logz, found.logz_se, found.rows[-1].seconds)
    settings = {**found.settings, "n_draws": None, "priors": prior.describe()}
    return IntegratedEvidence(
        "integrated", found.logz, found.logz_se, (ep, integrated), found.trace, found.history,
        islands=found.islands, warnings=found.warnings,
        notes=(*model.notes, *found.notes), settings=settings, model=model.describe(),
        evaluations=found.evaluations, resolution=found.resolution, names=prior.names, theta=theta,
        lows=prior.lows, logz_ep=logz_ep, optimum=optimum,
    )  # fmt: skip


def _optimum(model: Described, prior: Priors, n_restarts: int = 0) -> Optimum:
    """The largest evidence times prior, from where the model is and from other places."""
    held = [n for n in model.hyperparameters.names if n not in prior.names]
    own = {n: p for n, p in prior.items() if p != "flat"}
    words: dict[str, Any] = {"fixed": held, "priors": own, "random_seed": 0, "progressbar": False}
    return optimise(model, n_restarts=n_restarts, **words)


class _Islands(NamedTuple):
    """What islands over θ say, and how many θ each has."""

    outcome: Outcome
    run: Run
    size: int | None
    theta: Array | None = None
    """Draws of θ where the surrogate makes better ones than islands leave behind."""


def _identity(call: Call, model: Described, prior: Priors, n_draws: int | None) -> dict[str, Any]:
    budget = (*call.budget.values(), n_draws)
    return {
        "bounds": digest(model.hyperparameters.bounds),
        "priors": str(prior.describe()),
        "budget": ", ".join(map(str, budget)),
    }


def _begun(
    call: Call, model: Described, prior: Priors, n_draws: int | None, known: ClosedForm | None,
    progress: Progress,
) -> tuple[_Start, ThetaPilot | None]:  # fmt: skip
    """EP's optimum, and a pilot from there; None where there was no time for one."""
    clock, pilot = call.clock, None
    progress.phase("optimum")
    with blas_for(model.n), within(clock.deadline):
        with call.in_time("EP had converged once"):
            start = _start(model, prior, known)
        progress.phase("pilot")
        variance = float(np.clip(50.0 * (call.target_se or 0.02) ** 2, 0.002, 0.3))
        with suppress(Stopped), single_blas():
            pilot = run_pilot(
                start.evidence, prior, start.centre, start.sd,
                np.random.default_rng(call.seed.spawn(1)[0]), clock, variance, n_draws,
                start.others,
            )  # fmt: skip
    return start, pilot


def _run_islands(
    call: Call, model: Described, pilot: ThetaPilot, progress: Progress, *,
    hidden_share: float = 0.2, fitting: float = 0.8,
) -> _Islands:  # fmt: skip
    """Islands over θ, as large as the pilot says.

    ``hidden_share``: of the target's square, that the spread of islands may not show since
    ``NEAR`` allows it; ``fitting``: relative ESS of islands from which on the surrogate itself
    makes draws of θ.
    """
    target, n_islands = call.target_se, call.n_islands
    problem = Problem(
        model, None, None, None, target, call.n_particles, n_islands,  # type: ignore[arg-type]
        call.seed, call.clock, progress, call.store, call.executor,
        _path=pilot.path,  # type: ignore[arg-type]
    )  # fmt: skip
    size = call.n_particles or _particles(problem, 1.5 * (1.0 / pilot.ess - 1.0))
    if call.n_particles is None and target is not None:
        first = n_islands or FIRST
        while size < _LARGEST and pilot.unseen(first * size) > hidden_share * target**2:
            size += 1 + size // 4
    islands = ThetaIslands(pilot.path, pilot.plan)
    job = Job(Loop.run, (islands,), {"n_particles": size})
    outcome, run = outcome_of_islands(problem, "islands", job, pilot.plan.betas)
    run.warnings[:0] = pilot.warnings
    # places where the surrogate errs may be too rare for the islands' spread to show
    unseen = pilot.unseen(max(size * run.final.size, 1))
    outcome.doubts += [Doubt(math.sqrt(unseen)), Doubt(run.lost)]
    theta, ess = None, outcome.trace.get("ess", np.zeros(0))
    if outcome.samples is not None and ess.size == 1 and ess[0] > fitting:
        rng = np.random.default_rng(problem.child(3))
        theta = pilot.start.posterior(rng, len(outcome.samples))
    return _Islands(outcome, run, size, theta)


def _corrected(
    found: EvidenceResult, evidence: EPEvidence, rows: Array, rng: np.random.Generator
) -> EvidenceResult:
    """EP's evidence times the mean of unbiased estimates relative to it, at draws of θ."""
    try:
        w = Weights(evidence.gaps(rows, rng))
        more, se, doubt = float(w.log_mean), float(w.se), tuple[Message, ...]()
    except (Stopped, NoEvidence):
        text = "log Z is EP's, integrated over hyperparameters: no estimate said how far it is off"
        more, se, doubt = 0.0, math.nan, (Message("approximation-only", text),)
    times = "" if math.isnan(se) else f", times e^{more:.4f}: the mean of {len(rows)} estimates"
    return replace(
        found, logz=found.logz + more, logz_se=math.hypot(found.logz_se, se),
        islands=found.islands + more, notes=(*found.notes, f"EP's evidence, integrated{times}"),
        warnings=(*doubt, *found.warnings),
    )  # fmt: skip


def _result(
    call: Call, model: Described, prior: Priors, start: _Start,
    pilot: ThetaPilot | None, islands: _Islands,
) -> IntegratedEvidence:  # fmt: skip
    outcome, run, size, better = islands
    theta, logz_ep = np.zeros((0, len(prior))), math.nan
    if outcome.samples is not None:
        theta, gap = outcome.samples[:, :-1], outcome.samples[:, -1]
        logz_ep = outcome.logz + float(np.logaddexp.reduce(gap)) - math.log(len(gap))
        theta = theta if better is None else better
    warnings = [*start.warnings, *run.warnings, *call.store.warnings, *_lost(run)]
    if call.clock.interrupted.is_set() and not run.blocks:
        text = "interrupted before anything was integrated: there is no estimate"
        warnings.append(Message("interrupted", text))
    elif call.max_seconds is not None and not run.blocks:
        outcome.logz = start.logz
        warnings = [w for w in warnings if getattr(w, "code", "") != "no-estimate"]
        text = (
            f"nothing was finished in max_seconds={call.max_seconds:g}: log Z is that of "
            f"{start.approximation} at the best "
            "hyperparameters found, no integral over them, and without an error bar"
        )
        warnings.append(Message("approximation-only", text))
    seconds = call.clock.elapsed()
    rows = [Estimate(start.approximation, logz_ep, math.nan, seconds)]
    rows.append(Estimate("integrated", outcome.logz, outcome.logz_se, seconds))
    n_draws, betas = (pilot.n_draws, pilot.plan.betas.tolist()) if pilot else (None, [])
    settings = {
        "n_particles": size, "n_islands": run.final.size, "n_draws": n_draws, "betas": betas,
        "target_se": call.target_se, "priors": prior.describe(),
        "interrupted": call.clock.interrupted.is_set(),
    }  # fmt: skip
    return IntegratedEvidence(
        "integrated", outcome.logz, outcome.logz_se, tuple(rows), outcome.trace, outcome.history,
        islands=outcome.islands,
        warnings=tuple(w for w in messages(warnings) if w.code != "failed-proposals"),
        notes=(*model.notes, *([] if pilot is None else pilot.notes)),
        settings=settings, model=model.describe(), names=prior.names, theta=theta,
        lows=prior.lows, logz_ep=logz_ep, optimum=start.optimum,
    )  # fmt: skip


class _Start(NamedTuple):
    """Where the search for hyperparameters ended, and the evidence from there on."""

    evidence: LooksAt
    centre: Array
    sd: Array
    logz: float
    approximation: str
    warnings: Sequence[str] = ()
    optimum: Optimum | None = None
    others: Sequence[Array] = ()
    """Further modes that matter."""


def _start(model: Described, prior: Priors, known: ClosedForm | None) -> _Start:
    theta = model.hyperparameters.theta[prior.free]
    if known is not None:
        ends = [climb(known, prior, start) for start in [theta, *known.starts(prior)]]
        heights = [log_z + float(prior.log_density(at)) for at, _, log_z in ends]
        at, sd, log_z = ends[int(np.argmax(heights))]
        others = _modes([end[0] for end in ends], heights, at)
        return _Start(known, at, sd, log_z, "ep", others=others)
    optimum = _optimum(model, prior, _further_starts(model))
    best = optimum.reference
    centre = best.model.hyperparameters.theta[prior.free]
    guided = GuidedEvidence.about(best, model.without_matrices(), prior.free)
    sd = optimum.table.se.to_numpy()
    found = optimum.restarts[["objective", *prior.names]].dropna()
    warnings = [w for w in optimum.warnings if w.code not in _OF_SEARCH]
    others = _modes(to_line(found[list(prior.names)], prior.lows), found.objective, centre)
    return _Start(guided, centre, sd, best.logz, best.name, warnings, optimum, others)


def _further_starts(
    model: Described, *, small: float = 1e6, climbing: float = 8e6, most_starts: int = 6
) -> int:
    """From as many places a climb costs little.

    ``small``: multiplications of a small model's EP, a millisecond; ``climbing``: multiplications
    of EP that decide how often one climbs; ``most_starts``: how often at most.
    """
    return int(min(climbing / (small + 10.0 * model.prior.work), most_starts))


def _modes(
    theta: Iterable[Array], objective: Iterable[float], best: Array, *, apart: float = 0.5,
    matters: float = 10.0,
) -> list[Array]:  # fmt: skip
    """Ends of climbs that are other modes and hold a part of the mass, the highest first.

    ``apart``: logs between modes; ``matters``: nats below the best of a mode that counts.
    """
    kept, ends = [best], sorted(zip(theta, objective, strict=True), key=lambda end: -end[1])
    for at, height in ends:
        far = all(np.abs(at - other).max() > apart for other in kept)
        if far and height > ends[0][1] - matters:
            kept.append(at)
    return kept[1:]


def fits_over_theta(
    model: Described, result: IntegratedEvidence | HyperDraws, most: int, *, spread: bool = True
) -> Iterator[Any]:
    """EP, of many classes Laplace, at up to ``most`` draws of the hyperparameters; ``spread``:
    as many of them from every part of the longest axis of all. (Of 48 settings a predicted
    probability had an error of 6 % as they came, 1 % so.)
    """
    if not len(result.theta):
        why = "".join(f"; {warning}" for warning in result.warnings)
        raise InputError(f"posterior: this result has no draws of hyperparameters{why}")
    if result.model != model.describe():
        raise InputError(
            f"posterior was made for another model, {result.model}, not {model.describe()}"
        )
    where = [model.hyperparameters.index(name) for name in result.names]
    draws = result.theta.reshape(-1, len(result.names))
    chosen = np.linspace(0, len(draws) - 1, min(most, len(draws))).round().astype(int)
    for _, reference in fits_at(model, where, draws[evenly(draws, most) if spread else chosen]):
        yield reference


def fits_at(
    model: Described, where: list[int], draws: Iterable[Array]
) -> Iterator[tuple[Array, Any]]:
    """Draws of hyperparameters at which numbers do not fail, and EP there."""
    sites = None
    for own in draws:
        with suppress(NoEvidence):
            near = sites if model.likelihood.log_concave or model.n_predictors > 1 else None
            reference = ep_at(model, model.hyperparameters.with_logs(where, own), near, 1e-6)
            sites = reference.sites
            yield own, reference


def no_priors(names: Sequence[str]) -> InputError:
    """What is told of a model whose hyperparameters, by ``names``, have no priors."""
    if not names:
        return InputError(
            "model has no free hyperparameters: ev.log_evidence(model) is its evidence, "
            "ev.sample(model) draws its latent values"
        )
    return InputError(
        f"priors is missing: give the priors of the model's hyperparameters ({', '.join(names)}), "
        "here or with model.with_priors(...)"
    )


def chosen_priors(
    model: DataModel, priors: Mapping[str, Any] | None, fixed: Iterable[str]
) -> Priors:
    """Those given, or else the model's own, but for what is ``fixed``."""
    if priors is None:
        if model.priors is None:
            raise no_priors(model.hyperparameters.names)
        out = {model.hyperparameters.names[i] for i in held(model.hyperparameters, fixed)}
        if not out:
            return model.priors
        priors = {name: prior for name, prior in model.priors.items() if name not in out}
        fixed = [name for name in model.hyperparameters.names if name not in priors]
    return model.priors_of(priors, fixed)


def _particles(problem: Problem, variance: float) -> int:
    """θ per island, so that the first wave should meet the target."""
    return int(min(max(problem.particles_for(variance), 4.0 * variance, 4.0), _LARGEST))


def _lost(run: Run) -> Iterator[Message]:
    """Whether there were θ without an evidence."""
    failures = sum(int(block.failures.sum()) for block in run.blocks.values())
    if failures:
        evaluations = sum(int(block.gradients.sum()) for block in run.blocks.values())
        yield lost_theta(
            failures, evaluations, "log Z could not be computed",
            "so log Z is too low by what they would have added, about "
            f"{run.lost:.2g} by EP's evidence nearby, which the error bar holds",
        )  # fmt: skip


def lost_theta(failures: int, tried: int, what: str, so: str) -> Message:
    """What is told of hyperparameters at which numbers fail."""
    return Message(
        "lost-theta",
        f"at {failures} of {tried} hyperparameter settings {what} (the covariance is singular, or "
        f"the likelihood far narrower than the prior): their share is left out, {so}",
    )
