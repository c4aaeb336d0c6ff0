"""Files of results, of whatever kind: here, because predictions are results too."""

from __future__ import annotations

import os
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from .. import results
from ..execution import files
from ..messages import InputError
from ..results.base import Result, kinds
from . import classes, gp  # noqa: F401  (here and below: so that kinds() knows what they define)

for _room in iter_modules(results.__path__, f"{results.__name__}."):
    import_module(_room.name)


def load(path: str | os.PathLike[str], **models: object) -> Any:
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
