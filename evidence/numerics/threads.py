"""Threads: how many BLAS has, and rows of a batch side by side.

At these matrix sizes two BLAS threads fight more than they help, so cores are given to islands,
chains and rows, and BLAS has one thread meanwhile. The number of BLAS threads belongs to the
process: calls that overlap, in threads of one process, share one limit, and the last to leave
restores what the first one found.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache

from threadpoolctl import LibController, ThreadpoolController

_local = threading.local()


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Limit:
    """One BLAS thread while anyone is inside."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside: list[int] = []  # threads, each as often as it entered
        self.before: list[tuple[LibController, int]] = []

    def enter(self) -> int:
        with self.lock:
            if not self.inside:
                libraries = _libraries(len(sys.modules))
                self.before = [(library, library.num_threads) for library in libraries]
                _set((library, 1) for library in libraries)
            self.inside.append(threading.get_ident())
            return self.inside[-1]

    def leave(self, thread: int) -> None:
        with self.lock:
            self.inside.remove(thread)
            if not self.inside:
                _set(self.before)

    def after_fork(self) -> None:
        """Of the parent's threads a child has only the one that forked."""
        self.lock = threading.Lock()
        others = set(self.inside) - {threading.get_ident()}
        self.inside = [one for one in self.inside if one not in others]
        if others and not self.inside:
            _set(self.before)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> list[LibController]:
    """Those of BLAS, looked for (10 ms) again when modules have been imported since."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


def blas_kernels() -> str:
    """Libraries of BLAS, their versions and the kind of processor that their kernels are for.

    Sums are rounded in the order of the kernels: where these are others, so are last digits.
    """
    import scipy.linalg  # noqa: F401  # has a library of its own

    told = {
        f"{one.internal_api} {one.version} {getattr(one, 'architecture', None) or 'unknown'}"
        for one in _libraries(len(sys.modules))
    }
    return ", ".join(sorted(told))


def _set(numbers: Iterable[tuple[LibController, int]]) -> None:
    for library, number in numbers:
        library.set_num_threads(number)
        # threadpoolctl lets one thread at a time set this; another one may be the last to leave
        getattr(library, "clear_controlling_thread", bool)()


_limit = _Limit()


@contextmanager
def single_blas() -> Iterator[None]:
    """One BLAS thread, in the whole process, as long as any thread is inside."""
    thread = _limit.enter()
    try:
        yield
    finally:
        _limit.leave(thread)


def blas_for(n: int, *, large: int = 1500) -> AbstractContextManager[None]:
    """The BLAS threads that N × N matrices are worth: one, or all where N is large.

    ``large``: from this N on, one factorisation keeps several BLAS threads busy.
    """
    return nullcontext() if n >= large else single_blas()


@contextmanager
def single() -> Iterator[None]:
    """Rows that this thread asks for meanwhile are run in it: other cores are busy already."""
    before, _local.single = getattr(_local, "single", False), True
    try:
        yield
    finally:
        _local.single = before


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(available_cores(), "evidence-rows")


def run(share: Callable[[int, int], None], m: int) -> None:
    """Call ``share(first, stride)`` in every thread, for rows first, first + stride, … < m.

    For compiled transitions that factorise matrices and release the interpreter lock. Inside, rows
    are not divided again: threads that wait for others of the pool would wait for ever.
    """

    def alone(first: int, stride: int) -> None:
        with single():
            share(first, stride)

    workers = 1 if getattr(_local, "single", False) else min(m, available_cores())
    if workers == 1:
        share(0, 1)
        return
    with single_blas():
        for _ in _pool().map(alone, range(workers), [workers] * workers):
            pass


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # its threads stayed in the parent
    os.register_at_fork(after_in_child=_limit.after_fork)
