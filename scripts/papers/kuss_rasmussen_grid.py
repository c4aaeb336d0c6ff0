"""log Z over length scale and amplitude on USPS 3-vs-5: the picture of Kuss and Rasmussen (2005).

    python -m scripts.papers.kuss_rasmussen_grid --out results/grid

Every cell by EP, corrected EP and Monte Carlo (method="auto"); then, as an independent check,
by minimax tilting, and z-scores where tilting is sure of itself. Cells that are finished are kept
in the folder: the same command goes on from there. The fast mode has a small grid on data that
scikit-learn bundles.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import pandas as pd

import evidence as ev
from scripts import laboratory
from scripts.laboratory import research_inputs

NAME = "kuss_rasmussen_grid"
_CHECKED_SE, _CHECKED_SD = 0.1, 10.0  # beyond these, tilting has too little to say


def problem(fast: bool) -> tuple[ev.GPModel, dict[str, np.ndarray]]:
    if fast:
        data = ev.datasets.load_demo()
        X, y = data.X[:100], data.y[:100]
        lengths, amplitudes = np.arange(-1.5, 1.6, 1.0), np.arange(0.0, 3.1, 1.0)
    else:
        X, y = research_inputs("usps-hard")
        lengths, amplitudes = np.arange(2.0, 5.01, 0.5), np.arange(0.0, 5.01, 1.0)
    model = ev.GPModel(X, y, "1.0 * RBF(1.0)", likelihood="probit", jitter=1e-6)
    return model, {
        "length_scale": np.exp(lengths),
        "constant_value": np.exp(2.0 * amplitudes),
    }


def check(model: ev.GPModel, table: pd.DataFrame, draws: int, seed: int) -> pd.DataFrame:
    """Minimax tilting of every cell."""
    names = [name for name in table if "__" in name]
    rows = []
    for cell in laboratory.progress(table[names].to_dict("records")):
        at = model.at(cell)
        found = ev.log_orthant(
            at.K + np.eye(at.n), at.y, n_draws=draws, random_seed=np.random.default_rng([seed, 1])
        )
        rows.append((found.logp, found.se, found.log_weight_sd))
    checks = pd.DataFrame(rows, columns=["check", "check_se", "check_sd"], index=table.index)
    table = table.join(checks)
    return table.assign(z=(table.logz - table.check) / np.hypot(table.logz_se, table.check_se))


def tell(table: pd.DataFrame) -> None:
    seconds = table.seconds
    print(f"seconds per cell: median {seconds.median():.1f}, worst {seconds.max():.1f}, "
          f"all {seconds.sum() / 60:.1f} min")  # fmt: skip
    warned = int((table.warnings.fillna("") != "").sum())
    print(table.method.value_counts().to_dict(), f"cells by method; {warned} with warnings")
    for name in ("ep", "ep_corrected"):
        worst = (table[name] - table.logz).abs().max()
        print(f"{name}: off by at most {worst:.2f} nats")
    sure = table[(table.check_se <= _CHECKED_SE) & (table.check_sd <= _CHECKED_SD)]
    print(f"{len(sure)} of {len(table)} cells checked by tilting: RMS z "
          f"{np.sqrt(np.mean(sure.z**2)):.2f}, largest |z| {sure.z.abs().max():.2f}")  # fmt: skip


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--target-se", type=float, default=0.1)
    parser.add_argument("--check-draws", type=int, help="draws of tilting (30000; fast: 2000)")
    parser.add_argument("--seed", type=int, default=0)
    options: argparse.Namespace = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    model, grid = problem(options.fast)
    surface = ev.evidence_surface(
        model, grid, target_se=options.target_se, random_seed=options.seed,
        checkpoint=None if options.fast else options.out / f"{NAME}.ckpt",
    )  # fmt: skip
    draws = options.check_draws or (2000 if options.fast else 30_000)
    table = check(model, surface.table, draws, options.seed)
    tell(table)
    laboratory.save_table(table, options.out, NAME)
    laboratory.save_figure(surface.plot(), options.out, NAME)


if __name__ == "__main__":
    sys.exit(main())
