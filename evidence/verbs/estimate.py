"""One call from a model to its log evidence."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from .. import __version__, moves
from ..approximations.density.economy import LARGEST, Blended, economise
from ..approximations.density.modes import laplace_of
from ..approximations.gp.neighbours import fewer_neighbours
from ..approximations.mixture import Mixture
from ..execution.arguments import (
    ISLAND,
    check_choice,
    check_count,
    check_executor,
    check_memory,
    check_path,
    check_positive,
    check_target,
)
from ..execution.checkpoint import Checkpoint, digest
from ..execution.clock import Clock, Stopped, interruptible, within
from ..execution.meter import Meter, metered, phase
from ..execution.options import told
from ..execution.progress import Progress, compiling
from ..messages import InputError, Message, messages
from ..methods.base import Outcome, Problem, stopped
from ..methods.economical import is_economical, over_blend
from ..methods.mixture import over_components
from ..methods.registry import METHODS, check_options, check_unused
from ..methods.scouted import compare_with_scout
from ..methods.staged import over_stages
from ..models.classes import SoftmaxModel
from ..models.density.model import DensityModel
from ..models.latent import LatentModel
from ..numerics.arrays import Array
from ..numerics.threads import blas_for
from ..paths.families import Family, check_probit, family, fit_reference, search_seed
from ..results.base import fingerprint
from ..results.evidence import Estimate, EvidenceResult
from ..statistics import ladders
from ._options import MethodOptions

if TYPE_CHECKING:
    from ..models.types import Model
    from ..moves.base import Move
    from ._options import Reference


DEFAULT_TARGET_SE = 0.05
_SLACK, _FAR = 1e-6, 5.0  # above zero, and in standard errors, at which a log Z cannot be
_PROBIT_ONLY = ("orthant", "sequential")


def log_evidence(
    model: Model,
    *,
    method: str = "auto",
    reference: str | Reference | None = None,
    move: str | Move | None = None,
    betas: str | int | ArrayLike = "adaptive",
    target_se: float | None = None,
    n_particles: int | None = None,
    n_islands: int | None = None,
    max_seconds: float | None = None,
    max_evaluations: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
    **options: Unpack[MethodOptions],
) -> EvidenceResult:
    r"""Estimate the log marginal likelihood of a model with a calibrated error bar.

    .. math:: \log Z = \log \int p(y|x)\, N(x; m, K)\, dx

    and likewise for every other kind of model: a sum of natural logs, not divided by N.

    Parameters
    ----------
    model : GPModel, SparseModel, SoftmaxModel or DensityModel
        The hyperparameters of one with priors (from a formula, or ``with_priors``) are integrated
        out, as :func:`evidence.integrated_evidence` does.
    method : str
        ``"auto"`` makes cheap trials and chooses; ``result.notes`` gives its reasons.
        ``"guided"``: one latent value after the other, those to come as EP's sites have them
        (:mod:`evidence.proposals.guide`). ``"smc"``: tempered resample-move. ``"ais"``: annealed
        importance sampling. ``"pt"``: parallel tempering. ``"arm"``: adaptive resample-move.
        ``"importance"``: straight from the reference. ``"orthant"``: minimax tilting, for probit
        only; it needs neither EP nor annealing, an independent cross-check. ``"sequential"``: one
        datum after the other, for probit only. ``"ep"`` and ``"laplace"``: the approximation
        alone, without an error bar.
    reference : {"ep", "laplace", "prior", "mixture"}, GaussianReference or Mixture, optional
        Where tempering starts; by default the best there is for the model: EP for a GPModel, or
        a mixture of its fixed points where the likelihood is not log-concave
        (:func:`evidence.fit_reference`); for
        a SoftmaxModel of up to 4000 latent values a widened Laplace, ``"wide"``, and the prior
        for a larger one; for a DensityModel a Gaussian that was ``"fitted"`` to it, with tails as
        heavy as needed and scales that depend on other coordinates where draws call for it (or
        ``"gaussian"`` without these, as Riemannian moves need it).
        (Not for orthant and sequential, which have no use for it.)
    move : str or Move, optional
        What moves particles at a fixed temperature. By default ``"mgrad"``; for a DensityModel
        ``"splitting"``, or ``"elliptical"`` where it has no gradient. ``"auto"`` anneals, with
        that move, where one is given. (Not for guided, importance, orthant and sequential.)
    betas : "adaptive", int or array
        Inverse temperatures from 0 to 1: as many as a pilot run needs; that many, spaced like the
        pilot's; or these. (For methods that move particles.)
    target_se : float, optional
        Keep adding islands (independent runs, whose spread is the error bar) until the standard
        error is about this small. Default 0.05, unless
        ``n_particles`` or ``n_islands`` fixes the budget. From 0.1 on a DensityModel of up to
        six parameters is called as few times as will do
        (:mod:`evidence.approximations.density.economy`).
    n_particles : int, optional
        Particles of each island; draws of each for guided, importance and orthant; chains in
        all for ais; ensembles in all for pt. By default a pilot run decides.
    n_islands : int, optional
        Number of independent islands (16); with ``target_se``, that many to begin with.
    max_seconds : float, optional
        Be done by then, fits and trials included, to within a fifth and a second (code that is
        compiled at a first call apart): with the islands finished, or else with the best
        approximation, ``logz_se`` NaN and a warning, ``approximation-only``.
    max_evaluations : int, optional
        For a DensityModel: call it at no more points than these, gradients included, to within
        a tenth or one batch. When they are used up first, the best answer so far and a warning,
        ``out-of-evaluations``; ``result.evaluations`` counts them by phase.
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
        to more islands or a smaller target. A file of another run is refused; models are known
        by what they compute (:mod:`evidence.models.identity`), not by the text of a formula.
    progressbar : bool
        Show one line in a terminal or notebook.
    **options
        What belongs to one method alone: see :func:`~evidence.methods.weighted.guided`,
        :func:`~evidence.methods.smc.smc`, :func:`~evidence.methods.ais.ais`,
        :func:`~evidence.methods.pt.pt`, :func:`~evidence.methods.smc.arm` and
        :func:`~evidence.methods.sequential.sequential`.

    Returns
    -------
    EvidenceResult
        ``result.logz``, ``result.logz_se``, ``result.estimates``, ``result.trace``,
        ``result.samples``, ``result.warnings``, ``result.plot()``, …

    Notes
    -----
    ^C ends the run early and returns the estimate from the islands finished by then, NaN where
    there are none.

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
    if isinstance(model, LatentModel | SoftmaxModel) and model.priors is not None:
        _check_integrated(method, reference, move, betas, options)
        from .integrate import integrated_evidence  # which needs this function

        return integrated_evidence(
            model, target_se=target_se, n_particles=n_particles, n_islands=n_islands,
            max_seconds=max_seconds, random_seed=random_seed, executor=executor,
            checkpoint=checkpoint, progressbar=progressbar,
        )  # fmt: skip
    target_se = check_target("target_se", target_se)
    max_seconds = check_positive("max_seconds", max_seconds)
    _check_evaluations(model, max_evaluations)
    check_count("n_particles", n_particles, 2)
    check_count("n_islands", n_islands, 1)
    check_memory("n_particles", n_particles, n_particles, model.n)
    check_memory("n_islands", n_islands, n_islands, ISLAND)
    check_path("checkpoint", checkpoint)
    check_executor(executor)
    check_options(method, dict(options))
    ladder, n_betas = check_betas(betas)
    free = reference is None
    mover, reference = _check_start(model, kind, method, reference, move, betas)
    if target_se is None and n_particles is None and n_islands is None:
        target_se = DEFAULT_TARGET_SE
    clock = Clock(max_seconds, Meter(max_evaluations))
    # one BLAS thread: the same bits on any number of cores
    with (
        blas_for(model.n),
        within(clock.last_moment),
        metered(clock.meter),
        compiling(progressbar),
    ):
        if method in kind.reported:
            fits = _fit_reported(model, kind)
            outcome = Outcome(method, samples=np.zeros((0, 0)))
            if method in fits:
                outcome.logz, outcome.warnings = fits[method].logz, list(fits[method].warnings)
            _approximate(outcome, fits, clock)
            _refuse(outcome, model)
            return _report(model, fits, outcome, {"method": method}, clock)

        budget = {"target_se": target_se, "n_particles": n_particles, "n_islands": n_islands}
        named = (model, method, reference, mover, budget, options)
        identity = {} if checkpoint is None else _identity(*named)
        identity["betas"] = str(n_betas or "adaptive") if ladder is None else digest(ladder)
        store, seed = Checkpoint.seeded(checkpoint, identity, random_seed)
        base, doubts = None, list[Message]()
        economy = None
        left = method == "auto" and free and move is None and n_particles is None
        left = left and isinstance(betas, str)
        if (
            left
            and isinstance(model, DensityModel)
            and is_economical(model, target_se, max_evaluations)
        ):
            with interruptible():
                economy = economise(model.spread(clock, executor), search_seed(seed), clock.meter)
        settled = economy is not None and economy.settled(clock.meter, clock.stop())
        if isinstance(model, DensityModel) and economy is not None and settled:
            fits = {"laplace": laplace_of(model, economy.modes)}
            coarse = target_se or DEFAULT_TARGET_SE
            base = economy.reference(coarse) if economy.blend is not None else None
        else:
            fits = _fit_reported(model, kind)
            with interruptible(), suppress(Stopped):
                base = fit_reference(model, reference, fits, seed=search_seed(seed))
                untried = left and economy is None and base.name == "prior"
                if untried and isinstance(model, DensityModel):
                    part = model.spread(clock, executor)
                    base = _blended(part, base, target_se, search_seed(seed), clock.meter) or base
        outcome = stopped(method)
        if base is not None:
            if mover.riemannian and isinstance(base, Mixture):
                base, doubts = base.heaviest()
            with interruptible(clock), Progress(progressbar) as progress:
                problem = Problem(
                    model, base, mover, ladder, target_se, n_particles, n_islands,
                    seed, clock, progress, store, executor, n_betas, free,
                    own_move=move is not None,
                )  # fmt: skip
                with within(clock.deadline), phase("pilot"):
                    outcome = _run(problem, method, options)
            if base.name in ("ep", "fitted", "gaussian", "mixture", "prior") or not base.converged:
                staged = outcome.settings.get("reference") == "staged"  # a better one since
                known = [w for w in base.warnings if not (staged and w.code == "poor-reference")]
                outcome.warnings = [*known, *outcome.warnings]
            outcome.warnings = [*doubts, *outcome.warnings]
        _approximate(outcome, fits, clock)
        alone = not isinstance(base, Mixture)
        if alone and outcome.method not in ("exact", "orthant", "sequential"):
            outcome.logz_se = math.hypot(outcome.logz_se, getattr(base, "lost", 0.0))
        _refuse(outcome, model)
        settings = {
            "method": method,
            **budget,
            "max_seconds": max_seconds,
            "max_evaluations": max_evaluations,
            "random_seed": random_seed if isinstance(random_seed, numbers.Integral) else None,
            **{name: value for name, value in options.items() if _is_plain(value)},
            "reference": base and base.name,
            "move": mover.name,
            **outcome.settings,
            "interrupted": clock.interrupted.is_set(),
        }
        return _report(model, fits, outcome, settings, clock)


