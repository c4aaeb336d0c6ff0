"""Laplace's method for any density, at the modes found from many starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.spatial import cKDTree

from ...messages import InputError, Message
from ...models.density.model import DensityModel
from ...numerics.arrays import Array, Indices
from ...numerics.special import LOG_SQRT_2PI
from .blend import placed
from .policy import NORMAL
from .reference import DensityReference, Mode


def find_modes(model: DensityModel, climbs: int = NORMAL.climbs) -> tuple[Mode, ...]:
    """Distinct modes, the one with the largest estimate of log Z first."""
    points = starts(model, np.random.default_rng(0), climbs)
    if model.sampler is None:  # nobody said how far modes may lie, or data contradict a prior
        far = 3.0 * points if model.prior is None else wide(model, points)
        points = np.stack([points, far], axis=1).reshape(-1, model.n)
    found = further_modes(model, (), points[:climbs])  # where so many are in vain all are
    return with_likeliest(model, further_modes(model, found, points[climbs:]) if found else ())


def with_likeliest(model: DensityModel, modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
    """And the mode uphill of where the likelihood alone leads from the best one: a narrow peak at
    a wide one's centre, from which the prior draws the wide one's mode away. (Of a slab with a
    core of a 300th of its width, and nine tenths of Z, nothing else met the core.)"""
    if not modes or (prior := model.prior) is None or model.density:  # a stand-in
        return modes

    def fall(x: Array) -> tuple[float, Array]:
        value, slope = _fall(model, x)
        return value + float(prior.log_prob(x[None])[0]), slope + prior.gradient(x[None])[0]

    with np.errstate(all="ignore"), suppress(InputError):  # which grows without end, say
        top = _descend(model, fall, modes[0].x, _Gaussians((), model.n))[0]
        return further_modes(model, modes, top[None]) if np.isfinite(top).all() else modes
    return modes


def wide(model: DensityModel, points: Array, times: float = 4.0) -> Array:
    """Draws of the prior so many ``times`` as far out, where data that contradict it may lead: a
    third of the climbs from there reached a mode six sd away that none from the prior did."""
    assert model.prior is not None
    return model.prior.mean + times * (points - model.prior.mean)


def costly(model: DensityModel) -> bool:
    """Whether a search begins climbs where it has been, not before: one takes hundreds of calls,
    or peaks are seen from afar, and most of 32 climbs from draws of the prior were in vain."""
    alone = not (model.has_gradient or model.vectorized or model.prior is None)
    return model.smooth or alone


def climb(model: DensityModel, start: Array, known: Sequence[Mode]) -> Mode | None:
    """The maximum uphill of ``start``; None where it is known or its Hessian is not definite."""
    gaussians = _Gaussians(known, model.n)
    with np.errstate(all="ignore"):
        try:
            x, low = _descend(model, partial(_fall, model), start, gaussians)
        except _Known:
            return None
        over = model.chart.across(x)
        if over is not None and _fall(model, over)[0] < low:  # it ended at a seam
            return climb(model, over, known)
        if not np.isfinite(x).all() or gaussians.reach(x, -low):
            return None
        x, H = _polish(model, x)
        if not np.isfinite(H).all():
            return None
        value = float(model.log_prob(x[None])[0]) if model.has_gradient else -low
        try:
            L = np.linalg.cholesky(H)
            inverse = np.linalg.inv(H)
            cov = np.asarray(0.5 * (inverse + inverse.T), dtype=np.float64)
            np.linalg.solve(cov, x)  # a kink's may be singular
        except np.linalg.LinAlgError:
            return None
    if model.chart.labels.size:  # of its images the one whose labels ascend
        x, cov = model.chart.placed(x, cov)
    half = float(np.log(np.diag(L)).sum())
    if not np.isfinite(value) or not np.isfinite(cov).all() or gaussians.reach(x, value):
        return None
    return Mode(x, cov, value - half + x.size * LOG_SQRT_2PI)


def further_modes(model: DensityModel, modes: tuple[Mode, ...], points: Array) -> tuple[Mode, ...]:
    """With those uphill of the points, the one with the largest estimate of log Z first."""
    found = list(modes)
    for start in points:
        found += filter(None, [climb(model, start, found)])
    return tuple(sorted(found, key=lambda mode: -mode.logz)) if found[len(modes) :] else modes


def peaks(
    x: Array, log_l: Array, rng: np.random.Generator, neighbours: int = 8, most: int = 4096
) -> Indices:
    """Points that are higher than all of their neighbours (two more for each dimension), the
    highest first.

    In many dimensions among the highest ones and a random choice, ``most`` in all: a tree finds
    neighbours one by one there.
    """
    chosen = np.flatnonzero(np.isfinite(log_l))
    if x.shape[1] > NORMAL.low_dimension and chosen.size > most:
        order = np.argsort(-log_l[chosen])
        rest = rng.permutation(order[most // 2 :])[: most // 2]
        chosen = chosen[np.concatenate([order[: most // 2], rest])]
    if not chosen.size:
        return chosen
    x, log_l = x[chosen], log_l[chosen]
    tree, tops = cKDTree(x), np.arange(chosen.size)
    for k in (3, neighbours + 2 * x.shape[1]):  # most points fall with the first
        k = min(k, chosen.size)
        near = tree.query(x[tops], k)[1].reshape(-1, k)
        tops = tops[log_l[tops] >= log_l[near].max(axis=1)]
    return chosen[tops[np.argsort(-log_l[tops])]]


def starts(model: DensityModel, rng: np.random.Generator, size: int) -> Array:
    """Points to begin from: the sampler's, the prior's, or around the origin; (size, d)."""
    if model.sampler is not None:
        return model.sampled(rng, size)
    z = rng.standard_normal((size, model.n))
    if model.prior is not None:
        return placed(model, z)
    reach = np.where(np.arange(size) % 2, 3.0, 1.0)[:, None]
    some = not model.origin.any()  # else nothing is where coordinates are about one
    units = np.where(some & (np.arange(size)[:, None] % 4 < 2), 1.0, model.units)
    return model.origin + z * reach * units


def not_numbers(model: DensityModel, values: Array) -> tuple[Message, ...]:
    """A warning where the user's function was NaN somewhere, an error where it was everywhere."""
    share = float(np.isnan(values).mean())
    where = "of the prior" if model.prior is not None else "to start from"
    if share == 1.0:
        raise InputError(
            f"logdensity is NaN at all {values.size} points tried {where}: it must return a "
            "number, and -inf where the density is zero"
        )
    if share == 0.0:
        return ()
    text = (
        f"logdensity is NaN, or raises an error of arithmetic, at {100 * share:.2g} % of "
        f"{values.size} points {where}, and is taken for zero density there: return -inf if that "
        "is what it means"
    )
    return (Message("density-nan", text),)


