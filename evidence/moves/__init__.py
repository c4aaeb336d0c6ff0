"""Transition kernels. :mod:`.base` says what a move is; each other file holds one family."""

from __future__ import annotations

import difflib
from typing import Any

from .base import Info, Move, take
from .mgrad import MGrad

__all__ = ["Info", "MGrad", "Move", "get", "take"]

_BY_NAME = {"mgrad": MGrad}


def get(move: str | Move) -> Any:
    """A move from its name; an object is returned as it is.

    >>> get("mgrad").name
    'mgrad'
    """
    if not isinstance(move, str):
        if not (hasattr(move, "step") and hasattr(move, "init_reference")):
            raise ValueError(f"move must be a name or a move object, got {move!r}")
        return move
    if move.lower() not in _BY_NAME:
        close = difflib.get_close_matches(move.lower(), _BY_NAME, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"unknown move {move!r}{hint} Known: {', '.join(_BY_NAME)}")
    return _BY_NAME[move.lower()](step_size=10.0)
