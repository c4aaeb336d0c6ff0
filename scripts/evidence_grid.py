"""The Kuss and Rasmussen grid on USPS 3-vs-5: log Z over length scale and amplitude.

    python scripts/evidence_grid.py --csv grid.csv --plot grid.png

Every cell by method="auto" and, as an independent check, by minimax tilting; then maps of log Z
and of the errors of EP and of corrected EP.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from research import research_model

import evidence as ev

LENGTHS = np.arange(2.0, 5.01, 0.5)
AMPLITUDES = np.arange(0.0, 5.01, 1.0)
_CHECKED_SE, _CHECKED_SD = 0.1, 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target-se", type=float, default=0.1)
    parser.add_argument("--check-draws", type=int, default=100_000)
    parser.add_argument("--lengths", nargs="+", type=float, default=LENGTHS)
    parser.add_argument("--amplitudes", nargs="+", type=float, default=AMPLITUDES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--from-csv", type=Path, help="draw a table that is there already")
    options = parser.parse_args()
    frame = pd.read_csv(options.from_csv) if options.from_csv else _run(options)
    seconds = frame.seconds
    print(f"seconds per cell: median {seconds.median():.1f}, worst {seconds.max():.1f}, "
          f"all {seconds.sum() / 60:.1f} min")  # fmt: skip
    print(frame.method.value_counts().to_dict(), "cells by method;",
          int((frame.warnings > 0).sum()), "with warnings")  # fmt: skip
    checked = frame[(frame.check_se <= _CHECKED_SE) & (frame.check_sd <= _CHECKED_SD)]
    print(f"{len(checked)} cells checked: RMS z {np.sqrt(np.mean(checked.z**2)):.2f}, "
          f"largest |z| {checked.z.abs().max():.2f}")  # fmt: skip
    if options.plot:
        _draw(frame, options.plot)


def _run(options: argparse.Namespace) -> pd.DataFrame:
    rows = []
    for length in options.lengths:
        for amplitude in options.amplitudes:
            model = research_model("usps-hard", log_lengthscale=length, log_amplitude=amplitude)
            started = time.perf_counter()
            result = ev.log_evidence(
                model, target_se=options.target_se, random_seed=options.seed, progressbar=False
            )
            seconds = time.perf_counter() - started
            check = ev.log_orthant(
                model.K + np.eye(model.n),
                model.y,
                n_draws=options.check_draws,
                rng=np.random.default_rng([options.seed, 1]),
            )
            estimates = {row.method: row.logz for row in result.rows}
            rows.append(
                {
                    "log_lengthscale": length,
                    "log_amplitude": amplitude,
                    "method": result.method,
                    "logz": result.logz,
                    "logz_se": result.logz_se,
                    "seconds": seconds,
                    "warnings": len(result.warnings),
                    "ep": estimates["ep"],
                    "ep_corrected": estimates["ep_corrected"],
                    "check": check.logp,
                    "check_se": check.se,
                    "check_sd": check.log_weight_sd,
                    "z": (result.logz - check.logp) / math.hypot(result.logz_se, check.se),
                }
            )
            row = rows[-1]
            print(
                f"l {length:.1f} a {amplitude:.0f}: {row['method']:<11} {row['logz']:9.3f} ± "
                f"{row['logz_se']:.3f}  check {check.logp:9.3f} ± {check.se:.3f} (sd "
                f"{check.log_weight_sd:.1f})  z {row['z']:5.2f}  {seconds:6.1f} s"
                + (f"  {result.warnings[0][:50]}" if result.warnings else ""),
                flush=True,
            )
            if options.csv:
                pd.DataFrame(rows).to_csv(options.csv, index=False)
    return pd.DataFrame(rows)


def _draw(frame: pd.DataFrame, path: Path) -> None:
    import matplotlib.pyplot as plt

    frame = frame.assign(
        ep_error=frame.ep - frame.logz, corrected_error=frame.ep_corrected - frame.logz
    )
    titles = {
        "logz": r"$\log Z$ (nats)",
        "ep_error": r"EP $-\log Z$",
        "corrected_error": r"corrected EP $-\log Z$",
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for ax, (column, title) in zip(axes, titles.items(), strict=True):
        table = frame.pivot(index="log_amplitude", columns="log_lengthscale", values=column)
        reach = np.nanmax(np.abs(table.to_numpy()))
        colours = {"cmap": "viridis"} if column == "logz" else {
            "cmap": "RdBu_r", "vmin": -reach, "vmax": reach
        }  # fmt: skip
        image = ax.pcolormesh(table.columns, table.index, table.to_numpy(), **colours)
        for amplitude, row in table.iterrows():
            for length, value in row.items():
                text = f"{value:.0f}" if column == "logz" else f"{value:+.2f}"
                ax.text(length, amplitude, text, ha="center", va="center", fontsize=7,
                        bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none",
                              "alpha": 0.7})  # fmt: skip
        figure.colorbar(image, ax=ax)
        ax.set(xlabel="log length scale", ylabel=r"log amplitude $\log\sigma$", title=title)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