class _Known(Exception):
    """A climb comes to a mode that is known."""


class _Gaussians:
    """Laplace's, at modes in n dimensions."""

    def __init__(self, modes: Sequence[Mode], n: int) -> None:
        self.at = np.array([mode.x for mode in modes]).reshape(-1, n)
        self.covs = np.array([mode.cov for mode in modes]).reshape(-1, n, n)
        self.precisions = np.linalg.inv(self.covs)
        self.tops = np.array([mode.logz for mode in modes]) - n * LOG_SQRT_2PI
        self.tops += 0.5 * np.linalg.slogdet(self.precisions)[1]

    def steep(self, x: Array) -> tuple[Array, Array]:
        """How far each has fallen at x, and its slope there."""
        away = x - self.at
        steep = np.einsum("kij,kj->ki", self.precisions, away)
        return 0.5 * np.sum(away * steep, axis=1), steep

    def reach(self, x: Array, log_p: float, apart: float = 1.0, higher: float = 1.0) -> bool:
        """Whether x is less than so many standard deviations ``apart`` from one of the modes, and
        at most so many nats ``higher``: a narrow mode may lie within a broad one."""
        near = self.steep(x)[0] < 0.5 * apart**2
        return bool((near & (log_p < self.tops + higher)).any())

    def explain(self, x: Array, log_p: float, slope: Array, alike: float = 0.01) -> bool:
        """Whether log p and its slope at x are those of one of them, to within a part ``alike`` of
        what they differ by."""
        fall, steep = self.steep(x)
        off = slope + steep
        same = np.abs(self.tops - fall - log_p) < alike * (1.0 + fall)
        same &= np.einsum("ki,kij,kj->k", off, self.covs, off) < alike * 2.0 * fall
        return bool(same.any())


