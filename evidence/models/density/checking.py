"""Derivatives against finite differences; whether a density is above zero anywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ...execution.clock import check_interrupt
from ...messages import InputError
from ...numerics.arrays import Array

if TYPE_CHECKING:
    from .model import DensityModel


def central(
    function: Callable[[Array], Array], x: Array, steps: Array | None = None, *, step: float = 1e-4
) -> Array:
    """∂f/∂x by differences of fourth order, last axis; x and steps (M, d).

    ``step``: of the differences.
    """
    columns = []
    steps = step * np.maximum(1.0, np.abs(x)) if steps is None else steps
    for i in range(x.shape[1]):
        h = steps[:, i]

        def at(k: int, i: int = i, h: Array = h) -> Array:
            moved = x.copy()
            moved[:, i] += k * h
            return function(moved)

        rise = 8.0 * (at(1) - at(-1)) - (at(2) - at(-2))
        columns.append(rise / (12.0 * h.reshape(-1, *(1,) * (rise.ndim - 1))))
    return np.stack(columns, axis=-1)


def first_finite(
    model: DensityModel, rng: np.random.Generator, *, chunk: int = 256
) -> Array | None:  # fmt: skip
    """A point at which the density is above zero; an error where it never is.

    Of the prior, of the sampler, or around the origin; None where the model was finite when it was
    made.

    ``chunk``: points at a time.
    """
    # points in all: a share of 1e-5, where batches are cheap, is missed five times in a thousand,
    # and elsewhere seven times in a hundred
    most = {True: 2**19, False: 2**18}
    if model.alive:
        return None
    tried, nan, size = 0, 0, chunk
    where = "of the sampler" if model.sampler is not None else "around the origin"
    where = where if model.prior is None else "of the prior"
    while tried < most[model.vectorized]:
        check_interrupt()
        x = _somewhere(model, rng, size)
        value = model.calls["logdensity"](model.arguments(x))
        tried += size
        if (infinite := np.isposinf(value)).any():
            at = _short(model.arguments(x[infinite][:1]))
            raise InputError(f"logdensity is +inf at {at}: such a density has no evidence")
        if (finite := np.isfinite(value)).any():
            return np.array(x[finite][0])
        nan += int(np.isnan(value).sum())
        size = min(2 * size, tried)
    what = "NaN" if nan == tried else "-inf or NaN" if nan else "-inf"
    raise InputError(
        f"logdensity is {what} at all {tried} points tried {where}: there is no evidence to "
        "estimate. It must be a finite number wherever the density is above zero; prior=, "
        "bounds= or sampler= tell where that is"
    )


def _somewhere(
    model: DensityModel, rng: np.random.Generator, size: int, *, saturated: float = 40.0
) -> Array:
    """``saturated``: a logit beyond which parameters with two limits are on one of them. At the
    first point these are a part 1/(d + 1) of the way to the upper one, within a simplex."""
    # sd of points, where nobody said how far the density goes, nor in which units
    reaches = np.array([1.0, 3.0, 10.0, 1e2, 1e3, 1e4, 1e6, 1e-2, 1e-4])
    if model.prior is None and model.sampler is not None:
        points: Array = model.sampled(rng, size)
        return points
    z = rng.standard_normal((size, model.n))
    if model.prior is not None:
        return model.prior.placed(z)
    z *= reaches[np.arange(size) % reaches.size, None]
    if model.limits is not None:
        both = np.isfinite(model.limits.low) & np.isfinite(model.limits.high)
        z[:, both] = z[:, both].clip(-saturated, saturated)
        z[0, both] = -np.log(model.n)
    return z


def check(model: DensityModel, x: Array | None, tolerance: float, *, points: int = 3) -> None:
    """Raise an error that names the first derivative that is wrong.

    ``points``: at which derivatives are compared.
    """
    theta = model.arguments(model.probes()[:points]) if x is None else x
    calls, both, value = model.calls, model.both, model.calls["logdensity"]
    w = np.random.default_rng(7).standard_normal(theta.shape)
    square = w[:, :, None] * w[:, None, :]
    W = square + np.eye(model.n)

    def compare(name: str, given: Array, wanted: Array) -> None:
        _compare(name, theta, given, wanted, tolerance)

    if both is not None:
        name = "grad" if model.functions.value_and_grad is None else "value_and_grad"
        compare(name, both(theta)[1], central(value, theta))
        compare(name, both(theta)[0], value(theta))
    triples = (("hessian", "third", "along"), ("Fisher.matrix", "Fisher.slope", "Fisher.along"))
    for name, third, along in triples:
        matrix = calls.get(name)
        if matrix is None:
            continue
        compare(name, matrix(theta), np.swapaxes(matrix(theta), 1, 2))
        if name == "hessian":
            slopes = partial(central, value) if both is None else lambda t: both(t)[1]
            compare(name, matrix(theta), central(slopes, theta))
        if name == "hessian" and "tensor" in calls:
            compare("tensor", calls["tensor"](theta), central(matrix, theta))
        for derived, direction, weight in ((third, W, W), (along, w, square)):
            if derived in calls:
                wanted = _slope(matrix, theta, weight)
                compare(derived, calls[derived](theta, direction), wanted)


def _slope(matrix: Callable[[Array], Array], theta: Array, W: Array) -> Array:
    return central(lambda t: np.einsum("mij,mij->m", W, matrix(t)), theta)


def _compare(name: str, theta: Array, given: Array, wanted: Array, tolerance: float) -> None:
    for at, a, b in zip(theta, given, wanted, strict=True):
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise InputError(f"{name} is not finite at {_short(at)}: {_short(a)}")
        error = np.linalg.norm(a - b)
        if error > tolerance * max(1.0, float(np.linalg.norm(b))):
            raise InputError(
                f"{name} is wrong: at {_short(at)} it is {_short(a)}, but finite differences "
                f"(or its own symmetry) say {_short(b)}"
            )


def _short(a: Array) -> str:
    text = np.array2string(np.ravel(a)[:6], precision=4, separator=" ", max_line_width=10_000)
    return text if np.size(a) <= 6 else text[:-1] + " …]"
