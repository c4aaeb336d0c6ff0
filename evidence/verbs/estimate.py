"""One call from a model to its log evidence."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from .. import moves
from ..approximations.density.policy import EFFORTS
from ..approximations.gp.neighbours import fewer_neighbours
from ..approximations.reference import GaussianReference
from ..execution.arguments import ISLAND, check_choice, check_size
from ..execution.checkpoint import digest
from ..execution.clock import Clock, Stopped, within
from ..execution.options import told
from ..messages import InputError, messages
from ..methods.base import Outcome, Problem
from ..methods.density import DensityReferee
from ..methods.referee import Referee
from ..methods.registry import METHODS, check_options, check_unused
from ..numerics.arrays import Array
from ..numerics.jit import fingerprint
from ..numerics.threads import blas_for
from ..paths.families import Family, Reference, check_probit, family
from ..results.evidence import Estimate, EvidenceResult
from ..statistics import ladders
from ._call import Call, in_identity
from ._options import MethodOptions

if TYPE_CHECKING:
    from ..models.types import Model
    from ..moves.base import Move
    from ._options import Effort, Method, Reference

_PROBIT_ONLY = ("orthant", "sequential")
_REFEREES = {"plain": Referee, "density": DensityReferee}  # by the name that a family gives


def log_evidence(
    model: Model,
    *,
    method: Method = "auto",
    reference: str | Reference | None = None,
    move: str | Move | None = None,
    betas: str | int | ArrayLike = "adaptive",
    target_se: float | None = None,
    n_particles: int | None = None,
    n_islands: int | None = None,
    max_seconds: float | None = None,
    max_evaluations: int | None = None,
    effort: Effort = "normal",
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
        ``n_particles`` or ``n_islands`` fixes the budget.
    n_particles : int, optional
        Particles of each island; draws of each for guided, importance and orthant; chains in
        all for ais; ensembles in all for pt. By default a pilot run decides.
    n_islands : int, optional
        Number of independent islands (16); with ``target_se``, that many to begin with.
    max_seconds : float, optional
        Be done by then, fits and trials included, to within a fifth and a second (code that is
        compiled at a first call apart): with the islands finished, or else with the best there
        is and a warning, ``approximation-only``: draws of a density's search with their own rough
        error, or an approximation, ``logz_se`` NaN. A density is searched for most of the time at
        longest; draws of what was found by then, never known better than to 0.1, come after it.
    max_evaluations : int, optional
        For a DensityModel: call it at no more points than these, gradients included, to within
        a tenth or one batch; of fewer than 80,000 the search is a frugal one, more are used to
        look. When they are used up first, the best answer so far and a warning,
        ``out-of-evaluations``; ``result.evaluations`` counts them by phase.
    effort : {"normal", "frugal", "thorough"}
        How hard to look for the mass of a DensityModel. ``"normal"``: half a million draws of
        the prior where it takes batches, four thousand where it takes one point, and halving
        from them (:mod:`evidence.approximations.density.search`); ``result.resolution`` says
        what they would have met. ``"frugal"``: densities that are dear to call make do with one
        to seven thousand evaluations in up to six dimensions. ``"thorough"``: ten times as
        much as normal.
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
    ^C ends the run early and returns the estimate from the islands finished by then. Before there
    are any, while the reference is fitted, it raises KeyboardInterrupt; what ``checkpoint`` has of
    the fit is kept.

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
    budget: dict[str, Any] = dict(
        target_se=target_se, n_particles=n_particles, n_islands=n_islands, max_seconds=max_seconds,
        random_seed=random_seed, executor=executor, checkpoint=checkpoint, progressbar=progressbar,
    )  # fmt: skip
    check_choice("effort", effort, tuple(EFFORTS))
    _check_evaluations(kind, max_evaluations, model)
    if model.priors is not None:
        _check_integrated(method, reference, move, betas, options)
        from .integrate import integrated_evidence  # which needs this function

        return integrated_evidence(model, effort=effort, **budget)
    call = Call(**budget, max_evaluations=max_evaluations, size=model.n)
    check_options(method, dict(options))
    ladder, n_betas = check_betas(betas)
    mover, wanted = _check_start(model, kind, method, reference, move, betas)
    call.until_target()
    steps = str(n_betas or "adaptive") if ladder is None else digest(ladder)
    decides = {"method": method, "betas": steps, "effort": effort, "move": repr(mover)}
    call.begin(model, lambda: decides | _identity(call, method, wanted, options))
    clock = call.clock
    # one BLAS thread: the same bits on any number of cores
    with blas_for(model.n), within(clock.last_moment), call.under_way() as progress:
        problem = Problem(
            model, None, mover, ladder, call.target_se, n_particles, n_islands, call.seed, clock,
            progress, call.store, executor, n_betas, reference is None, own_move=move is not None,
        )  # fmt: skip
        referee = _REFEREES[kind.referee](problem, wanted, effort)
        outcome = referee.answer(method, options)
        settings = {"method": method, **call.told, "effort": effort}
        settings |= {name: value for name, value in options.items() if _is_plain(value)}
        settings |= {"reference": referee.reference and referee.reference.name, "move": mover.name}
        settings |= {**outcome.settings, "interrupted": clock.interrupted.is_set()}
        return _report(model, referee, outcome, settings)


def _check_integrated(
    method: str, reference: object, move: object, betas: object, options: Mapping[str, object]
) -> None:
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


def _check_evaluations(kind: Family, most: int | None, model: Model) -> None:
    """Evaluations are counted where the user's own function is what is called."""
    if most is not None and not kind.counted:
        raise InputError(
            "max_evaluations= is for a DensityModel, whose function is called; got a "
            f"{type(model).__name__}, for which there is max_seconds="
        )


