"""^C: noted, then obeyed at the next place where nothing breaks; twice: at once."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from problems import small_model

import evidence as ev
from evidence.execution.clock import Clock, check_interrupt, interruptible
from evidence.execution.job import Job
from evidence.execution.tasks import run_tasks
from evidence.methods import weighted


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def handler():
    """Whatever happens, Python's own handler is there afterwards."""
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_first_is_noted():
    clock = Clock()
    with interruptible(clock):
        assert not clock.stop()
        press()
        assert clock.stop()
        with pytest.raises(KeyboardInterrupt):
            check_interrupt()


@interruptible(Clock())
def press_twice(reached):
    press()
    reached.append(1)
    with pytest.raises(KeyboardInterrupt):
        press()
    reached.append(2)


def test_the_second_is_raised_whatever_is_caught_inside():
    reached = []
    with pytest.raises(KeyboardInterrupt):
        press_twice(reached)
    assert reached == [1, 2]


def test_without_a_clock_it_is_raised_at_the_end():
    with pytest.raises(KeyboardInterrupt), interruptible():
        press()


def test_the_traceback_does_not_tell_where_it_was():
    def deep(n):
        if n:
            deep(n - 1)
        press()
        press()

    with pytest.raises(KeyboardInterrupt) as caught, interruptible(Clock()):
        deep(50)
    assert caught.value.__suppress_context__
    assert len(caught.traceback) < 5


def test_a_call_inside_a_call_is_interrupted_with_it():
    outer = Clock()
    with interruptible(outer):
        with interruptible(inner := Clock()):
            press()
            assert inner.stop()
        with interruptible(later := Clock()):
            assert later.stop()
    assert outer.stop()
    assert not Clock().stop()


