"""Checks that public functions make of their arguments: all of them, in one place.

Each takes the argument's name and what came; it returns the value in its final form, or raises an
:class:`~evidence.messages.InputError` of one line that names the argument.
"""

from __future__ import annotations

import errno
import math
import numbers
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from decimal import Decimal
from types import UnionType
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ..messages import InputError, suggest
from ..numerics.arrays import Array

Shape = tuple[int | str, ...]

_LONG = 80  # characters of a wrong value that a message shows
LONGEST = 10**9  # steps of a chain, more than anybody waits for
ISLAND = 512  # doubles that one island, or temperature, takes at least
_OTHER_KINDS = {"c": "complex numbers", "m": "time differences", "M": "dates", "V": "records"}


def shown(value: object) -> str:
    """A wrong value in a message: its text where that is short, else what it is.

    >>> shown(np.float64(3.0)), shown([np.int64(3), np.str_("a")]), shown("a" * 1000)
    ('3.0', "[3, 'a']", 'a str')
    """
    kind = f"a {type(value).__name__}"
    try:
        shape = np.shape(value) if hasattr(value, "__array__") else ()
        if shape:
            return f"{kind} of shape {shape}"
        text = " ".join(repr(_python(value)).split())
    except Exception:  # other people's objects may refuse to be shown
        return kind
    return text if len(text) <= _LONG else kind


def _python(value: Any) -> Any:
    """Python's own numbers and texts in the place of NumPy's, whose names are no help."""
    if isinstance(value, np.generic) and value.dtype.kind in "biufcUS":
        return value.item()
    if type(value) in (list, tuple, set) and len(value) <= _LONG:
        return type(value)(map(_python, value))
    if type(value) is dict and len(value) <= _LONG:
        return {_python(key): _python(each) for key, each in value.items()}
    return value


# -- numbers ----------------------------------------------------------------------------------


def number(
    name: str, value: object, *, above: float = -math.inf, least: float = -math.inf,
    most: float = math.inf, below: float = math.inf,
) -> float:  # fmt: skip
    """A finite real number within limits.

    >>> number("tol", 1, above=0.0)
    1.0
    >>> number("beta", 1.5, least=0.0, most=1.0)
    Traceback (most recent call last):
    evidence.InputError: beta must be a number between 0 and 1, got 1.5
    """
    x = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if isinstance(x, numbers.Real) and not isinstance(x, bool):
        try:
            x = float(x)
        except OverflowError:
            x = math.inf
        if math.isfinite(x) and above < x < below and least <= x <= most:
            return x
    if above == 0.0 and below == most == math.inf:
        wanted = "a positive number"
    elif math.isfinite(least) and math.isfinite(most):
        wanted = f"a number between {least:g} and {most:g}"
    else:
        limits = (("above", above), ("at least", least), ("at most", most), ("below", below))
        told = " and ".join(f"{word} {x:g}" for word, x in limits if math.isfinite(x))
        wanted = f"a number {told}".strip() if told else "a finite number"
    raise InputError(f"{name} must be {wanted}, got {shown(value)}")


def check_positive(name: str, value: object, optional: bool = True) -> float | None:
    """A positive number, or None."""
    return None if value is None and optional else number(name, value, above=0.0)


def check_target(
    name: str, value: object, *, finest: float = 1e-9, coarsest: float = 1e9
) -> float | None:
    """A standard error to stop at: positive, and one that doubles can hold beside log Z.

    ``finest``: nats: no sampler's error bar is smaller in double precision; ``coarsest``: nats: no
    error bar says less.
    """
    check_positive(name, value)
    return None if value is None else number(name, value, least=finest, most=coarsest)


def check_count(
    name: str, value: object, least: int = 1, optional: bool = True, below: int = 10**15
) -> int | None:
    """A whole number, or None; nobody lives to count beyond 10¹⁵."""
    if value is None and optional:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} must be a whole number, at least {least}, got {shown(value)}")
    if not value < below:
        raise InputError(f"{name} must be below {below:g}, got {shown(value)}")
    return int(value)


