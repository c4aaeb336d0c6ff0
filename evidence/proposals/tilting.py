r"""Orthant probabilities of a Gaussian by minimax exponential tilting (Botev, 2017).

For the probit likelihood the evidence is ``P(y_n z_n > 0 for all n)`` with ``z ~ N(m, K + I)``.
After flipping signs, ordering and scaling the region is ``z + L̂ z > l`` for standard normal
``z``, with ``L̂`` strictly lower triangular. Coordinate by coordinate ``z_k`` is drawn from
``N(μ_k, 1)`` above ``l_k - (L̂ z)_k``; the weight of a draw is ``exp ψ(z, μ)`` with

.. math:: ψ(x, μ) = Σ_k [\log P(N > l_k - μ_k - (L̂x)_k) + μ_k²/2 - μ_k x_k] ,

and its mean is the probability, for every ``μ``. Botev's ``μ`` is the saddle point's, where ψ
bounds all log weights and the log probability from above.

Reference: Z. I. Botev, J. R. Stat. Soc. B 79 (2017) 125.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import (
    array,
    check_count,
    check_function,
    check_positive,
    check_target,
    seed_sequence,
)
from ..execution.clock import check_interrupt, interruptible
from ..execution.keywords import hinted
from ..messages import InputError
from ..models.covariance import check_covariance
from ..numerics.jit import jit, vector_loop
from ..numerics.special import log_ndtr_derivatives
from ..numerics.threads import single_blas
from ..numerics.truncated import multiply_tails, upper_tails
from ..statistics.weights import Weights


@dataclass(frozen=True)
class OrthantEstimate:
    """Log probability of an orthant, its standard error, and the spread of the log weights.

    ``converged`` is true exactly when ``message`` is empty: nothing speaks against ``se``, and
    what was asked for was done. One-dimensional problems are exact and need no draws.
    """

    logp: float
    se: float
    log_weight_sd: float
    n_draws: int
    converged: bool
    seconds: float
    message: str


@hinted
def log_orthant(
    cov: ArrayLike, signs: ArrayLike, mean: ArrayLike | None = None, *, n_draws: int = 10_000,
    target_se: float | None = None, max_seconds: float | None = None,
    random_seed: np.random.Generator | int | None = None,
    progress: Callable[[int, float, float], None] | None = None,
) -> OrthantEstimate:  # fmt: skip
    """Estimate log P(signs_n z_n > 0 for all n), z ~ N(mean, cov).

    Parameters
    ----------
    cov : array (N, N)
    signs : array (N,)
        +1 and -1.
    mean : array (N,), optional
        Zero by default.
    n_draws : int
        Draws, at least 100.
    target_se : float, optional
        Drawing goes on after ``n_draws`` until the standard error is reached, at most up to
        100 ``n_draws``.
    max_seconds : float, optional
        Ends it earlier, but not before the first batch.
    random_seed : int or Generator, optional
        The same seed, or state of the generator, gives the same answer.
    progress : callable, optional
        ``progress(n, logp, se)`` is called after every batch.

    Returns
    -------
    OrthantEstimate
        ``estimate.logp``, ``estimate.se``, ``estimate.converged``, ``estimate.message``, …

    Notes
    -----
    The mean weight is unbiased for the probability; its log is low by about ``se**2 / 2``.

    Examples
    --------
    With correlations of one half all orthants of one sign have probability 1/(N + 1):

    >>> estimate = log_orthant(0.5 * np.eye(3) + 0.5, [1, 1, 1], n_draws=1000, random_seed=0)
    >>> abs(estimate.logp - np.log(1 / 4)) < 4 * estimate.se < 0.02
    True
    """
    start = time.perf_counter()
    cov, lower = oriented(cov, signs, mean)
    check_count("n_draws", n_draws, 100, optional=False)
    target_se = check_target("target_se", target_se)
    check_function("progress", progress)
    max_seconds = check_positive("max_seconds", max_seconds)
    given = isinstance(random_seed, np.random.Generator)
    rng = np.random.default_rng(random_seed if given else seed_sequence(random_seed))
    deadline = math.inf if max_seconds is None else start + max_seconds
    weights = Weights()
    complaints: list[str] = []
    with interruptible(), single_blas():  # at these sizes a second thread loses
        proposal = minimax_proposal(cov, lower)
        if len(lower) == 1:
            return OrthantEstimate(
                proposal.bound, 0.0, 0.0, 0, True, time.perf_counter() - start, ""
            )
        done = _average(weights, proposal, rng, n_draws, target_se, deadline, progress)
    if proposal.bound == math.inf:
        complaints.append("Newton's method found no saddle point: mu = 0 was used.")
    if not done:
        asked = f"{n_draws} draws" if target_se is None else f"target_se = {target_se}"
        complaints.append(f"Stopped at {weights.n} draws, se = {weights.se:.2g}, before {asked}.")
    message = " ".join([*complaints, *weights.complaints()])
    return OrthantEstimate(
        logp=float(weights.log_mean),
        se=weights.se,
        log_weight_sd=weights.log_sd,
        n_draws=weights.n,
        converged=not message,
        seconds=time.perf_counter() - start,
        message=message,
    )


def _average(
    weights, proposal, rng, n_draws, target_se, deadline, progress, times=100, *, batch: int = 1000
):
    """Add batches of draws to ``weights``; whether all that was asked for was done in time, and
    with ``target_se`` by ``times`` as many draws as ``n_draws``.

    ``batch``: draws made together: the columns of a matrix product.
    """
    while True:
        check_interrupt()
        goal = n_draws if weights.n < n_draws else times * n_draws
        weights.add(draw(proposal, min(batch, goal - weights.n), rng)[1])
        if progress is not None:
            progress(weights.n, float(weights.log_mean), weights.se)
        if weights.n >= n_draws and (target_se is None or weights.se <= target_se):
            return True
        if weights.n >= times * n_draws or time.perf_counter() > deadline:
            return False


def oriented(cov, signs, mean):
    """Covariance and lower bounds of ``signs * (z - mean)``, after checking all three."""
    cov = check_covariance(cov, "cov")
    signs = array("signs", signs, (len(cov),))
    mean = np.zeros(len(cov)) if mean is None else array("mean", mean, (len(cov),))
    if not np.all(np.abs(signs) == 1.0):
        raise InputError("signs must be +1 or -1")
    if np.min(cov.diagonal()) <= 0.0:
        raise InputError("cov must be positive definite, got a variance that is not positive")
    return cov * np.outer(signs, signs), -signs * mean


class Proposal(NamedTuple):
    lower: NDArray  # l, the bounds of z + L̂ z
    factor: NDArray  # L̂, strictly lower triangular
    mu: NDArray  # the tilt
    bound: float  # ψ at the saddle point: no log weight is larger
    order: NDArray  # the coordinates' original places
    scale: NDArray  # D

    def restore(self, z):
        """Draws as columns: from the proposal's coordinates to signs * (z - mean)."""
        r = np.empty_like(z)
        r[self.order] = self.scale[:, None] * (z + self.factor @ z)
        return r


