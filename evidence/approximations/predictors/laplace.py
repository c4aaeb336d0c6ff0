r"""Laplace's method where a datum sees several predictors.

The mode is climbed by Newton's method on all of them at once, with the curvature W of every
datum's log likelihood, P × P. Where it is not positive definite, away from the mode, its
eigenvalues are taken by their sizes; steps are halved until the log posterior rises. At the mode W
stays as it is, wherever there is a q for it.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from ...execution.clock import check_interrupt
from ...gaussians.base import NotPositiveDefinite, Prior
from ...gaussians.blocks import BlockGaussian, BlockSites, units_of
from ...messages import InputError, Message
from ...models.likelihoods.predicted import Expansion, Several
from ...numerics.arrays import Array
from .reference import BlockReference, OfSeveral

DIGITS = 1e-7  # prior standard deviations that slopes by differences leave to a mode
#: of the largest y, or its logarithm: a density that is all within so much leaves no digits
_PINNED = 1e-7


class Top(NamedTuple):
    """Where a climb ended, and what the log likelihoods look like there."""

    x: Array
    expansion: Expansion
    steps: int
    converged: bool


def fit_block_laplace(
    model: OfSeveral, *, max_iterations: int = 200, tol: float = DIGITS, start: Array | None = None
) -> BlockReference:
    """Fit Laplace's method, from predictors (P·N,) that may be near the mode."""
    started = time.perf_counter()
    try:
        top = climb(model, max_iterations, tol, start)
    except (NotPositiveDefinite, np.linalg.LinAlgError) as error:
        raise NotPositiveDefinite(
            f"Laplace's method is beyond what doubles resolve ({error}): the likelihood is far "
            "narrower than the prior; may the model fit the data exactly?"
        ) from error
    warnings: tuple[Message, ...] = ()
    if not top.converged:
        eta, lik, y = top.expansion.slope.copy(), model.likelihood, model.observed
        eta[0], eta[1:] = lik.location(y)[: y.size], top.x.reshape(eta.shape)[1:]
        _check_pinned(model, lik.log_probs(y, eta[None])[0], 10.0 * _PINNED)  # lost its digits?
        text = f"Laplace: Newton did not converge in {max_iterations} iterations"
        warnings = (Message("laplace-not-converged", text),)
    try:
        q = model.prior.with_blocks(tangent(model.prior, top.x, top.expansion))
    except NotPositiveDefinite:
        text = (
            "Laplace: the curvature at the mode is not positive definite; negative ones were set "
            "to zero"
        )
        warnings += (Message("laplace-no-maximum", text),)
        flat = _positive(top.expansion, model.prior, sizes=False)
        q = model.prior.with_blocks(tangent(model.prior, top.x, flat))
    more = {"converged": top.converged, "n_sweeps": top.steps, "warnings": warnings}
    return BlockReference.of("laplace", model, q, seconds=time.perf_counter() - started, **more)


def tangent(prior: Prior, x: Array, at: Expansion) -> BlockSites:
    """Sites that touch the log likelihoods at x."""
    value, slope, W, pi = at
    flat = BlockSites(np.zeros_like(value), slope, W, prior.mean.reshape(slope.shape), pi)
    eta = x.reshape(slope.shape)
    touching = flat._replace(nu=2.0 * slope - flat.slope(eta))
    return touching._replace(c=value - touching.log(eta))


