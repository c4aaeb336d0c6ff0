"""One call from a model to its log evidence."""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import __version__, moves
from ..execution.arguments import (
    check_choice,
    check_count,
    check_executor,
    check_positive,
    seed_sequence,
)
from ..execution.checkpoint import Checkpoint, digest
from ..execution.progress import Progress
from ..execution.tasks import Clock, factorising
from ..methods.base import Outcome, Problem
from ..methods.registry import METHODS, check_options, check_unused
from ..paths.families import Family, check_probit, family, fit_reference
from ..results.evidence import Estimate, EvidenceResult
from ..statistics import ladders

Array = NDArray[np.float64]

DEFAULT_TARGET_SE = 0.05
_PROBIT_ONLY = ("orthant", "sequential")


def log_evidence(
    model: Any,
    *,
    method: str = "auto",
    reference: Any = None,
    move: Any = None,
    betas: str | int | ArrayLike = "adaptive",
    target_se: float | None = None,
    n_particles: int | None = None,
    n_islands: int | None = None,
    max_seconds: float | None = None,
    random_seed: int | np.random.Generator | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
    **options: Any,
) -> EvidenceResult:
    r"""Estimate the log marginal likelihood of a model with a calibrated error bar.

    .. math:: \log Z = \log \int p(y|x)\, N(x; m, K)\, dx

    and likewise for every other kind of model: a sum of natural logs, not divided by N.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    method : str
        ``"auto"`` tries cheap things and chooses; ``result.notes`` says what and why.
        ``"guided"``: one latent value after the other, those to come as EP's sites have them
        (:mod:`evidence.proposals.guide`). ``"smc"``: tempered resample-move. ``"ais"``: annealed
        importance sampling. ``"pt"``: parallel tempering. ``"arm"``: adaptive resample-move.
        ``"importance"``: straight from the reference. ``"orthant"``: minimax tilting, for probit
        only; it needs neither EP nor annealing, an independent cross-check. ``"sequential"``: one
        datum after the other, for probit only. ``"ep"`` and ``"laplace"``: the approximation
        alone, without an error bar.
    reference : {"ep", "laplace", "prior"} or GaussianReference, optional
        Where tempering starts; by default the best there is for the model: EP for a GPModel; for
        a SoftmaxModel of up to 4000 latent values a widened Laplace, ``"wide"``, and the prior
        for a larger one; for a DensityModel a Gaussian that was ``"fitted"`` to it, with tails as
        heavy as needed and scales that depend on other coordinates where draws say so (or
        ``"gaussian"`` without these, as Riemannian moves need it).
        (Not for orthant and sequential, which have no use for it.)
    move : str or Move, optional
        What moves particles at a fixed temperature. By default ``"mgrad"``; for a DensityModel
        ``"splitting"``, or ``"elliptical"`` where it has no gradient. (Not for guided,
        importance, orthant and sequential.)
    betas : "adaptive", int or array
        Inverse temperatures from 0 to 1: those that a pilot run found to be needed; that many,
        spaced like the pilot's; or these. (For methods that move particles.)
    target_se : float, optional
        Keep adding islands (independent runs, whose spread is the error bar) until the standard
        error is about this small. Default 0.05, unless
        ``n_particles`` or ``n_islands`` fixes the budget.
    n_particles : int, optional
        Particles of each island; draws of each for guided, importance and orthant; chains in
        all for ais; ensembles in all for pt. By default a pilot run tells.
    n_islands : int, optional
        Number of independent islands (16); with ``target_se``, that many to begin with.
    max_seconds : float, optional
        Stop then, with what there is.
    random_seed : int or Generator, optional
        Same seed, same answer (unless ``max_seconds`` cuts it short), whatever the machine's
        number of cores and whatever the executor. (From N = 1500 on matrices are factorised on
        all cores, and another number of them changes the last digits.)
    executor : concurrent.futures.Executor, optional
        Where islands run: threads of this process unless given. Processes, or a Dask cluster's
        ``Client.get_executor()``, work too; matrices are sent once to each worker.
    checkpoint : path, optional
        Keep what is computed in this file, and go on from it when it exists. A resumed run
        ends with the same numbers, bit for bit. With ``n_particles`` given, it may also go on
        to more islands or a smaller target.
    progressbar : bool
        Show one line in a terminal or notebook.
    **options
        What belongs to one method alone: see :func:`~evidence.methods.guided.guided`,
        :func:`~evidence.methods.smc.smc`, :func:`~evidence.methods.ais.ais`,
        :func:`~evidence.methods.pt.pt`, :func:`~evidence.methods.arm.arm` and
        :func:`~evidence.methods.sequential.sequential`.

    Returns
    -------
    EvidenceResult
        ``result.logz``, ``result.logz_se``, ``result.estimates``, ``result.trace``,
        ``result.samples``, ``result.warnings``, ``result.plot()``, …

    Notes
    -----
    ^C ends the run early and returns what the finished islands say (none, where it came before
    them).

    Examples
    --------
    >>> import numpy as np
    >>> from evidence import GPModel, log_evidence
    >>> K = 4.0 * (0.5 * np.eye(3) + 0.5)
    >>> result = log_evidence(GPModel(K=K, y=[1, 1, -1]), random_seed=0, progressbar=False)
    >>> bool(abs(result.logz + 2.37) < 0.2)
    True
    """
    kind = family(model)
    check_choice("method", method, (*METHODS, *kind.reported))
    check_positive("target_se", target_se)
    check_positive("max_seconds", max_seconds)
    check_count("n_particles", n_particles, 2)
    check_count("n_islands", n_islands, 1)
    told = {"reference": reference, "move": move, "betas": None if _adaptive(betas) else betas}
    check_unused(method, {name for name, value in told.items() if value is not None})
    mover = moves.get(kind.move(model) if move is None else move)
    if reference is None:
        reference = kind.preferred(model, mover)
    if isinstance(reference, str):
        check_choice("reference", reference, tuple(kind.fits))
    check_executor(executor)
    ladder, n_betas = _check_betas(betas)
    check_options(method, options)
    if method in kind.reported:
        return _deterministic(model, kind, method)
    if method in _PROBIT_ONLY:
        check_probit(model, method)
    if target_se is None and n_particles is None and n_islands is None:
        target_se = DEFAULT_TARGET_SE

    clock, seed = Clock(max_seconds), seed_sequence(random_seed)
    settings: dict[str, Any] = {
        "method": method,
        "target_se": target_se,
        "n_particles": n_particles,
        "n_islands": n_islands,
        "max_seconds": max_seconds,
        "random_seed": random_seed if isinstance(random_seed, numbers.Integral) else None,
        **{name: value for name, value in options.items() if _is_plain(value)},
    }
    named = (model, method, reference, mover, n_particles, options)
    identity = {} if checkpoint is None else _identity(*named)
    identity["betas"] = str(n_betas or "adaptive") if ladder is None else digest(ladder)
    if n_particles is None or method in ("auto", "pt"):  # then these decide how islands are run
        identity |= {"target_se": str(target_se), "n_islands": str(n_islands)}
    store, seed = _open_checkpoint(checkpoint, identity, seed, random_seed)
    with factorising(model.n):
        fits = fit_reported(model, kind)
        base = fit_reference(model, reference, fits)
    warnings = (
        base.warnings if base.name in ("ep", "fitted", "gaussian") or not base.converged else ()
    )
    with Progress(progressbar) as progress:
        problem = Problem(
            model, base, mover, ladder, target_se, n_particles, n_islands,
            seed, clock, progress, store, executor, n_betas,
        )  # fmt: skip
        try:
            with factorising(model.n):  # one BLAS thread: the same bits on any number of cores
                outcome = METHODS[method](problem, **options)
        except KeyboardInterrupt:
            clock.interrupted.set()
            outcome = Outcome(method, warnings=["interrupted before there was an estimate"])
        finally:
            store.save()
    settings |= {"reference": base.name, "move": mover.name, **outcome.settings}
    settings["interrupted"] = clock.interrupted.is_set()
    rows = tabulate(fits)
    rows += [Estimate(*other, clock.elapsed()) for other in outcome.others]
    rows.append(Estimate(outcome.method, outcome.logz, outcome.logz_se, clock.elapsed()))
    samples = np.zeros((0, model.n)) if outcome.samples is None else outcome.samples
    return EvidenceResult(
        outcome.method,
        outcome.logz,
        outcome.logz_se,
        tuple(rows),
        outcome.trace,
        outcome.history,
        samples,
        _correction(fits),
        tuple(dict.fromkeys([*warnings, *outcome.warnings, *store.warnings])),
        (*model.notes, *outcome.notes),
        settings,
        model.describe(),
        getattr(model, "names", ()),
    )


