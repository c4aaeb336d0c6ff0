r"""Evidence with hyperparameters integrated out, and their posterior.

.. math:: \log Z = \log \int p(\theta)\, Z(\theta)\, d\theta,\qquad
          Z(\theta) = \int p(y|x, \theta)\, N(x; m, K_\theta)\, dx

by islands that temper over θ (:mod:`evidence.hyper.integral`). Before them come EP's optimum, its
curvature, and a pilot that widens the start where it does not fit.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..drivers.islands import posterior_draws, trace_columns
from ..drivers.waves import Budget, Run, run_waves
from ..execution import arguments
from ..execution.checkpoint import Checkpoint, digest
from ..execution.clock import Clock, Stopped, interruptible, within
from ..execution.job import Job
from ..execution.progress import Progress
from ..hyper.at_theta import GuidedEvidence
from ..hyper.integral import ThetaPlan, run_theta_islands
from ..hyper.pilot import ThetaPilot, run_pilot
from ..messages import InputError, Message, messages
from ..models.gp import GPModel
from ..models.priors import Priors
from ..numerics.threads import blas_for
from ..results.base import fingerprint
from ..results.hyper import IntegratedEvidence
from .optimise import optimise

Array = NDArray[np.float64]

_NO_PLAN = ThetaPlan(np.ones(1), np.zeros((0, 0)), 0)
_FIRST = 16  # islands
_N_DRAWS = 1000


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
    arguments.check_target("target_se", target_se)
    arguments.check_positive("max_seconds", max_seconds)
    arguments.check_count("n_draws", n_draws, 2, optional=False)
    arguments.check_count("n_particles", n_particles, 2)
    arguments.check_count("n_islands", n_islands, 1)
    arguments.check_memory("n_particles", n_particles, n_particles, n_draws)
    arguments.check_memory("n_islands", n_islands, n_islands, arguments.ISLAND)
    arguments.check_path("checkpoint", checkpoint)
    if checkpoint is not None and random_seed is None:
        raise InputError("checkpoint= needs random_seed=: a resumed run goes on with its seed")
    arguments.check_executor(executor)
    prior = Priors.of(model.hyperparameters, priors, fixed)
    if target_se is None and n_particles is None and n_islands is None:
        target_se = 0.05
    clock, seed = Clock(max_seconds), arguments.seed_sequence(random_seed)
    store = Checkpoint(
        checkpoint,
        {
            "package version": __version__,
            "model": fingerprint(model),
            "bounds": digest(model.hyperparameters.bounds),
            "priors": str(prior.describe()),
            "budget": f"{target_se}, {n_particles}, {n_islands}, {n_draws}",
            "random_seed": str(seed.entropy),
        },
    )
    pilot_seed, island_seed, draw_seed = seed.spawn(3)
    with interruptible(clock), Progress(progressbar) as progress:
        progress.phase("optimum")
        pilot: ThetaPilot | None = None
        with blas_for(model.n), within(clock.deadline):
            try:
                optimum = optimise(
                    model,
                    fixed=[n for n in model.hyperparameters.names if n not in prior.names],
                    priors={n: p for n, p in prior.items() if p != "flat"},
                    progressbar=False,
                )
            except Stopped:
                raise RuntimeError(
                    f"max_seconds={max_seconds:g} were over before EP had converged once; allow "
                    "more time"
                ) from None
            progress.phase("pilot")
            sites = optimum.reference.sites
            evidence = GuidedEvidence(model.without_matrices(), prior.free, sites, n_draws)
            with suppress(Stopped):
                pilot = run_pilot(
                    evidence, prior, optimum.table.log_value.to_numpy(),
                    optimum.table.se.to_numpy(), np.random.default_rng(pilot_seed), clock.stop,
                )  # fmt: skip
        budget = Budget(target_se, n_islands or _FIRST)
        run, plan, notes = Run(budget), _NO_PLAN, list[str]()
        if pilot is not None:
            if n_particles is None:
                n_particles = _particles(pilot.ess, target_se, n_islands)
            plan, notes = pilot.plan, pilot.notes
            job = Job(run_theta_islands, (pilot.path, plan), {"n_particles": n_particles})
            run = run_waves(job, budget, island_seed, clock, progress, store, executor)
            run.warnings[:0] = pilot.warnings
    warnings = [*optimum.warnings, *run.warnings, *store.warnings, *_lost(run)]
    rng = np.random.default_rng(draw_seed)
    gathered = _gathered(run, plan.betas, len(prior), rng)
    if max_seconds is not None and not run.blocks and not clock.interrupted.is_set():
        gathered["logz"] = optimum.reference.logz
        warnings = [w for w in warnings if getattr(w, "code", "") != "no-estimate"]
        text = (
            f"nothing was finished in max_seconds={max_seconds:g}: log Z is EP's at the best "
            "hyperparameters found, no integral over them, and without an error bar"
        )
        warnings.append(Message("approximation-only", text))
    return IntegratedEvidence(
        **gathered,
        names=prior.names,
        optimum=optimum,
        warnings=tuple(w for w in messages(warnings) if w.code != "failed-proposals"),
        notes=tuple(notes),
        settings=dict(
            n_particles=n_particles, n_islands=run.final.size, n_draws=n_draws,
            betas=plan.betas.tolist(), target_se=target_se,
        ),
        seconds=clock.elapsed(),
    )  # fmt: skip


def _particles(ess: float, target_se: float | None, n_islands: int | None) -> int:
    """θ per island, so that the first wave should meet the target."""
    variance = 1.5 * (1.0 / ess - 1.0)
    needed = variance / ((target_se or 0.05) ** 2 * (n_islands or _FIRST))
    return int(min(max(needed, 4.0 * variance, 8.0), 512.0))


def _gathered(run: Run, betas: Array, p: int, rng: np.random.Generator) -> dict[str, Any]:
    """What the islands say of log Z and of θ; nothing if none was finished."""
    import pandas as pd

    logz = se = logz_ep = math.nan
    theta, trace = np.zeros((0, p)), {}
    if run.blocks:
        blocks = [run.blocks[i] for i in sorted(run.blocks)]
        estimate = run.estimate()
        logz, se = estimate.value, estimate.se
        trace = trace_columns(betas, blocks, np.full(betas.size, np.nan))
        draws = posterior_draws(blocks, rng, _N_DRAWS)
        theta, gap = draws[:, :-1], draws[:, -1]
        logz_ep = logz + float(np.logaddexp.reduce(gap)) - math.log(len(gap))
    return dict(
        logz=logz, logz_se=se, logz_ep=logz_ep, theta=theta, trace=pd.DataFrame(trace)
    )  # fmt: skip


def _lost(run: Run) -> Iterator[Message]:
    """Whether there were θ without an evidence."""
    failures = sum(int(block.failures.sum()) for block in run.blocks.values())
    if failures:
        evaluations = sum(int(block.gradients.sum()) for block in run.blocks.values())
        yield Message(
            "lost-theta",
            f"at {failures} of {evaluations} hyperparameter settings log Z could not be computed "
            "(the covariance is singular, or the likelihood far narrower than the prior): their "
            "share is left out, so log Z is too low by what they would have added",
        )
