r"""Are the evidences of a user's models right? Data from known models, and what they are given.

A model M is drawn from its prior probabilities, data from what M predicts, and the evidences of
all models turn into probabilities p of M given the data. Where everything is right, M given the
data is distributed as p says, exactly, and the statistics of :mod:`evidence.results.calibration`
know their own distributions. Parameters that the data come from are ranked among posterior draws
(S. Talts et al., arXiv:1804.06788). Where a generator of the user's own makes the data, posteriors
averaged over data must be the prior.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..drivers.stopping import ended_early
from ..execution.arguments import (
    check_count,
    check_executor,
    check_function,
    check_kind,
    check_path,
    shown,
)
from ..execution.checkpoint import Checkpoint, digest
from ..execution.clock import Clock, Stopped
from ..execution.job import Job
from ..execution.options import told
from ..execution.progress import progress_line
from ..execution.tasks import run_tasks
from ..messages import InputError, Message
from ..models.formulas.jzs import check_proper
from ..models.types import Described
from ..numerics import jit
from ..numerics.arrays import Array
from ..results.at_draws import AtDraws
from ..results.base import fingerprint
from ..results.calibration import FEW, Calibration, Design
from ..results.evidence import EvidenceResult
from ..results.export import draw_seen
from ..results.hyper import IntegratedEvidence
from ._call import ROUGH
from .compare import check_prior, density_of, named
from .estimate import log_evidence
from .integrate import fits_over_theta
from .simulate import from_prior, log_likelihood, ranked

_MOST = 10**6  # data sets
Made = Described | Callable[..., Any]
_Generators = Callable[..., Any] | Mapping[str, Callable[..., Any]] | None


class Piece(NamedTuple):
    """What one data set says: whose it is, log Z by all models; and of numbers that are ranked
    those that made the data (NaN where nobody knows), draws of their prior and posterior."""

    who: int
    logz: Array
    truth: Array
    prior: Array
    posterior: Array


def calibrate(
    models: Mapping[str, Any] | Sequence[Any], n: int = 200, *, simulate: _Generators = None,
    prior: Mapping[str, float] | None = None,
    random_seed: int | np.random.Generator | None = None, executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None, progressbar: bool = True, **options: object,
) -> Calibration:  # fmt: skip
    """Find out on data from known models whether evidences and posteriors can be trusted.

    Parameters
    ----------
    models : mapping from name to model, or sequence of models
        With proper priors, from formulas or otherwise, but not ``"jzs"``. What has its data
        inside, such as a DensityModel, is given as a function from data to the model,
        ``lambda y: ev.DensityModel(...)``, and needs ``simulate``.
    n : int
        Data sets; twenty at least for one model alone, of which there is nothing but ranks.
    simulate : function, or mapping from name to function, optional
        ``rng -> y``, data as the user believes that a model makes them: where these are others
        than the model's, its prior or its likelihood is not what was meant. One function for all
        models takes the name as well, ``(rng, name) -> y``.
    prior : mapping from name to number, optional
        Prior probabilities of the models, up to a factor; equal by default.
    random_seed : int or Generator, optional
        Same seed, same answer.
    executor : concurrent.futures.Executor, optional
        Where data sets are treated, one a task: threads of this process unless given. A
        ``ProcessPoolExecutor`` keeps all cores busy.
    checkpoint : path, optional
        Keep what is computed in this file, and go on from it; to more data sets, too.
    progressbar : bool
        Show one line in a terminal or notebook.
    **options
        For every :func:`evidence.log_evidence`; by default ``target_se`` is 0.1, and ``effort``
        frugal.

    Returns
    -------
    Calibration
        ``.passed``, ``.table`` (a row per statistic), ``.plot()``.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> x = np.linspace(0, 3, 8)
    >>> base = ev.GPModel(x, 0 * x, "1.0 * RBF(0.5)", likelihood="gaussian(noise_std=0.5)")
    >>> models = {"short": base, "long": base.at({"length_scale": 2.0})}
    >>> ev.calibrate(models, 20, random_seed=0, progressbar=False).passed
    True
    """
    models = named(models)
    weights = np.array(list(check_prior(prior, models).values()))
    check_count("n", n, 2 if len(models) > 1 else FEW, optional=False, below=_MOST)
    shares, how = weights / weights.sum(), (random_seed, executor, checkpoint, progressbar)
    pieces, cut = _pieces(models, simulate, shares, [None] * n, how, options)
    numbers = {}
    for k, (name, model) in enumerate(models.items()):
        own = [p for p in pieces if p.who == k and len(p.posterior)]
        labels = [] if _makes(model) else ranked(model)[0]
        for q in range(own[0].truth.size if own else 0):
            label = f"{name}: {labels[q] if labels else f'parameter {q}'}"
            numbers[label] = [(p.truth[q], p.prior[:, q], p.posterior[:, q]) for p in own]
    index, logz = np.array([p.who for p in pieces]), np.array([p.logz for p in pieces])
    found = Calibration.of(tuple(map(str, models)), shares, index, logz, numbers)
    return told(replace(found, warnings=(*cut, *found.warnings)))


def design(
    m0: Made, m1: Made, n: int = 200, *, simulate: _Generators = None,
    random_seed: int | np.random.Generator | None = None, executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None, progressbar: bool = True, **options: object,
) -> Design:  # fmt: skip
    """What Bayes factors will a study give? Their distributions where each of two models is true.

    Parameters
    ----------
    m0, m1 : Model
        Of a study as it is planned: rows and columns are what counts, not their responses. They
        are called ``"m0"`` and ``"m1"``.
    n : int
        Data sets from each model.
    simulate, random_seed, executor, checkpoint, progressbar, **options
        As for :func:`evidence.calibrate`.

    Returns
    -------
    Design
        ``.table``: how often a Bayes factor is beyond 3, 10 and 30, for and against, by model;
        ``.log_bayes_factor``, ``.plot()``.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> x = np.linspace(0, 3, 20)
    >>> m0 = ev.GPModel(x, 0 * x, "1.0 * RBF(0.5)", likelihood="gaussian(noise_std=0.5)")
    >>> plan = ev.design(m0, m0.at({"length_scale": 2.0}), 20, random_seed=0, progressbar=False)
    >>> bool(plan.table["P(BF > 3)"]["m1"] > 0.5)
    True
    """
    check_count("n", n, 2, optional=False, below=_MOST)
    models, how = {"m0": m0, "m1": m1}, (random_seed, executor, checkpoint, progressbar)
    pieces, cut = _pieces(models, simulate, np.full(2, 0.5), [0, 1] * n, how, options, ranks=False)
    factors = [(p.who, p.logz[1] - p.logz[0]) for p in pieces if np.isfinite(p.logz).all()]
    each = {name: np.array([f for i, f in factors if i == k]) for k, name in enumerate(models)}
    if not all(log.size for log in each.values()):
        raise KeyboardInterrupt if cut else RuntimeError("a model has no data with evidences")
    return told(Design(each, tuple(cut)))


def _pieces(
    models: dict[str, Any], simulate: _Generators, shares: Array, indices: Sequence[int | None],
    how: tuple[Any, Any, Any, bool], options: dict[str, Any], ranks: bool = True,
) -> tuple[list[Piece], list[Message]]:  # fmt: skip
    """One for each data set, of the models whose numbers are given or at random; ^C leaves those
    finished by then, and a warning."""
    random_seed, executor, path, progressbar = how
    check_executor(executor)
    check_path("checkpoint", path)
    generators = _check_generators(models, simulate)
    options = {"target_se": ROUGH, "effort": "frugal"} | options
    every = *models.values(), *(f for f, _ in generators.values())
    who = [jit.fingerprint(one) if _makes(one) else fingerprint(one) for one in every]
    words = {name: str(value) for name, value in options.items()}
    known = {"package version": __version__, "models": digest(*who, shares), "ranks": ranks}
    store, seed = Checkpoint.seeded(path, known | words, random_seed)
    pieces = {i: store.get(f"data set {i}", Piece) for i in range(len(indices))}
    left = [i for i, piece in pieces.items() if piece is None]
    seeds, before = seed.spawn(len(indices)), len(indices) - len(left)

    def done(task: int, piece: Piece) -> None:
        pieces[left[task]] = piece
        store.put(f"data set {left[task]}", piece)
        store.save_soon()
        bar.update(1)

    bare = {name: m if _makes(m) else m.bare() for name, m in models.items()}
    job = Job(one_data_set, (bare, generators, shares, ranks, options))
    tasks = [{"index": indices[i], "seed": seeds[i]} for i in left]
    bar = progress_line(progressbar, total=len(indices), initial=before, unit="data set")
    clock = Clock()
    with bar:
        run_tasks(job, tasks, clock, done, executor)
    store.save()
    cut = ended_early(clock, "data sets")
    return [piece for piece in pieces.values() if piece is not None], cut


def one_data_set(
    models: dict[str, Any], generators: dict[str, Any], shares: Array, ranks: bool,
    options: dict[str, Any], *, index: int | None, seed: np.random.SeedSequence,
    stop: Callable[[], bool],
) -> Piece:  # fmt: skip
    """Data from one model, and what all of them say."""
    rng = np.random.default_rng(seed)
    k = int(rng.choice(shares.size, p=shares)) if index is None else index
    name = list(models)[k]
    if name in generators:
        function, words = generators[name]
        truth, y = np.array(np.nan), function(rng, *words)
    else:
        truth, y = from_prior(models[name], rng)
    made = list[Any]()
    for m, model in models.items():
        if not _makes(model) and np.shape(y) != model.y.shape:
            raise InputError(
                f"models[{shown(m)}] has data of shape {model.y.shape}, but those of {name!r} "
                f"have {np.shape(y)}; all models must be of the same data"
            )
        made.append(density_of(model(y)) if _makes(model) else model.with_data(y))
    results = []
    for model in made:  # in turn, on the core of this task
        results.append(log_evidence(model, random_seed=rng, progressbar=False, **options))
        if stop():
            raise Stopped
    posterior = _posterior(made[k], results[k], rng) if ranks else np.zeros((0, 0))
    prior = np.array([from_prior(made[k], rng)[0] for _ in posterior])
    truth = np.broadcast_to(truth, posterior.shape[1:]) if len(posterior) else np.zeros(0)
    return Piece(k, np.array([result.logz for result in results]), truth, prior, posterior)


def _posterior(
    model: Any, result: EvidenceResult, rng: np.random.Generator, *, draws: int = 20
) -> Array:
    """Draws of what is ranked, (draws, numbers); none where there are none.

    ``draws``: of prior and posterior for each data set; of hyperparameters each costs a fit by EP.
    """
    where = ranked(model)[1]
    if isinstance(result, IntegratedEvidence) and len(result.theta):
        fits, free = fits_over_theta(model, result, draws, spread=False), model.priors.free
        rows = []
        for q in fits:
            own = rng.normal(q.mean[where], q.var[where] ** 0.5)
            seen = draw_seen(q.gaussian, rng)[None, None]
            log_p = AtDraws(model.observed, seen, (q.model.likelihood,)).log_likelihood().sum()
            rows.append((*q.model.hyperparameters.theta[free], *own, log_p))
        return np.array(rows)
    if not len(result.samples) or model.prior is None:
        return np.zeros((0, 0))
    x = result.samples[np.linspace(0, len(result.samples) - 1, draws).astype(int)]
    log_p = [[log_likelihood(model, one)] for one in x] if hasattr(model, "y") else x[:, :0]
    return np.hstack([x[:, where], log_p])


def _check_generators(models: dict[str, Any], simulate: _Generators) -> dict[str, Any]:
    """The user's functions from random numbers to data, by the names of models."""
    if callable(simulate):
        with_name = len(inspect.signature(simulate).parameters) > 1
        if len(models) > 1 and not with_name:
            raise InputError(
                "simulate: whose data does this function make? Of several models give a mapping, "
                "{name: function of rng}, or a function of (rng, name)"
            )
        generators = {m: (simulate, (m,) * with_name) for m in models}
    elif isinstance(simulate, Mapping | None) and set(simulate or ()) <= set(models):
        generators = {m: (function, ()) for m, function in (simulate or {}).items()}
    else:
        raise InputError(
            f"simulate must map names ({', '.join(map(str, models))}) to functions of rng, got "
            f"{shown(simulate)}"
        )
    for name, model in models.items():
        check_function(f"simulate[{shown(name)}]", generators.get(name, (None,))[0])
        if not (_makes(model) and name in generators):
            what = f"models[{shown(name)}], unless it is a function from data with its simulate,"
            check_kind(what, model, Described)
        check_proper(f"models[{shown(name)}]", model)
    return generators


def _makes(model: object) -> bool:
    """Whether it is a function from data to a model."""
    return callable(model) and not hasattr(model, "identity")
