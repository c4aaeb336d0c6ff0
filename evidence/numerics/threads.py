"""Rows of a batch in parallel threads, for transitions that factorise matrices.

Compiled transitions release the interpreter lock. A driver that already keeps every core busy
calls :func:`stay_single` in its worker threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_local = threading.local()


def stay_single() -> None:
    """Rows that this thread asks for are run in this thread."""
    _local.single = True


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