def _deterministic(model: Any, kind: Family, method: str) -> EvidenceResult:
    with factorising(model.n):
        fits = fit_reported(model, kind)
    fit = fits[method]
    return EvidenceResult(
        method,
        fit.logz,
        math.nan,
        tuple(tabulate(fits)),
        correction_terms=_correction(fits),
        warnings=fit.warnings,
        notes=model.notes,
        settings={"method": method},
        model=model.describe(),
    )


def fit_reported(model: Any, kind: Family) -> dict[str, Any]:
    return {name: kind.fits[name](model) for name in kind.reported}


def tabulate(fits: Mapping[str, Any]) -> list[Estimate]:
    """What the approximations say, and EP with its correction."""
    rows = [Estimate(name, fit.logz, math.nan, fit.seconds) for name, fit in fits.items()]
    if "ep" in fits:
        clock = Clock()
        corrected = fits["ep"].logz_corrected
        seconds = fits["ep"].seconds + clock.elapsed()
        rows.append(Estimate("ep_corrected", corrected, math.nan, seconds))
    return rows


def _correction(fits: Mapping[str, Any]) -> Array:
    return fits["ep"].correction if "ep" in fits else np.zeros(0)


def _identity(
    model: Any,
    method: str,
    reference: Any,
    move: Any,
    n_particles: int | None,
    options: dict[str, Any],
) -> dict[str, str]:
    """What decides the numbers of a run, besides its seed."""
    return {
        "package version": __version__,
        "model": f"{type(model).__name__} {digest(*model.identity())}",
        "method": method,
        "reference": reference if isinstance(reference, str) else digest(*reference.identity()),
        "move": repr(move),
        "n_particles": str(n_particles),
        "options": ", ".join(f"{k}={_told(v)}" for k, v in sorted(options.items())),
    }


