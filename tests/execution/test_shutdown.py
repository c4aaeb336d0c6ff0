"""Executors that somebody shuts down: refused at entry, survived during a run."""

from __future__ import annotations

import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import fakes
import pytest

import evidence as ev
from evidence.execution.clock import Clock
from evidence.execution.job import Job
from evidence.execution.tasks import run_tasks

POOLS = [ThreadPoolExecutor, ProcessPoolExecutor]


@pytest.mark.parametrize("pool", POOLS)
def test_refused_at_entry(pool):
    executor = pool(1)
    executor.shutdown()
    model = ev.GPModel(K=[[1.0]], y=[1])
    with pytest.raises(ev.InputError, match=r"executor.*shut down"):
        ev.log_evidence(model, executor=executor, random_seed=0, progressbar=False)


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("pool", POOLS)
def test_survived_during_a_run(pool, cancel):
    executor, found = pool(1), {}

    def done(index, result):
        found[index] = result
        executor.shutdown(wait=False, cancel_futures=cancel)

    tasks = [{"number": i} for i in range(600)]
    notes = run_tasks(Job(fakes.doubled_square, (2.0,)), tasks, Clock(), done, executor)
    assert found == {i: 2.0 * i**2 for i in range(600)}
    assert any("the executor broke" in note for note in notes)


def test_a_task_that_fails_after_a_shutdown_ends_the_run():
    """Futures that were cancelled are waited for by nobody."""
    executor, going = ThreadPoolExecutor(1), threading.Event()

    def done(index, result):
        executor.shutdown(wait=False, cancel_futures=True)
        going.set()
        raise ZeroDivisionError("of the caller")

    with pytest.raises(ZeroDivisionError, match="of the caller"):
        run_tasks(
            Job(fakes.doubled_square, (2.0,)), [{"number": i} for i in range(50)], Clock(), done,
            executor,
        )  # fmt: skip
    assert going.is_set()
