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
from contextlib import contextmanager, suppress
from typing import Any

from threadpoolctl import threadpool_limits

from ..moves import rows

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

    A task that raises :class:`Stopped` is dropped, and no task starts once the clock says
    stop. ^C sets the clock's flag, waits for running tasks to notice, and returns with what is
    finished.
    """
    cores = available_cores()
    waiting = iter(enumerate(tasks))
    running: dict[Future[Any], int] = {}
    pool = ThreadPoolExecutor(cores, initializer=rows.stay_single)
    with threadpool_limits(1, user_api="blas"), pool:
        while True:
            try:
                while len(running) < 2 * cores and not clock.stop():
                    index, task = next(waiting, (-1, None))
                    if task is None:
                        break
                    running[pool.submit(task)] = index
                if not running:
                    return
                finished, _ = wait(running, timeout=0.1, return_when=FIRST_COMPLETED)
                for future in finished:
                    _collect(future, running.pop(future), done)
            except KeyboardInterrupt:
                clock.interrupted.set()
            except BaseException:
                clock.interrupted.set()  # do not let the others run on behind an error
                raise


def _collect(future: Future[Any], index: int, done: Callable[[int, Any], None]) -> None:
    with suppress(Stopped):
        done(index, future.result())


class Stopped(Exception):
    """A deadline or an interrupt ended a task between two steps."""