def _told(value: Any) -> str:
    if _is_plain(value):
        return str(value)
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
    return digest(np.asarray(value, dtype=float))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | numbers.Number)


def _open_checkpoint(
    path: str | os.PathLike[str] | None,
    identity: dict[str, str],
    seed: np.random.SeedSequence,
    random_seed: Any,
) -> tuple[Checkpoint, np.random.SeedSequence]:
    """The checkpoint and the seed: that of the file where the caller leaves it open."""
    if path is None:
        return Checkpoint(None, {}), seed
    known = Checkpoint.identity_of(path)
    if random_seed is None and known is not None and "random_seed" in known:
        seed = np.random.SeedSequence(json.loads(known["random_seed"]))
    return Checkpoint(path, {**identity, "random_seed": json.dumps(seed.entropy)}), seed


def _adaptive(betas: Any) -> bool:
    return isinstance(betas, str) and betas == "adaptive"


def _check_betas(betas: str | int | ArrayLike) -> tuple[Array | None, int | None]:
    """An explicit ladder, or a number of temperatures, or neither."""
    if isinstance(betas, str):
        check_choice("betas", betas, ("adaptive",))
        return None, None
    if isinstance(betas, numbers.Integral):
        check_count("betas", betas, 1)
        return None, int(betas)
    return ladders.check(betas), None


def ais(model: Any, **words: Any) -> EvidenceResult:
    """Annealed importance sampling: :func:`log_evidence` with ``method="ais"``.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    **words
        What :func:`log_evidence` takes, and ``direction`` ("forward" or "both"), ``posterior``,
        ``n_reverse``: see :func:`evidence.methods.ais.ais`.

    Returns
    -------
    EvidenceResult

    Examples
    --------
    >>> from evidence import GPModel
    >>> model = GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> result = ais(model, direction="both", random_seed=0, progressbar=False)
    >>> list(result.estimates.index[-3:])
    ['ais_forward', 'ais_reverse', 'ais']
    """
    return log_evidence(model, method="ais", **words)


def parallel_tempering(model: Any, **words: Any) -> EvidenceResult:
    """Parallel tempering: :func:`log_evidence` with ``method="pt"``.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    **words
        What :func:`log_evidence` takes, and ``n_levels``, ``n_sweeps``, ``explore``,
        ``reversible``, ``estimator``: see :func:`evidence.methods.pt.pt`.

    Returns
    -------
    EvidenceResult

    Examples
    --------
    >>> from evidence import GPModel
    >>> model = GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> result = parallel_tempering(model, n_sweeps=50, random_seed=0, progressbar=False)
    >>> list(result.trace.columns[:4])
    ['beta', 'logz', 'acceptance', 'swap_rate']
    """
    return log_evidence(model, method="pt", **words)


def resample_move(model: Any, **words: Any) -> EvidenceResult:
    """Tempered resample-move: :func:`log_evidence` with ``method="smc"``.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    **words
        What :func:`log_evidence` takes, and ``resampling``, ``waste_free``: see
        :func:`evidence.methods.smc.smc`.

    Returns
    -------
    EvidenceResult

    Examples
    --------
    >>> from evidence import GPModel
    >>> model = GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> result = resample_move(model, resampling="residual", random_seed=0, progressbar=False)
    >>> result.method
    'smc'
    """
    return log_evidence(model, method="smc", **words)
