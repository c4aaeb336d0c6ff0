"""Derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...messages import InputError

Array = NDArray[np.float64]

_STEP = 1e-4
_POINTS = 3


def central(function: Callable[[Array], Array], x: Array) -> Array:
    """∂f/∂x by differences of fourth order, last axis; x (M, d)."""
    columns = []
    for i in range(x.shape[1]):
        h = _STEP * np.maximum(1.0, np.abs(x[:, i]))

        def at(k: int, i: int = i, h: Array = h) -> Array:
            moved = x.copy()
            moved[:, i] += k * h
            return function(moved)

        size = h.reshape(-1, *(1,) * (np.ndim(at(0)) - 1))
        columns.append((8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * size))
    return np.stack(columns, axis=-1)


def check(model: Any, x: Array | None, tolerance: float) -> None:
    """Raise a ValueError that names the first derivative that is wrong."""
    theta = model.arguments(model.probes()[:_POINTS]) if x is None else x
    given, both = model.functions, model._both
    rng = np.random.default_rng(7)
    w = rng.standard_normal(theta.shape)
    W = w[:, :, None] * w[:, None, :]
    W = W + np.eye(model.n)
    if both is not None:
        name = "grad" if given.value_and_grad is None else "value_and_grad"
        _compare(name, theta, both(theta)[1], central(model._value, theta), tolerance)
        _compare(name, theta, both(theta)[0], model._value(theta), tolerance)
    if given.hessian is not None:
        H = model._hessian(theta)
        _compare("hessian", theta, H, np.swapaxes(H, 1, 2), tolerance)
        slope = partial(central, model._value) if both is None else lambda t: both(t)[1]
        _compare("hessian", theta, H, central(slope, theta), tolerance)
        if given.third is not None:
            _compare(
                "third", theta, model._third(theta, W), _slope(model._hessian, theta, W), tolerance
            )
        if given.tensor is not None:
            wanted = central(model._hessian, theta)
            _compare("tensor", theta, model._tensor(theta), wanted, tolerance)
        if given.along is not None:
            outer = w[:, :, None] * w[:, None, :]
            wanted = _slope(model._hessian, theta, outer)
            _compare("along", theta, model._along(theta, w), wanted, tolerance)
    if model._fisher is not None:
        F = model._matrix(theta)
        _compare("Fisher.matrix", theta, F, np.swapaxes(F, 1, 2), tolerance)
        wanted = _slope(model._matrix, theta, W)
        _compare("Fisher.slope", theta, model._slope(theta, W), wanted, tolerance)
        if model._slope_along is not None:
            wanted = _slope(model._matrix, theta, w[:, :, None] * w[:, None, :])
            _compare("Fisher.along", theta, model._slope_along(theta, w), wanted, tolerance)


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
