"""Normal models with two unknown scales, the default call: does it enter the necks?

    python -m scripts.benchmarks.necks --seeds 2

Each centred (the walk or the effects themselves) and not (standard normal numbers that their
scale multiplies), with a gradient or, with ``--values``, without; problems and truths are in
scripts/catalogue/necks.py.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd

import evidence as ev
from scripts import laboratory
from scripts.catalogue.necks import PROBLEMS

NAME = "necks"
_WRONG = 4.0  # standard errors


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--max-seconds", type=float)
    parser.add_argument("--values", action="store_true", help="without gradients")
    parser.add_argument("--only", nargs="+", choices=PROBLEMS)
    options = parser.parse_args()
    if options.fast:
        options.only, options.seeds, options.max_seconds = ["walk 6"], 1, 2.0
    rows = []
    for name in options.only or PROBLEMS:
        truth = PROBLEMS[name].logz()
        for centred in (True, False):
            model = PROBLEMS[name].model(centred, gradient=not options.values)
            for seed in range(options.seeds):
                started = time.process_time()
                result = ev.log_evidence(
                    model, max_seconds=options.max_seconds, random_seed=seed, progressbar=False
                )
                seconds, error = time.process_time() - started, result.logz - truth
                codes = " ".join(warning.code for warning in result.warnings)
                row = {
                    "problem": name, "centred": centred, "seed": seed, "error": error,
                    "se": result.logz_se, "z": error / result.logz_se, "cpu": seconds,
                    "evaluations": sum(result.evaluations.values()), "method": result.method,
                    "reference": result.settings.get("reference"), "warnings": codes,
                }  # fmt: skip
                print(
                    "{problem:20s} {centred!s:5s} {seed} {error:+.4f} ± {se:.4f} ({z:+.1f}) "
                    "{cpu:5.1f} s {evaluations:>9d} {reference} {warnings}".format(**row),
                    flush=True,
                )
                rows.append(row)
    table = pd.DataFrame(rows)
    laboratory.save_table(table, options.out, NAME)
    wrong = table.z.abs() > _WRONG
    silent = int((wrong & (table.warnings == "")).sum())
    print(
        f"{len(table)} runs: RMS z {np.sqrt(np.mean(table.z**2)):.2f}, mean se "
        f"{table.se.mean():.3f}, wrong {int(wrong.sum())}, of them silent {silent}"
    )


if __name__ == "__main__":
    sys.exit(main())
