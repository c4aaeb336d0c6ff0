"""One chain over (x, θ): tuned, then recorded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator

from ..models.priors import Priors
from ..numerics.arrays import Array
from ..statistics.adaptation import DualAveraging
from .fields import LatentField
from .schemes import KAPPA_TARGET, Scheme
from .states import Acceptance, Joint, JointState, StepSizes

Tick = Callable[[int], None]  # hears of every so many iterations
Stop = Callable[[], bool]

_FIRST = StepSizes(delta=1.0, kappa=0.1)


@dataclass(eq=False)
class Chain:
    """Where a chain is, how it steps, and what it has recorded.

    Attributes
    ----------
    acceptance : array
        Of x and θ; NaN where θ's step moves x too.
    seconds : tuple[float, float]
        Tuning, and recording.
    """

    rng: Generator
    scheme: Scheme
    target: Joint
    state: JointState
    sizes: StepSizes
    tune_loglik: list[float] = field(default_factory=list)
    theta: list[Array] = field(default_factory=list)  # (P,) each
    loglik: list[float] = field(default_factory=list)
    x: list[Array] = field(default_factory=list)  # (C · N,) each
    acceptance: Array = field(default_factory=lambda: np.zeros(2))
    failures: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)

    def step(self) -> tuple[Acceptance, Acceptance]:
        """One iteration of the scheme: how its moves of x and of θ went."""
        latent = Acceptance(np.nan)
        if self.scheme.latent is not None:
            self.state, latent = self.scheme.latent(self.rng, self.target, self.state, self.sizes)
        self.state, moved = self.scheme.theta(self.rng, self.target, self.state, self.sizes)
        return latent, moved

    def tune(
        self, steps: int, tick: Tick, stop: Stop, *, scale: float = 0.2, least: int = 50
    ) -> None:
        """δ and κ to their acceptances; the first fifth only finds their scale.

        The shape of θ's walk is learnt twice on the way, from the steps since the last time. The
        log likelihoods of all steps show how the chain came to the posterior.

        ``scale``: share of the steps after which the scale is found; ``least``: values of θ that a
        shape is learnt from.
        """
        first, aim = self.sizes, self.scheme.delta_target
        delta = DualAveraging(first.delta, aim or 0.5)
        kappa = DualAveraging(first.kappa, KAPPA_TARGET)
        shape_at = {int(part * steps) for part in (0.4, 0.7)}
        seen: list[Array] = []
        for i in range(steps):
            if stop():
                break
            self.sizes = StepSizes(delta.step_size if aim else first.delta, kappa.step_size)
            latent, moved = self.step()
            delta.update(latent.probability)
            kappa.update(moved.probability)
            seen.append(self.state.theta)
            self.tune_loglik.append(self.state.loglik)
            if i == int(scale * steps):
                delta.restart()
                kappa.restart()
                seen.clear()
            if i in shape_at and len(seen) >= least:
                self.target = replace(self.target, shapes=_shapes(self.target, np.array(seen)))
                kappa.restart()
                seen.clear()
            tick(1)
        self.sizes = StepSizes(delta.final, kappa.final)

    def record(self, draws: int, thin: int, stride: int, tick: Tick, stop: Stop) -> None:
        """Record every ``thin``-th step, and x at every ``stride``-th recorded one."""
        steps = 0
        while len(self.theta) < draws and not stop():
            latent, moved = self.step()
            self.acceptance += latent.probability, moved.probability
            self.failures += moved.failures
            steps += 1
            tick(1)
            if steps % thin:
                continue
            if len(self.theta) % stride == 0:
                self.x.append(self.state.x.ravel())
            self.theta.append(self.state.theta[self.target.priors.free])
            self.loglik.append(self.state.loglik)
        self.acceptance /= max(steps, 1)


def run_chain(
    latents: LatentField, priors: Priors, scheme: Scheme, tick: Tick, *, draws: int, tune: int,
    thin: int, stride: int, seed: np.random.SeedSequence, stop: Stop, first: StepSizes = _FIRST,
    spread: float = 0.1,
) -> Chain:  # fmt: skip
    """A chain from near the model's own θ.

    ``spread``: standard deviation of the chains' starts around the model's θ.
    """
    rng, target = np.random.default_rng(seed), Joint.of(latents, priors)
    theta = latents.hyperparameters.theta.copy()
    jittered = theta.copy()
    jittered[priors.free] += spread * rng.standard_normal(len(priors))
    if np.isfinite(target.log_prior(jittered)):
        theta = jittered
    chain = Chain(rng, scheme, target, target.start(rng, theta), first)
    started = time.perf_counter()
    chain.tune(tune, tick, stop)
    tuned = time.perf_counter()
    chain.record(draws, thin, stride, tick, stop)
    chain.seconds = tuned - started, time.perf_counter() - tuned
    return chain


def _shapes(target: Joint, theta: Array) -> tuple[Array, ...]:
    """Square roots of the groups' covariances, of mean variance 1 over all groups."""
    covariances = [np.atleast_2d(np.cov(theta[:, group].T)) for group in target.groups]
    scale = np.mean(np.concatenate([np.diag(c) for c in covariances]))
    return tuple(np.linalg.cholesky(c / scale + 1e-3 * np.eye(len(c))) for c in covariances)
