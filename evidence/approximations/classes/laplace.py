r"""Laplace's method for several classes.

Newton's method on the C·N latent values at once, at the cost of C + 1 factorisations of N × N
matrices per step (:mod:`.reference`); the objective is concave, and steps are halved
until it rises. The sites are the second-order expansion of the log likelihood at the mode x̂,
with g its gradient and π the class probabilities there:

.. math:: b = g + W\hat x,\qquad c = \log p(y|\hat x) - g^T\hat x - \tfrac12 \hat x^T W \hat x
"""

from __future__ import annotations

import time

import numpy as np

from ...execution.clock import check_interrupt
from ...models.classes import SoftmaxModel
from ...models.likelihoods.softmax import SoftmaxSites
from ...numerics.arrays import Array
from .reference import SoftmaxReference, factorise_curvature, log_normaliser, solve_mean

WIDE = 0.4  # of the curvature: of .25 to 1, the smallest weights' tails at little loss


def fit_softmax_laplace(
    model: SoftmaxModel, *, max_iterations: int = 100, tol: float = 1e-9
) -> SoftmaxReference:
    """Fit Laplace's method.

    Newton's iteration ends when no step exceeds ``tol`` prior standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> fit = fit_softmax_laplace(SoftmaxModel(K=np.eye(3), y=[0, 1, 2]))
    >>> fit.converged, round(fit.logz, 2)
    (True, -3.36)
    """
    started = time.perf_counter()
    x, a = model.mean.copy(), np.zeros(model.n)
    width = np.sqrt(np.concatenate([np.diag(K) for K in model.K]))
    value = float(model.log_likelihood(x))
    converged, iterations = False, 0
    while not converged and iterations < max_iterations:
        check_interrupt(2.0 * x.size * model.y.size**2)
        iterations += 1
        sites = expand(model, x)
        mu, a_new = solve_mean(model, sites, factorise_curvature(model, sites))
        x_step, a_step, step = mu - x, a_new - a, 1.0
        while step > 1e-10:
            trial = _objective(model, x + step * x_step, a + step * a_step)
            if trial >= value - 1e-12 * abs(value):
                break
            step *= 0.5
        x, a, value = x + step * x_step, a + step * a_step, trial
        converged = bool(np.max(np.abs(x_step) / width) < tol)
    # these sites make a Gaussian of their own, exact even where Newton stopped early
    reference = _of_sites("laplace", model, expand(model, x), started)
    reference.converged, reference.n_sweeps = converged, iterations
    if not converged:
        text = f"Laplace: Newton did not converge in {max_iterations} iterations"
        reference.warnings = (text,)
    return reference


def _of_sites(
    name: str, model: SoftmaxModel, sites: SoftmaxSites, started: float
) -> SoftmaxReference:
    factors = factorise_curvature(model, sites)
    mean, _ = solve_mean(model, sites, factors)
    logz = log_normaliser(model, sites, mean, factors.half_logdet)
    seconds = time.perf_counter() - started
    reference = SoftmaxReference(name, model, sites, mean, logz, seconds=seconds)
    reference.factors = factors
    return reference


def expand(model: SoftmaxModel, x: Array, s: float = 1.0) -> SoftmaxSites:
    """Second-order expansion of log p(y|x) at x, its curvature multiplied by s."""
    value, g = model.log_likelihood_gradient(x)
    pi = s * model.probabilities(x)
    Wx = SoftmaxSites(0.0, pi, pi, s).curvature(x)
    c = float(value - g @ x - 0.5 * x @ Wx)
    return SoftmaxSites(c, (g + Wx).reshape(pi.shape), pi, s)


def fit_wide_laplace(model: SoftmaxModel, s: float = WIDE) -> SoftmaxReference:
    """Laplace's Gaussian with flatter sites: the same mode, more spread.

    Laplace's method is too narrow for a likelihood that falls off more slowly than a parabola,
    and importance weights then have a long tail that few draws show. Draws from this one are
    spread wider than the posterior, or nearly so.
    """
    started = time.perf_counter()
    plain = fit_softmax_laplace(model)
    wide = _of_sites("wide", model, expand(model, plain.mean, s), started)
    wide.converged, wide.n_sweeps = plain.converged, plain.n_sweeps
    wide.warnings = plain.warnings
    return wide


def _objective(model: SoftmaxModel, x: Array, a: Array) -> float:
    """log p(y|x) - ½ (x - m)ᵀ K⁻¹ (x - m), with a = K⁻¹(x - m)."""
    return float(model.log_likelihood(x) - 0.5 * a @ (x - model.mean))
