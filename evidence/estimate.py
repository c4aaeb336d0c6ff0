"""One call from a model to its log evidence."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import moves
from .approximations.ep import fit_ep
from .approximations.laplace import fit_laplace
from .approximations.reference import GaussianReference
from .checks import (
    REFERENCES,
    check_choice,
    check_count,
    check_positive,
    describe,
    fit_reference,
    seed_sequence,
)
from .diagnostics import log_mean
from .drivers import ladders, smc
from .drivers.execution import Clock, factorising
from .model import GPModel
from .path import Path
from .result import Estimate, EvidenceResult

Array = NDArray[np.float64]

METHODS = ("smc", "orthant", "ep", "laplace")
DEFAULT_TARGET_SE = 0.05
_N_DRAWS = 1000


def log_evidence(
    model: GPModel,
    *,
    method: str = "smc",
    reference: str | GaussianReference = "ep",
    move: Any = "mgrad",
    betas: str | ArrayLike = "adaptive",
    target_se: float | None = None,
    n_particles: int | None = None,
    n_islands: int | None = None,
    max_seconds: float | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> EvidenceResult:
    r"""Estimate log Z = log ∫ p(y|x) N(x; m, K) dx with a calibrated error bar.

    Parameters
    ----------
    model : GPModel
    method : {"smc", "orthant", "ep", "laplace"}
        ``"smc"``: tempered resample-move, for every likelihood. ``"orthant"``: minimax tilting,
        for probit only; it shares no code with the rest, an independent cross-check.
        ``"ep"`` and ``"laplace"``: the approximation alone, without an error bar.
    reference : {"ep", "laplace", "prior"} or GaussianReference
        Where tempering starts.
    move : str or Move
        What moves particles at a fixed temperature.
    betas : "adaptive" or array
        Inverse temperatures from 0 to 1; adaptive ones are found by a pilot run.
    target_se : float, optional
        Keep adding islands until the standard error is this small. Default 0.05, unless
        ``n_particles`` or ``n_islands`` fixes the budget.
    n_particles, n_islands : int, optional
        Particles in each independent island, and the number of islands (16). For
        ``method="orthant"``, ``n_particles`` is the number of draws.
    max_seconds : float, optional
        Stop then, with what there is.
    random_seed : int or Generator, optional
        Same seed, same answer (unless ``max_seconds`` cuts it short), whatever the machine's
        number of cores.
    progressbar : bool
        Show one line in a terminal or notebook.

    Returns
    -------
    EvidenceResult
        ``result.logz``, ``result.logz_se``, ``result.estimates``, ``result.trace``,
        ``result.samples``, ``result.warnings``, ``result.plot()``, …

    Notes
    -----
    ^C ends the run early and returns what the finished islands say.

    Examples
    --------
    >>> import numpy as np
    >>> from evidence import GPModel, log_evidence
    >>> K = 4.0 * (0.5 * np.eye(3) + 0.5)
    >>> result = log_evidence(GPModel(K=K, y=[1, 1, -1]), random_seed=0, progressbar=False)
    >>> bool(abs(result.logz + 2.37) < 0.2)
    True
    """
    check_choice("method", method, METHODS)
    check_positive("target_se", target_se)
    check_positive("max_seconds", max_seconds)
    check_count("n_particles", n_particles, 2)
    check_count("n_islands", n_islands, 1)
    if not isinstance(model, GPModel):
        raise ValueError(f"model must be a GPModel, got {type(model).__name__}")
    if isinstance(reference, str):
        check_choice("reference", reference, REFERENCES)
    mover = moves.get(move)
    ladder = _check_betas(betas)
    if method == "orthant":
        _check_orthant(model)
    if target_se is None and n_particles is None and n_islands is None:
        target_se = DEFAULT_TARGET_SE

    clock = Clock(max_seconds)
    seed = seed_sequence(random_seed)
    with factorising(model.n):
        fits = _deterministic(model)
    rows, warnings = _tabulate(fits)
    settings: dict[str, Any] = {
        "method": method,
        "target_se": target_se,
        "n_particles": n_particles,
        "n_islands": n_islands,
        "max_seconds": max_seconds,
        "random_seed": random_seed if isinstance(random_seed, numbers.Integral) else None,
    }
    common: dict[str, Any] = {
        "correction_terms": fits["ep"].correction,
        "notes": model.notes,
        "model": describe(model),
        "settings": settings,
    }
    if method in ("ep", "laplace"):
        fit = fits[method]
        return EvidenceResult(
            method, fit.logz, math.nan, tuple(rows), warnings=fit.warnings, **common
        )
    if method == "orthant":
        return _orthant(model, rows, common, seed, clock, n_particles, target_se, progressbar)

    base = fit_reference(model, reference, fits)
    if base.name == "ep" or not base.converged:
        warnings = tuple(dict.fromkeys(warnings + base.warnings))
    path = Path(base)
    with factorising(model.n):
        mover.prepare(path)
    run = smc.resample_move(
        path,
        mover,
        seed=seed,
        clock=clock,
        betas=ladder,
        target_se=target_se,
        n_particles=n_particles,
        n_islands=n_islands,
        progressbar=progressbar,
    )
    settings |= {
        "reference": base.name,
        "move": mover.name,
        "particles_per_island": run.n_particles,
    }
    estimate = log_mean(run.final) if run.blocks else None
    logz, se = (estimate.value, estimate.se) if estimate else (math.nan, math.nan)
    rows.append(Estimate("smc", logz, se, clock.elapsed()))
    rng = np.random.default_rng(seed.spawn(1)[0])
    return EvidenceResult(
        "smc",
        logz,
        se,
        tuple(rows),
        smc.trace_columns(run),
        {
            name: np.array([getattr(wave, name) for wave in run.history], dtype=float)
            for name in smc.Wave._fields
        },
        smc.posterior_draws(run, rng, _N_DRAWS) if run.blocks else np.zeros((0, model.n)),
        warnings=warnings + tuple(run.warnings),
        **common,
    )


def _deterministic(model: GPModel) -> dict[str, GaussianReference]:
    return {"laplace": fit_laplace(model), "ep": fit_ep(model)}


def _tabulate(
    fits: dict[str, GaussianReference],
) -> tuple[list[Estimate], tuple[str, ...]]:
    laplace, ep = fits["laplace"], fits["ep"]
    clock = Clock()
    corrected = ep.logz_corrected
    rows = [
        Estimate("laplace", laplace.logz, math.nan, laplace.seconds),
        Estimate("ep", ep.logz, math.nan, ep.seconds),
        Estimate("ep_corrected", corrected, math.nan, ep.seconds + clock.elapsed()),
    ]
    return rows, ()


def _orthant(
    model: GPModel,
    rows: list[Estimate],
    common: dict[str, Any],
    seed: np.random.SeedSequence,
    clock: Clock,
    n_draws: int | None,
    target_se: float | None,
    progressbar: bool,
) -> EvidenceResult:
    from .orthant import log_orthant

    cov = model.K.copy()
    cov.flat[:: model.n + 1] += 1.0
    remaining = None if clock.max_seconds is None else clock.max_seconds - clock.elapsed()
    with factorising(model.n):
        found = log_orthant(
            cov,
            model.y,
            model.mean,
            n_draws=n_draws or 10_000,
            target_se=target_se,
            max_seconds=remaining,
            rng=np.random.default_rng(seed),
        )
    rows.append(Estimate("orthant", found.logp, found.se, clock.elapsed()))
    common["settings"] |= {"n_draws": found.n_draws, "log_weight_sd": found.log_weight_sd}
    return EvidenceResult(
        "orthant",
        found.logp,
        found.se,
        tuple(rows),
        warnings=(found.message,) if found.message else (),
        **common,
    )


def _check_betas(betas: str | ArrayLike) -> Array | None:
    if isinstance(betas, str):
        check_choice("betas", betas, ("adaptive",))
        return None
    return ladders.check(betas)


def _check_orthant(model: GPModel) -> None:
    if model.likelihood.name != "probit":
        raise ValueError(
            "method='orthant' is for the probit likelihood only (Z is then an orthant "
            f"probability), got {model.likelihood.name}; use method='smc'"
        )
