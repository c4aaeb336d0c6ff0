"""Every driver, move and reference against known log Z: a table of z-scores.

    python -m scripts.benchmarks.reference_table --data heart ripley

z = (log Z - truth) / combined standard error; combinations that do not finish in --max-seconds
or whose run ends with a warning are marked. Numbers beyond 3 are starred.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np
import pandas as pd

import evidence as ev
from scripts import laboratory
from scripts.laboratory import TRUTH, research_model

NAME = "reference_table"
METHODS = ("ais", "smc", "pt", "arm")
MOVES = ("mgrad", "splitting", "rmhmc", "elliptical", "pcn")
REFERENCES = ("ep", "laplace", "prior")


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--data", nargs="+", default=["heart", "ripley"], choices=sorted(TRUTH))
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--moves", nargs="+", default=MOVES)
    parser.add_argument("--references", nargs="+", default=REFERENCES)
    parser.add_argument("--target-se", type=float, default=0.1)
    parser.add_argument("--max-seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.fast:
        model = laboratory.simulated_model()
        problems = {"simulated": (model, laboratory.by_tilting(model))}
        options.methods, options.moves = ("smc", "ais"), ("mgrad",)
        options.target_se = 0.3
    else:
        problems = {data: (research_model(data), TRUTH[data]) for data in options.data}
    rows = []
    for data, (model, truth) in problems.items():
        for method in options.methods:
            for reference in options.references:
                for move in options.moves:
                    run = _run(options, model, truth, method, reference, move)
                    rows.append({"data": data} | run)
                    print(_line(rows[-1]), flush=True)
    frame = pd.DataFrame(rows)
    laboratory.save_table(frame, options.out, NAME)
    done = frame[np.isfinite(frame.z)]
    clean = done[done.warnings == 0]
    print(f"\n{len(done)} of {len(frame)} finished, {len(clean)} of them without a warning")
    for name, part in (("all finished", done), ("without warnings", clean)):
        if len(part):
            print(
                f"  {name}: RMS z {np.sqrt(np.mean(part.z**2)):.2f}, largest |z| "
                f"{part.z.abs().max():.2f}, beyond 3: {int((part.z.abs() > 3).sum())}"
            )


def _run(options, model, truth, method, reference, move) -> dict:
    started = time.perf_counter()
    result = ev.log_evidence(
        model,
        method=method,
        reference=reference,
        move=move,
        target_se=options.target_se,
        max_seconds=options.max_seconds,
        random_seed=options.seed,
        progressbar=False,
    )
    z = (result.logz - truth[0]) / math.hypot(result.logz_se, truth[1])
    return {
        "method": method,
        "reference": reference,
        "move": move,
        "logz": result.logz,
        "logz_se": result.logz_se,
        "z": z,
        "seconds": time.perf_counter() - started,
        "warnings": len(result.warnings),
        "first_warning": result.warnings[0] if result.warnings else "",
    }


def _line(row: dict) -> str:
    star = "*" if abs(row["z"]) > 3 else " "
    said = f"  {row['first_warning'][:60]}" if row["warnings"] else ""
    return (
        f"{row['data']:<10}{row['method']:<5}{row['reference']:<8}{row['move']:<11}"
        f"{row['logz']:>10.3f} ± {row['logz_se']:<7.3f} z {row['z']:>6.2f}{star}"
        f"{row['seconds']:>7.1f} s{said}"
    )


if __name__ == "__main__":
    sys.exit(main())