def _fall(model: DensityModel, x: Array) -> tuple[float, Array]:
    """-log p and its slope, by forward differences from one batch where the model has none."""
    if model.has_gradient:
        value, slope = model.log_prob_and_gradient(x[None])
        if not np.isfinite(slope).all():
            return 1e300, np.zeros_like(x)
        fall = -slope[0]
    else:
        h = 2.0**-26 * np.where(x < 0.0, -1.0, 1.0) * np.maximum(model.units, np.abs(x))
        value = model.log_prob(np.concatenate([x[None], x + np.diag(h)]))
        fall = (value[0] - value[1:]) / h
        fall[~np.isfinite(fall)] = 0.0
    return -float(value[0]) if np.isfinite(value[0]) else 1e300, fall


def _descend(
    model: DensityModel, fall: Callable[[Array], Any], start: Array, gaussians: _Gaussians,
    steps: tuple[int, int, int] = (150, 200, 10),
) -> tuple[Array, float]:  # fmt: skip
    """A minimum of ``fall``, and that; with a Hessian by Newton's steps while these go uphill. It
    ends, as :class:`_Known`, where one of the Gaussians explains what is there.

    In the model's units, from the start; in so many ``steps`` of d + 1 or more evaluations each,
    or in the second number, and the third for each dimension, with a gradient: of 400 climbs that
    came to a mode in up to 18 dimensions one took 176, all others 65 at most, where those within a
    shell in eight took 660 each, and ended nowhere.
    """
    units, seen = model.units, tuple[Any, ...]()

    def scaled(z: Array) -> tuple[float, Array]:
        nonlocal seen
        first, (value, slope) = not seen, fall(start + units * z)
        seen = z.copy(), value, slope
        if first:
            look(OptimizeResult(x=z))
        return value, units * slope

    def look(intermediate_result: OptimizeResult) -> None:
        """At what has been accepted."""
        z, value, slope = seen
        here = np.array_equal(z, intermediate_result.x)
        if here and gaussians.explain(start + units * z, -value, -slope):
            raise _Known

    zero = np.zeros_like(start)
    if model.has_gradient and model.has_hessian:
        scaled(zero)  # what is known needs no Hessian
        start = _polish(model, start)[0]
    most = {"maxiter": steps[1] + steps[2] * zero.size if model.has_gradient else steps[0]}
    found = minimize(scaled, zero, jac=True, method="BFGS", options=most, callback=look)
    return start + units * found.x, float(found.fun)


def _polish(model: DensityModel, x: Array, steps: int = 20) -> tuple[Array, Array]:
    """Newton's steps while they go uphill; the point and the negative Hessian there."""
    H = negative_hessian(model, x)
    if not (model.has_gradient and np.isfinite(H).all()):
        return x, H
    value, slope = model.log_prob_and_gradient(x[None])
    for _ in range(steps):
        try:
            np.linalg.cholesky(H)
            step = np.linalg.solve(H, slope[0])
        except np.linalg.LinAlgError:
            break
        if not step @ slope[0] > 1e-18:
            break
        new_value, new_slope = model.log_prob_and_gradient((x + step)[None])
        if not new_value[0] >= value[0]:
            break
        x, value, slope = x + step, new_value, new_slope
        H = negative_hessian(model, x)
    return x, H


