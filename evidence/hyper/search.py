r"""EP's log Z and its exact gradient as the objective of a search over hyperparameters.

Each fit of EP starts from the sites of the one before. A trial point at which the covariance is
singular, EP does not converge or log Z has lost its digits is rejected. When minimising f it gets
the value of a cone about the last good point x, :math:`f(x) + (1 + |g|)\,|x' - x|`, so that a
line search comes back to about half its step.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..approximations.gp.ep import ROUNDING, fit_ep, rounding_error
from ..approximations.gp.gradient import log_evidence_gradient
from ..approximations.reference import GaussianReference
from ..gaussians.base import NotPositiveDefinite, Sites
from ..models.gp import CovarianceError, GPModel
from ..models.priors import Priors

Array = NDArray[np.float64]

_EP_TOL = 1e-6  # while searching; the error of log Z is of the order of its square
_NO_PROGRESS = 1e-11  # relative; log Z is rounded at about this
_EDGE = 0.004  # kept from the edge of a support: gradients of priors are differences
_AT_BOUND = 1e-3  # logs
_CURVATURE_STEP = 3e-4
_PRIOR_STEP = 1e-3


class Rejected(ArithmeticError):
    """A point without a log Z."""


class Evaluation(NamedTuple):
    """One row of the history; NaN where the point was rejected."""

    restart: int
    logz: float
    objective: float
    gradient: float
    seconds: float


class End(NamedTuple):
    """Where one start ended."""

    restart: int
    theta: Array
    logz: float
    objective: float
    iterations: int
    converged: bool
    message: str


class Point(NamedTuple):
    """Hyperparameters (all of them), the objective, its gradient in what moves, and EP."""

    theta: Array
    objective: float
    gradient: Array
    reference: GaussianReference


class Search:
    """Searches from several starts, and what was seen on the way."""

    def __init__(
        self, model: GPModel, moving: NDArray[np.intp], priors: Priors | None, bar: Any
    ) -> None:
        self.model, self.moving, self.priors, self.bar = model, moving, priors, bar
        self.history: list[Evaluation] = []
        self.ends: list[End] = []
        self.best: Point | None = None
        #: of what moves: the model's bounds, and within what priors allow
        self.bounds = model.hyperparameters.bounds[moving].copy()
        if priors is not None:
            places = np.searchsorted(moving, priors.free)
            inside = priors.support() + np.array([_EDGE, -_EDGE])
            self.bounds[places, 0] = np.maximum(self.bounds[places, 0], inside[:, 0])
            self.bounds[places, 1] = np.minimum(self.bounds[places, 1], inside[:, 1])

    def evaluate(self, theta: Array, start: Sites | None, tol: float = _EP_TOL) -> Point:
        """The objective at ``theta``, or :class:`Rejected`."""
        try:
            with np.errstate(all="ignore"):
                reference = fit_ep(self.model.at(theta), start=start, tol=tol)
        except (CovarianceError, NotPositiveDefinite, np.linalg.LinAlgError) as error:
            raise Rejected(str(error)) from None
        if not reference.converged:
            raise Rejected(reference.warnings[0])
        if rounding_error(reference.model.prior, reference.sites, reference.mean) > ROUNDING:
            raise Rejected(reference.warnings[-1])
        value, gradient = reference.logz, log_evidence_gradient(reference)
        if self.priors is not None:
            log_density, slope = _log_density(self.priors, theta[self.priors.free])
            value += log_density
            gradient[self.priors.free] += slope
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise Rejected("log Z, a prior, or a gradient is not finite")
        return Point(theta.copy(), value, gradient[self.moving], reference)

    def run(self, restart: int, start: Array, max_iterations: int, tol: float) -> None:
        """L-BFGS-B from one start."""
        try:
            first = self._try(restart, start, None)
        except Rejected as rejected:
            message = f"rejected at its start: {rejected}"
            self.ends.append(End(restart, start, np.nan, np.nan, 0, False, message))
            return
        descent = _Descent(self, restart, first)
        try:
            found = minimize(
                descent,
                start[self.moving],
                jac=True,
                method="L-BFGS-B",
                bounds=self.bounds,
                options={
                    "maxiter": max_iterations,
                    "gtol": tol / descent.scale,
                    "ftol": _NO_PROGRESS,
                },
            )
        except KeyboardInterrupt:
            self.ends.append(descent.end(0, False, "interrupted"))
            raise
        slope = self._steepest(descent.top)
        # rounding may end the line search a little early
        converged = bool(found.success) or slope < 10.0 * tol
        self.ends.append(descent.end(int(found.nit), converged, str(found.message)))

    def _try(self, restart: int, theta: Array, start: Sites | None) -> Point:
        """Evaluate, and write it down."""
        began = time.perf_counter()
        self.bar.set_description_str(f"start {restart}", refresh=False)
        try:
            point = self.evaluate(theta, start)
        except Rejected:
            seconds = time.perf_counter() - began
            self.history.append(Evaluation(restart, np.nan, np.nan, np.nan, seconds))
            raise
        finally:
            self.bar.update(1)
        if self.best is None or point.objective > self.best.objective:
            self.best = point
            self.bar.set_postfix_str(f"log Z {point.reference.logz:.4f}", refresh=False)
        seconds = time.perf_counter() - began
        self.history.append(
            Evaluation(
                restart, point.reference.logz, point.objective, self._steepest(point), seconds
            )
        )
        return point

    def _steepest(self, point: Point) -> float:
        """Largest component of the gradient that does not push against a bound."""
        x = point.theta[self.moving]
        return float(np.abs(np.clip(x + point.gradient, *self.bounds.T) - x).max())

    def at_bounds(self, theta: Array) -> NDArray[np.bool_]:
        """Which of those that move are at a bound."""
        return np.min(np.abs(self.bounds - theta[self.moving, None]), axis=1) < _AT_BOUND

    def standard_errors(self) -> Array:
        """Of the logs that moved, from the curvature at the best point; NaN where there is none.

        The Hessian is the forward difference of the exact gradient, made symmetric; steps
        point inwards where a bound is near. Hyperparameters at a bound are left out.
        """
        errors = np.full(self.moving.size, np.nan)
        assert self.best is not None
        among = np.flatnonzero(~self.at_bounds(self.best.theta))
        upper = self.bounds[:, 1]
        rows = np.empty((among.size, among.size))
        sites = self.best.reference.sites
        try:
            top = self.evaluate(self.best.theta, sites, tol=1e-9)
            for k, p in enumerate(among):
                self.bar.set_description_str(f"curvature {k + 1} of {among.size}")
                theta = top.theta.copy()
                room = upper[p] - theta[self.moving[p]] > _CURVATURE_STEP
                step = _CURVATURE_STEP if room else -_CURVATURE_STEP
                theta[self.moving[p]] += step
                near = self.evaluate(theta, top.reference.sites, tol=1e-9)
                rows[k] = (top.gradient - near.gradient)[among] / step
        except Rejected:
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

    def __init__(self, search: Search, restart: int, first: Point) -> None:
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
                last = self.search._try(self.restart, theta, last.reference.sites)
            except Rejected:
                steepness = 1.0 + float(np.linalg.norm(last.gradient))
                value = steepness * distance - last.objective
                return value / self.scale, steepness / self.scale * away / distance
            self.last = last
            if last.objective > self.top.objective:
                self.top = last
        return -last.objective / self.scale, -last.gradient / self.scale

    def end(self, iterations: int, converged: bool, message: str) -> End:
        """Where it went: the best point of this start."""
        top = self.top
        return End(
            self.restart,
            top.theta,
            top.reference.logz,
            top.objective,
            iterations,
            converged,
            message,
        )


def _log_density(priors: Priors, theta: Array) -> tuple[float, Array]:
    """Log density of the priors and its gradient, by a difference of fourth order."""
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    around = theta + _PRIOR_STEP * steps[:, None, None] * np.eye(theta.size)
    with np.errstate(invalid="ignore"):
        values = priors.log_density(around)
        slope = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * _PRIOR_STEP)
    return float(priors.log_density(theta)), slope
