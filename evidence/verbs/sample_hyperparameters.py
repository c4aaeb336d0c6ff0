"""One call from a model and priors to posterior draws of its hyperparameters."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from operator import length_hint
from typing import Any

import numpy as np

from ..drivers.stopping import ended_early
from ..execution.arguments import check_choice, check_count, check_memory
from ..execution.clock import interruptible
from ..execution.job import Job
from ..execution.keywords import hinted
from ..execution.options import told
from ..execution.progress import compiling, progress_line
from ..execution.tasks import run_tasks
from ..hyper.at_theta import NoEvidence, guided_estimate
from ..hyper.chains import Chain, run_chain
from ..hyper.fields import LatentField, field_of
from ..hyper.schemes import KAPPA_TARGET, SCHEMES, Scheme
from ..messages import InputError, Message, messages
from ..models.base import DataModel
from ..models.latent import LatentModel
from ..models.priors import Priors
from ..models.sparse import SparseModel
from ..models.types import Described
from ..numerics.arrays import Array
from ..numerics.threads import blas_for
from ..results.hyper import HyperDraws
from ..statistics.diagnostics import unmixed
from ._call import Call, check_chains
from .integrate import chosen_priors, fits_at, integrated_evidence, lost_theta, no_priors
from .simulate import log_likelihood


@hinted
def sample_hyperparameters(
    model: Described | LatentField,
    priors: Mapping[str, Any] | None = None,
    *,
    scheme: str | None = None,
    fixed: Iterable[str] = (),
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 2,
    thin: int = 1,
    keep: int | None = None,
    max_seconds: float | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> HyperDraws:
    r"""Draw hyperparameters and latent values from their joint posterior.

    Parameters
    ----------
    model : GPModel, SparseModel, PredictorsModel or SoftmaxModel
        A GPModel or a SparseModel, of a formula for example, needs no chains: by default its draws
        come from the integral over hyperparameters (:func:`evidence.integrated_evidence`), at up
        to 128 settings per chain, with guided draws of latent values at each of them, one after
        the other (so that effective sizes count settings); ``tune`` and ``thin`` are for chains,
        which start at the model's own hyperparameters, give or take a tenth.
    priors : mapping of str to frozen scipy.stats distribution, its text or "flat", optional
        A prior of the natural value of every free hyperparameter (any unambiguous ending of
        its name does); ``"flat"`` is :math:`N(0, 10^2)` on the logarithm. See
        ``model.hyperparameters.names``. By default the model's own. With several classes a name
        that says nothing of a class stands for all that have it.
    scheme : str, optional
        Of Markov chains, which a SparseModel does without; of several predictors by default the
        first. ``"agrad-z-joint"`` moves latent values and hyperparameters together, given a
        smoothed copy of the field; ``"agrad-z-gibbs"``, ``"pcnl-gibbs"`` and
        ``"elliptical-gibbs"`` alternate between the two; ``"whitened"`` moves hyperparameters with
        the whitened field held; ``"pseudo-marginal"`` integrates the field out by draws that EP's
        sites guide.
    fixed : names
        Hyperparameters held at the model's values.
    draws, tune, chains : int
        Recorded draws per chain, iterations before them (step sizes adapt, then stay fixed),
        and independent chains, each in a thread of its own.
    thin : int
        Iterations between recorded draws.
    keep : int, optional
        Draws per chain at which latent values are kept, evenly spread; by default all, or as
        many as fit into 200 MB.
    max_seconds : float, optional
        Stop then, with what there is.
    random_seed : int or Generator, optional
        Same seed, same draws (unless ``max_seconds`` cuts them short).
    progressbar : bool
        Show one line in a terminal or notebook.

    Returns
    -------
    HyperDraws
        ``draws.theta`` (chains, draws, P) logs, ``draws.x``, ``draws.table()``,
        ``draws.plot()``, ``draws.to_arviz()``, …

    Notes
    -----
    ^C ends the run early and returns what every chain has recorded.

    References
    ----------
    Titsias and Papaspiliopoulos (2018), Auxiliary gradient-based sampling algorithms, Journal
    of the Royal Statistical Society B 80, 749–767.

    Filippone and Girolami (2014), Pseudo-marginal Bayesian inference for Gaussian processes,
    IEEE Transactions on Pattern Analysis and Machine Intelligence 36, 2214–2226.

    Examples
    --------
    >>> from scipy.stats import gamma
    >>> from evidence import GPModel, sample_hyperparameters
    >>> model = GPModel([[0.0], [1.0], [3.0]], [1, 1, -1], "4.0 * RBF(1.5)", likelihood="logit")
    >>> draws = sample_hyperparameters(
    ...     model, {"constant_value": gamma(2, scale=2), "length_scale": gamma(2)},
    ...     draws=200, random_seed=0, progressbar=False,
    ... )
    >>> draws.theta.shape, draws.x.shape
    ((2, 200, 2), (2, 200, 3))
    """
    asked, scheme = scheme, scheme or "agrad-z-joint"
    check_choice("scheme", scheme, tuple(SCHEMES))
    check_chains(draws=draws, tune=tune, chains=chains, thin=thin)
    check_count("keep", keep, 1)
    call = Call(max_seconds=max_seconds, random_seed=random_seed, progressbar=progressbar)
    if isinstance(model, SparseModel if asked else LatentModel):
        return _from_integral(model, priors, fixed, draws, chains, keep, call)
    chosen, field = SCHEMES[scheme], _field(model, SCHEMES[scheme])
    if isinstance(model, DataModel):
        prior = chosen_priors(model, priors, fixed)
    elif priors is None:
        raise no_priors(model.hyperparameters.names)
    else:
        prior = Priors.of(field.hyperparameters, priors, fixed)
    check_memory("draws", draws, draws, chains, len(prior))
    prior.check_start(field.hyperparameters.theta)
    stride = _stride(draws, keep, chains * field.mean.size)
    plan = dict(draws=draws, tune=tune, thin=thin, stride=stride)
    call.begin()
    steps = chains * (tune + thin * draws)
    bar = progress_line(progressbar, total=steps, desc=scheme, unit="step", ncols=88)
    lock, finished = threading.Lock(), dict[int, Chain]()

    def tick(steps: int) -> None:
        with lock:  # chains have threads of their own
            bar.update(steps)

    job = Job(run_chain, (field, prior, chosen, tick), plan)
    tasks, clock = [{"seed": seed} for seed in call.seed.spawn(chains)], call.clock
    with bar, compiling(progressbar), ThreadPoolExecutor(chains) as pool:
        run_tasks(job, tasks, clock, finished.__setitem__, pool)
    kept = min((len(chain.theta) for chain in finished.values()), default=0)
    if len(finished) < chains or not kept:
        raise call.too_early("every chain had recorded a draw", tune)
    run = [finished[i] for i in range(chains)]
    sizes = [chain.sizes if chosen.delta_target else (np.nan, chain.sizes.kappa) for chain in run]
    tune_seconds, seconds = np.max([chain.seconds for chain in run], axis=0).tolist()
    result = HyperDraws(
        **_recorded(run, kept, stride),
        names=prior.names, scheme=scheme, step_sizes=np.array(sizes), seconds=seconds,
        tune_seconds=tune_seconds, failures=sum(chain.failures for chain in run),
        settings={"priors": prior.describe(), **plan, "chains": chains, **call.told_seed},
        model=model.describe() if hasattr(model, "describe") else {"N": field.n},
    )  # fmt: skip
    result.warnings = tuple(_doubts(result, chosen, draws, thin))
    return told(result)


def _recorded(run: list[Chain], kept: int, stride: int) -> dict[str, Any]:
    """What all chains have, side by side."""
    return {
        "theta": np.array([chain.theta[:kept] for chain in run]),
        "x": np.array([chain.x[: math.ceil(kept / stride)] for chain in run]),
        "loglik": np.array([chain.loglik[:kept] for chain in run]),
        "tune_loglik": np.array([chain.tune_loglik for chain in run]),
        "acceptance": np.array([chain.acceptance for chain in run]),
    }


def _from_integral(
    model: Described, priors: Mapping[str, Any] | None, fixed: Iterable[str], draws: int,
    chains: int, keep: int | None, call: Call, *, se: float = 0.1, settings: int = 128,
    guided: int = 32,
) -> HyperDraws:  # fmt: skip
    """Draws of θ that an integral over it left, and guided draws of latent values there.

    ``se``: of the integral that draws come from; ``settings``: of hyperparameters, for each chain;
    ``guided``: draws of latent values of which one is kept.
    """
    call.begin()
    clock, seeds = call.clock, call.seed.spawn(chains + 1)
    integral = integrated_evidence(
        model, priors, fixed=fixed, target_se=se, max_seconds=call.max_seconds,
        random_seed=np.random.default_rng(seeds[0]), progressbar=call.progressbar,
    )  # fmt: skip
    if len(integral.theta) < chains:
        raise RuntimeError("; ".join(integral.warnings) or "the integral left no draws")
    stride = _stride(draws, keep, chains * model.n)
    free = [model.hyperparameters.names.index(name) for name in integral.names]
    theta, loglik = np.empty((chains, draws, len(free))), np.empty((chains, draws))
    x = np.empty((chains, math.ceil(draws / stride), model.n))
    bar = progress_line(call.progressbar, total=chains * draws, desc="draws", unit="draw")
    rngs, count = [np.random.default_rng(seed) for seed in seeds[1:]], len(integral.theta)
    parts = np.array_split(np.arange(draws), min(settings, draws, count))
    places = [iter(integral.theta[rng.permutation(count)]) for rng in rngs]
    fits = [fits_at(model, free, own) for own in places]
    sources = [_guided(*both, len(parts[0]), guided) for both in zip(fits, rngs, strict=True)]
    done = used = 0
    with bar, compiling(call.progressbar), blas_for(model.n), interruptible(clock):
        for part, drawn in zip(parts, zip(*sources, strict=False), strict=False):
            for c, (own, here, values) in enumerate(drawn):
                for t, value in zip(part, values, strict=False):
                    theta[c, t], loglik[c, t] = own, log_likelihood(here, value)
                    if t % stride == 0:
                        x[c, t // stride] = value
                bar.update(len(part))
            done, used = int(part[-1]) + 1, used + chains
            if clock.stop():
                break
    warnings = [*integral.warnings, *(ended_early(clock, "draws") * (done < draws))]
    if failures := (tried := sum(count - length_hint(rest) for rest in places)) - used:
        what = "latent values could not be drawn"
        warnings.append(lost_theta(failures, tried, what, "and draws are of the others"))
    if not done:
        raise RuntimeError("; ".join(warnings))
    pairs = np.full((chains, 2), np.nan)
    return told(HyperDraws(
        theta[:, :done], x[:, : math.ceil(done / stride)], loglik[:, :done], integral.names,
        "integrated", pairs, pairs, clock.elapsed(), 0.0,
        warnings=messages(warnings),
        settings={"draws": draws, "chains": chains, "stride": stride, **integral.settings},
        model=model.describe(), lows=integral.lows, latent_names=model.names,
    ))  # fmt: skip


def _guided(
    fits: Iterator[tuple[Array, Any]], rng: np.random.Generator, each: int, guided: int
) -> Iterator[tuple[Array, Any, list[Array]]]:
    """Hyperparameters, the model there and so many of its latent values, where numbers allow."""
    for own, reference in fits:
        with suppress(NoEvidence):
            drawn = [guided_estimate(reference, guided, rng, np.inf) for _ in range(each)]
            yield own, reference.model, [one.pick(rng)[0] for one in drawn]


def _field(model: DataModel | LatentField, scheme: Scheme) -> LatentField:
    field = field_of(model)
    if scheme.latent is None and not hasattr(field, "reference"):
        raise InputError(
            f"scheme={scheme.name!r} needs EP's Gaussian, which {type(model).__name__} does not "
            "have; use scheme='agrad-z-joint'"
        )
    return field


def _stride(draws: int, keep: int | None, values: int, memory: float = 200e6) -> int:
    """Draws from one whose latent ``values`` are kept to the next; memory in bytes."""
    keep = max(int(memory / (8 * values)), 1) if keep is None else keep
    return math.ceil(draws / min(keep, draws))


def _doubts(run: HyperDraws, scheme: Scheme, draws: int, thin: int) -> Iterator[Message]:
    """What went wrong while sampling."""
    chains, kept, _ = run.theta.shape
    if kept < draws:
        text = f"stopped early: {kept} of {draws} draws per chain were recorded"
        yield Message("stopped-early", text)
    if run.failures > 0.01 * kept * chains * thin:
        yield Message(
            "failed-proposals",
            f"{run.failures} proposals of hyperparameters in {kept * chains * thin} iterations "
            "failed numerically; priors with lighter tails or a larger jitter of the model help",
        )
    latent, theta = run.acceptance.mean(axis=0)
    if scheme.delta_target is not None and latent < scheme.delta_target - 0.25:
        aim = f"far below the target {scheme.delta_target:.2f}; tune longer"
        yield Message("latent-acceptance", f"acceptance of latent values is {latent:.2f}, {aim}")
    if not 0.4 * KAPPA_TARGET < theta < KAPPA_TARGET + 0.3:
        aim = f"far from the target {KAPPA_TARGET:.2f}; tune longer"
        yield Message("theta-acceptance", f"acceptance of hyperparameters is {theta:.2f}, {aim}")
    yield from unmixed(run.theta)
