r"""mici: its HMC and RMHMC inside tempering written here, as it has no evidence of its own.

Resample-move: the next β halves the effective sample size, every particle makes one trajectory.
The metric is constant, or :math:`I + β A^T \mathrm{diag}(-h''(x)) A`, the Hessian of the tempered
target. Step sizes follow the acceptance from one temperature to the next.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import mici
import numpy as np
from problem import Base, Problem
from scipy.optimize import brentq
from scipy.special import logsumexp

VERSION = f"mici {version('mici')}"


def run(problem: Problem, settings: dict, seed: int) -> tuple[float, float]:
    base, rng = problem.bases[settings["base"]], np.random.default_rng(seed)
    m, ess = settings["particles"], settings["ess"]
    z = rng.standard_normal((m, base.n))
    beta, log_z, log_step = 0.0, 0.0, np.log(settings["start"])
    while beta < 1.0:
        h = base.loglik(z)
        step = next_step(h, 1.0 - beta, ess * m)
        log_z += logsumexp(step * h) - np.log(m)
        beta = 1.0 if step == 1.0 - beta else beta + step
        if beta == 1.0:
            break
        weights = np.exp(step * h - logsumexp(step * h))
        z = z[resample(rng, weights)]
        transition = make_transition(base, beta, float(np.exp(log_step)), settings)
        accepted = 0.0
        for i in range(m):
            state = mici.states.ChainState(pos=z[i], mom=None, dir=1)
            state.mom = transition.system.sample_momentum(state, rng)
            state, told = transition.sample(state, rng)
            z[i] = state.pos
            accepted += told["accept_stat"] / m
        log_step += 2.0 * (accepted - settings["target"])
    return base.log_z0 + float(log_z), float("nan")


def next_step(h: np.ndarray, most: float, target: float) -> float:
    """The step of β that leaves this effective sample size."""

    def excess(log_step: float) -> float:
        w = np.exp(log_step) * h
        return float(2.0 * logsumexp(w) - logsumexp(2.0 * w) - np.log(target))

    if excess(np.log(most)) >= 0.0:
        return most
    return float(np.exp(brentq(excess, np.log(most) - 60.0, np.log(most))))


def resample(rng: np.random.Generator, weights: np.ndarray) -> np.ndarray:
    """Systematic resampling."""
    m = weights.size
    points = (np.arange(m) + rng.random()) / m
    return np.minimum(np.searchsorted(np.cumsum(weights), points), m - 1)


def make_transition(base: Base, beta: float, step_size: float, settings: dict) -> Any:
    def value(z: np.ndarray) -> float:
        return 0.5 * z @ z - beta * float(base.loglik(z))

    def gradient(z: np.ndarray) -> tuple[np.ndarray, float]:
        h, slope = base.loglik_and_gradient(z)
        return z - beta * slope, 0.5 * z @ z - beta * float(h)

    if settings["metric"] == "constant":
        system = mici.systems.EuclideanMetricSystem(value, grad_neg_log_dens=gradient)
        integrator = mici.integrators.LeapfrogIntegrator(system, step_size)
    else:
        system = mici.systems.DenseRiemannianMetricSystem(
            value,
            partial(metric, base, beta),
            vjp_metric_func=partial(metric_vjp, base, beta),
            grad_neg_log_dens=gradient,
        )
        integrator = mici.integrators.ImplicitLeapfrogIntegrator(system, 0.5 * step_size)
    return mici.transitions.MetropolisStaticIntegrationTransition(
        system, integrator, settings["leapfrog"]
    )


def metric(base: Base, beta: float, z: np.ndarray) -> np.ndarray:
    G = base.root.T @ (beta * base.curvature(z)[0][:, None] * base.root)
    G.flat[:: base.n + 1] += 1.0
    return G


def metric_vjp(base: Base, beta: float, z: np.ndarray) -> Any:
    curvature, slope = base.curvature(z)

    def product(M: Any) -> np.ndarray:
        """Gradient of Σ_ij M_ij G_ij(z)."""
        along = np.einsum("ni,ni->n", base.root @ np.asarray(M), base.root)
        return (beta * slope * along) @ base.root

    G = base.root.T @ (beta * curvature[:, None] * base.root)
    G.flat[:: base.n + 1] += 1.0
    return product, G