def _check_integrated(method: str, reference: Any, move: Any, betas: Any, options: Any) -> None:
    """A model with priors leaves nothing to choose but the budget."""
    others = {"reference": reference, "move": move, **options}
    unused = [name for name, value in others.items() if value is not None]
    unused += [] if isinstance(betas, str) else ["betas"]
    if method not in ("auto", "guided") or unused:
        what = f"method={method!r}" if method not in ("auto", "guided") else f"{unused[0]}="
        raise InputError(
            f"{what}: the model has priors of its hyperparameters, which are integrated out by "
            "guided draws; hold them with model.at({...}), or leave the priors out with "
            "model.with_priors(None)"
        )


def _check_evaluations(model: Model, most: int | None) -> None:
    """Evaluations are counted where the user's own function is what is called."""
    check_count("max_evaluations", most, 1)
    if most is not None and not isinstance(model, DensityModel):
        raise InputError(
            "max_evaluations= is for a DensityModel, whose function is called; got a "
            f"{type(model).__name__}, for which there is max_seconds="
        )


def _check_start(
    model: Model, kind: Family, method: str, reference: Any, move: Any, betas: Any
) -> tuple[Move, Any]:
    """The move and the reference, or its name: the model's own where none is given."""
    adaptive = isinstance(betas, str)
    given = {"reference": reference is not None, "move": move is not None, "betas": not adaptive}
    check_unused(method, {name for name, is_given in given.items() if is_given})
    if method in _PROBIT_ONLY:
        check_probit(model, method)
    mover = moves.get(kind.move(model) if move is None else move)
    if reference is None:
        reference = kind.preferred(model, mover)
    if isinstance(reference, str):
        check_choice("reference", reference, tuple(kind.fits))
    return mover, reference


