"""Random densities with known log Z, one call each: how many are right, and who is warned?

    python -m scripts.benchmarks.random_densities --cases 0:92 --seconds 60 --referee

Cases are those of scripts/catalogue, by number; each runs in a process of its own that is ended
when it is far beyond its time. A row of the table says what came out; z is the error in standard
errors, through Student's t with one degree of freedom less than islands to a normal deviate. The
referee halves the prior (scripts/catalogue/halving.py): what it does not see nobody need see.
"""

from __future__ import annotations

import math
import multiprocessing
import sys
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import evidence as ev
from scripts import laboratory
from scripts.catalogue import FAMILIES, Case, random_density
from scripts.catalogue.halving import halve

NAME = "random_densities"
_GRACE = 60.0  # seconds beyond its own that a call may take, compiling included,
_REFEREE = 600.0  # and the referee,
_ENDING = 5.0  # and a process that has said all
_WRONG, _FINE = 4.0, 3.0  # |z| of a miss, and at which a warning was needless
_SMALL = 1e-3  # error that is none
_PRECISE = 0.1  # standard error of an answer that is of use
_SIGHT = 0.2  # error of a referee who sees all of the mass
_KINDS = ("right", "silent miss", "false alarm", "warned", "wrong, warned", "no answer", "failure")


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--cases", default="0:92", help="first:last (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--target-se", type=float)
    parser.add_argument("--effort", help="passed on to log_evidence")
    parser.add_argument("--seed", type=int, default=0, help="of case 0; of case n it is n more")
    parser.add_argument("--referee", action="store_true", help="minutes a case")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.fast:
        options.cases, options.seconds = "0:2", 5.0
    numbers = range(*map(int, options.cases.split(":")))
    rows = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(partial(guarded, options=options), numbers):
            rows.append(row)
            print(told(row), flush=True)
            pd.DataFrame(rows).pipe(laboratory.save_table, options.out, NAME, quiet=True)
    print(summary(pd.DataFrame(rows)))


def guarded(number: int, options: Namespace) -> dict[str, Any]:
    """A case's row from another process, or what became of that."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sending, number, options))
    started = time.perf_counter()
    process.start()
    sending.close()
    limit = options.seconds + _GRACE + _REFEREE * options.referee
    row: dict[str, Any] = {"failure": f"no answer in {limit:.0f} s"}
    try:
        if receiving.poll(limit):
            row = receiving.recv()
            process.join(_ENDING)
    except EOFError:
        row = {"failure": "the process died"}
    process.kill()
    family = list(FAMILIES)[number % len(FAMILIES)]
    seconds = time.perf_counter() - started
    return {"case": number, "name": family, "family": family, "seconds": seconds, **row}


def _send(connection: Any, number: int, options: Namespace) -> None:
    row: dict[str, Any] = {}
    try:
        case = random_density(number)
        row |= {
            "name": case.name, "family": case.family, "dim": case.dim, "dressing": case.dressing,
            "truth": case.truth, "truth_se": case.truth_se, "failure": "",
        }  # fmt: skip
        row |= measured(case, options, number)
    except Exception as error:
        row["failure"] = f"{type(error).__name__}: {error}"
    connection.send(row)


def measured(case: Case, options: Namespace, number: int = 0) -> dict[str, Any]:
    """What one call says of a case, and the referee. Each case has a seed of its own: with one
    for all, the same normal draws made errors of many Gaussian posteriors alike."""
    words = {"effort": options.effort} if options.effort else {}
    started = time.perf_counter()
    result = ev.log_evidence(
        case.model, target_se=options.target_se, max_seconds=options.seconds,
        random_seed=options.seed + number, progressbar=False, **words,
    )  # fmt: skip
    seconds, error = time.perf_counter() - started, result.logz - case.truth
    row = {
        "logz": result.logz, "se": result.logz_se, "error": error,
        "z": normal_z(error, math.hypot(result.logz_se, case.truth_se), result.islands.size),
        "seconds": seconds, "evaluations": sum(result.evaluations.values()),
        "method": result.method, "reference": result.settings.get("reference"),
        "resolution": getattr(result, "resolution", None), "warnings": len(result.warnings),
        "first": f"{result.warnings[0].code}: {result.warnings[0]:.60}" if result.warnings else "",
    }  # fmt: skip
    if options.referee and case.seen is not None:
        found = halve(case.seen.prior_sample, case.seen.log_likelihood)
        row |= {"referee": found.logz - case.truth, "referee_se": found.logz_se}
    return row


def normal_z(error: float, se: float, islands: int) -> float:
    """The normal deviate that is as rare as Student's t of an error.

    >>> round(normal_z(0.3, 0.1, 16), 3), round(normal_z(-0.3, 0.1, 0), 3)
    (2.613, -3.0)
    """
    if not se > 0.0:
        return math.nan
    t = error / se
    if islands < 2:
        return t
    rare = max(float(stats.t.sf(abs(t), islands - 1)), 1e-300)
    return math.copysign(float(stats.norm.isf(rare)), t)


def verdict(row: dict[str, Any]) -> str:
    """What a row is counted as."""
    if row["failure"]:
        return "failure"
    if row["warnings"] and not math.isfinite(row["se"]):
        return "no answer"
    z = abs(row["z"]) if math.isfinite(row["z"]) else math.inf
    missed = z > _WRONG and abs(row["error"]) > max(_SMALL, row["truth_se"])
    if not row["warnings"]:
        return "silent miss" if missed else "right"
    if missed:
        return "wrong, warned"
    return "false alarm" if row["se"] < _PRECISE and z < _FINE else "warned"


def told(row: dict[str, Any]) -> str:
    """A line for a case."""
    start = f"{row['case']:4d} {row.get('name', ''):34s} {row.get('dressing', ''):40s}"
    if row["failure"]:
        return f"{start} {row['failure']}"
    sight = f" referee {row['referee']:+.2f}" if "referee" in row else ""
    return (
        f"{start} {row['error']:+10.4f} ± {row['se']:.4f} ({row['z']:+6.1f}) "
        f"{row['seconds']:6.1f} s {row['evaluations']:9d} {row['method']:10s} "
        f"{verdict(row):13s} {row['first'].partition(':')[0]}{sight}"
    )


def summary(table: pd.DataFrame) -> str:
    """Counts of verdicts, z-scores of what is right, and silent misses that a referee sees."""
    verdicts = pd.Series([verdict(row) for row in table.to_dict("records")], table.index)
    lines = [f"{kind:14s} {int((verdicts == kind).sum()):4d} of {len(table)}" for kind in _KINDS]
    if (right := table[verdicts == "right"]).size:
        lines.append(f"RMS z of those right {np.sqrt(np.mean(right.z**2)):.2f}")
    if "referee" in table:
        seen = (verdicts == "silent miss") & (table.referee.abs() < _SIGHT)
        lines.append(f"silent misses of mass that the referee sees: {int(seen.sum())}")
    for kind in ("silent miss", "failure"):
        lines += [f"{kind}: case {n}" for n in table.case[verdicts == kind]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
