"""Islands that cost nothing, for tests of what happens to islands. Importable by workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np

from evidence.drivers.islands import Islands
from evidence.execution import remote
from evidence.execution.clock import Stopped

FORK = multiprocessing.get_context("forkserver")
"""Of processes that begin with the package already imported."""
FORK.set_forkserver_preload(["evidence.verbs.integrate", "evidence.verbs.surface"])


def islands(log_z: np.ndarray) -> Islands:
    """Islands of one stage with these log Ẑ."""
    log_z = np.atleast_1d(np.asarray(log_z, dtype=float))
    one, count = np.ones(1), np.zeros(1, dtype=np.int64)
    draws, unknown = np.zeros((log_z.size, 2, 3)), np.full(log_z.size, np.nan)
    last = draws, unknown, 0.0 * log_z, np.full(log_z.size, -np.inf)
    return Islands(log_z[None], one, one, one, count, count, one, one, *last)


def lognormal(sd, n_islands, seed, stop):
    """Unbiased estimates of Z = 1."""
    if stop():
        raise Stopped
    return islands(sd * np.random.default_rng(seed).standard_normal(n_islands) - 0.5 * sd**2)


def slow(seconds, n_islands, seed, stop):
    time.sleep(seconds)
    return lognormal(0.2, n_islands, seed, stop)


def broken(folder, n_islands, seed, stop):
    (Path(folder) / str(time.time_ns())).touch()
    raise RuntimeError("the task is at fault")


def suicidal(folder, n_islands, seed, stop):
    """The first task in every worker takes its worker with it, once per ``folder``."""
    try:
        (Path(folder) / "killed").touch(exist_ok=False)
    except FileExistsError:
        time.sleep(0.02)
        return lognormal(0.2, n_islands, seed, stop)
    os.kill(os.getpid(), signal.SIGKILL)


class Parcel:
    """Shared data that count how often they are unpacked."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self):
        return unpack, (self.folder,)


def unpack(folder):
    handle = time.time_ns()
    (Path(folder) / f"{os.getpid()}-{handle}").touch()
    return Parcel(folder)


def with_parcel(parcel, n_islands, seed, stop):
    time.sleep(0.01)
    return lognormal(0.2, n_islands, seed, stop)


def jobs_kept(stop):
    """How many jobs this worker holds."""
    return len(remote._jobs)


def doubled_square(factor, number, stop):
    """A task that costs nothing."""
    return factor * number**2
