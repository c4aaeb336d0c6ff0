"""The user's functions in one form: a batch of points in, a batch of numbers out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...messages import InputError

Array = NDArray[np.float64]

_SHAPES = {
    "logdensity": "(M,)",
    "grad": "(M, d)",
    "value_and_grad": "(M,) and (M, d)",
    "hessian": "(M, d, d)",
    "third": "(M, d)",
    "along": "(M, d)",
    "tensor": "(M, d, d, d)",
    "Fisher.matrix": "(M, d, d)",
    "Fisher.slope": "(M, d)",
    "Fisher.along": "(M, d)",
}


class MissingDerivative(InputError):
    """A move or metric needs a derivative that the model was not given."""


class Functions(NamedTuple):
    """Log density and its derivatives, as given: user functions or None."""

    logdensity: Callable[..., Any] | None
    grad: Callable[..., Any] | None = None
    value_and_grad: Callable[..., Any] | None = None
    hessian: Callable[..., Any] | None = None
    third: Callable[..., Any] | None = None
    """(x, W) → ∇⟨W, H(x)⟩ for a symmetric matrix W."""
    along: Callable[..., Any] | None = None
    """(x, w) → ∇(wᵀH(x)w): the same with W = wwᵀ."""
    tensor: Callable[..., Any] | None = None
    """x → ∂ₖH(x)ᵢⱼ, all of them."""


def _numbers(name: str, out: Any) -> Array:
    """What a function returned as an array of numbers, or an error that names the function."""
    if type(out) is np.ndarray and out.dtype == np.float64:
        return out
    if out is None or (isinstance(out, list) and any(row is None for row in out)):
        raise InputError(f"{name} returned None: it must return numbers")
    try:
        return np.asarray(out, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must return real numbers, as many each time: {error}") from None


class Batched:
    """Calls one of the functions on a batch and checks the shape of what comes back.

    What functions do far out (overflow, log 0) is a value, not a warning.
    """

    def __init__(self, name: str, function: Callable[..., Any], vectorized: bool) -> None:
        self.name, self.function, self.vectorized = name, function, vectorized
        self.ndim = _SHAPES[name].count(" ") + 1

    def __call__(self, x: Array, *more: Array) -> Array:
        m, d = x.shape
        shape = (m, d, d, d)[: self.ndim]
        with np.errstate(all="ignore"):
            if self.vectorized:
                out = _numbers(self.name, self.function(x, *more))
            else:
                rows = [self.function(*row) for row in zip(x, *more, strict=True)]
                out = _numbers(self.name, rows)
        if not self.vectorized and self.name == "logdensity" and out.shape == (m, 1):
            out = out[:, 0]
        if out.shape != shape:
            told = "a batch of points (M, d)" if self.vectorized else "one point (d,)"
            wanted = shape if self.vectorized else shape[1:]
            got = out.shape if self.vectorized else out.shape[1:]
            raise InputError(
                f"{self.name} was called with {told} and must return shape {wanted}, got {got}; "
                "vectorized= says whether functions take batches"
            )
        return out


class ValueAndGradient:
    """Both at once, from one function or from two."""

    def __init__(self, functions: Functions, vectorized: bool) -> None:
        self.both, self.vectorized = functions.value_and_grad, vectorized
        if self.both is None:
            assert functions.logdensity is not None
            assert functions.grad is not None
            self.value = Batched("logdensity", functions.logdensity, vectorized)
            self.grad = Batched("grad", functions.grad, vectorized)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        if self.both is None:
            return self.value(x), self.grad(x)
        with np.errstate(all="ignore"):
            pairs = [self.both(x)] if self.vectorized else [self.both(row) for row in x]
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            raise InputError(
                f"value_and_grad must return a pair (value, gradient), got {pairs[0]!r}"
            )
        if self.vectorized:
            value, slope = pairs[0]
        else:
            value, slope = [v for v, _ in pairs], [g for _, g in pairs]
        value, slope = _numbers("value_and_grad", value), _numbers("value_and_grad", slope)
        if value.shape != x.shape[:1] or slope.shape != x.shape:
            raise InputError(
                f"value_and_grad must return a value and a gradient per point, shapes "
                f"{x.shape[:1]} and {x.shape} for this batch; got {value.shape} and {slope.shape}"
            )
        return value, slope
