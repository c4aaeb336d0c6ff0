"""Random models with free hyperparameters and known log Z: what does integrated_evidence say?

    python -m scripts.benchmarks.random_hyperparameters --cases 0:60 --seeds 2 --jobs 2

Cases are those of scripts/catalogue/hyperparameters.py, by number; each runs in a process of its
own, which is ended when it is far beyond its time. A line for each case and seed: rows of data,
log Z and its truth, error, standard error, z (the error in standard errors, through Student's t
with one degree of freedom less than islands to a normal deviate), seconds of all cores (the first
seed's with what a process takes to load compiled code), codes of warnings, a verdict, priors.
"""

from __future__ import annotations

import math
import multiprocessing
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import evidence as ev
from scripts import laboratory
from scripts.benchmarks.random_densities import normal_z
from scripts.catalogue.hyperparameters import KINDS, HyperCase, random_hyperparameters

NAME = "random_hyperparameters"
_LOADING = 120.0  # seconds that a case may take for its truth, and to load or compile code
_ENDING = 5.0  # and a process that has said all
_WRONG, _FINE = 4.5, 3.0  # |z| of a miss, and at which a warning was needless
_SMALL, _SHARE = 1e-3, 5.0  # error that is none, absolute and in accuracies of the truth
_KNOWN = 3.0  # accuracies above which an error says something of z
_PRECISE = 0.1  # standard error of an answer that is of use
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
        options.cases, options.seeds = "0:3", 1
    numbers = range(*map(int, options.cases.split(":")))
    table: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for rows in pool.map(partial(guarded, options=options), numbers):
            table += rows
            pd.DataFrame(table).pipe(laboratory.save_table, options.out, NAME, quiet=True)
    print(summary(pd.DataFrame(table)))


def guarded(number: int, options: Namespace) -> list[dict[str, Any]]:
    """A case's rows from another process, told at once, and what became of that."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sending, number, options.seeds))
    process.start()
    sending.close()
    kind = list(KINDS)[number % len(KINDS)]
    rows, limit = list[dict[str, Any]](), options.seconds + _LOADING
    for seed in range(options.seeds):
        row: dict[str, Any] = {"case": number, "kind": kind, "seed": seed}
        try:
            failure = f"no answer in {limit:.0f} s"
            got = receiving.recv() if receiving.poll(limit) else {"failure": failure}
        except EOFError:
            got = {"failure": "the process died"}
        rows.append(row | got)
        rows[-1]["verdict"] = verdict(rows[-1])
        print(told(rows[-1]), flush=True)
        if "truth" not in got:
            break
        limit = options.seconds
    else:
        process.join(_ENDING)
    process.kill()
    process.join()
    return rows


def _send(connection: Any, number: int, seeds: int) -> None:
    try:
        case = random_hyperparameters(number)
    except Exception as error:
        connection.send({"failure": f"{type(error).__name__}: {error}"})
        return
    for seed in range(seeds):
        connection.send(measured(case, seed))


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
            told = done[(done.warnings == "") & (done.error.abs() > _KNOWN * done.accuracy)]
            words += f"; RMS z {np.sqrt(np.mean(told.z**2)):.2f} of {len(told)}" * bool(len(told))
            words += f"; {done.seconds.median():.1f} s, at most {done.seconds.max():.1f}"
        lines.append(f"{kind:10s} {len(rows):4d}: {words}")
    for bad in ("silent miss", "crash"):
        lines += [f"{bad}: case {n}" for n in table.case[table.verdict == bad].unique()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
