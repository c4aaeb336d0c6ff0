"""BlackJAX: adaptive tempered SMC with HMC, elliptical slice or mGrad, compiled, one batch.

Step sizes follow the acceptance from one temperature to the next. HMC's mass is diagonal, from
the particles. mGrad moves the latent values themselves, as it was made to do: it knows the
base's covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from blackjax.mcmc import elliptical_slice, hmc
from blackjax.mcmc import marginal_latent_gaussian as mgrad
from blackjax.smc import adaptive_tempered, resampling
from jax.scipy.special import log_ndtr
from problem import Base, Problem

VERSION = f"blackjax {blackjax.__version__}"


def run(problem: Problem, settings: dict, seed: int) -> tuple[float, float]:
    jax.config.update("jax_enable_x64", settings["double"])
    base = problem.bases[settings["base"]]
    sampler = compiled(base, tuple(sorted(settings.items())))
    return base.log_z0 + float(sampler(jax.random.key(seed))), float("nan")


class Part(NamedTuple):
    """What SMC needs of the target in the coordinates of a kernel."""

    draw: Callable
    logprior: Callable
    loglik: Callable
    init: Callable
    step: Callable


def whitened(base: Base) -> tuple[Callable, Callable, Callable]:
    root, mean, y, nu, tau = map(jnp.asarray, (base.root, base.mean, base.y, base.nu, base.tau))

    def loglik(z):  # type: ignore[no-untyped-def]
        x = mean + root @ z
        return jnp.sum(log_ndtr(y * x) - x * (nu - 0.5 * tau * x)) - base.constant

    def draw(key, m):  # type: ignore[no-untyped-def]
        return jax.random.normal(key, (m, base.n))

    return draw, lambda z: -0.5 * z @ z, loglik


def hmc_part(base: Base, leapfrog: int) -> Part:
    kernel = hmc.build_kernel()

    def step(key, state, logdensity, step_size, inverse_mass_matrix):  # type: ignore[no-untyped-def]
        return kernel(key, state, logdensity, step_size, inverse_mass_matrix, leapfrog)

    return Part(*whitened(base), hmc.init, step)


def elliptical_part(base: Base) -> Part:
    draw, logprior, loglik = whitened(base)
    kernel = elliptical_slice.build_kernel(jnp.ones(base.n), jnp.zeros(base.n))

    def init(z, logdensity):  # type: ignore[no-untyped-def]
        return elliptical_slice.init(z, lambda z: logdensity(z) - logprior(z))

    def step(key, state, logdensity):  # type: ignore[no-untyped-def]
        return kernel(key, state, lambda z: logdensity(z) - logprior(z))

    return Part(draw, logprior, loglik, init, step)


def mgrad_part(base: Base) -> Part:
    """States are x - m; the log prior cancels but SMC asks for it, so it is given as zero."""
    mean, y, nu, tau = map(jnp.asarray, (base.mean, base.y, base.nu, base.tau))
    U, gamma, root = jnp.asarray(base.U), jnp.asarray(base.gamma), jnp.asarray(base.root)
    kernel = mgrad.build_kernel(mgrad.CovarianceSVD(U, gamma, U.T))

    def loglik(x):  # type: ignore[no-untyped-def]
        x = mean + x
        return jnp.sum(log_ndtr(y * x) - x * (nu - 0.5 * tau * x)) - base.constant

    def draw(key, m):  # type: ignore[no-untyped-def]
        return jax.random.normal(key, (m, base.n)) @ root.T

    def init(x, logdensity):  # type: ignore[no-untyped-def]
        return mgrad.init(x, logdensity, U.T)

    def step(key, state, logdensity, step_size):  # type: ignore[no-untyped-def]
        return kernel(key, state, logdensity, step_size)

    return Part(draw, lambda x: 0.0, loglik, init, step)


@cache
def compiled(base: Base, words: tuple) -> Callable:
    """A function from a key to log(Z / Z₀)."""
    w: dict[str, Any] = dict(words)
    kernel, particles, target = w["kernel"], w["particles"], w.get("target")
    part = {
        "hmc": lambda: hmc_part(base, w["leapfrog"]),
        "elliptical": lambda: elliptical_part(base),
        "mgrad": lambda: mgrad_part(base),
    }[kernel]()
    smc = adaptive_tempered.build_kernel(
        part.logprior, part.loglik, part.step, part.init, resampling.systematic, w["ess"]
    )

    def one(carry):  # type: ignore[no-untyped-def]
        key, state, log_z, log_step = carry
        key, own = jax.random.split(key)
        parameters = {}
        if target:
            parameters["step_size"] = jnp.exp(log_step)[None]
        if kernel == "hmc":
            middle = state.weights @ state.particles
            var = state.weights @ state.particles**2 - middle**2
            parameters["inverse_mass_matrix"] = var[None]
        state, info = smc(own, state, w["steps"], parameters)
        if target:
            log_step += 2.0 * (jnp.mean(info.update_info.acceptance_rate) - target)
        return key, state, log_z + info.log_likelihood_increment, log_step

    @jax.jit
    def sampler(key):  # type: ignore[no-untyped-def]
        key, own = jax.random.split(key)
        state = adaptive_tempered.init(part.draw(own, particles))
        state = state._replace(tempering_param=jnp.zeros(()))
        carry = key, state, jnp.zeros(()), jnp.log(w.get("start", 1.0))
        return jax.lax.while_loop(lambda c: c[1].tempering_param < 1.0, one, carry)[2]

    return sampler
