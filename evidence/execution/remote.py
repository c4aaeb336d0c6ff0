"""Tasks on executors whose workers share no memory with us: processes, Dask, MPI.

What all tasks of a job share travels once to every worker, not with every task: a task names
its job, and only a worker that does not have it asks for it. Workers may come, go and die.
"""

from __future__ import annotations

import math
import os
import pickle
import socket
import time
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextvars import Context
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from ..numerics.threads import single_blas
from .clock import Clock, Stopped
from .job import Job, attempt
from .meter import Meter, current

POLL = 0.1  # seconds between two looks at the clock
_OF_TASK = "raised by the task"  # marks errors that trying again will not mend
_KEPT = 2

#: What the tasks that a worker runs share, by the digest of its parcel. Executors let nothing
#: but a module survive from one task to the next. A job stays until the worker has been sent
#: ``_KEPT`` newer ones, or ends: two, because runs with pilots alternate between two.
_jobs: OrderedDict[str, Job] = OrderedDict()


class Reply(NamedTuple):
    """A worker's answer: who it is, the result unless it lacks what the job shares, its counts."""

    worker: str
    has_job: bool
    result: object = None
    evaluations: Mapping[str, int] = {}


def answer(key: str, parcel: bytes | None, arguments: Mapping[str, Any], deadline: float) -> Reply:
    """Run one task in a worker; the job comes from ``parcel`` or was there already.

    ``deadline`` is a time of day: clocks of machines that work together agree to that extent.
    """
    worker = f"{socket.gethostname()}:{os.getpid()}"
    job = _jobs.get(key)
    if job is None:
        if parcel is None:
            return Reply(worker, False)
        job = _jobs[key] = Job(*pickle.loads(parcel))  # nosec B301
        while len(_jobs) > _KEPT:
            _jobs.popitem(last=False)
    meter = Meter()
    with single_blas():
        try:
            # a forked worker began in the middle of its parent's call, and knows what that knew
            clean = Context()
            result = clean.run(attempt, job, arguments, lambda: time.time() > deadline, meter)
            return Reply(worker, True, result, meter.counts)
        except Exception as error:
            error.__dict__[_OF_TASK] = True  # travels with it
            raise


@dataclass
class Remote:
    """One call of :func:`~evidence.execution.tasks.run_tasks` on such an executor."""

    job: Job
    tasks: Sequence[Mapping[str, Any]]
    clock: Clock
    done: Callable[[int, Any], None]
    executor: Executor
    running: dict[Future[Any], int] = field(default_factory=dict)
    deaths: Counter[int] = field(default_factory=Counter)  # of workers, by task
    refused: set[int] = field(default_factory=set)  # tasks whose worker lacked the job
    supplied: set[str] = field(default_factory=set)  # workers that have the job, or get it
    lost: int = 0
    notes: list[str] = field(default_factory=list)

    def submit(self, index: int, parcel: bytes | None = None) -> None:
        task, left = self.tasks[index], self.clock.remaining()
        deadline = math.inf if left is None else time.time() + left
        with warnings.catch_warnings():  # a worker gets the parcel once: there is no better way
            warnings.filterwarnings("ignore", "Sending large graph")
            try:
                future = self.executor.submit(answer, self.job.key, parcel, task, deadline)
            except BrokenExecutor:
                raise
            except RuntimeError as error:  # somebody has shut it down
                raise BrokenExecutor(str(error)) from error
        self.running[future] = index

    def run(self, *, ahead: int = 8) -> list[int]:
        """The tasks that are left, for this process.

        ``ahead``: tasks handed over beyond two for every worker that has answered.
        """
        left, waiting = set(range(len(self.tasks))), iter(range(len(self.tasks)))
        why = "the workers kept dying"
        try:
            while left and not self.clock.stop():
                room = 2 * len(self.supplied) + ahead - len(self.running)
                for index in islice(waiting, max(room, 0)):
                    self.submit(index)
                if not self.running:
                    break
                finished, _ = futures.wait(self.running, POLL, futures.FIRST_COMPLETED)
                # a pool that is shut down cancels futures without telling those who wait
                for future in finished.union(f for f in self.running if f.cancelled()):
                    index = self.running.pop(future)
                    if self.collect(index, future):
                        left.remove(index)
        except BrokenExecutor as error:
            self.lost += 1
            why = f"the executor broke ({error})"
        finally:
            for future in self.running:
                future.cancel()
        if self.lost:
            self.notes.append(f"{self.lost} tasks were lost with their worker and redone")
        if not left or self.clock.stop():
            return []
        self.notes.append(f"{why}: {len(left)} tasks were run in this process instead")
        return sorted(left)

    def collect(self, index: int, future: Future[Any], *, attempts: int = 4) -> bool:
        """Whether the task is over; else it was submitted again, or given up on.

        ``attempts``: times a task is submitted before it is run here.
        """
        try:
            reply = future.result()
        except BrokenExecutor:
            raise
        except KeyboardInterrupt:  # ^C reaches all processes of a terminal
            self.clock.interrupted.set()
            return False
        except (Exception, CancelledError) as error:
            if error.__dict__.get(_OF_TASK):
                raise
            self.lost += 1
            self.deaths[index] += 1
            if self.deaths[index] < attempts:
                self.submit(index)
            elif not _about_workers(error):
                raise
            return False
        send = reply.worker not in self.supplied or index in self.refused
        self.supplied.add(reply.worker)
        if not reply.has_job:
            self.refused.add(index)
            self.submit(index, self.job.parcel if send else None)
            return False
        if (meter := current()) is not None:
            meter.absorb(reply.evaluations)
        if not isinstance(reply.result, Stopped):
            self.done(index, reply.result)
        return True


def _about_workers(error: BaseException) -> bool:
    """Whether an error says of itself that a worker was lost."""
    return isinstance(error, CancelledError) or type(error).__module__.startswith("distributed")