def minimax_proposal(cov, lower, orderings=10):
    """The proposal with the smallest bound found.

    The tightest constraint should come first, and how tight each one is the saddle point says:
    ``-∂ψ*/∂lower = h/D``, much the same in any order. So: solve, sort by ``h/D``, and again
    while ψ* falls, in at most so many ``orderings``. If Newton's method fails at once, what is
    left is ``μ = 0`` (separation of variables) and an infinite bound.
    """
    order = np.argsort(-lower / np.sqrt(cov.diagonal()), kind="stable")
    best = t = None
    for _ in range(orderings):
        scaled_cov, scaled, factor, scale = _sequential(cov, lower, order)
        t, hazard, bound = _saddle_point(scaled_cov, scaled, scaled if t is None else t)
        if best is None and bound == math.inf:
            return Proposal(scaled, factor, np.zeros_like(scaled), bound, order, scale)
        if best is not None and bound > best.bound - 0.05:
            break
        best = Proposal(scaled, factor, factor.T @ hazard, bound, order, scale)
        by_tightness = np.argsort(-hazard / scale, kind="stable")
        order, t = order[by_tightness], t[by_tightness]
    return best


def _sequential(cov, lower, order):
    """``M = D⁻¹ cov D⁻¹``, ``l``, ``L̂ = D⁻¹L - I`` and ``D = diag L``, L the Cholesky factor."""
    cov = cov[np.ix_(order, order)]
    try:
        factor = np.linalg.cholesky(cov)
    except np.linalg.LinAlgError as error:
        raise InputError("cov must be positive definite, got a matrix that is not") from error
    scale = factor.diagonal().copy()
    factor /= scale[:, None]
    np.fill_diagonal(factor, 0.0)
    return cov / np.outer(scale, scale), lower[order] / scale, factor, scale


