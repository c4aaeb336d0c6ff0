"""Random models with free hyperparameters and known log Z: what does integrated_evidence say?

    python -m scripts.benchmarks.random_hyperparameters --cases 0:60 --seeds 2 --jobs 2

Cases are those of scripts/catalogue/hyperparameters.py, by number. They run in other processes,
which are ended when they are far beyond their time. A line for each case and seed: rows of data,
log Z and its truth, error, standard error, z (the error in standard errors, through Student's t
with one degree of freedom less than islands to a normal deviate), seconds of all cores (a
process's first calls with what it takes to load compiled code), codes of warnings, a verdict,
priors.
"""

from __future__ import annotations

import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import pandas as pd

import evidence as ev
from scripts import laboratory
from scripts.benchmarks.random_densities import normal_z
from scripts.catalogue.hyperparameters import KINDS, HyperCase, random_hyperparameters

NAME = "random_hyperparameters"
_LOADING = 120.0  # seconds that a case may take for its truth, and to load or compile code
_WRONG, _FINE = 4.5, 3.0  # |z| of a miss, and at which a warning was needless
_SMALL, _SHARE = 1e-3, 5.0  # error that is none, absolute and in accuracies of the truth
_KNOWN = 3.0  # accuracies above which a standard error says something of z
_PRECISE = 0.1  # standard error of an answer that is of use
_APART = 1_000  # seeds between cases: posteriors alike that share draws share their error
_VERDICTS = (
    "right",
    "silent miss",
    "false alarm",
    "warned",
    "wrong, warned",
    "no answer",
    "crash",
)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--cases", default="0:60", help="first:last (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=1, help="of every case, from 0 on")
    parser.add_argument("--seconds", type=float, default=300.0, help="that a call may take")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.fast:
        options.cases, options.seeds = "0:2", 1
    workers: SimpleQueue[Worker] = SimpleQueue()
    for _ in range(options.jobs):
        workers.put(Worker(options.seeds, options.seconds))
    table: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        numbers = range(*map(int, options.cases.split(":")))
        for rows in pool.map(partial(guarded, workers=workers), numbers):
            table += rows
            pd.DataFrame(table).pipe(laboratory.save_table, options.out, NAME, quiet=True)
    while not workers.empty():
        workers.get().end()
    print(summary(pd.DataFrame(table)))


class Worker:
    """A process that runs one case after another, and another one where that does not answer."""

    def __init__(self, seeds: int, seconds: float) -> None:
        self.seeds, self.seconds = seeds, seconds
        self.begin()

    def begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_answer, args=(theirs, self.seeds))
        self.process.start()
        theirs.close()

    def end(self) -> None:
        self.process.kill()
        self.process.join()

    def rows(self, number: int) -> Iterator[dict[str, Any]]:
        """What it says of every seed, or what became of it."""
        self.connection.send(number)
        limit = self.seconds + _LOADING
        for _ in range(self.seeds):
            try:
                got = self.connection.recv() if self.connection.poll(limit) else None
                failure = f"no answer in {limit:.0f} s"
            except EOFError:
                got, failure = None, "the process died"
            yield got or {"failure": failure}
            if got is None:
                self.end()
                self.begin()
            if got is None or "truth" not in got:
                return
            limit = self.seconds


def guarded(number: int, workers: SimpleQueue[Worker]) -> list[dict[str, Any]]:
    """A case's rows from a process of its own, told at once."""
    rows, kind, worker = list[dict[str, Any]](), list(KINDS)[number % len(KINDS)], workers.get()
    for seed, got in enumerate(worker.rows(number)):
        row = {"case": number, "kind": kind, "seed": seed} | got
        rows.append(row | {"verdict": verdict(row)})
        print(told(rows[-1]), flush=True)
    workers.put(worker)
    return rows


def _answer(connection: Any, seeds: int) -> None:
    while True:
        try:
            case = random_hyperparameters(number := connection.recv())
        except EOFError:
            return
        except Exception as error:
            connection.send({"failure": f"{type(error).__name__}: {error}"})
            continue
        for seed in range(seeds):
            connection.send(measured(case, _APART * number + seed))


def measured(
    case: HyperCase, seed: int, estimate: Callable[..., Any] = ev.integrated_evidence
) -> dict[str, Any]:
    """What one call says of a case."""
    row: dict[str, Any] = {
        "rows": case.rows, "truth": case.truth, "accuracy": case.accuracy, "priors": case.priors,
        "failure": "",
    }  # fmt: skip
    started = time.process_time()
    try:
        result = estimate(case.model, random_seed=seed, progressbar=False)
    except Exception as error:
        return row | {"failure": f"{type(error).__name__}: {error}"}
    error = result.logz - case.truth
    return row | {
        "logz": result.logz, "se": result.logz_se, "error": error,
        "z": normal_z(error, math.hypot(result.logz_se, case.accuracy), result.islands.size),
        "seconds": time.process_time() - started,
        "warnings": " ".join(sorted({w.code or "?" for w in result.warnings})),
    }  # fmt: skip


def verdict(row: dict[str, Any]) -> str:
    """What a row is counted as."""
    if row["failure"]:
        return "crash"
    if row["warnings"] and not math.isfinite(row["se"]):
        return "no answer"
    z = abs(row["z"]) if math.isfinite(row["z"]) else math.inf
    missed = z > _WRONG and not abs(row["error"]) <= max(_SMALL, _SHARE * row["accuracy"])
    if not row["warnings"]:
        return "silent miss" if missed else "right"
    if missed:
        return "wrong, warned"
    return "false alarm" if row["se"] < _PRECISE and z < _FINE else "warned"


def told(row: dict[str, Any]) -> str:
    """A line for a case and seed."""
    start = f"{row['case']:4d} {row['kind']:10s} {row['seed']:2d}"
    if row["failure"]:
        return f"{start} {row['failure']} [{row.get('priors', '')}]"
    return (
        f"{start} {row['rows']:3d} {row['logz']:10.3f} {row['truth']:10.3f} "
        f"{row['error']:+8.4f} ± {row['se']:.4f} ({row['z']:+5.1f}) {row['seconds']:6.1f} s "
        f"{row['verdict']:13s} {row['warnings']} [{row['priors']}]"
    )


def summary(table: pd.DataFrame) -> str:
    """By kind: verdicts, the root mean square of z of what is not warned, and seconds."""
    lines = []
    for kind, rows in [*table.groupby("kind", sort=False), ("all", table)]:
        counts = rows.verdict.value_counts()
        words = ", ".join(f"{counts[v]} {v}" for v in _VERDICTS if v in counts)
        done = rows[rows.failure == ""]
        if len(done):
            told = done[(done.warnings == "") & (done.se > _KNOWN * done.accuracy)]
            words += f"; RMS z {np.sqrt(np.mean(told.z**2)):.2f} of {len(told)}" * bool(len(told))
            words += f"; {done.seconds.median():.1f} s, at most {done.seconds.max():.1f}"
        lines.append(f"{kind:10s} {len(rows):4d}: {words}")
    for bad in ("silent miss", "crash"):
        lines += [f"{bad}: case {n}" for n in table.case[table.verdict == bad].unique()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