def negative_hessian(model: DensityModel, x: Array) -> Array:
    """From the model, or by differences of the gradient, or of the value."""
    long = 0.5  # standard deviations: a step that sees more than the mode
    short = 0.05  # and one that does not
    if model.has_hessian and (model.has_gradient or model.change is None):
        return -model.hessian(x[None])[0]
    differences, step = (_of_slopes, 1e-4) if model.has_gradient else (_of_values, 1e-3)
    h = step * np.maximum(model.units, np.abs(x))
    H = differences(model, x, h)
    with np.errstate(all="ignore"):
        sd = 1.0 / np.sqrt(np.abs(np.diag(H)))
    return differences(model, x, np.fmin(h, short * sd)) if (h > long * sd).any() else H


def _of_slopes(model: DensityModel, x: Array, h: Array, together: int = 2**16) -> Array:
    """By differences of fourth order, of so many numbers ``together``."""
    places, H = np.array([1.0, -1.0, 2.0, -2.0])[:, None, None], np.empty((x.size, x.size))
    for some in np.array_split(np.arange(x.size), -(-4 * x.size**2 // together)):
        rows = x + places * np.diag(h)[some]
        slopes = model.log_prob_and_gradient(rows.reshape(-1, x.size))[1].reshape(rows.shape)
        rise = 8.0 * (slopes[0] - slopes[1]) - (slopes[2] - slopes[3])
        H[some] = -rise / (12.0 * h[some, None])
    return 0.5 * (H + H.T)


def _of_values(model: DensityModel, x: Array, h: Array, together: int = 2**22) -> Array:
    """Each entry from four values, alike in all directions: a kink has a slope on each side; by so
    many numbers ``together``."""
    H = np.zeros((x.size, x.size))
    rows, columns = np.triu_indices(x.size)
    for part in np.array_split(np.arange(rows.size), -(-rows.size * x.size // together)):
        i, j = rows[part], columns[part]
        one, two = np.zeros((2, part.size, x.size))
        one[np.arange(part.size), i], two[np.arange(part.size), j] = h[i], h[j]
        value = model.log_prob(x + one + two) - model.log_prob(x + one - two)
        value += model.log_prob(x - one - two) - model.log_prob(x - one + two)
        H[i, j] = H[j, i] = -value / (4.0 * h[i] * h[j])
    return H


def fit_density_laplace(
    model: DensityModel, modes: tuple[Mode, ...] | None = None
) -> DensityReference:
    """Laplace's method at the highest peak of mass among the modes, which are looked for where
    they are not given.

    Examples
    --------
    >>> model = DensityModel(lambda x: -0.5 * x @ x, dim=3, grad=lambda x: -x)
    >>> fit = fit_density_laplace(model)
    >>> fit.converged, round(fit.logz, 4)  # 1.5 log 2π
    (True, 2.7568)
    """
    started, modes = time.perf_counter(), find_modes(model) if modes is None else modes
    best = modes[0] if modes else Mode(np.zeros(model.n), np.eye(model.n), np.nan)
    reference = DensityReference("laplace", model, *best, converged=bool(modes))
    others = sum(mode.logz > best.logz - NORMAL.counts for mode in modes[1:])
    text = (
        f"Laplace: {others} other mode(s) hold e^-{NORMAL.counts:.0f} of this one's part of Z or "
        "more, and its logz leaves them out. Start from reference='prior' or 'fitted', and use "
        "method='pt'"
    )
    if not modes:
        text = "Laplace: no mode with a definite Hessian was found; start from 'fitted' or 'prior'"
    code = "several-modes" if modes else "no-mode"
    reference.warnings = (Message(code, text),) if others or not modes else ()
    reference.modes, reference.seconds = modes, time.perf_counter() - started
    return reference
