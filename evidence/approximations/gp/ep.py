r"""Expectation propagation.

A site is updated from its cavity :math:`\tau_c = 1/\Sigma_{nn} - \tau`,
:math:`\nu_c = \mu_n/\Sigma_{nn} - \nu` so that q matches the first two moments of the tilted
distribution :math:`p(y_n|x) N(x; \text{cavity})`. Two phases find the fixed point:

1. *sequential* sweeps (:mod:`.sequential`), which cannot overcount and cross the large
   distance from the prior in a few rounds;
2. *parallel* sweeps, all sites at once: one Cholesky each, damped, with Anderson
   extrapolation over the last few. Undamped parallel sweeps can cycle for ever.

Where the likelihood is log-concave, the first phase is a climb to the posterior mode, whose
curvature gives the first sites (Laplace's), and where q is a dense matrix the second one is
Newton's method: sweeps over the moments of q as they answer to other sites, means exactly and
variances to first order (:class:`~evidence.gaussians.base.Response`), cost next to nothing, and q
is factorised again only where they have ended. Three to six factorisations are enough, each of
which squares the error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...execution.arguments import check_count, number, shown
from ...execution.clock import Stopped, check_interrupt, interruptible
from ...gaussians.base import Gaussian, NotPositiveDefinite, Response, Sites
from ...gaussians.blocks import BlockSites
from ...messages import InputError, Message
from ...models.latent import LatentModel
from ...models.likelihoods.quadrature import evaluate
from ...models.predictors import PredictorsModel
from ...numerics.arrays import Array
from ..predictors.ep import MOST, fit_block_ep
from ..reference import GaussianReference
from .cavities import cavities, log_site
from .exact import fit_exact, has_closed_form, rounding_error
from .laplace import climb, fit_laplace
from .laplace import start as near_data
from .sequential import sequential_start

_MEMORY = 6
_MAX_WARM = 40  # sweeps granted to a warm start
ROUNDING = 1e-3  # nats of rounding error in log Z that are worth a warning


class _FixedPoint(NamedTuple):
    """Where parallel sweeps ended."""

    c: Array
    gaussian: Gaussian
    sweeps: int
    mismatch: float
    skipped: int
    converged: bool
    late: bool = False
    """Whether the time was up before they met."""


@interruptible()
def fit_ep(
    model: LatentModel | PredictorsModel, *, start: Sites | BlockSites | Gaussian | None = None,
    damping: float = 0.8, max_sweeps: int = 200, tol: float = 1e-9,
) -> GaussianReference:  # fmt: skip
    """Fit expectation propagation.

    Parameters
    ----------
    model : GPModel, SparseModel or PredictorsModel
        Where data see several predictors, up to three, moments are those of a few nodes in each
        direction (:mod:`evidence.approximations.predictors.ep`), which have a tolerance and
        damping of their own.
    start : Sites or Gaussian, optional
        Where to begin: ``reference.sites`` of an earlier fit to the same data under other
        hyperparameters, or a Gaussian of this prior, whose memory is taken over
        (``reference.surrender()``). It saves the sequential phase. Where parallel sweeps from
        there do not converge (or Σ does not exist), the fit begins again from nothing. EP of a
        likelihood that is not log-concave may have several fixed points; ``start`` then decides.
    damping : float in (0, 1]
        Fraction of each site update that a plain sweep takes; halved whenever sweeps stop
        improving. Steps of Newton's method have their own.
    max_sweeps, tol
        Sweeps end when no site's mean (in units of its standard deviation) or relative
        variance is off by more than ``tol``. Running out of sweeps leaves
        ``converged = False`` and a warning in words.

    Returns
    -------
    GaussianReference
        ``ep.logz``, ``ep.logz_corrected``, ``ep.mean``, ``ep.cov``, ``ep.sites`` (``.c``,
        ``.nu``, ``.tau``), ``ep.converged``, ``ep.warnings``, …

    Examples
    --------
    >>> import numpy as np
    >>> from evidence import GPModel
    >>> ep = fit_ep(GPModel(K=np.eye(2), y=[1, -1]))
    >>> round(ep.logz, 6), ep.converged
    (-1.386294, True)
    >>> near = GPModel(K=1.1 * np.eye(2), y=[1, -1])
    >>> abs(fit_ep(near, start=ep.sites).logz - fit_ep(near).logz) < 1e-9
    True
    """
    if isinstance(model, LatentModel | PredictorsModel) and model.n_predictors > 1:
        return _of_several(model, start)
    if not isinstance(model, LatentModel):
        raise InputError(
            "model must be a GPModel, SparseModel or PredictorsModel for EP (or use fit_laplace), "
            f"got {type(model).__name__}"
        )
    number("damping", damping, above=0.0, most=1.0)
    number("tol", tol, above=0.0)
    check_count("max_sweeps", max_sweeps, optional=False)
    started = time.perf_counter()
    if has_closed_form(model):
        return fit_exact(model, "ep")
    end, wasted = None, 0
    if start is not None:
        nu, tau, reuse = _check_start(start, model)
        limit = min(_MAX_WARM, max_sweeps)
        try:
            end = _parallel_sweeps(model, nu, tau, reuse, 0, limit, damping, tol)
        except NotPositiveDefinite:
            wasted = 1
        else:
            wasted = 0 if end.converged else end.sweeps
    if end is None or not end.converged:
        try:
            nu, tau, reuse, sweeps = _cold_start(model, max_sweeps)
            given = (nu, tau, reuse, sweeps, max_sweeps, damping, tol)
            try:
                end = _parallel_sweeps(model, *given)
            except NotPositiveDefinite:  # without sites of negative precision there always is a q
                end = _parallel_sweeps(model, *given, least=0.0)
        except NotPositiveDefinite as error:
            raise NotPositiveDefinite(
                f"EP is beyond what doubles resolve ({error}); {model.suspect}"
            ) from error
        except Stopped:
            return _independent(model, started)
    q = end.gaussian
    lost = rounding_error(q.prior, Sites(end.c, q.nu, q.tau), q.mean)
    reference = GaussianReference(
        "ep", model, Sites(end.c, q.nu, q.tau), *q.latent, q.log_normaliser(end.c),
        converged=end.converged, n_sweeps=wasted + end.sweeps,
        seconds=time.perf_counter() - started, warnings=tuple(_describe(end, tol, lost)),
        rounding=lost,
    )  # fmt: skip
    return reference.keep(q)


def _of_several(model: LatentModel | PredictorsModel, start: object) -> Any:
    """Where data see several predictors, a few at most."""
    if model.n_predictors > MOST:
        raise InputError(
            f"model has {model.n_predictors} predictors for each datum, and EP is for up to "
            f"{MOST}; use fit_laplace"
        )
    if start is not None and not isinstance(start, BlockSites):
        raise InputError(f"start must be the sites of an earlier fit, got {shown(start)}")
    return fit_block_ep(model, start=start)


def _independent(model: LatentModel, started: float) -> GaussianReference:
    """No sweep was finished in time: sites of one, and log Z as of independent latent values."""
    prior, zero = model.prior, np.zeros(model.y.size)
    log_z = model.likelihood.tilted(model.y, prior.mean, prior.variances)[0]
    return GaussianReference(
        "ep", model, Sites(zero, zero, zero), *prior.with_sites(zero, zero).latent,
        float(np.sum(log_z)), converged=False, seconds=time.perf_counter() - started,
        warnings=(Message("ep-out-of-time", "EP had no time for a single sweep: its log Z is that "
                          "of independent latent values, which may be far off"),),
    )  # fmt: skip


def _cold_start(
    model: LatentModel, max_sweeps: int, *, near: float = 0.3, max_sequential: int = 6,
    climbing: int = 4, mode: float = 0.01,
) -> tuple[Array, Array, Gaussian | None, int]:  # fmt: skip
    """ν, τ, a Gaussian that is done with, and sweeps: sequential ones, which need K as a matrix,
    or else Laplace's sites.

    ``near``: mismatch, in standard deviations, at which parallel sweeps take over;
    ``max_sequential``: sequential sweeps; ``climbing``: steps of a climb that is only a start;
    ``mode``: prior standard deviations in the last of them.
    """
    if model.prior.covariance is not None and not model.likelihood.log_concave:
        nu, tau, sweeps = sequential_start(model, min(max_sequential, max_sweeps - 1), near)
        return nu, tau, None, sweeps
    if model.likelihood.kinks:
        return *_around_kinks(model), None, 1
    if model.prior.covariance is not None:
        top = climb(model, *near_data(model), max_iterations=climbing, tol=mode)
        tau = np.maximum(top.tau, 0.0)
        return top.slope + tau * top.x, tau, top.gaussian, 0
    laplace = fit_laplace(model)
    return laplace.sites.nu, np.maximum(laplace.sites.tau, 0.0), None, 0


def _around_kinks(model: LatentModel, *, touches: int = 20) -> tuple[Array, Array]:
    """ν and τ of parabolas that touch what has no curvature on both sides of its kink, as far
    from it as q is: iterated least squares, as for quantile regression.

    D. R. Hunter and K. Lange, Quantile regression via an MM algorithm, J. Comput. Graph. Stat. 9
    (2000) 60.

    ``touches``: steps of iterated least squares: 6 of 112 hard models were left without EP.
    """
    prior, kink = model.prior, model.likelihood.location(model.y)
    nu = tau = np.zeros(model.y.size)
    for _ in range(touches):
        q = prior.with_sites(nu, tau)
        reach = np.sqrt((q.mean - kink) ** 2 + q.variances)
        below, above = (
            evaluate(model.likelihood.kernel, model.theta, kink + side * reach, 1)[1]
            for side in (-1.0, 1.0)
        )
        tau = (below - above) / (2.0 * reach)
        nu = 0.5 * (below + above) + tau * kink
    return nu, tau


def _parallel_sweeps(
    model: LatentModel, nu: Array, tau: Array, reuse: Gaussian | None, sweeps: int,
    max_sweeps: int, damping: float, tol: float, least: float = -np.inf,
) -> _FixedPoint:  # fmt: skip
    """All sites at once until they match, or ``sweeps`` reaches ``max_sweeps``.

    No site's precision falls below ``least``.
    """
    least = 0.0 if model.likelihood.log_concave else least
    check_interrupt(model.prior.work)
    known = reuse is not None and reuse.nu is nu and reuse.tau is tau
    q = reuse if known and reuse is not None else model.prior.with_sites(nu, tau, reuse=reuse)
    if not q.variances.min() > 0.0:
        raise NotPositiveDefinite("a variance of q is not a positive number")
    history = _Anderson(_MEMORY)
    best = last = np.inf
    reach = 1.0  # fraction of Newton's step that is taken
    converged, skipped, late = False, 0, False
    while sweeps < max_sweeps:
        sweeps += 1
        c, target_nu, target_tau, mismatch, skipped = _match(model, q)
        if mismatch < tol:
            converged = True
            break
        if mismatch > 10.0 * best:
            history.forget()
            damping = max(0.5 * damping, 0.05)
            best = mismatch
        try:
            check_interrupt(model.prior.work)
        except Stopped:
            late = True
            break
        best = min(best, mismatch)
        closer, last = mismatch < last, mismatch
        reach = min(2.0 * reach, 1.0) if closer else 0.25 * reach
        goal = max(0.1 * tol, min(0.05, 0.01 * mismatch) * mismatch)
        response = q.response(goal) if closer and model.likelihood.log_concave else None
        if response is None:
            change = target_nu - q.nu, target_tau - q.tau
            proposal = history.step(q.nu, q.tau, *change, q.variances, damping)
        else:
            history.forget()
            to_nu, to_tau = _ahead(model, q, response, least, goal)
            proposal = q.nu + reach * (to_nu - q.nu), q.tau + reach * (to_tau - q.tau)
        q = _feasible(q, least, *proposal)
    else:
        c = _match(model, q)[0]
    return _FixedPoint(c, q, sweeps, mismatch, skipped, converged, late)


class _Nearby(NamedTuple):
    """The moments of q under other sites, to first order."""

    nu: Array
    tau: Array
    mean: Array
    variances: Array


def _ahead(
    model: LatentModel, q: Gaussian, response: Response, least: float, goal: float, *,
    undamped: float = 0.9, ahead: int = 25,
) -> tuple[Array, Array]:  # fmt: skip
    """ν and τ at which sites match, to first order, up to ``goal``: a step of Newton's method.

    ``undamped``: fraction of a site's update that sweeps without a factorisation take; ``ahead``:
    sweeps without a factorisation, at most.
    """
    near = _Nearby(q.nu, q.tau, q.mean, q.variances)
    history, best, found = _Anderson(_MEMORY), np.inf, (q.nu, q.tau)
    for _ in range(ahead):
        _, nu, tau, mismatch, _ = _match(model, near)
        if mismatch < best or near.nu is q.nu:
            best, found = mismatch, (near.nu, near.tau)
        if mismatch < goal or mismatch > 10.0 * best:
            break
        nu, tau = history.step(
            near.nu, near.tau, nu - near.nu, tau - near.tau, near.variances, undamped
        )
        tau = np.maximum(tau, least)
        near = _Nearby(nu, tau, *response(nu - q.nu, tau - q.tau))
    return found


def _check_start(
    start: Sites | BlockSites | Gaussian, model: LatentModel
) -> tuple[Array, Array, Gaussian | None]:
    """ν and τ of a warm start, and a Gaussian that is done with."""
    n, reuse = model.y.size, None
    if isinstance(start, Gaussian):
        mine, prior = start.prior, model.prior
        if mine is not prior and (
            mine.covariance is None
            or mine.covariance is not prior.covariance
            or mine.mean is not prior.mean
        ):
            raise InputError("start must be a Gaussian of this model's own prior, or its sites")
        reuse = start
    elif not isinstance(start, Sites):
        raise InputError(
            f"start must be the sites of an earlier fit, reference.sites, got {shown(start)}"
        )
    nu, tau = np.asarray(start.nu, dtype=float), np.asarray(start.tau, dtype=float)
    if nu.shape != (n,) or tau.shape != (n,):
        raise InputError(f"start holds {nu.size} sites but the model has {n} observations")
    if not (np.isfinite(nu).all() and np.isfinite(tau).all()):
        raise InputError("start contains NaN or inf; leave it out to begin from nothing")
    return nu, tau, reuse


def _match(model: LatentModel, q: Gaussian | _Nearby) -> tuple[Array, Array, Array, float, int]:
    """Moment matching for every site: (c, ν, τ, largest mismatch, sites left alone)."""
    nu, tau, mu, var = q.nu, q.tau, q.mean, q.variances
    m, v, ok = cavities(mu, var, nu, tau)
    log_z, mean, variance = model.likelihood.tilted(model.y, m, v)
    ok &= np.isfinite(log_z) & np.isfinite(mean) & (variance > 0.0)
    target_tau = np.where(ok, 1.0 / variance - 1.0 / v, tau)
    target_nu = np.where(ok, mean / variance - m / v, nu)
    c = log_z - log_site(m, v, nu, tau)
    mismatch = np.maximum(np.abs(mean - mu) / np.sqrt(var), np.abs(variance / var - 1.0))
    return c, target_nu, target_tau, float(np.max(mismatch[ok], initial=0.0)), int((~ok).sum())


def _feasible(q: Gaussian, least: float, nu: Array, tau: Array) -> Gaussian:
    """q for the proposed sites, retreating towards the old ones until it exists."""
    tau = np.maximum(tau, least)
    for _ in range(30):
        try:
            new = q.prior.with_sites(nu, tau, reuse=q)
        except NotPositiveDefinite:
            pass
        else:
            if new.variances.min() > 0.0:
                return new
        nu, tau = 0.5 * (q.nu + nu), 0.5 * (q.tau + tau)
    raise NotPositiveDefinite("EP found no step that keeps the covariance positive definite")


class _Anderson:
    """Anderson extrapolation of the damped fixed-point iteration, in units of each site."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.forget()

    def forget(self) -> None:
        self._last: tuple[Array, Array] | None = None
        self._differences: list[tuple[Array, Array]] = []

    def step(
        self, nu: Array, tau: Array, d_nu: Array, d_tau: Array, var: Array, damping: float
    ) -> tuple[Array, Array]:
        point, residual = np.concatenate([nu, tau]), np.concatenate([d_nu, d_tau])
        if self._last is not None:
            new = point - self._last[0], residual - self._last[1]
            self._differences = [*self._differences[1 - self.memory :], new]
        self._last = point, residual
        out = point + damping * residual
        if self._differences:
            scale = np.concatenate([np.sqrt(var), var])
            scaled, target = [r * scale for _, r in self._differences], residual * scale
            products = np.array([[one @ other for other in scaled] for one in scaled])
            size = np.sqrt(np.maximum(np.diag(products), np.finfo(float).tiny))
            # normal equations, in units of each difference
            right = np.array([one @ target for one in scaled]) / size
            weights, *_ = np.linalg.lstsq(products / np.outer(size, size), right, rcond=1e-13)
            for weight, (p, r) in zip(weights / size, self._differences, strict=True):
                out -= weight * (p + damping * r)
        return out[: nu.size], out[nu.size :]


def _describe(end: _FixedPoint, tol: float, lost: float) -> Iterator[Message]:
    if end.late:
        text = (
            f"EP had no time to converge: its moments are off by {end.mismatch:.2g} after "
            f"{end.sweeps} sweeps, its log Z is not to be trusted"
        )
        yield Message("ep-out-of-time", text)
    elif not end.converged:
        text = (
            f"EP did not converge in {end.sweeps} sweeps (moments off by {end.mismatch:.2g}, "
            f"wanted {tol:.2g}); its log Z is not to be trusted, try a smaller damping"
        )
        yield Message("ep-not-converged", text)
    if end.skipped:
        text = f"EP left {end.skipped} site(s) alone whose cavity variance was not positive"
        yield Message("ep-sites-skipped", text)
    if lost > ROUNDING:
        text = (
            f"EP's log Z is uncertain by about {lost:.2g} nats of rounding: the likelihood is so "
            "much narrower than the prior that differences cancel; allow more noise"
        )
        yield Message("ep-rounding", text)
