"""Running tasks on the cores there are, and stopping them when asked.

At these matrix sizes two BLAS threads fight more than they help, so each task runs on one
core with single-threaded BLAS. Results never depend on how many cores there were: tasks carry
their own seeds and are put back in order.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

_LARGE = 1500  # from this N on, one factorisation keeps several BLAS threads busy


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def factorising(n: int) -> Iterator[None]:
    """BLAS threads for one N × N factorisation at a time."""
    with threadpool_limits(None if n >= _LARGE else 1, user_api="blas"):
        yield


class Clock:
    """Time since the start of a run, its deadline, and whether the user pressed ^C."""

    def __init__(self, max_seconds: float | None = None) -> None:
        self.started = time.perf_counter()
        self.max_seconds = max_seconds
        self.interrupted = threading.Event()

    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    def expired(self) -> bool:
        return self.max_seconds is not None and self.elapsed() > self.max_seconds

    def stop(self) -> bool:
        """What a long task asks between two steps."""
        return self.interrupted.is_set() or self.expired()


def run_tasks(
    tasks: list[Callable[[], Any]], clock: Clock, done: Callable[[int, Any], None]
) -> None:
    """Run ``tasks`` in threads; call ``done(index, result)`` here as each one finishes.

    A task that raises :class:`Stopped` is dropped. ^C sets the clock's flag, waits for the
    tasks to notice, and returns with what is finished.
    """
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(available_cores()) as pool:
        futures: dict[Future[Any], int] = {pool.submit(t): i for i, t in enumerate(tasks)}
        pending = set(futures)
        while pending:
            try:
                finished, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt:
                clock.interrupted.set()
                continue
            for future in finished:
                try:
                    result = future.result()
                except Stopped:
                    continue
                except BaseException:
                    clock.interrupted.set()
                    raise
                done(futures[future], result)


class Stopped(Exception):
    """A deadline or an interrupt ended a task between two steps."""
