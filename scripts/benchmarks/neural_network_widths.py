"""How wide a network do the data ask for? Evidence of three widths, the middle one the truth.

    python -m scripts.benchmarks.neural_network_widths --out results/widths

Data are simulated from a network of two hidden units. Prints log Z and its error bar for every
width, and draws them beside the data.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import evidence as ev
from scripts import laboratory

NAME = "neural_network_widths"

WIDTHS, TRUTH = [1, 2, 4], 2


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--widths", type=int, nargs=3, default=WIDTHS)
    parser.add_argument("--n", type=int, default=60, help="data")
    parser.add_argument("--noise", type=float, default=0.2, help="that the data have")
    parser.add_argument("--learn-noise", action="store_true")
    parser.add_argument("--data-seed", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-particles", type=int, default=128, help="in each island")
    parser.add_argument("--n-islands", type=int, default=4)
    parser.add_argument("--move", default="hmc")
    options = parser.parse_args()
    if options.fast:
        options.n, options.n_particles, options.n_islands = 6, 4, 2
        options.widths = [1, 2, 3]

    X, y = ev.examples.simulated_network(options.n, options.noise, options.data_seed)
    noise = None if options.learn_noise else options.noise
    begun = time.perf_counter()
    rows = []
    for width in options.widths:
        started = time.perf_counter()
        example = ev.examples.neural_network(width, X, y, noise)
        result = ev.log_evidence(
            example.model,
            method="smc",
            move=options.move,
            reference="prior",
            n_particles=options.n_particles,
            n_islands=options.n_islands,
            random_seed=options.seed,
        )
        seconds = time.perf_counter() - started
        rows.append((width, example.model.n, result.logz, result.logz_se, seconds))
        print(
            f"width {width:2d}  {example.model.n:2d} parameters  log Z {result.logz:9.3f} "
            f"± {result.logz_se:.3f}  {seconds:5.1f} s",
            *result.warnings,
            sep="\n    ",
            flush=True,
        )
    ranked = sorted(rows, key=lambda row: -row[2])
    print(f"ranked first: width {ranked[0][0]}; simulated from width {TRUTH}")
    for width, _, logz, se, _ in ranked[1:]:
        gap, error = ranked[0][2] - logz, float(np.hypot(ranked[0][3], se))
        print(f"  ahead of width {width} by {gap:.2f} ± {error:.2f} nats, {gap / error:.1f} se")
    print(f"{time.perf_counter() - begun:.0f} s in all")
    table = pd.DataFrame(rows, columns=["width", "parameters", "logz", "se", "seconds"])
    laboratory.save_table(table, options.out, NAME)
    _draw(X, y, table, options.out)


def _draw(X: np.ndarray, y: np.ndarray, table: pd.DataFrame, out: Path) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.plot(X[:, 0], y, ".", color="0.4", ms=4)
    left.set(xlabel="x", ylabel="y", title="data")
    below = table.logz - table.logz.max()
    right.errorbar(range(3), below, 2.0 * table.se, fmt="o", color="#1b3a5c", capsize=4)
    right.set_yscale("symlog", linthresh=1.0)
    right.set_xticks(range(3), table.width)
    right.set(xlabel="hidden units", ylabel="log Z - largest (±2 se)", title="evidence")
    laboratory.save_figure(figure, out, NAME)


if __name__ == "__main__":
    sys.exit(main())
