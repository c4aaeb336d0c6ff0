r"""Evidence with hyperparameters integrated out, and their posterior.

.. math:: \log Z = \log \int p(\theta)\, Z(\theta)\, d\theta,\qquad
          Z(\theta) = \int p(y|x, \theta)\, N(x; m, K_\theta)\, dx

by islands that temper over θ (:mod:`evidence.hyper.integral`). What it takes is found first:
EP's optimum, its curvature, and a pilot that widens the start where it does not fit.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..drivers.islands import posterior_draws, trace_columns
from ..drivers.waves import Budget, Run, run_waves
from ..execution.arguments import (
    ISLAND,
    check_count,
    check_executor,
    check_memory,
    check_path,
    check_positive,
    check_target,
    seed_sequence,
)
from ..execution.checkpoint import Checkpoint, digest
from ..execution.clock import Clock, interruptible
from ..execution.job import Job
from ..execution.progress import Progress
from ..hyper.integral import (
    Plan,
    StudentT,
    Target,
    first_cloud,
    plan_ladder,
    run_theta_islands,
    spread,
)
from ..messages import InputError, messages
from ..models.gp import GPModel
from ..models.priors import Priors
from ..numerics.threads import blas_for
from ..statistics.weights import conditional_ess, pareto_shape
from .optimise import optimise
from .optimum import Optimum

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_PILOT = 64
_ROUNDS = 4
_ENOUGH = 0.15  # relative ESS of a pilot round at which the ladder needs one step
_CESS = 0.6
_MOVES = 3
_INFLATE = 1.2  # of the curvature's standard deviations: tails matter more than the middle
_FIRST = 16
_N_DRAWS = 1000
_TAIL = 0.7  # Pareto shape above which an error bar is doubtful


@dataclass(frozen=True, eq=False)
class IntegratedEvidence:
    """log ∫ p(θ) Z(θ) dθ with its error bar, and draws of θ from its posterior.

    Made by :func:`integrated_evidence`, where there is an example.
    """

    logz: float
    """log of the evidence with the hyperparameters integrated out."""
    logz_se: float
    """Its standard error."""
    logz_ep: float
    """The same integral over EP's evidence."""
    names: tuple[str, ...]
    """The hyperparameters integrated over."""
    theta: Array
    """Draws of the logs of hyperparameters from p(θ | y), equally weighted, shape (S, P)."""
    optimum: Optimum
    """Where EP's evidence times the prior is largest."""
    trace: pd.DataFrame
    """One row per temperature."""
    warnings: tuple[str, ...]
    """What went wrong, in words; empty when nothing did."""
    notes: tuple[str, ...]
    """What was noticed on the way."""
    settings: dict[str, Any]
    """How the run was made."""
    seconds: float
    """Wall-clock time."""

    @property
    def table(self) -> pd.DataFrame:
        """Posterior mean, sd and quantiles of the natural values; index ``name``."""
        import pandas as pd

        values = np.exp(self.theta) if len(self.theta) else np.full((1, len(self.names)), np.nan)
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95], axis=0)
        columns = {
            "mean": values.mean(axis=0),
            "sd": values.std(axis=0),
            "q05": low,
            "median": middle,
            "q95": high,
        }
        return pd.DataFrame(columns, index=pd.Index(self.names, name="name"))

    def summary(self) -> str:
        """A page of text."""
        lines = [
            f"log Z = {self.logz:.4f} ± {self.logz_se:.4f}   (hyperparameters integrated out, "
            f"{self.seconds:.1f} s)",
            f"the same from EP's evidence: {self.logz_ep:.4f};  at EP's optimum: "
            f"{self.optimum.logz:.4f}",
            "",
            self.table.round(4).to_string(),
        ]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"WARNING: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Posterior of every hyperparameter, and of every pair."""
        if not len(self.theta):
            raise InputError("there are no draws to plot: " + "; ".join(self.warnings))
        from ..plots import plot_hyperparameters

        return plot_hyperparameters(self.names, self.theta)

    def __repr__(self) -> str:
        flag = f", {len(self.warnings)} warning(s)" if self.warnings else ""
        return (
            f"IntegratedEvidence(logz={self.logz:.4f} ± {self.logz_se:.4f}, "
            f"{', '.join(self.names)} integrated out{flag})"
        )


