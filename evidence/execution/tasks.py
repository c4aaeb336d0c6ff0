"""How to run on a cluster: tasks on the cores or machines there are, and stopping them when asked.

>>> from concurrent.futures import ThreadPoolExecutor
>>> import evidence as ev
>>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
>>> def estimate(executor):
...     return ev.log_evidence(
...         model, method="smc", n_particles=100, n_islands=8, executor=executor,
...         random_seed=0, progressbar=False,
...     )
>>> with ThreadPoolExecutor(2) as executor:  # or ProcessPoolExecutor, Dask, MPI
...     there = estimate(executor)
>>> there.logz == estimate(None).logz  # wherever islands run, to the last bit
True

At these matrix sizes two BLAS threads fight more than they help, so each task runs on one
core with single-threaded BLAS. Results never depend on where or in what order tasks ran: tasks
carry their own seeds and are put back in order.

Any :class:`concurrent.futures.Executor` will do: threads (the default), processes, a Dask
cluster's ``Client.get_executor()``, MPI. What all tasks share (the model's matrices, the plan)
travels once to every worker, not with every task: a task first asks the worker's store, and
only a worker that does not have it is sent it.

A batch-queue cluster, with dask-jobqueue on every node::

    from dask.distributed import Client
    from dask_jobqueue import SLURMCluster

    cluster = SLURMCluster(cores=1, memory="4GB", walltime="01:00:00")
    cluster.scale(jobs=64)
    with Client(cluster) as client:
        result = ev.log_evidence(
            model, target_se=0.01, executor=client.get_executor(), checkpoint="run.ckpt"
        )

Workers that the queue takes away are survived: their islands are redone elsewhere, and the
numbers do not change. Own classes among likelihoods, kernels and moves must be importable by
workers. Scripts that start processes need ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import signal
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from ..messages import InputError
from ..numerics import threads as rows

_LARGE = 1500  # from this N on, one factorisation keeps several BLAS threads busy
_ATTEMPTS = 4  # times a task is submitted before it is run here
_MANY = 256  # workers an executor may have when it does not say
_POLL = 0.1  # seconds between two looks at the clock
_OF_TASK = "raised by the task"  # marks errors that trying again will not mend


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

    def remaining(self) -> float | None:
        return None if self.max_seconds is None else self.max_seconds - self.elapsed()

    def expired(self) -> bool:
        return self.max_seconds is not None and self.elapsed() > self.max_seconds

    def stop(self) -> bool:
        """What a long task asks between two steps."""
        return self.interrupted.is_set() or self.expired()


@contextmanager
def shielded(clock: Clock) -> Iterator[None]:
    """While results are put together ^C only sets the clock's flag: nothing is lost."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield  # ^C does not arrive here, or is not Python's
        return
    signal.signal(signal.SIGINT, lambda *_: clock.interrupted.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Stopped(Exception):
    """A deadline or an interrupt ended a task between two steps."""


@dataclass
class Job:
    """``function(*shared, **options, **arguments, stop=stop)`` for many different ``arguments``.

    To leave this process the function must be importable by name and the rest picklable.
    """

    function: Callable[..., Any]
    shared: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, arguments: Mapping[str, Any], stop: Callable[[], bool]) -> Any:
        return self.function(*self.shared, **self.options, **arguments, stop=stop)

    @cached_property
    def parcel(self) -> bytes:
        """All of it but the arguments, to be sent."""
        try:
            content = (self.function, self.shared, self.options)
            return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"this cannot be sent to other processes ({error}): define the model's functions "
                "in a module that workers can import, or leave out executor= (threads)"
            ) from error

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.parcel).hexdigest()


# -- in this process --------------------------------------------------------------------------


def run_tasks(
    job: Job,
    tasks: Sequence[Mapping[str, Any]],
    clock: Clock,
    done: Callable[[int, Any], None],
    executor: Executor | None = None,
) -> list[str]:
    """Run ``job`` for every tuple of arguments; call ``done(index, result)`` here as each ends.

    A task that raises :class:`Stopped` is dropped, and no task starts once the clock says
    stop. ^C sets the clock's flag, waits for running tasks to notice, and returns with what is
    finished. Whatever ``done`` or a task raises stops the others and is raised.

    Returns
    -------
    list of str
        What went wrong with the executor, in words.
    """
    if executor is not None and not isinstance(executor, ThreadPoolExecutor):
        return _Remote(job, tasks, clock, done, executor).run()
    pool = executor or ThreadPoolExecutor(available_cores())
    width = pool._max_workers  # type: ignore[attr-defined]
    waiting, running = iter(enumerate(tasks)), dict[Future[Any], int]()
    try:
        with threadpool_limits(1, user_api="blas"):
            while True:
                try:
                    while len(running) < 2 * width and not clock.stop():
                        index, arguments = next(waiting, (-1, None))
                        if arguments is None:
                            break
                        running[pool.submit(_here, job, arguments, clock.stop)] = index
                    if not running:
                        return []
                    finished, _ = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
                    for future in finished:
                        index, result = running.pop(future), future.result()
                        if not isinstance(result, Stopped):
                            done(index, result)
                except KeyboardInterrupt:
                    clock.interrupted.set()
                except BaseException:
                    clock.interrupted.set()  # do not let the others run on behind an error
                    wait(running)
                    raise
    finally:
        if pool is not executor:
            pool.shutdown()


