"""Rows of a batch in parallel threads, for transitions that factorise matrices.

Compiled transitions release the interpreter lock. A worker thread of a driver that already keeps
every core busy does its task under :func:`single`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_local = threading.local()


@contextmanager
def single() -> Iterator[None]:
    """Rows that this thread asks for are run in this thread, for the time being."""
    before, _local.single = getattr(_local, "single", False), True
    try:
        yield
    finally:
        _local.single = before


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), "evidence-rows")


@cache
def _controller() -> Any:
    return ThreadpoolController()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(share: Callable[[int, int], None], m: int) -> None:
    """Call ``share(first, stride)`` in every thread, for rows first, first + stride, … < m."""
    workers = 1 if getattr(_local, "single", False) else min(m, _cores())
    if workers == 1:
        share(0, 1)
        return
    with _controller().limit(limits=1, user_api="blas"):
        for _ in _pool().map(share, range(workers), [workers] * workers):
            pass
