"""What the likelihoods accept as observations and parameters, and what they say otherwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...messages import InputError
from .base import Observations

Array = NDArray[np.float64]


def check_labels(y: ArrayLike, likelihood: str) -> Observations:
    """Return labels as ±1. Labels 0/1 (or booleans) are taken as -1/+1, with a note."""
    wanted = "labels -1 and +1 (or 0 and 1)"
    values = _finite(y, likelihood, wanted, "encode the two classes first")
    found = np.unique(values)
    if np.isin(found, (-1.0, 1.0)).all():
        return Observations(values)
    if np.isin(found, (0.0, 1.0)).all():
        return Observations(2.0 * values - 1.0, ("y: labels 0/1 were taken as -1/+1",))
    raise InputError(f"y: the {likelihood} likelihood wants {wanted}, got {_shown(found)}")


def check_counts(y: ArrayLike, likelihood: str) -> Observations:
    """Return counts 0, 1, 2, … as floats."""
    wanted = "counts 0, 1, 2, …"
    values = _finite(y, likelihood, wanted, "convert them to numbers first")
    bad = np.unique(values[(values < 0.0) | (values != np.floor(values))])
    if bad.size:
        raise InputError(f"y: the {likelihood} likelihood wants {wanted}, got {_shown(bad)}")
    return Observations(values)


def check_reals(y: ArrayLike, likelihood: str) -> Observations:
    """Return any finite real targets as floats."""
    return Observations(
        _finite(y, likelihood, "finite real numbers", "convert them to numbers first")
    )


def _finite(y: ArrayLike, likelihood: str, wanted: str, advice: str) -> Array:
    raw = np.asarray(y)
    if raw.dtype.kind not in "biuf":
        raise InputError(
            f"y: the {likelihood} likelihood wants {wanted}, "
            f"got values of type {raw.dtype}; {advice}"
        )
    values = raw.astype(float)
    if not np.isfinite(values).all():
        raise InputError("y contains NaN or inf; drop or impute those rows first")
    return values


def _shown(values: Array) -> str:
    return ", ".join(f"{v:.12g}" for v in values[:6]) + (", …" if values.size > 6 else "")


def check_parameter(
    name: str, value: ArrayLike, *, positive: bool = True
) -> float | tuple[float, ...]:
    """Return a finite (positive) scalar as float, a vector with one value per datum as tuple.

    Tuples, unlike arrays, let likelihoods be compared, hashed and printed.
    """
    wanted = f"a {'positive ' if positive else ''}finite number, or a vector of one per datum"
    raw = np.asarray(value)
    if raw.dtype.kind not in "iuf" or raw.ndim > 1 or raw.size == 0:
        raise InputError(f"{name} must be {wanted}, got {value!r}")
    numbers = raw.astype(float)
    bad = numbers[~(np.isfinite(numbers) & ((numbers > 0.0) | (not positive)))]
    if bad.size:
        raise InputError(f"{name} must be {wanted}, got {bad[0]:g}")
    return float(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def align(name: str, value: float | tuple[float, ...], like: Array) -> Array:
    """Return the parameter as an array that broadcasts with the last axis of ``like``."""
    array = np.asarray(value, dtype=float)
    if array.ndim and np.ndim(like) and like.shape[-1] != array.size:
        raise InputError(
            f"{name} has {array.size} values but there are {like.shape[-1]} data; "
            "give a number or one value per datum"
        )
    return array


def stack(y: Array, *rows: ArrayLike) -> Array:
    """Kernel parameters as a C-contiguous (P, N) array; every row is broadcast to ``y``."""
    theta = np.empty((len(rows), y.size))
    for p, row in enumerate(rows):
        theta[p] = row
    return theta
