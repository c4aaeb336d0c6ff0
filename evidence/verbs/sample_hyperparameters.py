"""One call from a model and priors to posterior draws of its hyperparameters."""

from __future__ import annotations

import math
import numbers
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..execution.arguments import (
    check_choice,
    check_count,
    check_memory,
    check_positive,
    seed_sequence,
)
from ..execution.clock import Clock
from ..execution.job import Job
from ..execution.tasks import run_tasks
from ..hyper.chains import Chain, run_chain
from ..hyper.fields import Field, GPField, SoftmaxField
from ..hyper.schemes import KAPPA_TARGET, SCHEMES, Scheme
from ..messages import InputError
from ..models.classes import SoftmaxModel
from ..models.gp import GPModel
from ..models.priors import Priors
from ..results.hyper import HyperDraws

_MEMORY = 200e6  # bytes of latent values that are kept
_RHAT = 1.1


def sample_hyperparameters(
    model: GPModel | SoftmaxModel | Field,
    priors: Mapping[str, Any],
    *,
    scheme: str = "agrad-z-joint",
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
    r"""Draw hyperparameters and latent values from their joint posterior by Markov chains.

    Parameters
    ----------
    model : GPModel or SoftmaxModel
        Its own hyperparameters are where the chains start, give or take a tenth.
    priors : mapping of str to frozen scipy.stats distribution or "flat"
        A prior of the natural value of every free hyperparameter (any unambiguous ending of
        its name does); ``"flat"`` is :math:`N(0, 10^2)` on the logarithm. See
        ``model.hyperparameters.names``. With several classes a name that says nothing of a
        class stands for all that have it.
    scheme : str
        ``"agrad-z-joint"`` moves latent values and hyperparameters together, given a smoothed
        copy of the field; ``"agrad-z-gibbs"``, ``"pcnl-gibbs"`` and ``"elliptical-gibbs"``
        alternate between the two; ``"whitened"`` moves hyperparameters with the whitened field
        held; ``"pseudo-marginal"`` integrates the field out by draws that EP's sites guide.
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
    ...     draws=200, tune=200, random_seed=0, progressbar=False,
    ... )
    >>> draws.theta.shape, draws.x.shape
    ((2, 200, 2), (2, 200, 3))
    """
    check_choice("scheme", scheme, tuple(SCHEMES))
    chosen = SCHEMES[scheme]
    check_count("draws", draws, 1, optional=False)
    check_count("tune", tune, 0, optional=False)
    check_count("chains", chains, 1, optional=False)
    check_count("thin", thin, 1, optional=False)
    check_count("keep", keep, 1)
    check_positive("max_seconds", max_seconds)
    field = _field(model, chosen)
    if isinstance(model, SoftmaxModel) and isinstance(priors, Mapping):
        priors = model.by_class(priors)
        fixed = fixed if isinstance(fixed, str) else model.by_class(dict.fromkeys(fixed or ()))
    prior = Priors.of(field.hyperparameters, priors, fixed)
    check_memory("draws", draws, draws, chains, len(prior))
    _check_start(field, prior)
    seeds = seed_sequence(random_seed).spawn(chains)
    if keep is None:
        keep = max(int(_MEMORY / (8 * chains * field.mean.size)), 1)
    stride = math.ceil(draws / min(keep, draws))
    clock = Clock(max_seconds)
    plan = dict(draws=draws, tune=tune, thin=thin, stride=stride)
    with _Bar(scheme, chains * (tune + thin * draws), progressbar) as bar:
        job = Job(run_chain, (field, prior, chosen, bar.tick), plan)
        found: dict[int, Chain] = {}
        with ThreadPoolExecutor(chains) as pool:
            run_tasks(job, [{"seed": seed} for seed in seeds], clock, found.__setitem__, pool)
    kept = min((len(chain.theta) for chain in found.values()), default=0)
    if len(found) < chains or not kept:
        if clock.interrupted.is_set():
            raise KeyboardInterrupt
        raise RuntimeError(
            f"the run ended before every chain had recorded a draw (max_seconds={max_seconds}, "
            f"tune={tune}); allow more time or tune less"
        )
    run = [found[i] for i in range(chains)]
    result = HyperDraws(
        theta=np.stack([chain.theta[:kept] for chain in run]),
        x=np.stack([chain.x[: math.ceil(kept / stride)] for chain in run]),
        loglik=np.stack([chain.loglik[:kept] for chain in run]),
        tune_loglik=np.stack([chain.tune_loglik for chain in run]),
        names=prior.names,
        scheme=scheme,
        acceptance=np.stack([chain.acceptance for chain in run]),
        step_sizes=np.array([chain.steps for chain in run]),
        seconds=max(chain.seconds for chain in run),
        tune_seconds=max(chain.tune_seconds for chain in run),
        failures=sum(chain.failures for chain in run),
        settings={
            "priors": dict(zip(prior.names, map(_shown, prior.distributions), strict=True)),
            **dict(plan, chains=chains, stride=stride),
            "random_seed": random_seed if isinstance(random_seed, numbers.Integral) else None,
        },
        model=model.describe() if hasattr(model, "describe") else {"N": field.n},
    )
    result.warnings = _warnings(result, chosen, draws, thin)
    return result


class _Bar:
    """One line for all chains, which tick from their own threads."""

    def __init__(self, name: str, total: int, shown: bool) -> None:
        self._bar = tqdm(
            total=total,
            desc=name,
            unit="step",
            leave=False,
            disable=None if shown else True,
            ncols=88,
        )
        self._lock = threading.Lock()

    def tick(self, steps: int) -> None:
        with self._lock:
            self._bar.update(steps)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()


def _field(model: Any, scheme: Scheme) -> Any:
    """The latent field of ``model``; a field stands for itself."""
    field = model
    if isinstance(model, GPModel):
        field = GPField(model)
    elif isinstance(model, SoftmaxModel):
        if not model.kernels:
            raise InputError(
                "the model has no free hyperparameters; build it with a kernel, not with K="
            )
        field = SoftmaxField(model)
    elif not isinstance(model, Field):
        raise InputError(f"model must be a GPModel or a SoftmaxModel, got {type(model).__name__}")
    if scheme.latent is None and not hasattr(field, "reference"):
        raise InputError(
            f"scheme={scheme.name!r} needs EP's Gaussian, which {type(model).__name__} does not "
            "have; use scheme='agrad-z-joint'"
        )
    return field


def _check_start(field: Any, priors: Priors) -> None:
    theta = field.hyperparameters.theta[priors.free]
    if np.isfinite(priors.log_density(theta)):
        return
    for p, (name, log_value) in enumerate(zip(priors.names, theta, strict=True)):
        alone = Priors((name,), priors.free[p : p + 1], priors.distributions[p : p + 1])
        if not np.isfinite(alone.log_density([log_value])):
            raise InputError(
                f"the prior of {name} has density 0 at the model's value "
                f"{np.exp(log_value):.4g}, where chains start; give the model a value inside "
                "the prior's support, for example with model.at({...})"
            )


def _shown(distribution: Any) -> str:
    """A prior in words that JSON can hold."""
    if isinstance(distribution, str):
        return distribution
    words = [f"{value:g}" for value in distribution.args]
    words += [f"{key}={value:g}" for key, value in distribution.kwds.items()]
    return f"{distribution.dist.name}({', '.join(words)})"


def _warnings(run: HyperDraws, scheme: Scheme, draws: int, thin: int) -> tuple[str, ...]:
    """What went wrong while sampling, in words."""
    found = []
    chains, kept, _ = run.theta.shape
    if kept < draws:
        found.append(f"stopped early: {kept} of {draws} draws per chain were recorded")
    if run.failures > 0.01 * kept * chains * thin:
        found.append(
            f"{run.failures} proposals of hyperparameters in {kept * chains * thin} iterations "
            "failed numerically and were rejected; priors with lighter tails or a larger jitter "
            "of the model help"
        )
    latent, theta = run.acceptance.mean(axis=0)
    if scheme.delta_target is not None and latent < scheme.delta_target - 0.25:
        found.append(
            f"acceptance of latent values is {latent:.2f}, far below the target "
            f"{scheme.delta_target:.2f}; tune longer"
        )
    if not 0.4 * KAPPA_TARGET < theta < KAPPA_TARGET + 0.3:
        found.append(
            f"acceptance of hyperparameters is {theta:.2f}, far from the target "
            f"{KAPPA_TARGET:.2f}; tune longer"
        )
    unmixed = [name for name, value in zip(run.names, run.rhat, strict=True) if value > _RHAT]
    if unmixed:
        found.append(
            f"chains disagree on {', '.join(unmixed)} (R-hat up to {np.nanmax(run.rhat):.2f}): "
            "their draws are not yet the posterior's; draw and tune longer"
        )
    return tuple(found)
