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
travels once to every worker, not with every task (:mod:`evidence.execution.remote`).

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

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from ..numerics.threads import available_cores, single_blas
from .clock import Clock, Stopped, interruptible
from .job import Job, attempt
from .meter import current
from .remote import POLL, Remote


def run_tasks(
    job: Job, tasks: Sequence[Mapping[str, Any]], clock: Clock, done: Callable[[int, Any], None],
    executor: Executor | None = None,
) -> list[str]:  # fmt: skip
    """Run ``job`` for every tuple of arguments; call ``done(index, result)`` here as each ends.

    A task that raises :class:`Stopped` is dropped, and no task starts once the clock says stop:
    what is finished by then counts. Whatever ``done`` or a task raises stops the others and is
    raised. A second ^C waits for nobody: tasks end behind it, at their next look at the clock.

    Returns
    -------
    list of str
        What went wrong with the executor, in words.
    """
    with interruptible(clock):
        if executor is None or isinstance(executor, ThreadPoolExecutor):
            return _run_here(job, tasks, clock, done, executor)
        remote = Remote(job, tasks, clock, done, executor)
        left = remote.run()
        if left:
            here = [tasks[i] for i in left]
            _run_here(job, here, clock, lambda i, result: done(left[i], result), None)
        return remote.notes


def run_in_order(
    job: Job, tasks: Sequence[Mapping[str, Any]], clock: Clock, executor: Executor | None = None
) -> list[Any]:
    """The results of all tasks, in their order; :class:`Stopped` where there was no time."""
    results: dict[int, Any] = {}
    run_tasks(job, tasks, clock, results.__setitem__, executor)
    if len(results) < len(tasks):
        raise Stopped
    return [results[i] for i in range(len(tasks))]


def _run_here(
    job: Job, tasks: Sequence[Mapping[str, Any]], clock: Clock, done: Callable[[int, Any], None],
    executor: ThreadPoolExecutor | None, *, ahead: int = 512,
) -> list[str]:  # fmt: skip
    """On threads; own ones replace those of an executor that is shut down meanwhile.

    ``ahead``: tasks handed over, more than any pool has threads.
    """
    pool = executor or ThreadPoolExecutor(available_cores())
    over, hurry, notes = threading.Event(), False, list[str]()

    def stop() -> bool:
        return over.is_set() or clock.stop()

    waiting, running = deque(range(len(tasks))), dict[Future[Any], int]()
    meter = current()
    finished: SimpleQueue[Future[Any]] = SimpleQueue()
    with single_blas():
        try:
            while True:
                while waiting and len(running) < ahead and not stop():
                    try:
                        future = pool.submit(attempt, job, tasks[waiting[0]], stop, meter)
                    except RuntimeError as error:
                        if pool is not executor:
                            raise
                        pool = ThreadPoolExecutor(available_cores())
                        notes.append(f"the executor broke ({error}): other threads went on")
                        continue
                    running[future] = waiting.popleft()
                    future.add_done_callback(finished.put)
                if not running:
                    break
                with suppress(Empty):  # a thread that waits for ever may not hear of ^C
                    future = finished.get(timeout=POLL)
                    index = running.pop(future)
                    if future.cancelled():  # by whoever shut the executor down
                        waiting.append(index)
                        continue
                    if not isinstance(result := future.result(), Stopped):
                        done(index, result)
        except KeyboardInterrupt:
            hurry = True
            raise
        finally:
            over.set()
            if not hurry:
                wait([future for future in running if not future.cancelled()])
            if pool is not executor:
                pool.shutdown(wait=not hurry)
    return notes
