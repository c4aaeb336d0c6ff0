"""Threads, processes and a Dask cluster: the same islands everywhere, none lost."""

from __future__ import annotations

import contextvars
import math
import os
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import fakes
import numpy as np
import pytest

import evidence as ev
from evidence.execution import remote
from evidence.execution.clock import Clock
from evidence.execution.job import Job
from evidence.execution.tasks import run_tasks
from evidence.methods.registry import METHODS


def collect(job, n, executor=None, clock=None):
    found = {}
    tasks = [{"n_islands": 2, "seed": np.random.SeedSequence(i)} for i in range(n)]
    notes = run_tasks(job, tasks, clock or Clock(), found.__setitem__, executor)
    return {i: found[i].log_z for i in sorted(found)}, notes


def same(a, b):
    assert list(a) == list(b)
    for one, other in zip(a.values(), b.values(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=fakes.FORK) as executor:
        yield executor


@pytest.mark.slow
def test_threads_and_processes_agree(processes):
    job = Job(fakes.lognormal, (0.3,))
    here, _ = collect(job, 12)
    same(here, collect(job, 12, processes)[0])
    with ThreadPoolExecutor(3) as threads:
        same(here, collect(job, 12, threads)[0])


def test_shared_data_travel_once_per_worker(processes, tmp_path):
    job = Job(fakes.with_parcel, (fakes.Parcel(str(tmp_path)),))
    for _ in range(2):  # the second wave finds them there
        collect(job, 40, processes)
    workers = [name.name.split("-")[0] for name in tmp_path.iterdir()]
    assert len(workers) == len(set(workers)) <= 2


def test_a_worker_keeps_the_last_two_jobs(processes):
    """However many calls there are, and nothing else of them."""
    for i in range(6):
        collect(Job(fakes.lognormal, (0.1 * i,)), 4, processes)
    found = {}
    run_tasks(Job(fakes.jobs_kept, ()), [{}] * 20, Clock(), found.__setitem__, processes)
    assert set(found.values()) <= {1, 2}


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_errors_of_tasks_are_raised_at_once(processes, where, tmp_path):
    executor = processes if where == "processes" else None
    with pytest.raises(RuntimeError, match="the task is at fault"):
        collect(Job(fakes.broken, (str(tmp_path),)), 1, executor)
    assert len(list(tmp_path.iterdir())) == 1


class Faulty(Executor):
    """Runs tasks here, and fails on its own account the first ``times`` times."""

    def __init__(self, times):
        self.left = times

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        self.left -= 1
        if self.left >= 0:
            future.set_exception(AttributeError("of the executor"))
        else:
            future.set_result(function(*args, **kwargs))
        return future


def test_errors_of_the_executor_are_tried_again():
    job = Job(fakes.lognormal, (0.3,))
    found, notes = collect(job, 6, Faulty(3))
    same(collect(job, 6)[0], found)
    assert notes == ["3 tasks were lost with their worker and redone"]
    with pytest.raises(AttributeError, match="of the executor"):
        collect(job, 6, Faulty(1000))


def test_a_broken_pool_is_replaced_by_this_process(tmp_path):
    (tmp_path / "killed").touch()
    want, _ = collect(Job(fakes.suicidal, (str(tmp_path),)), 10)
    (tmp_path / "killed").unlink()
    with ProcessPoolExecutor(2, mp_context=fakes.FORK) as executor:
        found, notes = collect(Job(fakes.suicidal, (str(tmp_path),)), 10, executor)
    same(want, found)
    assert any("in this process instead" in note for note in notes)


def test_deadline_in_processes(processes):
    started = time.perf_counter()
    found, _ = collect(Job(fakes.slow, (0.1,)), 1000, processes, Clock(1.0))
    assert 0 < len(found) < 100
    assert time.perf_counter() - started < 5.0


def test_interrupt_keeps_what_is_there():
    threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT)).start()
    clock = Clock()
    found, _ = collect(Job(fakes.slow, (0.1,)), 1000, None, clock)
    assert clock.interrupted.is_set()
    assert 0 < len(found) < 100


_LONG = {"pt": pytest.mark.slow, "auto": pytest.mark.slow}


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=_LONG.get(name, ())) for name in METHODS]
)
def test_log_evidence_is_the_same_in_processes(processes, method):
    x = np.linspace(0.0, 5.0, 25)[:, None]
    kernel = lambda a, b: 4.0 * np.exp(-0.5 * (a - b.T) ** 2)  # noqa: E731 (not picklable)
    model = ev.GPModel(x, np.resize([1, 1, -1], 25), kernel)
    words = {"random_seed": 3, "n_islands": 8, "n_particles": 64, "progressbar": False}
    here = ev.log_evidence(model, method=method, **words)
    there = ev.log_evidence(model, method=method, executor=processes, **words)
    assert here.logz == there.logz
    np.testing.assert_array_equal(here.samples, there.samples)


@pytest.mark.slow
def test_dask_cluster_with_a_worker_killed(tmp_path):
    """Two worker processes, one killed in the middle: the same answer as threads, no loss."""
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    (tmp_path / "killed").touch()
    job = Job(fakes.suicidal, (str(tmp_path),))
    want, _ = collect(job, 40)
    (tmp_path / "killed").unlink()
    forked = {"distributed.worker.multiprocessing-method": "forkserver"}
    words = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        dask.config.set(forked),
        distributed.LocalCluster(processes=True, **words) as cluster,
        distributed.Client(cluster) as client,
    ):
        found, _ = collect(job, 40, client.get_executor())
        same(want, found)
        model = ev.GPModel(K=np.eye(6) + 0.5, y=[1, 1, -1, 1, -1, -1])
        words = {"random_seed": 3, "n_islands": 8, "n_particles": 32, "progressbar": False}
        there = ev.log_evidence(
            model, method="importance", executor=client.get_executor(), **words
        )
    assert (tmp_path / "killed").exists()
    assert there.logz == ev.log_evidence(model, method="importance", **words).logz


def test_executor_of_the_wrong_kind():
    model = ev.GPModel(K=np.eye(2), y=[1, -1])
    with pytest.raises(ValueError, match=r"executor must be a concurrent.futures.Executor"):
        ev.log_evidence(model, executor="threads")


_KNOWN = contextvars.ContextVar("known", default="nothing")


def _known(stop):
    return _KNOWN.get()


def test_workers_know_nothing_of_the_call_that_made_them():
    """A worker that was forked while batches were shared out shared them with itself, for ever."""
    job = Job(_known, ())
    token = _KNOWN.set("what a parent knew")
    try:
        reply = remote.answer(job.key, job.parcel, {}, math.inf)
    finally:
        _KNOWN.reset(token)
    assert reply.result == "nothing"
