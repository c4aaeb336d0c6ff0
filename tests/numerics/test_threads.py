from __future__ import annotations

import multiprocessing
import os
import threading

import numpy as np
import pytest
from problems import small_model
from threadpoolctl import ThreadpoolController, threadpool_info

import evidence as ev
from evidence.numerics import threads
from evidence.numerics.threads import blas_for, run, single_blas

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def careless(test):
    """Where JAX was imported before, or Python is 3.12 or later, forking warns."""
    for warning in ("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning"):
        test = pytest.mark.filterwarnings(warning)(test)
    return test


def blas():
    """Numbers of threads of every BLAS in this process."""
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def several():
    """As on a machine with three cores."""
    np.linalg.inv(np.eye(2))
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    before = [(library, library.num_threads) for library in libraries]
    threads._set((library, 3) for library in libraries)
    yield
    assert blas() == {3}
    threads._set(before)


def in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_one_thread_inside_and_all_again_outside():
    with single_blas():
        assert blas() == {1}
        with blas_for(10):
            assert blas() == {1}
        assert blas() == {1}
    assert blas() == {3}
    with blas_for(10_000):
        assert blas() == {3}


def test_an_error_restores_as_well():
    with pytest.raises(ZeroDivisionError), single_blas():
        raise ZeroDivisionError
    assert blas() == {3}


@pytest.mark.parametrize("first_in_leaves_first", [True, False])
def test_overlapping_calls_share_one_limit(first_in_leaves_first):
    calls = [single_blas(), single_blas()]
    for call in calls:
        in_thread(call.__enter__)
    for call in calls if first_in_leaves_first else calls[::-1]:
        assert blas() == {1}
        in_thread(lambda call=call: call.__exit__(None, None, None))
    assert blas() == {3}


def test_overlapping_runs_leave_blas_as_it_was():
    words = {"method": "smc", "n_particles": 32, "progressbar": False, "random_seed": 0}
    models = [small_model("probit", n) for n in (5, 7, 9)]
    want = [ev.log_evidence(model, n_islands=4, **words).logz for model in models]
    found = {}

    def call(i):
        found[i] = ev.log_evidence(models[i], n_islands=4, **words).logz

    together = [threading.Thread(target=call, args=(i,)) for i in range(3)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert [found[i] for i in range(3)] == want
    assert blas() == {3}


def test_rows_are_shared_out():
    seen = np.zeros(50, int)

    def share(first, stride):
        seen[first::stride] += 1

    run(share, 50)
    assert (seen == 1).all()


def test_rows_inside_rows_are_not_shared_out():
    seen = np.zeros((50, 20), int)

    def share(first, stride):
        for row in seen[first::stride]:
            run(
                lambda i, step, row=row: row.__setitem__(slice(i, None, step), row[i::step] + 1),
                20,
            )

    run(share, 50)
    assert (seen == 1).all()


def in_child(call):
    """Whether ``call`` says True in a forked child, within a minute."""
    child = multiprocessing.get_context("fork").Process(
        target=lambda: os._exit(0 if call() is True else 1)
    )
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
        child.join()
        return "hangs"
    return child.exitcode == 0


def draws(move):
    return ev.sample(
        small_model("probit", 6), move=move, draws=5, tune=5, random_seed=0, progressbar=False
    ).x


@forks
@careless
@pytest.mark.parametrize("move", ["rmhmc", "mmala"])
def test_a_forked_child_has_threads_of_its_own(move, monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 3)
    threads._pool.cache_clear()
    want = draws(move)
    assert in_child(lambda: bool((draws(move) == want).all())) is True


@forks
@careless
def test_a_child_inherits_no_limit_of_other_threads():
    entered, leave = threading.Event(), threading.Event()

    def call():
        with single_blas():
            entered.set()
            leave.wait()

    other = threading.Thread(target=call)
    other.start()
    entered.wait()
    assert blas() == {1}
    assert in_child(lambda: blas() == {3}) is True
    leave.set()
    other.join()


@forks
@careless
def test_a_child_forked_inside_keeps_its_own():
    def leaves():
        before = blas()
        own.__exit__(None, None, None)
        return (before, blas()) == ({1}, {3})

    own = single_blas()
    own.__enter__()
    assert in_child(leaves) is True
    assert blas() == {1}
    own.__exit__(None, None, None)
