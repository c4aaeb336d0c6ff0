"""How often a user's function is called, by phase of a run, and how often it may be.

Functions that a user brings count the points they are asked for with :func:`tally`, wherever
they run: tasks in other threads count with the meter of the call they belong to, and those in
other processes bring their counts back (:mod:`.remote`).

>>> with metered(Meter(most=10)) as meter:
...     with phase("pilot"):
...         tally(4)
...     tally(6)
>>> meter.counts, meter.spent()
({'fit': 6, 'pilot': 4}, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

PHASES = ("fit", "scout", "pilot", "run", "gradients")


class Meter:
    """Evaluations of a density by phase, and of its derivatives, at single points."""

    idle = 0.0
    """Evaluations that may be left over at the end, too few for another task."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self.phase = most, "fit"
        self._counts = dict.fromkeys(PHASES, 0)
        self._lock = Lock()

    def add(self, n: int, name: str | None = None) -> None:
        with self._lock:
            self._counts[name or self.phase] += n

    def absorb(self, counts: Mapping[str, int]) -> None:
        """What a task counted elsewhere, derivatives apart."""
        for name, n in counts.items():
            self.add(n, "gradients" if name == "gradients" else None)

    @property
    def counts(self) -> dict[str, int]:
        """Those above zero, by phase."""
        return {name: n for name, n in self._counts.items() if n}

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    @property
    def left(self) -> float:
        return math.inf if self.most is None else self.most - self.total

    def spent(self) -> bool:
        return self.left <= self.idle


class Allowance:
    """So many of a meter's evaluations from now on, as far as a part of a call may use them."""

    def __init__(self, meter: Meter | Allowance, most: float) -> None:
        self.most, self._meter, self._before = most, meter, sum(meter.counts.values())

    @property
    def counts(self) -> dict[str, int]:
        return self._meter.counts

    @property
    def left(self) -> float:
        spent = sum(self._meter.counts.values()) - self._before
        return min(self.most - spent, self._meter.left)


_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metered(meter: Meter | None) -> Iterator[Meter | None]:
    """Let :func:`tally` count with this meter. A thread begins without one."""
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def current() -> Meter | None:
    """The meter of the call under way in this thread."""
    return _METER.get()


def tally(n: int, derivatives: bool = False) -> None:
    """Count calls at ``n`` points, if anybody counts."""
    if (meter := _METER.get()) is not None:
        meter.add(n, "gradients" if derivatives else None)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """What is counted meanwhile belongs to this phase."""
    meter = _METER.get()
    if meter is None:
        yield
        return
    before, meter.phase = meter.phase, name
    try:
        yield
    finally:
        meter.phase = before
