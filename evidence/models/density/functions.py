"""The user's functions in one form: a batch of points in, a batch of numbers out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...execution.arguments import shown
from ...execution.clock import spend
from ...messages import InputError
from ...numerics.arrays import Array
from .metrics import Fisher

Call = Callable[..., Array]
Both = Callable[[Array], tuple[Array, Array]]
COARSE = 2.0**45  # log densities beyond which doubles are a hundredth of a nat apart

#: how arithmetic fails, as it does far out
_FAILED = (np.linalg.LinAlgError, FloatingPointError, OverflowError, ZeroDivisionError)

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


class Asked:
    """A function of the user's, and its parameters' names.

    What it does far out (overflow, log 0) is a value, not a warning; and so it is, NaN, where its
    arithmetic fails, once it has worked at another point. It is not asked about no points.
    """

    worked = False
    """Whether it has, anywhere: no part of what a model is."""

    def __init__(
        self, name: str, function: Callable[..., Any], vectorized: bool, names: tuple[str, ...]
    ) -> None:
        self.name, self.function, self.vectorized, self.names = name, function, vectorized, names

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "worked"}

    def outputs(self, failed: object, *given: Array) -> tuple[Any, bool]:
        """What it returns for a batch, and whether that is one output for all; else it is one for
        every point, ``failed`` where arithmetic fails."""
        m, slopes, rows, failure = len(given[0]), self.name != "logdensity", [], None
        if self.vectorized:
            spend(m, slopes)
            with suppress(*_FAILED):
                out, self.worked = self._ask(*given), True
                return out, True
            given = tuple(part[:, None] for part in given)
        for point in zip(*given, strict=True):
            spend(1, slopes)
            try:
                rows.append(self._ask(*point))
            except _FAILED as error:
                failure = error
                rows.append(failed)
        self.worked = self.worked or any(row is not failed for row in rows)
        if failure is not None and not self.worked:
            raise failure
        return rows, False

    def _ask(self, *given: Array) -> Any:
        """What it returns, or its own error with a note of what it was called with."""
        try:
            return self.function(*given)
        except Exception as error:
            x, what = (given[0][0], "rows") if self.vectorized else (given[0], "one array")
            error.add_note(
                f"{self.name} was called with {what} of {x.size} numbers, in the order of "
                f"{shown(self.names)}, here {x}; it must return -inf where the density is zero"
            )
            raise


def batched(
    functions: Functions, metric: object, vectorized: bool, names: tuple[str, ...]
) -> tuple[dict[str, Call], Both | None]:
    """Functions of batches, by name, for those that were given; and value and gradient at once,
    from one function or from two, or None where there is no gradient."""
    given = functions._asdict()
    if isinstance(metric, Fisher):
        given |= {f"Fisher.{name}": function for name, function in vars(metric).items()}
    there = [name for name in _AXES if given.get(name) is not None]
    calls: dict[str, Call] = {n: Batched(n, given[n], vectorized, names) for n in there}
    if (both := functions.value_and_grad) is not None:
        return calls, Pairs("value_and_grad", both, vectorized, names)
    if functions.grad is None:
        return calls, None
    return calls, lambda x: (calls["logdensity"](x), calls["grad"](x))


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


class Batched(Asked):
    """Calls one of the functions on a batch and checks the shape of what comes back."""

    def __call__(self, x: Array, *more: Array) -> Array:
        batches = _BATCHES.get()
        if batches is not None and self.name == "logdensity" and len(x):
            return batches.values(self, x)
        return self.here(x, *more)

    def here(self, x: Array, *more: Array) -> Array:
        """In this thread."""
        (m, d), name = x.shape, self.name
        shape = (m, d, d, d)[: _AXES[name]]
        if not m:
            return np.empty(shape)
        failed = np.full(shape[1:], np.nan)
        with np.errstate(all="ignore"):
            out, whole = self.outputs(failed, x, *more)
            out = required(name, out, shape, whole)
        if name == "logdensity":
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


class Pairs(Asked):
    """Calls ``value_and_grad`` on a batch, likewise."""

    def __call__(self, x: Array) -> tuple[Array, Array]:
        if not len(x):
            return np.empty(0), np.empty_like(x)
        with np.errstate(all="ignore"):
            out, whole = self.outputs((np.nan, np.full(x.shape[1], np.nan)), x)
        pairs = [out] if whole else out
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            raise InputError(
                f"value_and_grad must return a pair (value, gradient), got {shown(pairs[0])}"
            )
        values, slopes = out if whole else zip(*pairs, strict=True)
        value = in_shape(self.name, values, x.shape[:1], whole)
        slope = in_shape(self.name, slopes, x.shape, whole)
        if value.shape != x.shape[:1] or slope.shape != x.shape:
            raise InputError(
                f"value_and_grad must return a value and a gradient per point, shapes "
                f"{x.shape[:1]} and {x.shape} for this batch; got {value.shape} and {slope.shape}"
            )
        return value, slope