def check_betas(betas: str | int | ArrayLike) -> tuple[Array | None, int | None]:
    """An explicit ladder, or a number of temperatures, or neither."""
    if isinstance(betas, str):
        check_choice("betas", betas, ("adaptive",))
        return None, None
    if isinstance(betas, numbers.Integral):
        check_count("betas", betas, 1)
        check_memory("betas", betas, betas, ISLAND)
        return None, int(betas)
    return ladders.check(betas), None


def _identity(
    model: Model,
    method: str,
    reference: Any,
    move: Move,
    budget: Mapping[str, Any],
    options: Mapping[str, Any],
) -> dict[str, str]:
    """What decides the numbers of a run, besides its temperatures and its seed."""
    if budget["n_particles"] is not None and method not in ("auto", "pt"):
        budget = {"n_particles": budget["n_particles"]}  # islands are run the same for any target
    return {
        "package version": __version__,
        "model": fingerprint(model),
        "method": method,
        "reference": reference if isinstance(reference, str) else digest(*reference.identity()),
        "move": repr(move),
        **{name: str(value) for name, value in budget.items()},
        "options": ", ".join(f"{k}={_option_text(v)}" for k, v in sorted(options.items())),
    }


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | numbers.Number)


def _option_text(value: Any) -> str:
    """What tells the value of an option from others."""
    if _is_plain(value):
        return str(value)
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
    return digest(np.asarray(value, dtype=float))


