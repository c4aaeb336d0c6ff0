"""Class labels: what is accepted, and their numbering."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import plain, shown
from ..execution.lazy import pd
from ..messages import InputError, suggest


def check_labels(
    y: ArrayLike | None, classes: ArrayLike | None = None
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The different labels, sorted, and the index of each datum's.

    >>> found, codes = check_labels(["b", "a", "b"])
    >>> found.tolist(), codes.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    if y is None:
        raise InputError("y is missing; pass the N labels")
    labels = _labels("y", y)
    known = np.unique(labels if classes is None else _labels("classes", classes))
    if known.size < 2:
        raise InputError(
            f"{'y' if classes is None else 'classes'} holds a single class ({known[0]}); a "
            "softmax needs at least two labels: pass classes= where there are others"
        )
    strange = np.setdiff1d(labels, known)
    if strange.size:
        raise InputError(f"y holds {shown(strange[0])}, which is not among classes")
    return known, np.searchsorted(known, labels).astype(np.intp)


def _labels(name: str, values: ArrayLike) -> NDArray[Any]:
    """A vector of whole numbers, booleans or strings."""
    labels = plain(name, values)
    if labels.ndim != 1 or labels.size == 0:
        raise InputError(f"{name} must be a non-empty vector of labels, got shape {labels.shape}")
    if labels.dtype.kind == "O" and len({type(label) for label in labels}) == 1:
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f" and not (labels == np.floor(labels)).all():
        bad = labels[labels != np.floor(labels)][0]
        raise InputError(
            f"{name} must hold class labels, got {bad:g}; drop rows with missing labels, and for "
            "continuous values use GPModel with likelihood='gaussian'"
        )
    if labels.dtype.kind not in "biufUS" or labels.ndim != 1:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels.tolist()}))
        raise InputError(f"{name} must hold labels of one kind, numbers or strings, got {kinds}")
    return labels


def in_order(column: pd.Series[Any], levels: str, *, shown: int = 10) -> pd.Categorical:
    """A column's categories in the order of a text such as ``"none,some,much"``.

    >>> import pandas as pd
    >>> in_order(pd.Series(["some", "none"], name="pain"), "none, some").codes.tolist()
    [1, 0]

    ``shown``: labels in a message.
    """
    words = [word.strip() for word in next(csv.reader([levels], skipinitialspace=True), [])]
    found = {as_written(value): value for value in column.dropna().unique()}
    for word in words:
        if words.count(word) > 1:
            raise InputError(f"--levels has {word!r} twice")
        if word not in found:
            listed = ", ".join([*found][:shown]) + (", …" if len(found) > shown else "")
            raise InputError(
                f"--levels: column {column.name} has no {word!r}{suggest(word, found)} It has: "
                f"{listed}"
            )
    if lost := [word for word in found if word not in words]:
        raise InputError(f"--levels lacks {lost[0]!r}, which column {column.name} has")
    return pd.Categorical(column, categories=[found[word] for word in words], ordered=True)


def as_written(value: object) -> str:
    """Numbers that are whole without a point: a column has one where others are missing."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