def _check_start(
    model: Model, kind: Family, method: str, reference: str | Reference | None,
    move: str | Move | None, betas: object,
) -> tuple[Move, str | Reference]:  # fmt: skip
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
        check_size("betas", betas, ISLAND)
        return None, int(betas)
    return ladders.check(betas), None


def _identity(
    call: Call, method: str, reference: str | Reference, options: Mapping[str, Any]
) -> dict[str, Any]:
    """What else decides the numbers of a run."""
    budget = call.budget
    if budget["n_particles"] is not None and method not in ("auto", "pt"):
        budget = {"n_particles": budget["n_particles"]}  # islands are run the same for any target
    return {
        "reference": in_identity(reference),
        **{name: str(value) for name, value in budget.items()},
        "options": ", ".join(f"{k}={_option_text(v)}" for k, v in sorted(options.items())),
    }


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | bool | numbers.Number)


def _option_text(value: object) -> str:
    """What tells the value of an option from others."""
    if _is_plain(value):
        return str(value)
    if callable(value):
        return fingerprint(value)
    return digest(np.asarray(value, dtype=float))


def _report(
    model: Model, referee: Referee, outcome: Outcome, settings: dict[str, Any]
) -> EvidenceResult:
    """The result: approximations first, then the method's estimates, the answer last."""
    fits, clock = referee.fits, referee.problem.clock
    rows = [Estimate(name, fit.logz, math.nan, fit.seconds) for name, fit in fits.items()]
    correction = np.zeros(0)
    if isinstance(fits.get("ep"), GaussianReference):
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
    return told(EvidenceResult(
        outcome.method, outcome.logz, outcome.logz_se, tuple(rows), outcome.trace, outcome.history,
        np.zeros((0, model.n)) if outcome.samples is None else outcome.samples, outcome.islands,
        correction, messages(outcome.warnings), (*model.notes, *outcome.notes), settings,
        model.describe(), model.names, clock.meter.counts, tuple(outcome.components),
        outcome.component, referee.resolution,
    ))  # fmt: skip
