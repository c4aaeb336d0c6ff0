"""When to stop: at a deadline, or when the user presses ^C.

A long call runs inside :func:`interruptible`. There the first ^C is noted and the call ends at
the next place where it can, with what is known by then: tasks ask :meth:`Clock.stop` between
two steps, and what has nothing to give back before it is complete, a fit for example, calls
:func:`check_interrupt` there. A second ^C ends the call wherever it is.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """A deadline or an interrupt ended a task between two steps."""


class Clock:
    """Time since the start of a call, its deadline, and whether the user pressed ^C."""

    def __init__(self, max_seconds: float | None = None) -> None:
        self.started = time.perf_counter()
        self.max_seconds = max_seconds
        outer = _handler()  # a call inside another one is interrupted together with it
        self.interrupted = outer.pressed if outer else threading.Event()

    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    def remaining(self) -> float | None:
        return None if self.max_seconds is None else self.max_seconds - self.elapsed()

    def expired(self) -> bool:
        return self.max_seconds is not None and self.elapsed() > self.max_seconds

    def stop(self) -> bool:
        """What a long task asks between two steps."""
        return self.interrupted.is_set() or self.expired()


class _Handler:
    """What ^C does inside :func:`interruptible`."""

    def __init__(self, pressed: threading.Event) -> None:
        self.pressed, self.again = pressed, False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if self.pressed.is_set():
            self.again = True
            raise KeyboardInterrupt
        self.pressed.set()


def _handler() -> _Handler | None:
    """That of the call under way, in whatever thread."""
    handler = signal.getsignal(signal.SIGINT)
    return handler if isinstance(handler, _Handler) else None


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
    if not _main() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    handler = _Handler(clock.interrupted if clock else threading.Event())
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # where it was, in a compiler perhaps, tells nothing
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if handler.again or (clock is None and handler.pressed.is_set()):
        raise KeyboardInterrupt


def check_interrupt() -> bool:
    """Raise KeyboardInterrupt if ^C was pressed, else return False.

    For loops that have nothing to give back before their end. In the main thread only, where
    Python raises it: other threads run tasks, which ask their clock.
    """
    handler = _handler()
    if handler is not None and handler.pressed.is_set() and _main():
        raise KeyboardInterrupt
    return False


def _after_fork() -> None:
    if _handler() is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the call is the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
