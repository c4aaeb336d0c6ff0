"""What holds for every call of a program: whether lines of progress are shown, and what is logged.

Warnings and notes of results go to the logger ``"evidence"`` of Python's :mod:`logging`, as
warnings and as infos. Nobody hears them unless the program listens, or asks for ``verbose``.
"""

from __future__ import annotations

import logging
from typing import TypeVar

from .arguments import check_flag
from .keywords import hinted

LOGGER = logging.getLogger("evidence")
LOGGER.addHandler(logging.NullHandler())
_CHOSEN = {"progressbar": True, "verbose": False}
_Told = TypeVar("_Told")


class set_options:
    """Choose for all calls from now on, or for those of a ``with`` block.

    Parameters
    ----------
    progressbar : bool, optional
        False: no lines of progress, whatever calls say.
    verbose : bool, optional
        Whether warnings and notes of results are written to standard error as results are made.
        They are in ``result.warnings`` and ``result.notes`` in any case, and in the logger
        ``"evidence"``.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[1.0]], y=[1])
    >>> with ev.set_options(progressbar=False):
    ...     result = ev.log_evidence(model, random_seed=0)
    """

    @hinted
    def __init__(self, *, progressbar: bool | None = None, verbose: bool | None = None) -> None:
        given = {"progressbar": progressbar, "verbose": verbose}
        chosen = {name: value for name, value in given.items() if value is not None}
        for name, value in chosen.items():
            check_flag(name, value)
        self._before = dict(_CHOSEN)
        _choose(chosen)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *reason: object) -> None:
        _choose(self._before)


def chosen(name: str) -> bool:
    """What was chosen last."""
    return _CHOSEN[name]


def told(result: _Told) -> _Told:
    """The result, once its warnings and notes are logged."""
    for level, name in ((logging.WARNING, "warnings"), (logging.INFO, "notes")):
        for text in getattr(result, name, ()):
            LOGGER.log(level, "%s", text)
    return result


def _choose(options: dict[str, bool]) -> None:
    _CHOSEN.update(options)
    for handler in [h for h in LOGGER.handlers if isinstance(h, _Spoken)]:
        LOGGER.removeHandler(handler)
    LOGGER.setLevel(logging.INFO if _CHOSEN["verbose"] else logging.NOTSET)
    if _CHOSEN["verbose"]:
        LOGGER.addHandler(_Spoken())


class _Spoken(logging.StreamHandler):
    """To standard error, a line for each."""

    def format(self, record: logging.LogRecord) -> str:
        return f"evidence: {record.getMessage()}"