def climb(
    model: OfSeveral, max_iterations: int, tol: float, start: Array | None = None, *,
    near: float = 0.3,
) -> Top:  # fmt: skip
    """Newton's method to a mode.

    ``near``: a step, in prior standard deviations, after which the curvature itself is tried.
    """
    prior, lik, y = model.prior, model.likelihood, model.observed
    x, dual = prior.mean.copy(), np.zeros(prior.mean.size)
    width = np.sqrt(prior.variances)
    width = np.where(width > 0.0, width, 1.0)
    if start is not None:  # whose dual is that of sites that hold it
        held = lik.expand(y, start.reshape(len(lik.predictors), -1))
        q = prior.with_blocks(tangent(prior, start, _positive(held, prior)))
        x, dual = q.mean, q.dual
    value = _objective(model, x, dual)
    converged, sharp, steps = False, lik.log_concave, 0
    while not converged and steps < max_iterations:
        check_interrupt(prior.work)
        steps += 1
        at = lik.expand(y, x.reshape(len(lik.predictors), -1))
        _check_pinned(model, at.value)
        q, sharp = _stepped(prior, x, at, sharp)
        x_step, dual_step, step = q.mean - x, q.dual - dual, 1.0
        while step > 1e-10:
            trial = _objective(model, x + step * x_step, dual + step * dual_step)
            if trial >= value - 1e-12 * abs(value):
                break
            step *= 0.5
        x, dual, value = x + step * x_step, dual + step * dual_step, trial
        longest = float(np.max(np.abs(x_step) / width))
        converged = longest < tol
        sharp = lik.log_concave or (step == 1.0 and longest < near)
    return Top(x, lik.expand(y, x.reshape(len(lik.predictors), -1)), steps, converged)


def _check_pinned(model: OfSeveral, log_p: Array, within: float = _PINNED) -> None:
    """No datum known better than the digits of what is added up: its noise would go on falling."""
    lik, y = model.likelihood, model.observed
    if lik.ceiling(y) < np.inf:
        return
    high = log_p + np.log(within * _units(lik, y, model.prior))
    n = int(np.argmax(high))
    if high[n] < 0.0:
        return
    names = " or ".join(getattr(model, "further", None) or lik.predictors[1:])
    raise InputError(
        f"the model fits data exactly, such as datum {n} (y = {y[n]:g}), and nothing keeps the "
        f"predicted {names} from zero there: log Z would be made of rounding; give its effects "
        "narrower priors"
    )


def _units(
    lik: Several, y: Array, prior: Prior, coarse: float = 1e-6, *, step: float = 1e-7
) -> Array:
    """How far from its prior mean a datum is at most, as a change of y: what is added up has
    digits of that, and at least so much of a place far from zero (450 doubles, with _PINNED).

    ``step``: step of a difference, relative to y.
    """
    at = lik.location(y)[: y.size]
    slope = np.ones(y.size)
    if (y > 0.0).all() and not np.array_equal(at, y):  # a logarithm of y, say
        slope = (lik.location((1.0 + step) * y)[: y.size] - at) / (step * y)
    away = max(np.abs(at - prior.mean[: y.size]).max(), coarse * np.abs(at).max()) or 1.0
    return away / np.where(slope > 0.0, slope, 1.0)


def _stepped(prior: Prior, x: Array, at: Expansion, sharp: bool) -> tuple[BlockGaussian, bool]:
    """q whose mean Newton's method goes to, and whether its curvature is the true one."""
    if sharp:
        try:
            return prior.with_blocks(tangent(prior, x, at)), True
        except NotPositiveDefinite:
            pass
    return prior.with_blocks(tangent(prior, x, _positive(at, prior))), False


def _positive(
    at: Expansion, prior: Prior, sizes: bool = True, *, least: float = 1e-3
) -> Expansion:
    """With curvatures by their sizes, or without negative ones, in the prior's units.

    ``least``: share of a datum's largest curvature that each keeps: no step is endless.
    """
    sd = units_of(prior, len(at.slope))
    values, U = np.linalg.eigh(sd[:, :, None] * at.curvature * sd[:, None, :])
    R = U / sd[:, :, None]
    if sizes:
        values = np.maximum(np.abs(values), least * np.abs(values).max(axis=1, keepdims=True))
    values = np.maximum(values, 0.0)
    return at._replace(curvature=np.einsum("npk,nk,nqk->npq", R, values, R), pi=None)


def _objective(model: OfSeveral, x: Array, dual: Array) -> float:
    """log p(y|x) - ½ (x - m)ᵀ K⁻¹ (x - m), with dual = K⁻¹(x - m)."""
    lik = model.likelihood
    total = lik.log_probs(model.observed, x.reshape(1, len(lik.predictors), -1)).sum()
    return float(total - 0.5 * dual @ (x - model.prior.mean))