def _here(job: Job, arguments: Mapping[str, Any], stop: Callable[[], bool]) -> Any:
    with rows.single():
        try:
            return job(arguments, stop)
        except Stopped as stopped:
            return stopped


# -- in other processes -----------------------------------------------------------------------

_STORE: OrderedDict[str, Job] = OrderedDict()  # a worker's own: what its tasks share
_STORED = 2  # jobs a worker remembers


class Reply(NamedTuple):
    """A worker's answer: who it is, and the result, unless it lacks what the job shares."""

    worker: str
    known: bool
    result: Any = None


def answer(key: str, parcel: bytes | None, arguments: Mapping[str, Any], deadline: float) -> Reply:
    """Run one task in a worker; the job comes from ``parcel`` or from the worker's store.

    ``deadline`` is a time of day: clocks of machines that work together agree to that extent.
    """
    worker = f"{socket.gethostname()}:{os.getpid()}"
    if parcel is not None and key not in _STORE:
        _STORE[key] = Job(*pickle.loads(parcel))
        while len(_STORE) > _STORED:
            _STORE.popitem(last=False)
    job = _STORE.get(key)
    if job is None:
        return Reply(worker, False)
    with threadpool_limits(1, user_api="blas"):
        try:
            return Reply(worker, True, _here(job, arguments, lambda: time.time() > deadline))
        except Exception as error:
            error.__dict__[_OF_TASK] = True  # travels with it
            raise


class _Remote:
    """One call of :func:`run_tasks` on an executor whose workers share no memory with us."""

    def __init__(
        self,
        job: Job,
        tasks: Sequence[Mapping[str, Any]],
        clock: Clock,
        done: Callable[[int, Any], None],
        executor: Executor,
    ) -> None:
        self.job, self.tasks, self.clock, self.done = job, tasks, clock, done
        self.executor = executor
        self.running: dict[Future[Any], int] = {}
        self.deaths = [0] * len(tasks)
        self.refused = [0] * len(tasks)
        self.supplied: set[str] = set()
        self.lost = 0
        #: tasks handed over at a time: enough to keep every worker busy
        self.width = 2 * getattr(executor, "_max_workers", _MANY)

    def submit(self, index: int, parcel: bytes | None = None) -> None:
        left = self.clock.remaining()
        deadline = math.inf if left is None else time.time() + left
        future = self.executor.submit(answer, self.job.key, parcel, self.tasks[index], deadline)
        self.running[future] = index

    def run(self) -> list[str]:
        left, waiting = set(range(len(self.tasks))), iter(range(len(self.tasks)))
        try:
            while left and not self.clock.stop():
                while len(self.running) < self.width:
                    index = next(waiting, -1)
                    if index < 0:
                        break
                    self.submit(index)
                if not self.running:
                    break
                finished, _ = wait(self.running, timeout=_POLL, return_when=FIRST_COMPLETED)
                for future in finished:
                    index = self.running.pop(future)
                    if self.collect(index, future):
                        left.remove(index)
        except KeyboardInterrupt:
            self.clock.interrupted.set()
        except BrokenExecutor as error:
            self.lost += 1
            return self.finish_here(sorted(left), f"the executor broke ({error})")
        finally:
            for future in self.running:
                future.cancel()
        if left and not self.clock.stop():
            return self.finish_here(sorted(left), "the workers kept dying")
        return self.notes()

    def collect(self, index: int, future: Future[Any]) -> bool:
        """Whether the task is over; else it was submitted again, or given up on."""
        try:
            reply = future.result()
        except BrokenExecutor:
            raise
        except (Exception, CancelledError) as error:
            if error.__dict__.get(_OF_TASK):
                raise
            self.lost += 1
            self.deaths[index] += 1
            if self.deaths[index] < _ATTEMPTS:
                self.submit(index)
            elif not _about_workers(error):
                raise
            return False
        if not reply.known:
            self.refused[index] += 1
            send = reply.worker not in self.supplied or self.refused[index] > 1
            self.supplied.add(reply.worker)
            self.submit(index, self.job.parcel if send else None)
            return False
        self.supplied.add(reply.worker)
        if not isinstance(reply.result, Stopped):
            self.done(index, reply.result)
        return True

    def finish_here(self, left: list[int], why: str) -> list[str]:
        self.running.clear()
        for_here = [self.tasks[index] for index in left]
        run_tasks(self.job, for_here, self.clock, lambda i, result: self.done(left[i], result))
        return [*self.notes(), f"{why}: {len(left)} tasks were run in this process instead"]

    def notes(self) -> list[str]:
        return [f"{self.lost} tasks were lost with their worker and redone"] if self.lost else []


def _about_workers(error: BaseException) -> bool:
    """Whether an error says of itself that a worker was lost."""
    return isinstance(error, CancelledError) or type(error).__module__.startswith("distributed")
