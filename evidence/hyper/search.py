r"""EP's log Z and its exact gradient as the objective of a search over hyperparameters.

Each fit of EP starts from the sites of the one before. A trial point at which the covariance is
singular, EP does not converge or log Z has lost its digits is rejected. When minimising f it gets
the value of a cone about the last good point x, :math:`f(x) + (1 + |g|)\,|x' - x|`, so that a
line search comes back to about half its step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..approximations.gp.ep import ROUNDING
from ..approximations.gp.gradient import log_evidence_gradient
from ..approximations.reference import GaussianReference
from ..execution.clock import Stopped
from ..models.hyperparameters import Hyperparameters
from ..models.priors import Priors
from ..numerics.arrays import Array, Flags, Indices
from .at_theta import NoEvidence, check_digits

if TYPE_CHECKING:
    from ..gaussians.base import Sites

    #: EP at θ (all logs), from these sites if given, to this tolerance; or :class:`.NoEvidence`
    EPAt = Callable[[Array, Sites | None, float], GaussianReference]


class Evaluation(NamedTuple):
    """One row of the history; NaN where the point was rejected."""

    restart: int
    logz: float
    objective: float
    gradient: float
    seconds: float


class SearchEnd(NamedTuple):
    """Where one start ended."""

    restart: int
    theta: Array
    logz: float
    objective: float
    iterations: int
    converged: bool
    message: str


class SearchPoint(NamedTuple):
    """Hyperparameters (all of them), the objective, its gradient in what moves, and EP."""

    theta: Array
    objective: float
    gradient: Array
    reference: GaussianReference


class Search:
    """Searches from several starts, and what was seen on the way.

    ``tick`` hears after every evaluation, in words, where the search is.
    """

    def __init__(
        self, ep_at: EPAt, free: Hyperparameters, moving: Indices, priors: Priors | None = None,
        tick: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.ep_at, self.moving, self.priors, self.tick = ep_at, moving, priors, tick
        self.lows = free.lows[moving]
        self.history: list[Evaluation] = []
        self.ends: list[SearchEnd] = []
        self.best: SearchPoint | None = None
        #: of what moves: the model's bounds, and within what priors allow
        self.bounds = free.bounds[moving].copy()
        if priors is not None:
            places = np.searchsorted(moving, priors.free)
            low, high = self.bounds[places].T
            # gradients of priors are differences: four steps are kept from an edge
            inside = priors.support() + _steps(priors)[:, None] * [4.0, -4.0]
            clipped = np.maximum(low, inside[:, 0]), np.minimum(high, inside[:, 1])
            self.bounds[places] = np.column_stack(clipped)

    def evaluate(self, theta: Array, start: Sites | None, tol: float = 1e-6) -> SearchPoint:
        """The objective at ``theta``, or :class:`.NoEvidence`."""
        reference = self.ep_at(theta, start, tol)
        if not reference.converged:
            raise NoEvidence(reference.warnings[0])
        check_digits(reference, ROUNDING)
        value, gradient = reference.logz, log_evidence_gradient(reference)
        if self.priors is not None:
            log_density, slope = _log_density(self.priors, theta[self.priors.free])
            value += log_density
            gradient[self.priors.free] += slope
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise NoEvidence("log Z, a prior, or a gradient is not finite")
        return SearchPoint(theta.copy(), value, gradient[self.moving], reference)

    def run(
        self, restart: int, start: Array, max_iterations: int, tol: float, *,
        no_progress: float = 1e-11,
    ) -> None:  # fmt: skip
        """L-BFGS-B from one start, or from the nearest place that priors allow.

        ``no_progress``: relative change at which log Z is rounded.
        """
        start = start.copy()
        start[self.moving] = np.clip(start[self.moving], *self.bounds.T)
        try:
            descent = _Descent(self, restart, self.recorded(restart, start, None))
        except NoEvidence as failure:
            message = f"rejected at its start: {failure}"
            self.ends.append(SearchEnd(restart, start, np.nan, np.nan, 0, False, message))
            return
        options = {"maxiter": max_iterations, "gtol": tol / descent.scale, "ftol": no_progress}
        try:
            end = minimize(
                descent, start[self.moving], jac=True, method="L-BFGS-B", bounds=self.bounds,
                options=options,
            )  # fmt: skip
        except (KeyboardInterrupt, Stopped):
            self.ends.append(descent.end(0, False, "interrupted"))
            raise
        # rounding may end the line search a little early
        converged = bool(end.success) or self._steepest(descent.top) < 10.0 * tol
        self.ends.append(descent.end(int(end.nit), converged, str(end.message)))

    def recorded(self, restart: int, theta: Array, start: Sites | None) -> SearchPoint:
        """As :meth:`evaluate`, with a row in the history."""
        began = time.perf_counter()

        def record(logz: float, objective: float, gradient: float) -> None:
            seconds = time.perf_counter() - began
            self.history.append(Evaluation(restart, logz, objective, gradient, seconds))
            top = np.nan if self.best is None else self.best.reference.logz
            self.tick(f"start {restart}, log Z {top:.4f}")

        try:
            point = self.evaluate(theta, start)
        except NoEvidence:
            record(np.nan, np.nan, np.nan)
            raise
        if self.best is None or point.objective > self.best.objective:
            self.best = point
        record(point.reference.logz, point.objective, self._steepest(point))
        return point

    def _steepest(self, point: SearchPoint) -> float:
        """Largest component of the gradient that does not push against a bound."""
        x = point.theta[self.moving]
        return float(np.abs(np.clip(x + point.gradient, *self.bounds.T) - x).max())

    def at_bounds(self, theta: Array, *, at_bound: float = 1e-3) -> Flags:
        """Which of those that move are at a bound.

        ``at_bound``: logs.
        """
        return np.min(np.abs(self.bounds - theta[self.moving, None]), axis=1) < at_bound

    def standard_errors(self, *, curvature_step: float = 3e-4) -> Array:
        """Of the logs that moved, from the curvature at the best point; NaN where there is none.

        The Hessian is the forward difference of the exact gradient, made symmetric; steps
        point inwards where a bound is near. Hyperparameters at a bound are left out.

        ``curvature_step``: logs between gradients.
        """
        assert self.best is not None
        errors = np.full(self.moving.size, np.nan)
        among = np.flatnonzero(~self.at_bounds(self.best.theta))
        rows = np.empty((among.size, among.size))
        try:
            top = self.evaluate(self.best.theta, self.best.reference.sites, tol=1e-9)
            for k, p in enumerate(among):
                self.tick(f"curvature {k + 1} of {among.size}")
                theta = top.theta.copy()
                room = self.bounds[p, 1] - theta[self.moving[p]] > curvature_step
                step = curvature_step if room else -curvature_step
                theta[self.moving[p]] += step
                near = self.evaluate(theta, top.reference.sites, tol=1e-9)
                rows[k] = (top.gradient - near.gradient)[among] / step
        except NoEvidence:
            return errors
        precision = 0.5 * (rows + rows.T)
        if among.size and np.linalg.eigvalsh(precision)[0] > 0.0:
            errors[among] = np.sqrt(np.diag(np.linalg.inv(precision)))
        return errors


class _Descent:
    """What L-BFGS-B minimises from one start.

    Its first step within a box is the whole gradient, tens of logs; the objective is scaled so
    that this step is one.
    """

    def __init__(self, search: Search, restart: int, first: SearchPoint) -> None:
        self.search, self.restart = search, restart
        self.last = self.top = first
        self.scale = max(1.0, float(np.abs(first.gradient).max()))

    def __call__(self, x: Array) -> tuple[float, Array]:
        moving, last = self.search.moving, self.last
        away = x - last.theta[moving]
        distance = float(np.linalg.norm(away))
        if distance > 0.0:
            theta = last.theta.copy()
            theta[moving] = x
            try:
                last = self.search.recorded(self.restart, theta, last.reference.sites)
            except NoEvidence:
                steepness = 1.0 + float(np.linalg.norm(last.gradient))
                value = steepness * distance - last.objective
                return value / self.scale, steepness / self.scale * away / distance
            self.last = last
            self.top = max(self.top, last, key=lambda point: point.objective)
        return -last.objective / self.scale, -last.gradient / self.scale

    def end(self, n: int, converged: bool, message: str) -> SearchEnd:
        """Where it went in ``n`` iterations: the best point of this start."""
        theta, objective, _, reference = self.top
        return SearchEnd(self.restart, theta, reference.logz, objective, n, converged, message)


def _steps(priors: Priors, step: float = 1e-3, part: float = 1.0 / 16.0) -> Array:
    """Logs between values of each prior: ``step``, or this ``part`` of a narrow support."""
    return np.minimum(step, part * np.ptp(priors.support(), axis=1))


def _log_density(priors: Priors, theta: Array) -> tuple[float, Array]:
    """Log density of the priors and its gradient, by a difference of fourth order."""
    steps = _steps(priors)
    around = theta + np.array([-2.0, -1.0, 1.0, 2.0])[:, None, None] * np.diag(steps)
    with np.errstate(invalid="ignore"):
        values = priors.log_density(around)
        slope = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * steps)
    return float(priors.log_density(theta)), slope
