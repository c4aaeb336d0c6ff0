r"""Approximate leave-one-out: how well the other data predict each datum.

EP has the answer for given hyperparameters, the normaliser of its tilted distribution:

.. math:: p(y_i | y_{-i}, \theta) \approx \int p(y_i|x_i)\, N(x_i; \text{cavity})\, dx_i

(exact under normal noise), and a correction for what the datum changes of the other sites
(:mod:`evidence.approximations.gp.cavities`). Where several hyperparameters θ, several modes or
posterior draws x are averaged, taking a datum out changes their weights,

.. math:: \frac{1}{p(y_i | y_{-i})} = E_{\theta | y} \Big[ \frac{1}{p(y_i | y_{-i}, \theta)} \Big],

and the weights :math:`1/p` of draws are Pareto smoothed (:mod:`evidence.statistics.psis`). Where
a datum moves the posterior too far for its draws to tell, the answer is a difference of two log
evidences, :math:`\log p(y_i | y_{-i}) = \log Z - \log Z_{-i}`.

References
----------
C. E. Rasmussen and C. K. I. Williams (2006), section 5.4.2; A. Vehtari, T. Mononen, V. Tolvanen,
T. Sivula and O. Winther, J. Mach. Learn. Res. 17 (2016) 103; A. Vehtari, A. Gelman and J. Gabry,
Stat. Comput. 27 (2017) 1413.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ..approximations.gp.cavities import cavities, changes_of_others
from ..approximations.mixture import Mixture
from ..approximations.predictors.reference import BlockReference
from ..approximations.reference import GaussianReference
from ..execution.arguments import check_choice, check_count, check_kind, seed_sequence
from ..execution.clock import interruptible
from ..execution.keywords import hinted
from ..execution.options import told
from ..messages import InputError, Message, messages
from ..models.latent import LatentModel
from ..models.likelihoods.base import Likelihood
from ..models.types import Described
from ..numerics.arrays import Array, Flags
from ..numerics.threads import blas_for
from ..results.at_draws import AtDraws
from ..results.evidence import EvidenceResult
from ..results.hyper import HyperDraws, IntegratedEvidence
from ..results.loo import LooResult
from ..statistics.diagnostics import ess
from ..statistics.psis import LIMIT, smoothed
from ._call import ROUGH
from ._options import Posterior
from .estimate import log_evidence
from .integrate import fits_over_theta, integrated_evidence
from .reference import fit_reference
from .sample import sample
from .sample_hyperparameters import sample_hyperparameters

_BLOCK = 1_000_000  # numbers at a time


class _View(NamedTuple):
    """What one method says of every datum."""

    pointwise: Array
    fitted: Array
    pit: Array
    """P(Y < y) and P(Y ≤ y), shape (2, N), or (2, 0)."""
    pareto_k: Array
    mcse: float
    doubtful: Flags
    """Data of which draws of the posterior do not tell how it is without them."""
    mcse_others: float = math.nan
    """Of the sum over all others."""
    warnings: tuple[Message, ...] = ()
    logz: float = math.nan


@hinted
@interruptible()
def loo(
    model: Described,
    posterior: Posterior | None = None,
    *,
    method: str = "auto",
    max_draws: int = 48,
    max_refits: int = 8,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> LooResult:
    """Estimate the log density of every datum given all others, and their sum.

    Parameters
    ----------
    model : GPModel, SparseModel, FormulaModel, PredictorsModel or SoftmaxModel
    posterior : reference, Draws, EvidenceResult, HyperDraws, IntegratedEvidence or array, optional
        A Gaussian of :func:`evidence.fit_ep` or a mixture of them; draws of latent values, as an
        array (..., n) or those of :func:`evidence.sample`, :func:`evidence.log_evidence` or
        :func:`evidence.sample_hyperparameters`; or draws of hyperparameters, of
        :func:`evidence.integrated_evidence`. By default EP is fitted; hyperparameters with priors
        are integrated out first, roughly.
    method : {"auto", "ep", "psis"}
        ``"ep"``: cavities, averaged over hyperparameters where the posterior has draws of them.
        ``"psis"``: importance weights of draws of latent values; where none are given the model
        is sampled. ``"auto"``: EP, which is exact under normal noise that is known; elsewhere
        PSIS as well where there are draws of latent values, which then is the answer; where data
        see several predictors there is PSIS alone.
    max_draws : int
        Settings of hyperparameters to which EP is fitted.
    max_refits : int
        Evidences without one datum, for those that move the posterior too far for its draws to
        tell (Pareto's k above 0.7, predicted worse by a nat by the others than by all, by 0.5
        or less where EP has no say, by a nat where it alone has one and is not exact, or a nat
        from what EP says), the farthest first. 0 leaves it
        at the draws, and so do draws of hyperparameters under other priors than the model's own
        (:meth:`evidence.GPModel.with_priors`).
    random_seed : int or Generator, optional
        Same seed, same answer.
    progressbar : bool
        Show one line in a terminal or notebook where draws are made.

    Returns
    -------
    LooResult
        ``result.elpd``, ``result.se``, ``result.pointwise``, ``result.pareto_k``, ``result.pit``,
        ``result.difference(other)``, ``result.to_frame()``, ``result.plot()``, …

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> x = np.linspace(0.0, 3.0, 12)
    >>> model = ev.GPModel(x, np.sin(2 * x), "RBF(0.8)", likelihood="gaussian(noise_std=0.3)")
    >>> right = ev.loo(model)
    >>> right
    LooResult(elpd=-0.12 ± 0.64, ep)
    >>> long = ev.loo(model.at({"length_scale": 5.0}))
    >>> right.difference(long).elpd > 0
    True
    """
    check_kind("model", model, Described)
    check_choice("method", method, ("auto", "ep", "psis"))
    if model.n_predictors > 1:
        method = _by_draws_only(method, posterior)
        if isinstance(posterior, IntegratedEvidence):  # it has no draws of latent values
            posterior = None
    check_count("max_draws", max_draws, 2, optional=False)
    check_count("max_refits", max_refits, 0, optional=False)
    seeds = [np.random.default_rng(seed) for seed in seed_sequence(random_seed).spawn(4)]
    if posterior is None:
        posterior = _made(model, method, random_seed=seeds[0], progressbar=progressbar)
    with blas_for(model.n):
        views = _views(model, posterior, method, max_draws, seeds[1])
    last, view, first = *list(views.items())[-1], next(iter(views.values()))
    words = {"random_seed": seeds[3], "progressbar": progressbar}
    amiss = _amiss(views, model.likelihood.name == "gaussian")
    view = view._replace(doubtful=view.doubtful | (amiss & (len(views) > 1)))
    view, anew, said = _computed_anew(model, posterior, view, amiss, max_refits, words)
    off, where = (view.fitted - view.pointwise) / 3.0, amiss  # what weights miss, on average
    if len(views) > 1:  # or how far EP is from the draws, where one of them may be wrong
        off, where = view.pointwise - first.pointwise, _may_be_wrong(model, view)
    view = view._replace(mcse=math.hypot(view.mcse, np.nansum(off[where & ~anew])))
    views[last] = view
    low, high = view.pit
    whole = posterior if isinstance(posterior, EvidenceResult) else None
    logz, logz_se = (whole.logz, whole.logz_se) if whole else (view.logz, math.nan)
    warnings = dict.fromkeys(w for v in views.values() for w in v.warnings)
    return told(LooResult(
        method=last, y=model.observed, pointwise=view.pointwise, fitted=view.fitted,
        pareto_k=view.pareto_k, pit=low + seeds[2].uniform(size=low.size) * (high - low),
        by_method={name: v.pointwise for name, v in views.items()}, mcse=view.mcse,
        logz=logz, logz_se=logz_se,
        warnings=messages([*getattr(posterior, "warnings", ()), *warnings]),
        notes=(*_rough(model, method, posterior, max_draws), *said),
        settings={"max_draws": max_draws, "max_refits": max_refits}, model=model.describe(),
    ))  # fmt: skip


def _views(
    model: Described, posterior: object, method: str, max_draws: int, rng: np.random.Generator
) -> dict[str, _View]:
    """What the methods say that were asked for, the answer last."""
    views = dict[str, _View]()
    gaussian = isinstance(posterior, GaussianReference | Mixture | IntegratedEvidence | None)
    if method != "psis":
        name = posterior.name if isinstance(posterior, GaussianReference) else "ep"
        views[name] = _by_cavities(model, posterior, max_draws, rng)
    if method == "psis" or not gaussian:
        at = AtDraws.of(model, posterior)
        exact = model.likelihood.name == "gaussian" and not isinstance(posterior, HyperDraws)
        if method == "psis" or (method == "auto" and not exact):
            views["psis"] = _by_draws(at)
    return views


def _by_draws_only(method: str, posterior: object) -> str:
    """Data that see several predictors have no cavities here."""
    if method == "ep" or isinstance(posterior, BlockReference):
        raise InputError(
            "method='ep' is for data with one predictor: of several take method='psis', with "
            "posterior= draws of latent values (or nothing: they are made)"
        )
    return "psis"


def _made(model: Described, method: str, **options: Any) -> Posterior | None:
    """What the method needs of the posterior and nobody gave; None where that is nothing."""
    if model.priors is None:
        return sample(model, **options) if method == "psis" else None
    if method == "psis":
        return sample_hyperparameters(model, **options)
    return integrated_evidence(model, target_se=ROUGH, **options)


# -- cavities -------------------------------------------------------------------------------


def _by_cavities(
    model: Described, posterior: object, max_draws: int, rng: np.random.Generator
) -> _View:
    """Of one Gaussian, of several modes, or of EP at draws of hyperparameters."""
    if isinstance(posterior, HyperDraws | IntegratedEvidence):
        fits = fits_over_theta(model, posterior, max_draws)
        log_p, fitted, low, high = _stacked(_at_gaussian(q, max_draws) for q in fits)
        log_w, shape = _taken_out(log_p, np.ones(model.y.size))
        equal = np.full((len(log_p), 1), -math.log(len(log_p)))
        view = _averaged(log_p, fitted, low, high, log_w, equal)
        worth = 1.0 / np.sum(np.exp(2.0 * log_w), axis=0) / len(log_p)
        doubtful = ((shape > LIMIT) & (worth < 0.5)) | _influential(view)
        pulls = _pulls(log_p, log_w, view.pointwise)
        mcse, sure = (math.hypot(*pulls @ of) for of in (np.ones(len(shape)), ~doubtful))
        return view._replace(pareto_k=shape, mcse=mcse, doubtful=doubtful, mcse_others=sure)
    if isinstance(posterior, GaussianReference | Mixture):
        mixture = posterior
    else:
        mixture = fit_reference(model, random_seed=rng)
    if mixture.model is not model:
        raise InputError("posterior was fitted to another model; fit it to this one")
    if isinstance(mixture, Mixture):
        weights = mixture.probable
        parts = [c for c, w in zip(mixture.components, weights, strict=True) if w > 0.0]
        weights = weights[weights > 0.0]
    else:
        parts, weights = [mixture], np.ones(1)
    log_p, fitted, low, high = _stacked(_at_gaussian(q, len(parts)) for q in parts)
    equal = np.log(weights)[:, None]
    gone = np.isnan(log_p)
    log_p[gone] = 0.0
    log_w = np.where(gone, -np.inf, equal - log_p)
    with np.errstate(invalid="ignore"):  # NaN where no component has a cavity
        log_w -= np.logaddexp.reduce(log_w, axis=0)
        view = _averaged(log_p, fitted, low, high, log_w, equal)
    warnings = [*messages(mixture.warnings)]
    if lost := int(np.isnan(view.pointwise).sum()):
        text = f"{lost} data have no cavity (its variance is not positive): their elpd is NaN"
        warnings.append(Message("no-cavity", text))
    return view._replace(warnings=tuple(warnings), logz=mixture.logz)


def _at_gaussian(
    q: GaussianReference, count: int, *, most_nodes: int = 1000, least_nodes: int = 64
) -> tuple[Array, Array, Array, Array]:
    """Log densities of every datum given all others, and given all; P(Y < y), P(Y ≤ y).

    ``most_nodes``: that stand for a cavity in distribution functions; ``least_nodes``: the same
    with many data.
    """
    y, likelihood, (mean, var) = q.model.y, q.model.likelihood, q.predictors
    cavity = cavities(mean, var, q.sites.nu, q.sites.tau)
    log_p = likelihood.tilted(y, cavity.mean, cavity.var)[0]
    if q.name == "ep" and _is_corrected(q.model, count):
        log_p -= changes_of_others(q.model, q.gaussian, q.sites)
    ends = np.full((2, y.size if _has_cdf(likelihood) else 0), np.nan)
    nodes = max(most_nodes // count, least_nodes)
    z = ndtri((np.arange(nodes)[:, None] + 0.5) / nodes)
    step = max(1, _BLOCK // nodes)
    for first in range(0, ends.shape[1], step):
        rows = slice(first, first + step)
        m, v, own = cavity.mean[rows], cavity.var[rows], likelihood.at(np.arange(y.size)[rows])
        if likelihood.name == "gaussian":
            total = own.predictive(m, v)
            ends[:, rows] = ndtr((y[rows] - total.mean) / np.sqrt(total.var))
        else:
            x = m + z * np.sqrt(v)
            ends[:, rows] = _ends(partial(own.cdf, x=x), likelihood, y[rows]).mean(axis=1)
    fitted = likelihood.tilted(y, mean, var)[0]
    return np.where(cavity.ok, log_p, np.nan), fitted, *ends


def _is_corrected(model: Described | LatentModel, count: int, *, pairs: int = 1_000_000) -> bool:
    """Whether pairs of data are few enough for ``count`` Gaussians.

    ``pairs``: of data, for which cavities are corrected.
    """
    few = count * model.y.size**2 <= pairs
    return few and model.likelihood.log_concave and model.likelihood.name != "gaussian"


def _rough(model: Described, method: str, posterior: object, count: int) -> Iterator[str]:
    """How good EP's cavities are, where they are not good."""
    count = count if isinstance(posterior, HyperDraws | IntegratedEvidence) else 1
    if method == "psis":
        return
    if not model.likelihood.log_concave:
        yield (
            "EP's leave-one-out densities are rough where a likelihood is not log-concave; pass "
            "posterior=ev.sample(model) to check them"
        )
    elif model.likelihood.name != "gaussian" and not _is_corrected(model, count):
        yield (
            f"EP's leave-one-out densities are without their correction, which {model.y.size} "
            "data make dear: errors of a few hundredths each"
        )