def _saddle_point(scaled_cov, lower, t, *, max_newton: int = 100):
    """``t``, ``h = N(t)/P(N > t)`` and ψ at the saddle point; ψ is infinite if it is not found.

    With ``t = l - μ - L̂x`` the stationarity conditions are ``μ = L̂ᵀh`` and ``x = h + μ``;
    inserting them leaves N equations in which L̂ has become M,

        ``F(t) = t + (M - I) h(t) - l = 0``,   ``F' = V + M W``,   ``W = h' = 1 - V``.

    F is the gradient in h of ``ψ(t) = Σ log P(N > t) + hᵀ(t - l) + hᵀ(M - I)h / 2``, which is
    convex in h: damped steps lead to its minimum, and ``W F`` times the step is what is left.

    ``max_newton``: steps of Newton's method.
    """
    value, residual, hazard, slope = _bound(scaled_cov, lower, t)
    gain = math.inf
    for _ in range(max_newton):
        check_interrupt()
        try:
            step = _newton_step(scaled_cov, slope, residual)
        except np.linalg.LinAlgError:
            break
        gain = -(slope * residual) @ step
        if gain <= 1e-5 + 1e-12 * abs(value):
            break
        for damping in 0.5 ** np.arange(30):
            trial = _bound(scaled_cov, lower, t + damping * step)
            if trial[0] <= value - 1e-4 * damping * gain:
                break
        else:  # rounding: as good as it gets
            break
        t = t + damping * step
        value, residual, hazard, slope = trial
    return t, hazard, float(value) if gain < 0.1 else math.inf


def _bound(scaled_cov, lower, t):
    """``ψ(t)``, a bound on the log probability for every t; ``F``, ``h``, ``h'``."""
    log_tail, hazard, slope = _tail_terms(t)
    pull = scaled_cov @ hazard - hazard
    value = np.sum(log_tail) + hazard @ (t - lower + 0.5 * pull)
    return value, t + pull - lower, hazard, slope


def _newton_step(scaled_cov, slope, residual):
    """Solve ``(V + M W) step = -residual``; V or W may vanish, ``V + √W M √W`` does not."""
    root = np.sqrt(slope)
    system = root[:, None] * scaled_cov * root
    system[np.diag_indices_from(system)] += 1.0 - slope
    factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True)
    scaled = -scipy.linalg.cho_solve(factor, root * residual)  # √W step
    direct = -(residual + scaled_cov @ (root * scaled)) / np.maximum(1.0 - slope, 0.5)
    return np.where(slope > 0.5, scaled / np.maximum(root, 0.5), direct)


@jit
def _tail_terms(t):
    """``log P(N > t)``, ``h(t) = N(t)/P(N > t)`` and ``h'(t)``, which lies in (0, 1)."""
    log_tail, hazard, slope = np.empty_like(t), np.empty_like(t), np.empty_like(t)
    for k in range(t.size):
        log_tail[k], hazard[k], second, _ = log_ndtr_derivatives(-t[k], 1)
        slope[k] = -second
    return log_tail, hazard, slope


def draw(proposal, n, rng, *, columns: int = 32):
    """``n`` draws of the proposal as columns ``z`` (N, n), and their log weights ``ψ(z, μ)``.

    ``columns``: coordinates between two matrix products.
    """
    lower, factor, mu, *_ = proposal
    z, log_weight, work = np.empty((len(mu), n)), np.zeros(n), np.empty((3, n))
    for start in range(0, len(mu), columns):
        block = slice(start, start + columns)
        bound = (lower - mu)[block, None] - factor[block, :start] @ z[:start]
        inner = np.ascontiguousarray(factor[block, block])
        rng.random(out=z[block])
        _draw_block(bound, inner, mu[block], z[block], log_weight, work)
    return z, log_weight


@vector_loop
def _draw_block(bound, factor, mu, z, log_weight, work):
    """Draw a block of coordinates given those before it, which ``bound`` has absorbed.

    ``z`` comes in as uniforms. Tails that are not small are multiplied: one log for the block.
    """
    product, mass, drawn = work[0], work[1], work[2]
    product[:] = 1.0
    for k in range(mu.size):
        below, new, tilt = bound[k], z[k], mu[k]
        for j in range(k):
            pull, before = factor[k, j], z[j]
            for m in range(below.size):
                below[m] -= pull * before[m]
        upper_tails(below, new, mass, drawn)
        for m in range(below.size):
            new[m] = tilt + drawn[m]
            log_weight[m] += tilt * (0.5 * tilt - new[m])
        multiply_tails(below, mass, product, log_weight)
    for m in range(product.size):
        log_weight[m] += math.log(product[m])
