r"""The Cox process of 126 pine saplings that neural and controlled samplers are measured by.

    python -m scripts.benchmarks.saplings --target-se 0.001

On M² cells of the unit square f ~ N(log 126 - 1.91/2, 1.91 exp(-33 |i - j| / M)), a cell's count
is Poisson with mean exp(f)/M². log Z is stated as in J. Heng, A. N. Bishop, G. Deligiannidis and
A. Doucet, Ann. Statist. 48 (2020) 2904, with exp(f y - exp(f)/M²) for the likelihood. Points come
from pines.csv in the folder that EVIDENCE_DATA names; --fast draws them at random.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln

import evidence as ev
from scripts import laboratory

NAME = "saplings"
VARIANCE, RATE, POINTS = 1.91, 33.0, 126


def model_of(points: NDArray[np.float64], side: int) -> tuple[ev.GPModel, float]:
    """The Cox process on side² cells, and what is added to its log Z where the data's own
    constants are left out."""
    cells = np.minimum((points * side).astype(int), side - 1)
    counts = np.zeros((side, side))
    np.add.at(counts, tuple(cells.T), 1.0)
    i, j = np.divmod(np.arange(side * side), side)
    distance = np.hypot(i[:, None] - i, j[:, None] - j)
    model = ev.GPModel(
        K=VARIANCE * np.exp(-RATE * distance / side), y=counts.ravel(),
        mean=np.log(POINTS) - VARIANCE / 2.0, likelihood=f"poisson(exposure={1.0 / side**2})",
    )  # fmt: skip
    return model, float(gammaln(counts + 1.0).sum() + counts.sum() * np.log(side**2))


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--sides", type=int, nargs="+", default=[30, 40])
    parser.add_argument("--target-se", type=float, default=0.001)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    if options.fast:
        options.sides, options.seeds = [8], 1
        points = np.random.default_rng(0).random((POINTS, 2))
    else:
        table = pd.read_csv(Path(os.environ["EVIDENCE_DATA"]) / "pines.csv")
        points = table[["data_x", "data_y"]].to_numpy(float)
    rows = []
    for side in options.sides:
        model, constants = model_of(points, side)
        for seed in range(options.seeds):
            started = time.perf_counter()
            result = ev.log_evidence(
                model, target_se=options.target_se, random_seed=seed, progressbar=False
            )
            seconds = time.perf_counter() - started
            logz = result.logz + constants
            rows.append({"cells": side**2, "seed": seed, "logz": logz, "se": result.logz_se,
                         "seconds": seconds})  # fmt: skip
            print(
                f"{side**2:5d} cells  log Z = {logz:.4f} ± {result.logz_se:.4f}  {seconds:.1f} s"
            )
    laboratory.save_table(pd.DataFrame(rows), options.out, NAME)


if __name__ == "__main__":
    sys.exit(main())
