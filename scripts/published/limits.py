"""Whether the published densities keep to ``max_seconds``: as one-point functions and in batches.

    EVIDENCE_DATA=folder python -m scripts.published.limits --seconds 10 30

A run fails where it raises, or where it takes a fifth and a second longer than it was allowed, by
the clock on the wall. A process runs nothing else; what is compiled is compiled before. Every run
is on disk at once, in limits.csv: one that is there is not repeated.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import Any

import numpy as np

import evidence as ev
from scripts import laboratory
from scripts.catalogue.problem import Problem
from scripts.published import densities
from scripts.published.rows import had

NAME = "limits"
_SHARE, _MORE = 1.2, 1.0  # of the seconds, and seconds


@cache
def made(name: str) -> Problem:
    return densities.problems()[name][1]()


def model(problem: Problem, batches: bool) -> ev.DensityModel:
    prior = [one.frozen() for one in problem.prior]

    def function(theta: Any) -> Any:
        with np.errstate(all="ignore"):
            value = problem.log_likelihood(np, np.asarray(theta))
        return value if batches else float(value)

    return ev.DensityModel(function, prior=prior, vectorized=batches)


def measured(name: str, batches: bool, seconds: float) -> dict[str, Any]:
    problem = made(name)
    asked, failure, logz, se = model(problem, batches), "", np.nan, np.nan
    started = time.perf_counter()
    try:
        found = ev.log_evidence(asked, max_seconds=seconds, random_seed=0, progressbar=False)
        logz, se = found.logz, found.logz_se
    except Exception as error:  # it is what this script looks for
        failure = f"{type(error).__name__}: {error}"[:200]
    spent = time.perf_counter() - started
    row = {
        "problem": name, "batches": batches, "allowed": seconds, "seconds": round(spent, 2),
        "kept": not failure and spent <= _SHARE * seconds + _MORE,
        "error": round(logz - problem.truth, 4), "se": round(se, 4), "failure": failure,
    }  # fmt: skip
    print(
        "{problem:30s} batches {batches!s:5s} allowed {allowed:4.0f} took {seconds:6.2f} s "
        "{kept!s:5s} {error:+.4f} ± {se:.4f} {failure}".format(**row),
        flush=True,
    )
    return row


def main() -> int:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--only", nargs="+", help="rows whose names begin so")
    parser.add_argument("--seconds", nargs="+", type=float, default=[10.0, 30.0])
    options = parser.parse_args()
    names = ["eggbox"] if options.fast else list(densities.problems())
    if options.only:
        names = [name for name in names if name.startswith(tuple(options.only))]
    options.seconds = [2.0] if options.fast else options.seconds
    ev.log_evidence(model(made("eggbox"), True), progressbar=False)

    def run(name: str, batches: bool, seconds: float) -> list[dict[str, Any]]:
        return [measured(name, batches, seconds)]

    names = had(names, made)
    cases = [(name, b, s) for s in options.seconds for name in names for b in (False, True)]
    table = laboratory.kept(
        options.out / f"{NAME}.csv", ["problem", "batches", "allowed"], cases, run
    )
    print(f"{len(table)} runs, {int(table.kept.sum())} kept their limit")
    return 0 if options.fast else int((~table.kept).sum())


if __name__ == "__main__":
    sys.exit(main())