def integrated_evidence(
    model: GPModel,
    priors: Mapping[str, Any],
    *,
    fixed: Iterable[str] = (),
    target_se: float | None = None,
    n_particles: int | None = None,
    n_islands: int | None = None,
    n_draws: int = 16,
    max_seconds: float | None = None,
    random_seed: int | np.random.Generator | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
) -> IntegratedEvidence:
    r"""Estimate log ∫ p(θ) Z(θ) dθ with a calibrated error bar.

    Parameters
    ----------
    model : GPModel
        Its hyperparameters are where the search for EP's optimum starts.
    priors : mapping of str to frozen scipy.stats distribution or "flat"
        Of natural values, by name or unambiguous ending; ``"flat"`` is N(0, 10²) for the log.
    fixed : list of str
        Hyperparameters held at the model's values. Every free one needs a prior or a place here.
    target_se : float, optional
        Islands are added until the standard error is about this small (default 0.05, unless
        ``n_particles`` or ``n_islands`` fixes the budget).
    n_particles, n_islands : int, optional
        Hyperparameter settings per island (by default the pilot tells), and islands (16).
    n_draws : int
        Latent draws behind every estimate of Z(θ).
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
    if not isinstance(model, GPModel):
        raise InputError(f"model must be a GPModel, got {type(model).__name__}")
    check_target("target_se", target_se)
    check_positive("max_seconds", max_seconds)
    check_count("n_draws", n_draws, 2, optional=False)
    check_count("n_particles", n_particles, 2)
    check_count("n_islands", n_islands, 1)
    check_memory("n_particles", n_particles, n_particles, n_draws)
    check_memory("n_islands", n_islands, n_islands, ISLAND)
    check_path("checkpoint", checkpoint)
    if checkpoint is not None and random_seed is None:
        raise InputError("checkpoint= needs random_seed=: a resumed run goes on with its seed")
    check_executor(executor)
    fixed = list(fixed or ()) if not isinstance(fixed, str) else fixed
    known = Priors.of(model.hyperparameters, priors, fixed)
    if target_se is None and n_particles is None and n_islands is None:
        target_se = 0.05
    clock, seed = Clock(max_seconds), seed_sequence(random_seed)
    store = Checkpoint(
        checkpoint,
        {
            "package version": __version__,
            "model": f"{type(model).__name__} {digest(*model.identity())}",
            "bounds": digest(model.hyperparameters.bounds),
            "priors": ", ".join(map(_told, known.names, known.distributions)),
            "budget": f"{target_se}, {n_particles}, {n_islands}, {n_draws}",
            "random_seed": str(seed.entropy),
        },
    )  # fmt: skip
    seeds = seed.spawn(3)
    with interruptible(clock), Progress(progressbar) as progress:
        progress.phase("optimum")
        with blas_for(model.n):
            optimum = optimise(
                model, fixed=fixed, priors=_without_words(priors), progressbar=False
            )
            progress.phase("pilot")
            rng = np.random.default_rng(seeds[0])
            target = Target(_light(model), known, optimum.reference.sites, n_draws)
            start, plan, ess, notes, warnings = _pilot(target, optimum, rng, clock)
        if n_particles is None:
            n_particles = _particles(ess, target_se, n_islands)
        job = Job(run_theta_islands, (target, start, plan), {"n_particles": n_particles})
        budget = Budget(target_se, n_islands or _FIRST)
        run = run_waves(job, budget, seeds[1], clock, progress, store, executor)
    settings = {
        "n_particles": n_particles,
        "n_islands": run.final.size,
        "n_draws": n_draws,
        "betas": plan.betas.tolist(),
        "target_se": target_se,
    }
    return _report(
        run, plan, known.names, optimum, np.random.default_rng(seeds[2]),
        [*optimum.warnings, *warnings, *run.warnings, *store.warnings], notes, settings, clock,
    )  # fmt: skip


def _pilot(
    target: Target, optimum: Optimum, rng: np.random.Generator, clock: Clock
) -> tuple[StudentT, Plan, float, list[str], list[str]]:
    """A start that fits, the ladder from it, and the relative ESS of its importance weights."""
    centre = optimum.table.log_value.to_numpy()
    sd = optimum.table.se.to_numpy()
    sd = np.where(np.isfinite(sd) & (sd > 0), np.clip(sd, 0.01, 3.0), 1.0)
    start = StudentT(centre, np.diag(_INFLATE * sd))
    best: tuple[float, StudentT, Any] | None = None
    for _ in range(_ROUNDS):
        if best is not None and clock.stop():
            break
        cloud, _ = first_cloud(target, start, rng, _PILOT)
        if not np.isfinite(cloud.tilt).any():
            raise RuntimeError(
                "no hyperparameters near EP's optimum have an evidence: "
                "is the covariance positive definite there? pass a larger jitter to GPModel"
            )
        ess = conditional_ess(cloud.tilt, 1.0)
        if best is None or ess > best[0]:
            best = ess, start, cloud
        if ess > 0.5:
            break
        alive = cloud.take(np.flatnonzero(np.isfinite(cloud.tilt)))
        tempered = np.exp(_heat(alive.tilt) * (alive.tilt - alive.tilt.max()))
        mean = tempered @ alive.theta / tempered.sum()
        start = StudentT(mean, _INFLATE * spread(alive.theta, tempered, start.root / _INFLATE))
    ess, start, cloud = best
    warnings: list[str] = []
    if ess >= _ENOUGH:
        notes = [f"{_PILOT} draws around EP's optimum are worth {ess * _PILOT:.0f}: no tempering"]
        plan = Plan(np.ones(1), start.root, 0)
        shape = pareto_shape(np.sort(cloud.tilt[np.isfinite(cloud.tilt)]))
        if shape > _TAIL:
            warnings.append(
                f"the pilot's weights have a heavy tail (Pareto k = {shape:.2f}): the error bar "
                "may be too small; a prior that rules out what the data cannot tell helps"
            )
    else:
        plan = plan_ladder(target, start, cloud, rng, _CESS, _MOVES)
        notes = [
            f"{_PILOT} draws around EP's optimum are worth {ess * _PILOT:.1f}: tempering over "
            f"{plan.betas.size} steps"
        ]
        ess = _CESS / plan.betas.size
    return start, plan, ess, notes, warnings


def _heat(tilt: Array) -> float:
    """The power at which a quarter of the weights counts."""
    low, high = 0.0, 1.0
    if conditional_ess(tilt, 1.0) > 0.25:
        return 1.0
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if conditional_ess(tilt, middle) > 0.25 else (low, middle)
    return low


def _particles(ess: float, target_se: float | None, n_islands: int | None) -> int:
    """θ per island, so that the first wave should meet the target."""
    variance = 1.5 * (1.0 / ess - 1.0)
    needed = variance / ((target_se or 0.05) ** 2 * (n_islands or _FIRST))
    return int(min(max(needed, 4.0 * variance, 8.0), 512.0))


def _report(
    run: Run,
    plan: Plan,
    names: tuple[str, ...],
    optimum: Optimum,
    rng: np.random.Generator,
    warnings: list[str],
    notes: list[str],
    settings: dict[str, Any],
    clock: Clock,
) -> IntegratedEvidence:
    import pandas as pd

    logz = se = logz_ep = math.nan
    theta, trace = np.zeros((0, len(names))), {}
    warnings = [w for w in messages(warnings) if w.code != "failed-proposals"]
    if run.blocks:
        blocks = [run.blocks[i] for i in sorted(run.blocks)]
        lost = sum(int(block.failures.sum()) for block in blocks)
        if lost:
            asked = sum(int(block.gradients.sum()) for block in blocks)
            warnings.append(
                f"at {lost} of {asked} hyperparameter settings log Z could not be computed (the "
                "covariance is singular, or the likelihood far narrower than the prior): their "
                "share is left out, so log Z is too low by what they would have added"
            )
        estimate = run.estimate()
        logz, se = estimate.value, estimate.se
        trace = trace_columns(plan.betas, blocks, np.full(plan.betas.size, np.nan))
        draws = posterior_draws(blocks, rng, _N_DRAWS)
        theta = draws[:, :-1]
        gap = draws[:, -1]
        logz_ep = logz + float(np.logaddexp.reduce(gap)) - math.log(len(gap))
    return IntegratedEvidence(
        logz, se, logz_ep, names, theta, optimum, pd.DataFrame(trace),
        tuple(dict.fromkeys(warnings)), tuple(notes), settings, clock.elapsed(),
    )  # fmt: skip


def _light(model: GPModel) -> GPModel:
    """Without the matrices that every θ builds anew."""
    if model.hyperparameters.n_kernel == 0:
        return model
    light = copy.copy(model)
    del light.K, light.chol
    return light


def _without_words(priors: Mapping[str, Any]) -> dict[str, Any]:
    """Priors as the optimiser takes them: ``"flat"`` is next to none."""
    return {name: prior for name, prior in priors.items() if not isinstance(prior, str)}


def _told(name: str, distribution: Any) -> str:
    if isinstance(distribution, str):
        return f"{name} {distribution}"
    return f"{name} {distribution.dist.name}{distribution.args}{distribution.kwds}"
