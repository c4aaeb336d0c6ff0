"""Moves by name, and the checks of what a user set."""

from __future__ import annotations

from typing import Any

from .. import moves
from ..execution.arguments import check_choice, check_count, check_positive
from ..messages import InputError
from .base import Move

_MAKERS = {
    "mgrad": "MGrad",
    "agrad-z": "AGradZ",
    "agrad-u": "AGradU",
    "pcn": "PCN",
    "pcnl": "pcnl",
    "mala": "Langevin",
    "pmala": "pmala",
    "elliptical": "EllipticalSlice",
    "hmc": "HMC",
    "splitting": "SplittingHMC",
    "nuts": "NUTS",
    "gibbs": "ProbitGibbs",
    "rmhmc": "RMHMC",
    "rmhmc-midpoint": "MidpointRMHMC",
    "rmhmc-explicit": "ExplicitRMHMC",
    "mmala": "MMALA",
    "simplified-mmala": "SimplifiedMMALA",
    "second-order": "SecondOrder",
}
_OPTIONS: dict[str, dict[str, Any]] = {"mgrad": {"step_size": 10.0}}


def names() -> list[str]:
    """Every name that :func:`get` knows."""
    return list(_MAKERS)


def get(move: str | Move) -> Any:
    """A move from its name; an object is returned as it is.

    >>> get("mgrad").name
    'mgrad'
    """
    if isinstance(move, str):
        key = move.lower().replace("_", "-")
        check_choice("move", key, tuple(_MAKERS))
        return getattr(moves, _MAKERS[key])(**_OPTIONS.get(key, {}))
    if not (hasattr(move, "step") and hasattr(move, "init_reference")):
        raise InputError(f"move must be a name or a move object, got {move!r}")
    check_positive(f"{move.name}: step_size", getattr(move, "step_size", 1.0))
    for option in ("n_leapfrog", "max_depth"):
        check_count(f"{move.name}: {option}", getattr(move, option, None), 1)
    return move