def test_other_handlers_are_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with interruptible(clock := Clock()):
            press()
            check_interrupt()
        assert (heard, clock.stop()) == ([1], False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a job in the background
        with interruptible(clock):
            press()
        assert not clock.stop()
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_hear_of_it_by_their_clock():
    found = []

    def call():
        with interruptible(clock := Clock()):
            found.extend([clock.stop(), check_interrupt()])

    with interruptible(Clock()):
        press()
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert found == [True, False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings(
    "ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning"
)  # JAX
def test_a_child_of_a_fork_is_not_in_the_call():
    with interruptible(Clock()):
        child = os.fork()
        if child == 0:
            os._exit(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)
    assert os.waitpid(child, 0)[1] == 0


def test_a_second_interrupt_does_not_wait_for_a_task_that_does_not_look():
    def deaf(stop):
        while not free.is_set():
            time.sleep(0.01)

    free, started = threading.Event(), time.perf_counter()
    timers = [threading.Timer(t, _thread.interrupt_main) for t in (0.2, 0.4)]
    for timer in timers:
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_tasks(Job(deaf, ()), [{}] * 3, Clock(), lambda *_: None)
    free.set()
    assert time.perf_counter() - started < 5.0


PROBIT, POISSON = small_model("probit", 9), small_model("poisson(exposure=1.5)", 5)
CLASSES = ev.SoftmaxModel(K=np.eye(4) + 0.5, y=[0, 1, 2, 0])
KERNEL = ev.GPModel(np.linspace(0, 3, 12), np.resize([1, -1], 12), "4.0 * RBF(0.5)")


def bumps(x):
    return float(np.logaddexp(-((x[0] - 4.0) ** 2), -(x @ x)))


DENSITY = ev.DensityModel(bumps, dim=2)
QUIET = {"progressbar": False, "random_seed": 0}
NOTHING = {
    "ep": lambda: ev.fit_ep(PROBIT),
    "laplace": lambda: ev.fit_laplace(POISSON),
    "classes": lambda: ev.fit_laplace(CLASSES),
    "orthant": lambda: ev.log_orthant(np.eye(3) + 0.5, [1, 1, 1]),
    "log_evidence": lambda: ev.log_evidence(PROBIT, **QUIET),
    "density": lambda: ev.log_evidence(DENSITY, **QUIET),
    "deterministic": lambda: ev.log_evidence(PROBIT, method="ep"),
    "sample": lambda: ev.sample(PROBIT, reference="prior", **QUIET),
    "optimise": lambda: ev.optimise(KERNEL, **QUIET),
    "integrated": lambda: ev.integrated_evidence(
        KERNEL, {"length_scale": "flat"}, fixed=["constant_value"], **QUIET
    ),
    "compare": lambda: ev.compare({"a": PROBIT}, **QUIET),
    "bidirectional": lambda: ev.bidirectional(PROBIT, reference="prior", random_seed=0),
    "predict": lambda: ev.predict(KERNEL, [[0.5]]),
    "estimator": lambda: ev.GaussianProcessClassifier().fit([[0.0], [1.0]], [0, 1]),
}


@pytest.mark.parametrize("call", NOTHING)
def test_where_nothing_is_known_it_is_raised_soon(call):
    with interruptible(Clock()):
        press()
        with pytest.raises(KeyboardInterrupt):
            NOTHING[call]()


def pressing_after(calls):
    """A model that presses ^C at its ``calls``-th evaluation, and how many there were."""
    count, made = [], []

    def log_likelihood(x):
        count.append(1)
        if made and len(count) == calls:
            press()
        return bumps(x)

    prior = ev.GaussianPrior(np.zeros(2), 9.0 * np.eye(2))
    model = ev.DensityModel(log_likelihood, dim=2, prior=prior)
    count.clear()  # it was tried
    made.append(model)
    return model, count


def evaluations(call):
    model, count = pressing_after(-1)
    call(model)
    return len(count)


def laplace(model):
    return ev.log_evidence(model, method="laplace")


def smc(model):
    words = {"reference": "prior", "n_particles": 64, "n_islands": 4}
    return ev.log_evidence(model, method="smc", **words, **QUIET)


def chains(model):
    return ev.sample(model, draws=50, tune=20, reference="prior", **QUIET)


def test_fits_of_a_density_end_at_once():
    total = evaluations(laplace)
    for calls in (1, total // 2, total - 1):
        model, count = pressing_after(calls)
        with pytest.raises(KeyboardInterrupt):
            laplace(model)
        assert len(count) == calls


@pytest.mark.usefixtures("small_searches")
@pytest.mark.parametrize("where", ["pilot", "guide"])
def test_before_islands_what_the_fits_say_is_left(where, monkeypatch):
    if where == "pilot":
        fits, total = evaluations(laplace), evaluations(smc)
        model, count = pressing_after(fits + 100)
        result = smc(model)
        assert len(count) < fits + 0.5 * (total - fits)
        known = "laplace"
    else:
        try_guide = weighted.try_guide
        monkeypatch.setattr(weighted, "try_guide", lambda *a: [press(), try_guide(*a)][1])
        result = ev.log_evidence(PROBIT, method="guided", **QUIET)
        known = "ep"
    assert np.isnan(result.logz)
    assert result.settings["interrupted"]
    assert result.warnings
    assert np.isfinite(result.estimates.loc[known, "logz"])


def test_chains_leave_what_is_recorded():
    model, _ = pressing_after(evaluations(chains) * 2 // 3)
    whole, part = chains(pressing_after(-1)[0]), chains(model)
    kept = part.x.shape[1]
    assert 0 < kept < 50
    np.testing.assert_array_equal(part.x, whole.x[:, :kept])
    assert part.settings["interrupted"]
    assert not whole.settings["interrupted"]
    with pytest.raises(KeyboardInterrupt):
        chains(pressing_after(100)[0])  # while tuning


@pytest.mark.usefixtures("small_searches")
def test_models_and_runs_finished_before_are_kept():
    one, _ = pressing_after(-1)
    other, _ = pressing_after(100)
    words = {"method": "smc", "n_particles": 32, "n_islands": 4, "reference": "prior"}
    comparison = ev.compare({"one": one, "other": other}, **words, **QUIET)
    assert list(comparison.results) == ["one"]
    assert "other was not run" in comparison.warnings[-1]


PROGRAM = """
import multiprocessing.synchronize  # or a bar loads it later, where ^C may meet it
import signal
import numpy as np
import evidence as ev
x = np.linspace(0.0, 9.0, 40)[:, None]
model = ev.GPModel(K=4 * np.exp(-0.5 * (x - x.T) ** 2) + 1e-6 * np.eye(40),
                   y=np.resize([1, 1, -1], 40), likelihood="probit")
print("ready", flush=True)
try:
    result = ev.log_evidence(model, method="smc", reference="prior", n_islands=100_000,
                             n_particles=32, progressbar=False, random_seed=0)
finally:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(ev.log_evidence(model, method="ep").logz < 0.0)
print(result.settings["interrupted"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
def test_an_interrupted_process_ends_without_a_long_traceback(presses, tmp_path):
    """Nothing is compiled yet: after a second the compiler is at work, for several more."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout.readline() == "ready\n"
    for wait in (1.0, 0.2)[:presses]:
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert out.startswith("True")  # compiling goes on where it was interrupted
    assert len(err.splitlines()) < 25
    assert "numba" not in err
    if process.returncode == 0:
        assert out == "True\nTrue\n"
    else:
        assert err.endswith("KeyboardInterrupt\n")
