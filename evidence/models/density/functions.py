"""The user's functions in one form: a batch of points in, a batch of numbers out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...execution.arguments import shown
from ...execution.clock import spend
from ...messages import InputError
from ...numerics.arrays import Array
from .metrics import Fisher

Call = Callable[..., Array]
COARSE = 2.0**45  # log densities beyond which doubles are a hundredth of a nat apart

#: axes of what a function returns for a batch
_AXES = {
    "logdensity": 1, "grad": 2, "hessian": 3, "third": 2, "along": 2, "tensor": 4,
    "Fisher.matrix": 3, "Fisher.slope": 2, "Fisher.along": 2,
}  # fmt: skip


class Batches(Protocol):
    """Who evaluates the batches of a log density: :mod:`.batches`."""

    def values(self, function: Batched, x: Array) -> Array: ...


_BATCHES: ContextVar[Batches | None] = ContextVar("batches", default=None)


@contextmanager
def evaluating(batches: Batches | None) -> Iterator[None]:
    """Let these evaluate log densities. A thread begins with None, and evaluates where it is."""
    token = _BATCHES.set(batches)
    try:
        yield
    finally:
        _BATCHES.reset(token)


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


def batched(functions: Functions, metric: object, vectorized: bool) -> dict[str, Call]:
    """Functions of batches, by name, for those that were given."""
    given = functions._asdict()
    if isinstance(metric, Fisher):
        given |= {f"Fisher.{name}": function for name, function in vars(metric).items()}
    there = [name for name in _AXES if given.get(name) is not None]
    return {name: Batched(name, given[name], vectorized) for name in there}


def value_and_gradient(
    functions: Functions, calls: dict[str, Call], vectorized: bool
) -> Callable[[Array], tuple[Array, Array]] | None:
    """Both at once, from one function or from two; None where there is no gradient."""
    if functions.value_and_grad is not None:
        return Pairs(functions.value_and_grad, vectorized)
    if functions.grad is None:
        return None
    value, grad = calls["logdensity"], calls["grad"]
    return lambda x: (value(x), grad(x))


def returned(name: str, out: object) -> Array:
    """What a function returned as an array of numbers, or an error that names the function."""
    if type(out) is np.ndarray and out.dtype == np.float64:
        return out
    rows = out if isinstance(out, list) else [out]
    if any(row is None for row in rows):
        raise InputError(f"{name} returned None: it must return numbers")
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.count_masked(row) for row in rows):
        raise InputError(f"{name} returned masked entries: it must return numbers")
    try:
        numbers = np.asarray(out)
        if numbers.dtype.kind in "cmM":
            raise TypeError(f"values of type {numbers.dtype} are none")
        return numbers.astype(float)
    except Exception as error:  # of any kind, from other people's __array__
        raise InputError(f"{name} must return real numbers, as many each time: {error}") from None


def in_shape(name: str, out: Any, shape: tuple[int, ...], vectorized: bool) -> Array:
    """What came back for a batch, in the ``shape`` wanted where only axes of length one differ.

    One point's number may be a float, 0-d, or in an array of one; what does not fit is returned
    as it is, for an error that tells its shape.
    """
    if not vectorized:
        if all(type(row) is np.ndarray and row.shape == shape[1:] for row in out):
            return returned(name, out)
        rows = [returned(name, row) for row in out]
        wanted = _long(shape[1:])
        if all(_long(row.shape) == wanted for row in rows):
            return np.array([row.reshape(shape[1:]) for row in rows])
        return returned(name, out)
    numbers = returned(name, out)
    return numbers.reshape(shape) if _long(numbers.shape) == _long(shape) else numbers


def required(
    name: str, out: object, shape: tuple[int, ...], vectorized: bool, where: str = ""
) -> Array:
    """What came back for a batch, in the ``shape`` wanted, or an error that tells what came;
    ``where`` points are."""
    numbers = in_shape(name, out, shape, vectorized)
    if numbers.shape != shape:
        told, first = ("a batch of points (M, d)", 0) if vectorized else ("one point (d,)", 1)
        raise InputError(
            f"{name} was called with {told}{where} and must return shape {shape[first:]}, got "
            f"{numbers.shape[first:]}; vectorized= says whether functions take batches"
        )
    return numbers


def far_out(log_prob: Callable[[Array], Array], x: Array) -> Array:
    """log p of rows so far out that a function may fail there, as -inf: of all where it raises an
    error, and where it is infinite."""
    try:
        with np.errstate(all="ignore"):
            value = log_prob(x)
        return np.where(value < np.inf, value, -np.inf)
    except (ArithmeticError, ValueError):
        return np.full(len(x), -np.inf)


def no_nan(values: Array) -> Array:
    """Log densities, of which one that is not a number is that of a place without any mass."""
    return np.where(np.isnan(values), -np.inf, values)


def _long(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Axes that are longer than one."""
    return tuple(k for k in shape if k != 1)


class Batched:
    """Calls one of the functions on a batch and checks the shape of what comes back.

    What functions do far out (overflow, log 0) is a value, not a warning. No function is asked
    about no points.
    """

    def __init__(self, name: str, function: Callable[..., Any], vectorized: bool) -> None:
        self.name, self.function, self.vectorized = name, function, vectorized

    def __call__(self, x: Array, *more: Array) -> Array:
        batches = _BATCHES.get()
        if batches is not None and self.name == "logdensity" and len(x):
            return batches.values(self, x)
        return self.here(x, *more)

    def here(self, x: Array, *more: Array) -> Array:
        """In this thread."""
        (m, d), slopes = x.shape, self.name != "logdensity"
        shape = (m, d, d, d)[: _AXES[self.name]]
        if not m:
            return np.empty(shape)
        with np.errstate(all="ignore"):
            if self.vectorized:
                spend(m, slopes)
                out = required(self.name, self.function(x, *more), shape, True)
            else:
                rows = []
                for point in zip(x, *more, strict=True):
                    spend(1, slopes)
                    rows.append(self.function(*point))
                out = required(self.name, rows, shape, False)
        if self.name == "logdensity" and m:
            _check_digits(out)
        return out


def _check_digits(values: Array) -> None:
    """That doubles near the largest log density tell hundredths of a nat apart."""
    largest = float(np.max(values))
    if COARSE < largest < np.inf:
        raise InputError(
            f"logdensity returned {largest:.3g}, where doubles are {np.spacing(largest):.1g} "
            "nats apart: no evidence can be told from it; subtract a constant"
        )


class Pairs:
    """Calls ``value_and_grad`` on a batch, likewise."""

    def __init__(self, function: Callable[..., Any], vectorized: bool) -> None:
        self.function, self.vectorized = function, vectorized

    def __call__(self, x: Array) -> tuple[Array, Array]:
        if not len(x):
            return np.empty(0), np.empty_like(x)
        with np.errstate(all="ignore"):
            rows = [x] if self.vectorized else x
            pairs = []
            for row in rows:
                spend(len(x) // len(rows), derivatives=True)
                pairs.append(self.function(row))
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            raise InputError(
                f"value_and_grad must return a pair (value, gradient), got {shown(pairs[0])}"
            )
        values, slopes = pairs[0] if self.vectorized else zip(*pairs, strict=True)
        value = in_shape("value_and_grad", values, x.shape[:1], self.vectorized)
        slope = in_shape("value_and_grad", slopes, x.shape, self.vectorized)
        if value.shape != x.shape[:1] or slope.shape != x.shape:
            raise InputError(
                f"value_and_grad must return a value and a gradient per point, shapes "
                f"{x.shape[:1]} and {x.shape} for this batch; got {value.shape} and {slope.shape}"
            )
        return value, slope
