r"""Laplace's method in site form.

The sites are the second-order expansions of the log likelihood at the posterior mode x̂:
:math:`\tau = -\ell''`, :math:`\nu = \ell' + \tau\hat x`,
:math:`c = \ell - \ell'\hat x - \tau\hat x^2/2`. The mode is a fixed point of "expand, solve for
the posterior mean", which is Newton's method; steps are halved until the log posterior rises.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, overload

import numpy as np

from ...execution.arguments import check_count, number
from ...execution.clock import check_interrupt, interruptible
from ...gaussians.base import Gaussian, NotPositiveDefinite, Sites
from ...messages import InputError, Message
from ...models.latent import LatentModel
from ...models.likelihoods.quadrature import evaluate
from ...models.predictors import PredictorsModel
from ...numerics.arrays import Array
from ..predictors.laplace import DIGITS, fit_block_laplace
from ..predictors.reference import BlockReference
from ..reference import GaussianReference
from .exact import fit_exact, has_closed_form


@overload
def fit_laplace(
    model: LatentModel, *, max_iterations: int = ..., tol: float = ...
) -> GaussianReference: ...
@overload
def fit_laplace(
    model: PredictorsModel, *, max_iterations: int = ..., tol: float = ...
) -> BlockReference: ...
@interruptible()
def fit_laplace(
    model: LatentModel | PredictorsModel,
    *,
    max_iterations: int = 200,
    tol: float = 1e-9,
) -> GaussianReference | BlockReference:
    """Fit Laplace's method.

    Parameters
    ----------
    model : GPModel, SparseModel, PredictorsModel or SoftmaxModel
    max_iterations : int
        Of Newton's method. Running out of them leaves ``converged = False`` and a warning.
    tol : float
        The iteration ends when no step exceeds ``tol`` prior standard deviations.

    Returns
    -------
    GaussianReference or BlockReference
        ``fit.logz``, ``fit.mean`` (the posterior mode), ``fit.converged``, ``fit.warnings``, …

    Examples
    --------
    >>> import numpy as np
    >>> from evidence import GPModel
    >>> fit = fit_laplace(GPModel(K=[[1.0]], y=[0.5], likelihood="gaussian(noise_std=1.0)"))
    >>> bool(np.isclose(fit.logz, -0.5 * np.log(4 * np.pi) - 0.25 / 4))
    True
    """
    if not isinstance(model, LatentModel | PredictorsModel):
        raise InputError(
            "model must be a GPModel, SparseModel, PredictorsModel or SoftmaxModel, got "
            f"{type(model).__name__}"
        )
    number("tol", tol, above=0.0)
    check_count("max_iterations", max_iterations, optional=False)
    if model.n_predictors > 1:
        return fit_block_laplace(model, max_iterations=max_iterations, tol=max(tol, DIGITS))
    assert isinstance(model, LatentModel)
    if has_closed_form(model):
        return fit_exact(model, "laplace")
    started = time.perf_counter()
    top = climb(model, *start(model), max_iterations=max_iterations, tol=tol)
    warnings: tuple[Message, ...] = ()
    if not top.converged:
        text = f"Laplace: Newton did not converge in {max_iterations} iterations"
        warnings = (Message("laplace-not-converged", text),)
    try:
        reference = laplace_at(model, top, top.tau, top.x)
    except NotPositiveDefinite:
        text = (
            "Laplace: the curvature at the mode is not positive definite; "
            "negative site precisions were set to zero"
        )
        warnings += (Message("laplace-no-maximum", text),)
        reference = laplace_at(model, top, np.maximum(top.tau, 0.0), top.x)
    reference.seconds, reference.warnings = time.perf_counter() - started, warnings
    return reference


def start(model: LatentModel, *, too_steep: float = 1e9, held: float = 1e6) -> tuple[Array, Array]:
    """The prior's mean, and its dual; or a point near where the likelihood is largest.

    Counts of two with a prior mean of 50: the likelihood is so curved there that a step to the
    mode has no digits left. (A precision that is not dense refuses such a mean.)

    ``too_steep``: curvature, in units of the prior's, that is too much for a step; ``held``: that
    of a tether.
    """
    prior, lik = model.prior, model.likelihood
    steep = -evaluate(lik.kernel, model.theta, prior.mean)[2] * prior.variances
    if prior.covariance is None or not lik.log_concave or (steep < too_steep).all():
        return prior.mean, np.zeros(model.y.size)
    tau = held / prior.variances
    near = prior.with_sites(tau * lik.location(model.y), tau)
    return near.mean, near.dual


class Summit(NamedTuple):
    """Where a climb ended: every log likelihood there, and its derivatives."""

    x: Array
    loglik: Array
    slope: Array
    tau: Array
    """-ℓ'', of any sign."""
    gaussian: Gaussian | None
    """Of the last step."""
    iterations: int
    converged: bool


def laplace_at(
    model: LatentModel, top: Summit, tau: Array, mean: Array | None = None
) -> GaussianReference:
    """The Gaussian around a summit, with sites of precision τ; its mean, if that is known better.

    Raises :class:`NotPositiveDefinite` where there is none.
    """
    x, prior = top.x, model.prior
    gaussian = prior.with_sites(top.slope + tau * x, tau, reuse=top.gaussian)
    sites = Sites(top.loglik - top.slope * x - 0.5 * tau * x * x, top.slope + tau * x, tau)
    reference = GaussianReference(
        "laplace",
        model,
        sites,
        *(
            gaussian.latent
            if prior.design is not None
            else (gaussian.mean if mean is None else mean, gaussian.variances)
        ),
        gaussian.log_normaliser(sites.c, mean=mean),
        converged=top.converged,
        n_sweeps=top.iterations,
    )
    return reference.keep(gaussian)


def climb(
    model: LatentModel, x: Array, dual: Array, *, max_iterations: int = 200, tol: float = 1e-9,
    known: Callable[[Array], bool] = lambda x: False, close: float = 0.1, slower: float = 0.3,
) -> Summit:  # fmt: skip
    """Newton's method from x, with dual = K⁻¹(x - m), to a mode, or to where it is ``known``.

    ``close``: a step, in prior standard deviations, after which the curvature is as good as known;
    ``slower``: as long as steps are so much shorter than the ones before.
    """
    prior, lik = model.prior, model.likelihood
    gaussian: Gaussian | None = None
    value = _objective(model, x, dual)
    width = np.sqrt(prior.variances)
    converged, iterations, longest, near = False, 0, np.inf, False
    while not converged and iterations < max_iterations and not known(x):
        check_interrupt(prior.work)
        iterations += 1
        _, d1, d2, _ = evaluate(lik.kernel, model.theta, x)
        tau = np.maximum(-d2, 0.0)
        if not np.isfinite(value) and not np.isfinite(tau).all() and prior.covariance is None:
            datum = int(np.argmin(np.isfinite(tau)))
            raise InputError(
                f"the likelihood of datum {datum} overflows at {x[datum]:.3g}, the prior mean of "
                "what it sees; pass mean= or offset= nearer to what y says"
            )
        if near and gaussian is not None:  # its curvature will do: N² instead of N³
            uphill = prior.times(d1 - dual)
            x_step = uphill - prior.times(gaussian.inner_times(uphill))
            dual_step = d1 - dual - gaussian.tau * x_step
        else:
            gaussian = prior.with_sites(d1 + tau * x, tau, reuse=gaussian)
            x_step, dual_step = gaussian.mean - x, gaussian.dual - dual
        step = 1.0
        while step > 1e-10:
            trial = _objective(model, x + step * x_step, dual + step * dual_step)
            if trial >= value - 1e-12 * abs(value):
                break
            step *= 0.5
        x, dual = x + step * x_step, dual + step * dual_step
        value = trial
        longest, before = float(np.max(np.abs(x_step) / width)), longest
        converged = longest < tol
        near = prior.covariance is not None and longest < (slower * before if near else close)
    f, d1, d2, _ = evaluate(lik.kernel, model.theta, x)
    return Summit(x, f, d1, -d2, gaussian, iterations, converged)


def _objective(model: LatentModel, x: Array, a: Array) -> float:
    """log p(y|x) - ½ (x - m)ᵀ K⁻¹ (x - m), with a = K⁻¹(x - m)."""
    f = evaluate(model.likelihood.kernel, model.theta, x)[0]
    return float(np.sum(f) - 0.5 * a @ (x - model.prior.mean))
