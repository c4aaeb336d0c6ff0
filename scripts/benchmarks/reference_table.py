"""Every driver, move and reference against known log Z: a table of z-scores.

    python scripts/reference_table.py --data heart ripley --csv table.csv

z = (log Z - truth) / combined standard error; combinations that do not finish in --max-seconds
or whose run ends with a warning are marked. Numbers beyond 3 are starred.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from research import TRUTH, research_model

import evidence as ev

METHODS = ("ais", "smc", "pt", "arm")
MOVES = ("mgrad", "splitting", "rmhmc", "elliptical", "pcn")
REFERENCES = ("ep", "laplace", "prior")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["heart", "ripley"], choices=sorted(TRUTH))
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--moves", nargs="+", default=MOVES)
    parser.add_argument("--references", nargs="+", default=REFERENCES)
    parser.add_argument("--target-se", type=float, default=0.1)
    parser.add_argument("--max-seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    rows = []
    for data in options.data:
        model = research_model(data)
        for method in options.methods:
            for reference in options.references:
                for move in options.moves:
                    rows.append(_run(options, data, model, method, reference, move))
                    print(_line(rows[-1]), flush=True)
                    if options.csv:
                        pd.DataFrame(rows).to_csv(options.csv, index=False)
    frame = pd.DataFrame(rows)
    done = frame[np.isfinite(frame.z)]
    clean = done[done.warnings == 0]
    print(f"\n{len(done)} of {len(frame)} finished, {len(clean)} of them without a warning")
    for name, part in (("all finished", done), ("without warnings", clean)):
        if len(part):
            print(
                f"  {name}: RMS z {np.sqrt(np.mean(part.z**2)):.2f}, largest |z| "
                f"{part.z.abs().max():.2f}, beyond 3: {int((part.z.abs() > 3).sum())}"
            )


def _run(options, data, model, method, reference, move) -> dict:
    truth, truth_se = TRUTH[data]
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
    z = (result.logz - truth) / math.hypot(result.logz_se, truth_se)
    return {
        "data": data,
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
