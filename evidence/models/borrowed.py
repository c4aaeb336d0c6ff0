"""What an object says by the words of another one that it holds."""

from __future__ import annotations

from operator import attrgetter
from typing import Any


def borrowed(where: str) -> Any:
    """An attribute or a method of what is held: with ``borrowed("of.free")`` in a class,
    ``x.free`` is ``x.of.free``."""
    return property(attrgetter(where))