def _fit_reported(model: Model, kind: Family) -> dict[str, Any]:
    """The approximations that every result shows beside its own estimate, if there is time."""
    fits: dict[str, Any] = {}
    with interruptible():
        for name in kind.reported:
            with suppress(Stopped):
                before = fits.get(kind.after.get(name, ""))
                fits[name] = kind.fits[name](model, *([before] if before is not None else []))
    return fits


def _blended(
    model: DensityModel, prior: Any, target_se: float | None, seed: int, meter: Meter
) -> Blended | None:
    """Where nothing fitted does better than the prior: a mixture of many modes, if it is good."""
    if model.n > LARGEST or model.prior is None:
        return None
    economy = economise(model, seed, meter, thorough=True)
    if not economy.confirmed:
        return None
    reference = economy.reference(target_se or DEFAULT_TARGET_SE)
    return replace(reference, scouted=prior.scouted, warnings=prior.warnings)


def _approximate(outcome: Outcome, fits: Mapping[str, Any], clock: Clock) -> None:
    """An answer for a call whose time was up before it had one: the best approximation."""
    if clock.meter.spent() and math.isnan(outcome.logz_se):
        text = f"max_evaluations={clock.meter.most} were used up before there was an estimate"
        outcome.warn("out-of-evaluations", text)
    limited = clock.limited and not clock.interrupted.is_set()
    names = [name for name in fits if not math.isnan(fits[name].logz)]
    if not (limited and names and math.isnan(outcome.logz)):
        return
    name = ([name for name in names if fits[name].converged] or names)[-1]
    outcome.logz = fits[name].logz
    outcome.warnings = [w for w in outcome.warnings if getattr(w, "code", "") != "no-estimate"]
    outcome.warn(
        "approximation-only",
        f"nothing was finished within {clock.limits}: log Z is that of {name}, an approximation "
        "without an error bar",
    )


