"""Checks that public functions make of their arguments."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..messages import InputError, suggest

_LONG = 80  # characters of a wrong value that a message shows


def seed_sequence(random_seed: int | np.random.Generator | None) -> np.random.SeedSequence:
    if isinstance(random_seed, np.random.Generator):
        return np.random.SeedSequence(random_seed.integers(0, 2**32, size=4).tolist())
    if random_seed is None or (isinstance(random_seed, numbers.Integral) and random_seed >= 0):
        return np.random.SeedSequence(None if random_seed is None else int(random_seed))
    raise InputError(
        f"random_seed must be a non-negative int, a numpy Generator or None, got {random_seed!r}"
    )


def check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if isinstance(value, str) and value in known:
        return
    hint = suggest(value, known)
    shown = repr(value)
    if len(shown) > _LONG:
        shown = f"of type {type(value).__name__}"
    raise InputError(f"unknown {name} {shown}{hint} Known: {', '.join(known)}")


def check_executor(executor: Any) -> None:
    if executor is not None and not isinstance(executor, Executor):
        raise InputError(
            "executor must be a concurrent.futures.Executor (Dask: client.get_executor()), got "
            f"{type(executor).__name__}"
        )


def check_positive(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, numbers.Real) or not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} must be a positive number, got {value!r}")


def check_count(name: str, value: Any, least: int, optional: bool = True) -> None:
    if value is None and optional:
        return
    if not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} must be a whole number, at least {least}, got {value!r}")


def check_weights(name: str, parts: Sequence[Any], weights: Any) -> NDArray[np.float64]:
    """Weights of a mixture's parts, scaled to sum to one; equal where none are given."""
    if not parts:
        raise InputError(f"{name} is empty; give at least one")
    w = np.ones(len(parts)) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (len(parts),) or not (np.isfinite(w).all() and (w >= 0.0).all()):
        raise InputError(f"weights must be {len(parts)} non-negative numbers, got {weights!r}")
    if w.sum() <= 0.0:
        raise InputError("weights sum to zero; give at least one positive weight")
    return w / w.sum()
