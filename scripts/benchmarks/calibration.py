"""Are the error bars honest? z-scores of many short runs against a known log Z.

    python -m scripts.benchmarks.calibration --data heart --methods smc ais --n-particles 8
    python -m scripts.benchmarks.calibration --data ripley --methods smc --option waste_free=8
    python -m scripts.benchmarks.calibration --data exact --methods auto smc --seeds 100

``--data exact`` is one row for each of a dozen problems on which error bars are easily too small
(scripts/catalogue/exact.py) and each method, with the methods' own defaults. It goes on where it
ended.

Otherwise it prints the RMS of (log Z - truth) / se, which should be near 1 (Student's t with 15
degrees of freedom, from 16 islands, has 1.07), and draws the histograms. The fast mode calibrates
on a small simulated problem whose log Z minimax tilting knows.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time

import numpy as np
import pandas as pd

import evidence as ev
from evidence import plots
from scripts import laboratory
from scripts.catalogue import exact as exact_problems
from scripts.laboratory import TRUTH, research_model

NAME = "calibration"
_SMALL = 0.1  # error bars up to which errors are asked to be those of a normal distribution
_ISLANDS = 15  # degrees of freedom of the usual 16


def measure(
    model: ev.GPModel, truth: tuple[float, float], method: str, options: argparse.Namespace
) -> pd.DataFrame:
    words = {"reference": options.reference, "n_particles": options.n_particles}
    if method in ("auto", "orthant", "sequential"):
        words.pop("reference")
    rows = []
    for seed in laboratory.progress(range(options.seeds)):
        started = time.perf_counter()
        result = ev.log_evidence(
            model,
            method=method,
            n_islands=options.n_islands,
            target_se=options.target_se,
            **words,
            **_parsed(options.option),
            random_seed=seed,
            progressbar=False,
        )
        rows.append(
            {
                "method": method,
                "seed": seed,
                "logz": result.logz,
                "logz_se": result.logz_se,
                "z": (result.logz - truth[0]) / np.hypot(result.logz_se, truth[1]),
                "seconds": time.perf_counter() - started,
                "warnings": len(result.warnings),
            }
        )
    return pd.DataFrame(rows)


def tell(name: str, truth: tuple[float, float], frame: pd.DataFrame) -> None:
    n, sd = len(frame), frame.logz.std()
    print(f"{name}, {frame.method.iloc[0]}: truth {truth[0]:.4f} ± {truth[1]:.4f}, {n} seeds")
    print(f"  mean error      {frame.logz.mean() - truth[0]:+.4f} ± {sd / n**0.5:.4f}")
    print(f"  sd of log Z     {sd:.4f}")
    print(f"  mean stated se  {frame.logz_se.mean():.4f}")
    print(f"  RMS z           {np.sqrt(np.mean(frame.z**2)):.3f} ± {1.0 / (2 * n) ** 0.5:.3f}")
    print(f"  largest |z|     {frame.z.abs().max():.2f}")
    print(f"  runs warned     {int((frame.warnings > 0).sum())}")
    print(
        f"  seconds         median {frame.seconds.median():.2f}, largest {frame.seconds.max():.2f}"
    )
    print(f"  variance × seconds {sd**2 * frame.seconds.mean():.5f}")


def exact(options: argparse.Namespace) -> pd.DataFrame:
    """RMS and mean of z, error bar and seconds: a row for every problem and method."""
    made = exact_problems.problems()
    chosen = {name: functools.cache(made[name]) for name in options.problems or made}

    def run(problem: str, method: str, seed: int) -> list[dict[str, float | str]]:
        model, truth = chosen[problem]()
        started = time.perf_counter()
        words = _parsed(options.option) if method != "auto" else {}
        result = ev.log_evidence(
            model, method=method, random_seed=seed, progressbar=False, **words
        )
        row = {"problem": problem, "method": method, "seed": seed, "logz": result.logz}
        row |= {"error": result.logz - truth, "se": result.logz_se}
        row |= {"seconds": time.perf_counter() - started}
        return [row | {"warnings": " ".join(w.code for w in result.warnings)}]

    cases = [(p, m, s) for s in range(options.seeds) for p in chosen for m in options.methods]
    file = options.out / "exact.csv"
    table = laboratory.kept(file, ["problem", "method", "seed"], cases, run)
    table["warned"] = table.warnings.notna()
    table["z"] = np.where(table.se > 0.0, table.error / table.se.where(table.se > 0.0), 0.0)
    quiet = table.assign(z=table.z.where(~table.warned & (table.se <= _SMALL)))
    groups = quiet.groupby(["problem", "method"], sort=False)
    missed = quiet.z.abs() > 4.0
    return pd.DataFrame({
        "runs": groups.size(),
        "rms_z": groups.z.agg(lambda z: np.sqrt(np.mean(z**2))),
        "mean_z": groups.z.mean(),
        "largest_z": groups.z.agg(lambda z: z.abs().max()),
        "misses": missed.groupby([quiet.problem, quiet.method], sort=False).sum(),
        "warned": groups.warned.sum(),
        "se": groups.se.median(),
        "seconds": groups.seconds.median(),
    }).reset_index()  # fmt: skip


def _parsed(words: list[str]) -> dict[str, int | str]:
    pairs = (word.split("=", 1) for word in words)
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def draw(table: pd.DataFrame, options: argparse.Namespace) -> None:
    import matplotlib.pyplot as plt

    methods = table.method.unique()
    figure, axes = plt.subplots(
        1, len(methods), figsize=(5 * len(methods), 3.6), layout="constrained", squeeze=False
    )
    df = _ISLANDS if options.n_islands is None else options.n_islands - 1
    for ax, method in zip(axes.flat, methods, strict=True):
        z = table.z[table.method == method]
        plots.plot_calibration(z, ax, df=df if df > 0 else None)
        ax.set_title(f"{method}: {ax.get_title()}")
    laboratory.save_figure(figure, options.out, NAME)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--data", default="heart", choices=["exact", *sorted(TRUTH)])
    parser.add_argument("--problems", nargs="+", help="some of the exact ones")
    parser.add_argument("--methods", nargs="+", default=["smc", "ais"])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--n-particles", type=int, help="fixed budget: particles per island")
    parser.add_argument("--n-islands", type=int, help="islands, 1: their own error bars")
    parser.add_argument("--option", nargs="+", default=[], help="name=value for the method")
    parser.add_argument("--target-se", type=float, help="or: run to this standard error")
    parser.add_argument("--reference", default="ep")
    options = parser.parse_args()
    if options.data == "exact":
        table = exact(options)
        print(table.to_string(index=False, float_format="{:.3g}".format))
        laboratory.save_table(table, options.out, f"{NAME}_exact")
        return
    if options.fast:
        model, name = laboratory.simulated_model(), "simulated"
        truth = laboratory.by_tilting(model)
        options.seeds, options.methods = 60, ["smc"]
        options.n_particles = 8
    else:
        model, truth, name = research_model(options.data), TRUTH[options.data], options.data
    frames = []
    for method in options.methods:
        frames.append(measure(model, truth, method, options))
        tell(name, truth, frames[-1])
    table = pd.concat(frames, ignore_index=True)
    laboratory.save_table(table, options.out, NAME)
    draw(table, options)


if __name__ == "__main__":
    sys.exit(main())