def _refuse(outcome: Outcome, model: Model) -> None:
    """NaN and a warning for numbers that no log Z can be."""
    highest = math.inf
    if isinstance(model, SoftmaxModel):
        highest = 0.0
    elif isinstance(model, LatentModel):
        highest = model.likelihood.ceiling(model.y)
    most = highest + _SLACK + _FAR * (0.0 if math.isnan(outcome.logz_se) else outcome.logz_se)
    if outcome.logz > most:
        what = f"log Z = {outcome.logz:.6g} of data whose log likelihood is {highest:.6g} at most"
    elif math.isinf(outcome.logz) or math.isinf(outcome.logz_se):
        what = f"log Z = {outcome.logz} ± {outcome.logz_se}"
    else:
        return
    outcome.logz = outcome.logz_se = math.nan
    outcome.warn(
        "impossible", f"the numbers failed: they gave {what}; scale or jitter are extreme"
    )


def _run(problem: Problem, method: str, options: MethodOptions) -> Outcome:
    """The method's own work; what an interrupt leaves of it."""
    try:
        run = partial(METHODS[method], **options)
        if isinstance(problem.reference, Blended):
            outcome = over_blend(problem, problem.reference)
        elif isinstance(problem.reference, Mixture):
            staged = over_stages(problem, problem.reference) if method == "auto" else None
            outcome = staged or over_components(problem, problem.reference, run)
        else:
            outcome = run(problem)
        compare_with_scout(problem.reference, outcome)
    except Stopped:
        outcome = stopped(method)
    except KeyboardInterrupt:
        problem.clock.interrupted.set()
        text = "interrupted before there was an estimate"
        outcome = Outcome(method, warnings=[Message("interrupted", text)])
    finally:
        problem.checkpoint.save()
    outcome.warnings += problem.checkpoint.warnings
    return outcome


def _report(
    model: Model,
    fits: Mapping[str, Any],
    outcome: Outcome,
    settings: dict[str, Any],
    clock: Clock,
) -> EvidenceResult:
    """The result: approximations first, then the method's estimates, the answer last."""
    rows = [Estimate(name, fit.logz, math.nan, fit.seconds) for name, fit in fits.items()]
    correction = np.zeros(0)
    if "ep" in fits:
        watch = Clock()
        with suppress(Stopped):
            corrected, correction = fits["ep"].logz_corrected, fits["ep"].correction
            seconds = fits["ep"].seconds + watch.elapsed()
            se = fits["ep"].correction_se or math.nan
            rows.append(Estimate("ep_corrected", corrected, se, seconds))
        with suppress(Stopped, KeyboardInterrupt):
            if (fewer := fewer_neighbours(fits["ep"])) is not None:
                outcome.notes.append(fewer.note)
                outcome.warnings += fewer.warnings
    if outcome.method not in fits:
        answer = (outcome.method, outcome.logz, outcome.logz_se)
        rows += [Estimate(*row, clock.elapsed()) for row in (*outcome.others, answer)]
    return told(
        EvidenceResult(
            outcome.method,
            outcome.logz,
            outcome.logz_se,
            tuple(rows),
            outcome.trace,
            outcome.history,
            np.zeros((0, model.n)) if outcome.samples is None else outcome.samples,
            outcome.islands,
            correction,
            messages(outcome.warnings),
            (*model.notes, *outcome.notes),
            settings,
            model.describe(),
            getattr(model, "names", ()),
            clock.meter.counts,
            tuple(outcome.components),
            outcome.component,
        )
    )
