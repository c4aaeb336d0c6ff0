"""When to stop: at a deadline, or when the user presses ^C.

A long call runs inside :func:`interruptible`. There the first ^C is noted and the call ends at
the next place where it can, with what is known by then: tasks ask :meth:`Clock.stop` between
two steps, and what has nothing to give back before it is complete, a fit for example, calls
:func:`check_interrupt` there. A second ^C ends the call wherever it is, but in the compiler.

A deadline is heard in the same places: inside :func:`within` a clock, :func:`check_interrupt`
raises :class:`Stopped` when its time is up. What cannot look at the clock while it works, a
factorisation for example, is announced with the number of its operations and not begun where it
would end too late.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from types import FrameType

from .meter import Allowance, Meter, tally


class Stopped(Exception):
    """A deadline or an interrupt ended a task between two steps."""


class Clock:
    """Time since the start of a call, its deadline, and whether the user pressed ^C.

    With a ``meter`` the evaluations that it allows are another deadline.
    """

    def __init__(self, max_seconds: float | None = None, meter: Meter | None = None) -> None:
        self.meter = Meter() if meter is None else meter
        self.started = time.perf_counter()
        self.max_seconds = max_seconds
        outer = _handler  # a call inside another one is interrupted together with it
        self.interrupted = outer.pressed if outer else threading.Event()

    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    def remaining(self) -> float | None:
        return None if self.max_seconds is None else self.max_seconds - self.elapsed()

    def affordable(self, used: float = 0.7) -> float:
        """Evaluations that may be made, and for which the part ``used`` of the seconds left will
        do, each taking as long as one has on average."""
        left, done = self.remaining(), self.meter.total
        if left is None or not done:
            return self.meter.left
        return min(self.meter.left, max(used * left * done / self.elapsed(), 0.0))

    def expired(self) -> bool:
        return self.max_seconds is not None and self.elapsed() > self.max_seconds

    def part(self, part: float) -> Clock:
        """One for a part of what remains."""
        left = self.remaining()
        return Clock(None if left is None else part * left)

    def over(self, allowed: Meter | Allowance, ready: Callable[[], bool]) -> Callable[[], bool]:
        """Whether this time, or evaluations ``allowed``, are over, and one is ``ready`` to end."""
        return lambda: (allowed.left <= 0.0 or self.expired()) and ready()

    def stop(self, flops: float = 0.0) -> bool:
        """What a long task asks between two steps; of the next one, whether it would end late."""
        over = self.interrupted.is_set() or self.expired() or self.meter.spent()
        return over or (flops > 0.0 and self.late(flops))

    def late(self, flops: float = 0.0, *, overrun: float = 1.2, grace: float = 0.5) -> bool:
        """What a fit asks, which may use the grace that a call has: an answer rests on it.

        ``overrun``: share of ``max_seconds`` after which a call is late; ``grace``: and seconds
        more.
        """
        over = self.interrupted.is_set() or self.meter.spent()
        if over or self.max_seconds is None:
            return over
        latest = overrun * self.max_seconds + grace
        return self.elapsed() + (flops / _speed() if flops else 0.0) > latest

    @property
    def limited(self) -> bool:
        """Whether there is a deadline of either kind."""
        return self.max_seconds is not None or self.meter.most is not None

    @property
    def limits(self) -> str:
        """The deadlines in words, as the keywords that gave them."""
        limits = {"max_seconds": self.max_seconds, "max_evaluations": self.meter.most}
        return " and ".join(f"{k}={v:g}" for k, v in limits.items() if v is not None)

    @property
    def deadline(self) -> Callable[..., bool] | None:
        """What :func:`within` takes: None where there is none."""
        return self.stop if self.limited else None

    @property
    def last_moment(self) -> Callable[..., bool] | None:
        """The same for a fit."""
        return self.late if self.limited else None


@cache
def _speed(*, probe: int = 384) -> float:
    """Floating point operations per second of a matrix product, here and roughly.

    ``probe``: size of the matrices whose product tells the speed.
    """
    import numpy as np  # the shell's help does without

    a = np.ones((probe, probe))
    seconds = math.inf
    for _ in range(4):
        started = time.perf_counter()
        a @ a
        seconds = min(seconds, time.perf_counter() - started)
    return 2.0 * probe**3 / seconds


class _Handler:
    """What ^C does inside :func:`interruptible`."""

    def __init__(self, pressed: threading.Event) -> None:
        self.pressed, self.again = pressed, False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if self.pressed.is_set():
            self.again = True
            if not _compiling(frame):
                raise KeyboardInterrupt
        self.pressed.set()


def _compiling(frame: FrameType | None) -> bool:
    """Whether the compiler is at work: half a function is of no use, and may be kept on disk."""
    while frame is not None:
        if {"numba", "llvmlite"} & set(frame.f_code.co_filename.split(os.sep)):
            return True
        frame = frame.f_back
    return False


#: that of the call under way, in whatever thread; ``signal.getsignal`` is slower than likelihoods
_handler: _Handler | None = None


def _main() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def interruptible(clock: Clock | None = None) -> Iterator[None]:
    """Note ^C instead of raising KeyboardInterrupt wherever the program happens to be.

    With a ``clock`` the call looks at it and gives back what is known. Without one nothing less
    than all is worth giving back, and KeyboardInterrupt is raised at the end at the latest.
    Python's own handler is replaced and put back; any other handler, a call in another thread,
    and a call inside a call that does this already are left alone.
    """
    global _handler
    if not _main() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _handler = handler = _Handler(clock.interrupted if clock else threading.Event())
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # where it was, in a compiler perhaps, tells nothing
    finally:
        _handler = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if handler.again or (clock is None and handler.pressed.is_set()):
        raise KeyboardInterrupt


_STOP: ContextVar[Callable[..., bool] | None] = ContextVar("stop", default=None)


@contextmanager
def within(stop: Callable[..., bool] | None) -> Iterator[None]:
    """Let :func:`check_interrupt` raise :class:`Stopped` where ``stop(flops)`` says so.

    None leaves things as they are. A thread begins without.
    """
    token = _STOP.set(stop or _STOP.get())
    try:
        yield
    finally:
        _STOP.reset(token)


def also(over: Callable[[], bool]) -> AbstractContextManager[None]:
    """:func:`within`, and :class:`Stopped` where this part of a call is ``over``, too."""
    outer = _STOP.get()
    return within(lambda flops=0.0: over() or (outer is not None and outer(flops)))


def check_interrupt(flops: float = 0.0) -> bool:
    """Raise KeyboardInterrupt if ^C was pressed, else return False.

    For loops that have nothing to give back before their end. In the main thread only, where
    Python raises it: other threads run tasks, which ask their clock. Raise :class:`Stopped`
    where the call, or task, has a deadline that is over, or would be after so many ``flops``.
    """
    handler = _handler  # once: the call may end meanwhile, in another thread
    if handler is not None and handler.pressed.is_set() and _main():
        raise KeyboardInterrupt
    stop = _STOP.get()
    if stop is not None and stop(flops):
        raise Stopped
    return False


def spend(n: int, derivatives: bool = False) -> None:
    """Before calls at ``n`` points: :func:`check_interrupt`, then count them."""
    check_interrupt()
    tally(n, derivatives)


def _after_fork() -> None:
    global _handler
    if _handler is not None:
        _handler = None
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the call is the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