def _stacked(parts: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    each = list(parts)
    if not each:
        raise InputError("posterior: EP failed at all of its hyperparameters")
    return tuple(np.array(part) for part in zip(*each, strict=True))


# -- draws ----------------------------------------------------------------------------------


def _by_draws(at: AtDraws) -> _View:
    """PSIS, a block of data at a time."""
    (chains, draws, _), N = at.seen.shape, at.y.size
    different = np.unique(at.seen[..., 0]).size  # samples may come with copies
    S, pulls, worth = chains * draws, np.zeros((chains * draws, 2)), list[Array]()
    equal, views, step = np.full((S, 1), -math.log(S)), list[_View](), max(1, _BLOCK // S)
    for first in range(0, N, step):
        rows = np.arange(first, min(first + step, N))
        log_p = at.log_likelihood(rows)
        efficiency = np.full(rows.size, different / S)
        if chains > 1 and draws > 3:
            efficiency = np.nan_to_num(ess(np.exp(log_p - log_p.max(axis=(0, 1)))) / S, nan=1.0)
        log_p = log_p.reshape(S, -1)
        log_w, shape = _taken_out(log_p, efficiency)
        low, high = np.zeros((2, S, 0))
        if _has_cdf(at.likelihoods[0]):
            low, high = _ends(partial(at.cdf, rows=rows), at.likelihoods[0], at.y[rows])
        view = _averaged(log_p, log_p, low, high, log_w, equal)
        doubtful = (shape > LIMIT) | _influential(view)
        of = np.stack([np.ones(rows.size), ~doubtful], axis=1)
        pulls += _pulls(log_p, log_w, view.pointwise) @ of
        worth.append(efficiency)
        views.append(view._replace(pareto_k=shape, doubtful=doubtful))
    pointwise, fitted, pit, shape, doubtful = (
        np.concatenate([getattr(view, part) for view in views], axis=-1)
        for part in ("pointwise", "fitted", "pit", "pareto_k", "doubtful")
    )
    mcse, sure = np.sqrt(np.sum(pulls**2, axis=0) / np.mean(np.concatenate(worth))).tolist()
    return _View(pointwise, fitted, pit, shape, mcse, doubtful, sure)


# -- evidences without a datum -----------------------------------------------------------------


def _influential(view: _View, most: float = 1.0) -> Flags:
    """Data that the others predict worse than all do by ``most`` nats: 2.7 times.

    Weights see some of that only: of an outlier that sets the noise of ten normal data they saw 2
    nats, and missed 2 to 10 beyond them.
    """
    return np.asarray(view.fitted - view.pointwise > most)


def _amiss(
    views: dict[str, _View], exact: bool, apart: float = 1.0, shape: float = 0.3,
    least: float = 0.25, much: float = 0.5, few: int = 2000,
) -> Flags:  # fmt: skip
    """Data of which draws are ``apart`` from EP, in nats (of three Weibull data one was 2.3 too
    high at a Pareto k of .42). Where EP has no say, those that move the posterior by ``least`` at
    a Pareto ``shape`` above this, or by ``much``: weights of 1,000 draws missed up to a half of it
    (of five to nine data with two predictors each RMS z was 2.3 to 4.3, all of it of such data).
    Where EP alone has one, those of influence among so ``few`` that an evidence is cheap: of an
    outlier among 14 counts it was 1.5 nats off; under normal noise it is ``exact``.
    """
    first, view = next(iter(views.values())), list(views.values())[-1]
    if "psis" in views and view is first:
        limit = np.where(view.pareto_k > shape, least, much)
        return np.asarray(view.fitted - view.pointwise > limit)
    if len(views) == 1:
        return _influential(view) & (not exact and view.fitted.size <= few)
    return np.asarray(np.abs(view.pointwise - first.pointwise) > apart)


def _may_be_wrong(model: Described, view: _View, heavy: float = 0.3) -> Flags:
    """Data of which EP is good, or draws are not: with a tail that may be ``heavy`` though draws
    do not show it (of 12 fits z is 1.5 at most)."""
    return np.asarray(_is_corrected(model, 1) | view.doubtful | (view.pareto_k > heavy))


def _computed_anew(
    model: Described, posterior: object, view: _View, amiss: Flags, most: int,
    words: dict[str, Any],
) -> tuple[_View, Flags, tuple[str, ...]]:  # fmt: skip
    """The view with up to ``most`` of the data that are doubtful or ``amiss`` from evidences
    without them, which these are, and what is said of them."""
    asked = view.doubtful | amiss
    influence = np.where(asked, view.fitted - view.pointwise, -np.inf)
    known = {} if model.priors is None else model.priors.describe()
    same = known == getattr(posterior, "settings", {}).get("priors", known)
    count = min(most, np.count_nonzero(asked)) if same and model.y.size > 1 else 0
    chosen = np.argsort(-influence, kind="stable")[:count]
    whole = posterior if isinstance(posterior, EvidenceResult) else None
    if count and (whole is None or not whole.logz_se <= ROUGH):
        whole = _evidence(model, words)
    pointwise, anew, errors = view.pointwise.copy(), np.zeros(model.y.size, bool), list[float]()
    for i in chosen:
        without = _evidence(model.without(i), words)
        if whole and without and math.isfinite(without.logz_se + whole.logz_se):
            pointwise[i], anew[i] = whole.logz - without.logz, True
            errors.append(without.logz_se)
    shared = anew.sum() * whole.logz_se if whole and errors else 0.0
    left = view.doubtful & ~anew
    mcse = math.hypot(view.mcse if left.any() else view.mcse_others, shared, *errors)
    text = (
        f"{anew.sum()} of {anew.size} data (number {_numbers(anew)}) move the posterior too far "
        "for its draws to tell: of them elpd is log Z less that without the datum"
    )
    warnings = (*view.warnings, *_doubts(left))
    view = view._replace(pointwise=pointwise, mcse=mcse, doubtful=left, warnings=warnings)
    return view, anew, (text,) * bool(anew.any())


def _evidence(model: Described, words: dict[str, Any]) -> EvidenceResult | None:
    """Log Z, hyperparameters integrated where they have priors; None where there is none, as of
    data that are all the same without an outlier."""
    with suppress(InputError, RuntimeError):
        return log_evidence(model, target_se=0.5 * ROUGH, **words)
    return None


# -- averages -------------------------------------------------------------------------------


def _taken_out(log_p: Array, efficiency: Array) -> tuple[Array, Array]:
    """Smoothed log weights of S draws without each datum, (S, N), and shapes of their tails."""
    log_w, shape = np.full_like(log_p, np.nan), np.full(log_p.shape[1], np.nan)
    for i in np.flatnonzero(np.isfinite(log_p).all(axis=0)):
        log_w[:, i], shape[i] = smoothed(-log_p[:, i], float(efficiency[i]))
    return log_w, shape


def _averaged(
    log_p: Array, fitted: Array, low: Array, high: Array, log_w: Array, equal: Array
) -> _View:
    """With log weights that leave a datum out, and those ``equal`` for all data."""
    pit = np.array([np.sum(np.exp(log_w) * end, axis=0) for end in (low, high) if end.size])
    return _View(
        np.logaddexp.reduce(log_w + log_p, axis=0), np.logaddexp.reduce(equal + fitted, axis=0),
        np.clip(pit, 0.0, 1.0).reshape(2, -1), np.full(log_p.shape[1], np.nan), math.nan,
        np.zeros(log_p.shape[1], bool),
    )  # fmt: skip


def _pulls(log_p: Array, log_w: Array, pointwise: Array) -> Array:
    """By how much every draw moves elpd of every datum, to first order."""
    return np.nan_to_num(np.exp(log_w) * np.expm1(log_p - pointwise))


def _has_cdf(likelihood: Likelihood) -> bool:
    return type(likelihood).cdf is not Likelihood.cdf


def _ends(cdf: Callable[[Array], Array], likelihood: Likelihood, y: Array) -> Array:
    """P(Y < y) and P(Y ≤ y), along a new first axis."""
    high = cdf(y)
    if not likelihood.counts:
        return np.array([high, high])
    return np.array([np.where(y > 0.0, cdf(np.maximum(y - 1.0, 0.0)), 0.0), high])


def _numbers(data: Flags, most: int = 8) -> str:
    where = np.flatnonzero(data)
    return ", ".join(map(str, where[:most])) + ", …" * (where.size > most)


def _doubts(left: Flags) -> Iterator[Message]:
    """Data of which draws do not tell, and nothing else was asked."""
    if left.any():
        text = (
            f"without any one of {left.sum()} of {left.size} data (number {_numbers(left)}) the "
            f"posterior differs too much for its draws to tell (Pareto k above {LIMIT}, or a nat "
            "lost); a larger max_refits= computes the evidence without each, where it has one"
        )
        yield Message("pareto-k", text)
