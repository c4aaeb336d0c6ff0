"""All submodels of one formula: seconds, and the largest error of a log Z.

    python -m scripts.benchmarks.submodels

Six predictors of 2,000 Bernoulli rows in 40 groups, of which three have an effect; a random
intercept in all 64 models, its standard deviation integrated out.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.special import expit

import evidence as ev
from scripts import laboratory

NAME = "submodels"
_EFFECTS = np.array([0.5, -0.3, 0.1, 0.0, 0.0, 0.0])


def data(rows: int, groups: int, predictors: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(rows, predictors)), np.arange(rows) % groups
    eta = -0.2 + x @ _EFFECTS[:predictors] + 0.6 * rng.normal(size=groups)[g]
    y = (rng.random(rows) < expit(eta)).astype(int)
    return {"y": y, "g": g, **{f"x{j}": x[:, j] for j in range(predictors)}}


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    options = parser.parse_args()
    rows, groups, predictors = (100, 5, 2) if options.fast else (2000, 40, 6)
    names = " + ".join(f"x{j}" for j in range(predictors))
    began, cpu = time.perf_counter(), time.process_time()
    found = ev.all_submodels(
        f"y ~ {names} + (1 | g)", data(rows, groups, predictors), likelihood="bernoulli",
        random_seed=0, progressbar=False,
    )  # fmt: skip
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    table = found.table[["logz", "logz_se", "probability"]]
    options.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out / "submodels.csv")
    found.inclusion.to_csv(options.out / "inclusion.csv")
    print(found.inclusion)
    print(
        f"{len(table)} models in {seconds:.1f} s ({cpu:.0f} CPU s), largest error "
        f"{table.logz_se.max():.4f}"
    )


if __name__ == "__main__":
    main()