def machine_memory() -> int:
    """Bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows does not tell
        return 2**38


def check_size(name: str, value: object, *sizes: int, least: int = 1) -> None:
    """A number of things, each of which takes an array of ``sizes``."""
    check_memory(name, value, check_count(name, value, least, optional=False), *sizes)


def check_memory(name: str, value: object, *sizes: int | None) -> None:
    """That an array of these sizes, which ``value`` asks for, has room on this machine."""
    if value is None:
        return
    wanted, there = 8 * math.prod(int(size or 0) for size in sizes), machine_memory()
    if wanted > there:
        raise InputError(
            f"{name}={shown(value)} is too large: its numbers would take {wanted // 10**9} GB of "
            f"memory, this machine has {there // 10**9} GB"
        )


# -- arrays -----------------------------------------------------------------------------------


def array(name: str, value: object, *shapes: Shape, finite: bool = True) -> Array:
    """Real numbers as a new array of doubles, or an error that says why they are none.

    Parameters
    ----------
    name : str
        What the argument is called.
    value : array_like
        Lists, arrays of any real type, masked arrays without masked entries, Series, DataFrames.
    *shapes : tuple, optional
        Those allowed; a letter stands for any size above zero, the same one each time.
    finite : bool
        Whether NaN and inf are refused.

    Examples
    --------
    >>> array("x", [1, 2.5], ("n",), ("n", "d"))
    array([1. , 2.5])
    >>> array("mean", [1, 2], (), (3,))
    Traceback (most recent call last):
    evidence.InputError: mean must be a number or an array of shape (3,), got shape (2,)
    >>> array("y", np.ma.masked_equal([1, -999], -999))
    Traceback (most recent call last):
    evidence.InputError: y has 1 masked entry; fill or drop them first
    """
    numbers_ = _real_array(name, value)
    if shapes and not any(fits(numbers_.shape, shape) for shape in shapes):
        raise InputError(f"{name} must be {_in_words(shapes)}, got shape {numbers_.shape}")
    if finite and not np.isfinite(numbers_).all():
        if numbers_.ndim == 0:
            raise InputError(f"{name} must be a finite number, got {numbers_}")
        bad = ~np.isfinite(numbers_).reshape(len(numbers_), -1)
        rows = f" in {int(bad.any(axis=1).sum())} row(s)" if numbers_.ndim == 2 else ""
        raise InputError(f"{name} contains NaN or inf{rows}; its numbers must be finite")
    return numbers_


def rows(name: str, value: object, n: int, what: str = "numbers") -> tuple[Array, tuple[int, ...]]:
    """A batch of vectors of n numbers as rows, and the shape of its other axes."""
    batch = array(name, value, finite=False)
    if batch.shape[-1:] != (n,):
        raise InputError(
            f"{name} must hold {n} {what} along its last axis, got shape {batch.shape}"
        )
    return batch.reshape(-1, n), batch.shape[:-1]


def plain(name: str, value: object) -> NDArray[Any]:
    """Values of any kind as an array, unless some of them are missing."""
    if hasattr(value, "tocoo"):
        raise InputError(f"{name} is a sparse matrix; pass a dense one, {name}.toarray()")
    masked = int(np.ma.count_masked(value)) if isinstance(value, np.ma.MaskedArray) else 0
    if masked:
        entries = "entry" if masked == 1 else "entries"
        raise InputError(f"{name} has {masked} masked {entries}; fill or drop them first")
    try:
        return np.asarray(value)
    except Exception as error:  # of any kind, from other people's __array__
        reason = str(error).split(".")[0]
        raise InputError(f"{name} must be an array of values: {reason}") from None


def _real_array(name: str, value: object) -> Array:
    """Any numbers as doubles, whatever their shape and size."""
    raw = plain(name, value)
    kind = raw.dtype.kind
    if kind in "biuf" or (kind == "O" and all(map(_is_real, raw.flat))):
        try:
            return np.array(raw, dtype=float, order="C")
        except OverflowError:
            raise InputError(f"{name} holds numbers too large for double precision") from None
    what = shown(value) if raw.ndim == 0 else _OTHER_KINDS.get(kind, f"values of type {raw.dtype}")
    if kind == "O" and raw.ndim:
        what = next(shown(v) for v in raw.flat if not _is_real(v)) + " among them"
    how = "convert them to numbers first"
    if name == "y" and raw.ndim and raw.size and isinstance(raw.flat[0], str):
        label = max(map(str, raw.flat))  # as formulas have it, the second is 1
        how += f", labels by (y == {shown(label)}).astype(int)"
    raise InputError(f"{name} must hold real numbers, got {what}; {how}")


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real | Decimal | np.bool_)


def fits(shape: tuple[int, ...], wanted: Shape) -> bool:
    """Whether a shape is the one wanted, a letter being any size above zero."""
    letters: dict[int | str, int] = {}
    return len(shape) == len(wanted) and all(
        size == (letters.setdefault(want, size or -1) if isinstance(want, str) else want)
        for size, want in zip(shape, wanted, strict=True)
    )


def _in_words(shapes: tuple[Shape, ...]) -> str:
    listed = [str(shape).replace("'", "") for shape in shapes if shape]
    words = ["a number"] if () in shapes else []
    words += [f"an array of shape {' or '.join(listed)}"] if listed else []
    return " or ".join(words)


def check_weights(name: str, parts: Sequence[Any], weights: object) -> Array:
    """Weights of a mixture's parts, scaled to sum to one; equal where none are given."""
    if not parts:
        raise InputError(f"{name} is empty; give at least one")
    w = np.ones(len(parts)) if weights is None else array("weights", weights, (len(parts),))
    if (w < 0.0).any() or w.sum() <= 0.0:
        raise InputError(
            f"weights must be {len(parts)} non-negative numbers, one of them positive, got "
            f"{shown(weights)}"
        )
    return w / w.sum()


