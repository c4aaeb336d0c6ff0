"""Which methods there are, by name, and the options that are their own.

``METHODS`` is the table :func:`evidence.log_evidence` looks them up in. A method takes the
problem and, as keyword-only arguments, the options that are its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..execution.arguments import shown
from ..execution.keywords import MEANT
from ..messages import InputError, suggest
from .ais import ais
from .auto import auto
from .base import Outcome
from .importance import importance
from .pt import pt
from .sequential import sequential
from .smc import arm, smc
from .weighted import guided, orthant

METHODS: dict[str, Callable[..., Outcome]] = {
    method.__name__: method
    for method in (auto, smc, ais, importance, guided, pt, arm, orthant, sequential)
}

#: What of log_evidence's own arguments a method has no use for; approximations use none.
UNUSED: dict[str, tuple[str, ...]] = dict.fromkeys(METHODS, ()) | {
    "importance": ("move", "betas"),
    "guided": ("move", "betas"),
    "orthant": ("reference", "move", "betas"),
    "sequential": ("reference", "move", "betas"),
}
_NOTHING = ("reference", "move", "betas")


def unused(method: str) -> tuple[str, ...]:
    """Arguments that would change nothing."""
    return UNUSED.get(method, _NOTHING)


def check_unused(method: str, given: set[str]) -> None:
    """Refuse arguments that would change nothing: who gives them expects something else."""
    for name in unused(method):
        if name in given:
            raise InputError(
                f"method={method!r} has no use for {name}=; leave it out, or use another method "
                "('smc', 'ais', 'pt', 'arm')"
            )


def check_options(method: str, options: dict[str, Any]) -> None:
    """Refuse options the method does not have, naming those it has."""
    function = METHODS.get(method)  # ep and laplace are no methods, and have no options
    parameters = inspect.signature(function).parameters.values() if function else ()
    known = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            has = f"it takes {', '.join(known)}" if known else "it has none of its own"
            choices = [*known, *MEANT.values()]  # words of the call, too
            raise TypeError(
                f"method={method!r} has no option {shown(name)}"
                f"{suggest(name, choices, MEANT)} ({has})"
            )
