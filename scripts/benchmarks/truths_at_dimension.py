"""Densities in 50 to 1000 dimensions with known log Z, the default call: errors and seconds.

    python -m scripts.benchmarks.truths_at_dimension --seeds 2 --max-seconds 240

Truths are closed forms and quadrature; of the regression the same model's as a Gaussian process.
"""

from __future__ import annotations

import math
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd

import evidence as ev
from scripts import laboratory
from scripts.catalogue.dimensions import AT_DIMENSION, FAST, Known

NAME = "truths_at_dimension"


def main() -> None:
    options = parsed(laboratory.parser(__doc__, NAME), AT_DIMENSION)
    measure(FAST if options.fast else AT_DIMENSION, options, NAME)


def parsed(parser: ArgumentParser, problems: Mapping[str, Any]) -> Namespace:
    """The options of this script and of its neighbour."""
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--max-seconds", type=float)
    parser.add_argument("--only", nargs="+", choices=problems)
    options = parser.parse_args()
    if options.fast:
        options.seeds = 1
    return options


def measure(problems: Mapping[str, Callable[[], Known]], options: Namespace, name: str) -> None:
    """One line for every problem and seed, and a table of them."""
    print(f"{'problem':26s} seed {'log Z':>12s} ± {'se':7s} {'error':>9s} seconds   CPU  warnings")
    rows: list[dict[str, Any]] = []
    for problem, make in problems.items():
        if not options.only or problem in options.only:
            rows += _runs(problem, make(), options)
            laboratory.save_table(pd.DataFrame(rows), options.out, name)


def _runs(problem: str, case: Known, options: Namespace) -> Iterator[dict[str, Any]]:
    for seed in range(options.seeds):
        started, cpu = time.perf_counter(), time.process_time()
        result = ev.log_evidence(
            case.model, max_seconds=options.max_seconds, random_seed=seed, progressbar=False
        )
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        codes = " ".join(warning.code for warning in result.warnings)
        error = result.logz - case.truth
        told = f"{error:+9.3f}" if math.isfinite(error) else " " * 9
        print(
            f"{problem:26s} {seed:4d} {result.logz:12.3f} ± {result.logz_se:<7.3f} {told} "
            f"{seconds:7.1f} {cpu:5.1f}  {codes}",
            flush=True,
        )
        yield {
            "problem": problem, "seed": seed, "logz": result.logz, "se": result.logz_se,
            "truth": case.truth, "truth_se": case.truth_se, "seconds": seconds, "cpu": cpu,
            "method": result.method, "reference": result.settings.get("reference"),
            "warnings": codes,
        }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