# -- words, switches, objects -----------------------------------------------------------------


def check_choice(name: str, value: object, known: Iterable[str]) -> str:
    """One of some words."""
    known = tuple(known)
    if not (isinstance(value, str) and value in known):
        plain = value is None or isinstance(value, str | numbers.Number)
        what = shown(value) if plain else f"of type {type(value).__name__}"
        raise InputError(f"unknown {name} {what}{suggest(value, known)} Known: {', '.join(known)}")
    return value


def check_flag(name: str, value: object) -> None:
    """True or False: the word "no" is true to Python."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {shown(value)}")


def check_function(name: str, value: object, optional: bool = True) -> None:
    """A function, or None; a class makes objects, not numbers."""
    given = callable(value) and not isinstance(value, type)
    if not (given or (optional and value is None)):
        raise InputError(f"{name} must be a function, got {shown(value)}")


def check_kind(name: str, value: object, *kinds: type | UnionType) -> None:
    """A model, usually, of a kind that there is an answer for."""
    if not isinstance(value, kinds):
        each = (one for kind in kinds for one in get_args(kind) or (kind,))
        known = " or a ".join(getattr(one, "__name__", "") for one in each)
        raise InputError(f"{name} must be a {known}, got {type(value).__name__}")


def names(name: str, value: object, count: int) -> tuple[str, ...]:
    """As many different names."""
    listed = tuple(map(str, value)) if isinstance(value, Iterable) else ()
    if len(listed) != count or len(set(listed)) != count:
        raise InputError(f"{name} must hold {count} different names, got {shown(value)}")
    return listed


def check_path(name: str, value: object, optional: bool = True) -> None:
    """The name of a file, or None; to Python a number is a file that is open already."""
    if value is None and optional:
        return
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise InputError(f"{name} must be a path, got {shown(value)}")
    try:
        os.lstat(value)
    except (ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{name} must be a path, got {shown(value)}: {reason}") from None


def listed(name: str, value: object, what: str = "values") -> list[Any]:
    """Several things, not the letters of a word."""
    if isinstance(value, str | bytes) or hasattr(value, "tocoo") or not np.iterable(value):
        raise InputError(f"{name} must be a list of {what}, got {shown(value)}")
    return list(value)


def check_executor(executor: object) -> None:
    """Where tasks run."""
    if executor is not None and not isinstance(executor, Executor):
        raise InputError(
            "executor must be a concurrent.futures.Executor (Dask: client.get_executor()), got "
            f"{shown(executor)}"
        )
    # how threads and processes of the standard library note it; others are met when they refuse
    if getattr(executor, "_shutdown", False) or getattr(executor, "_shutdown_thread", False):
        raise InputError(
            f"executor: {shown(executor)} is shut down; call inside its with block, or pass a "
            "new one"
        )


def seed_sequence(random_seed: int | np.random.Generator | None) -> np.random.SeedSequence:
    """Seeds from what users call one."""
    if isinstance(random_seed, np.random.Generator):
        return np.random.SeedSequence(random_seed.integers(0, 2**32, size=4).tolist())
    whole = isinstance(random_seed, numbers.Integral) and not isinstance(random_seed, bool)
    if random_seed is None or (whole and random_seed >= 0):
        return np.random.SeedSequence(None if random_seed is None else int(random_seed))
    raise InputError(
        "random_seed must be a non-negative int, a numpy Generator or None, got "
        f"{shown(random_seed)}"
    )
