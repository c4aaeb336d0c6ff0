"""Moves by name, and the checks of what a user set."""

from __future__ import annotations

from .. import moves
from ..execution.arguments import check_choice, check_count, check_positive, number, shown
from ..messages import InputError
from . import NAMES
from .base import Move


def names() -> list[str]:
    """Every name that :func:`get` knows."""
    return list(NAMES)


def get(move: str | Move) -> Move:
    """A move from its name; an object is returned as it is.

    >>> get("mgrad").name
    'mgrad'
    """
    options = {"mgrad": {"step_size": 10.0}}
    if isinstance(move, str):
        key = move.lower().replace("_", "-")
        check_choice("move", key, NAMES)
        return getattr(moves, NAMES[key])(**options.get(key, {}))
    if isinstance(move, type) or not (hasattr(move, "step") and hasattr(move, "init_reference")):
        raise InputError(f"move must be a name or a move object, got {shown(move)}")
    check_positive(f"{move.name}: step_size", getattr(move, "step_size", 1.0), optional=False)
    for option in ("n_leapfrog", "max_depth"):
        check_count(f"{move.name}: {option}", getattr(move, option, None), 1)
    if getattr(move, "target", None) is not None:
        number(f"{move.name}: target", move.target, above=0.0, below=1.0)
    check_choice(f"{move.name}: binding", getattr(move, "binding", "base"), ("base", "identity"))
    return move
