"""Files of results, of whatever kind: here, because predictions are results too."""

from __future__ import annotations

import os
from typing import Any

from ..execution import files
from ..messages import InputError
from ..results import (
    bridged,
    comparison,
    draws,
    evidence,
    hyper,
    loo,
    optimum,
    sensitivity,
    simulated,
    summary,
    surface,
    sweep,
)
from ..results.base import Result, kinds
from . import classes, gp

#: imported, so that :func:`kinds` knows what they define
_ROOMS = (
    bridged, classes, comparison, draws, evidence, gp, hyper, loo, optimum, sensitivity, simulated,
    summary, surface, sweep,
)  # fmt: skip


def load(path: str | os.PathLike[str], **models: Any) -> Any:
    """Read a saved result of any kind: evidence, draws, comparisons, predictions, …

    Parameters
    ----------
    path : path
        What ``result.save(path)`` wrote; any other file is refused with a clear message.
    **models
        Files hold no models. A result with a model in its field ``model`` is given it here, as
        ``model=``; it must be the one the result was made with.

    Returns
    -------
    EvidenceResult, Draws, Comparison, …
        What was saved.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> result = ev.log_evidence(model, random_seed=0, progressbar=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(Path(folder) / "run.npz")
    ...     again = ev.load(Path(folder) / "run.npz")
    >>> type(again).__name__, again.logz == result.logz
    ('EvidenceResult', True)
    """
    found = files.format_of(path)
    formats: dict[str, type[Result]] = {kind._format: kind for kind in kinds() if kind._format}
    if found not in formats:
        raise InputError(f"{path} holds {found!r}, which is no kind of result")
    return formats[found].load(path, **models)
