"""One chain: tuned, then recorded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..models.priors import Priors
from ..statistics.adaptation import DualAveraging
from .fields import Field
from .schemes import KAPPA_TARGET, Scheme
from .states import Info, State, Steps, Target

Array = NDArray[np.float64]

_START = Steps(delta=1.0, kappa=0.1)
_SPREAD = 0.1  # standard deviation of the chains' starts around the model's θ
_SCALE_FOUND, *_SHAPE_AT = 0.2, 0.4, 0.7  # of the tuning steps
_LEAST = 50  # values of θ that a shape is learnt from


@dataclass
class Chain:
    """What one chain recorded after tuning."""

    theta: Array  # (draws, P)
    loglik: Array  # (draws,)
    tune_loglik: Array  # (tune,)
    x: Array  # (kept, C · N)
    acceptance: Array  # (2,): of x and θ, NaN where θ's step moves x too
    failures: int
    steps: Steps
    seconds: float
    tune_seconds: float


def run_chain(
    field: Field,
    priors: Priors,
    scheme: Scheme,
    tick: Callable[[int], None],
    *,
    draws: int,
    tune: int,
    thin: int,
    stride: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool],
) -> Chain:
    """Record every ``thin``-th step, and x at every ``stride``-th recorded one."""
    rng = np.random.default_rng(seed)
    target = Target.of(field, priors)
    theta = field.hyperparameters.theta.copy()
    jittered = theta.copy()
    jittered[priors.free] += _SPREAD * rng.standard_normal(len(priors))
    if np.isfinite(target.log_prior(jittered)):
        theta = jittered
    state = target.start(rng, theta)
    started = time.perf_counter()
    state, target, steps, climb = _tune(rng, target, scheme, state, tune, tick, stop)
    tuned = time.perf_counter()
    thetas, loglik, x = np.empty((draws, len(priors))), np.empty(draws), []
    acceptance, failures, kept = np.zeros(2), 0, 0
    for i in range(draws):
        if stop():
            break
        for _ in range(thin):
            state, latent, moved = _iterate(rng, target, scheme, state, steps)
            acceptance += latent.acceptance, moved.acceptance
            failures += moved.failures
        thetas[i], loglik[i], kept = state.theta[priors.free], state.loglik, i + 1
        if i % stride == 0:
            x.append(state.x.ravel())
        tick(thin)
    used = Steps(steps.delta if scheme.delta_target else np.nan, steps.kappa)
    acceptance /= max(kept * thin, 1)
    return Chain(
        thetas[:kept],
        loglik[:kept],
        climb,
        np.array(x).reshape(len(x), state.x.size),
        acceptance,
        failures,
        used,
        time.perf_counter() - tuned,
        tuned - started,
    )


def _iterate(
    rng: np.random.Generator, target: Target, scheme: Scheme, state: State, steps: Steps
) -> tuple[State, Info, Info]:
    latent = Info(np.nan)
    if scheme.latent is not None:
        state, latent = scheme.latent(rng, target, state, steps)
    state, moved = scheme.theta(rng, target, state, steps)
    return state, latent, moved


def _tune(
    rng: np.random.Generator,
    target: Target,
    scheme: Scheme,
    state: State,
    steps: int,
    tick: Callable[[int], None],
    stop: Callable[[], bool],
) -> tuple[State, Target, Steps, Array]:
    """δ and κ to their acceptances; the first fifth only finds their scale.

    The shape of θ's walk is learnt twice on the way, from the steps since the last time. The
    log likelihoods of all steps show how the chain found the posterior.
    """
    delta = DualAveraging(_START.delta, scheme.delta_target or 0.5)
    kappa = DualAveraging(_START.kappa, KAPPA_TARGET)
    shape_at = {int(part * steps) for part in _SHAPE_AT}
    seen: list[Array] = []
    loglik: list[float] = []
    for i in range(steps):
        if stop():
            break
        now = Steps(delta.step_size if scheme.delta_target else _START.delta, kappa.step_size)
        state, latent, moved = _iterate(rng, target, scheme, state, now)
        delta.update(latent.acceptance)
        kappa.update(moved.acceptance)
        seen.append(state.theta)
        loglik.append(state.loglik)
        if i == int(_SCALE_FOUND * steps):
            delta.restart()
            kappa.restart()
            seen.clear()
        if i in shape_at and len(seen) >= _LEAST:
            target = replace(target, shapes=_shapes(target, np.array(seen)))
            kappa.restart()
            seen.clear()
        tick(1)
    return state, target, Steps(delta.final, kappa.final), np.array(loglik)


def _shapes(target: Target, theta: Array) -> tuple[Array, ...]:
    """Square roots of the groups' covariances, of mean variance 1 over all groups."""
    covariances = [np.atleast_2d(np.cov(theta[:, group].T)) for group in target.groups]
    scale = np.mean(np.concatenate([np.diag(c) for c in covariances]))
    return tuple(np.linalg.cholesky(c / scale + 1e-3 * np.eye(len(c))) for c in covariances)
