"""One rival on one problem in a process of its own: every run becomes a row, whatever happens."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .roster import OWN

HERE = Path(__file__).parent
_START_UP = 120.0  # seconds for imports, on top of the first run's limit


#: How the message of a run past its limit begins.
TOO_LONG = "no answer within"


class Worker:
    """A rival's process, which is fed seeds one by one."""

    def __init__(self, python: str, module: str, file: Path, settings: dict, cores: int) -> None:
        command = [python, str(HERE / "worker.py"), module, str(file), json.dumps(settings)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment(cores), cwd=file.parent,
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._complaints: list[str] = []
        self._readers = [
            threading.Thread(target=read, daemon=True)
            for read in (self._read_lines, self._read_complaints)
        ]
        for reader in self._readers:
            reader.start()

    def send(self, seed: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seed}\n")
        self._process.stdin.flush()

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next answer; raises ``Failed``."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise Failed(f"{TOO_LONG} {seconds:.0f} s") from None
        if line is None:
            self._readers[1].join()
            code = self._process.wait()
            said = [text for text in self._complaints if text.strip()]
            raise Failed(said[-1].strip() if said else f"ended with code {code}")
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # compiled code may print, too
                self._lines.put(line)
        self._lines.put(None)

    def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._complaints = [*self._complaints[-20:], line]


class Failed(Exception):
    """What a rival died of."""


def environment(cores: int) -> dict[str, str]:
    """All thread pools limited; XLA with one thread where there is one core."""
    pools = ("OMP", "OPENBLAS", "MKL", "NUMBA", "BLIS", "VECLIB_MAXIMUM")
    found = dict(os.environ) | {f"{name}_NUM_THREADS": str(cores) for name in pools}
    found |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "Agg"}
    if cores == 1:
        found["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return found


def measure(
    rival: Any, python: str, file: Path, problem: str, seeds: list[int], *,
    cores: int, limit: float, budget: float, least: int,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Rows of single runs, until the budget of seconds is spent but at least ``least`` of them.

    A failure ends the process. After a crash a new one goes on with the next seed; after a run
    past the limit the rest would take as long, and is not tried.
    """
    settings = rival.on(problem)
    fixed = {
        "problem": problem, "rival": rival.name, "variant": rival.variant, "base": rival.base,
        "likelihood": rival.likelihood, "settings": json.dumps(settings), "cores": cores,
        "version": "",
    }  # fmt: skip
    worker, spent, done = None, 0.0, 0
    try:
        for seed in seeds[:2] if rival.deterministic else seeds:
            if done >= least and spent > budget:
                break
            first, started = worker is None, time.perf_counter()
            row = fixed | {"seed": seed, "first": first, "failure": ""}
            try:
                if worker is None:
                    worker = Worker(python, rival.module, file, settings, cores)
                    fixed["version"] = row["version"] = worker.receive(_START_UP)["version"]
                worker.send(seed)
                row |= worker.receive(limit)
                if not math.isfinite(row["logz"]):
                    row["failure"] = f"log Z is {row['logz']}"
            except (Failed, OSError) as error:
                if worker is not None:
                    worker.close()
                worker, row["failure"] = None, str(error)
                row["seconds"] = time.perf_counter() - started
            yield row
            if TOO_LONG in row["failure"]:
                break
            done += 1
            spent += row["seconds"]
    finally:
        if worker is not None:
            worker.close()


def find_python(rival: Any, folder: Path) -> str:
    return sys.executable if rival.venv == OWN else str(folder / rival.venv / "bin" / "python")
