"""Which methods there are, by name, and the options that are their own.

``METHODS`` is the table :func:`evidence.log_evidence` looks them up in. A method takes the
problem and, as keyword-only arguments, the options that are its own.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from .ais import ais
from .arm import arm
from .auto import auto
from .base import Outcome
from .importance import importance
from .orthant import orthant
from .pt import pt
from .sequential import sequential
from .smc import smc

METHODS: dict[str, Callable[..., Outcome]] = {
    "auto": auto,
    "smc": smc,
    "ais": ais,
    "importance": importance,
    "pt": pt,
    "arm": arm,
    "orthant": orthant,
    "sequential": sequential,
}


def check_options(method: str, options: dict[str, Any]) -> None:
    """Refuse options the method does not have, naming those it has."""
    function = METHODS.get(method)  # ep and laplace are no methods, and have no options
    parameters = inspect.signature(function).parameters.values() if function else ()
    known = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            has = f"it takes {', '.join(known)}" if known else "it has none of its own"
            raise TypeError(f"method={method!r} has no option {name!r}{hint} ({has})")
