"""Are the error bars honest? z-scores of many short runs against a known log Z.

    python scripts/calibration.py --data heart --seeds 200 --n-particles 8

Prints the RMS of (log Z - truth) / se, which should be near 1 (Student's t with 15 degrees of
freedom, from 16 islands, has 1.07), and draws the histogram when --plot is given.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from research import TRUTH, research_model
from tqdm.auto import tqdm

import evidence as ev


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="heart", choices=sorted(TRUTH))
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--n-particles", type=int, help="fixed budget: particles per island")
    parser.add_argument("--n-islands", type=int, help="islands, 1: their own error bars")
    parser.add_argument("--option", nargs="+", default=[], help="name=value for the method")
    parser.add_argument("--target-se", type=float, help="or: run to this standard error")
    parser.add_argument("--reference", default="ep")
    parser.add_argument("--method", default="smc")
    parser.add_argument("--plot", type=Path, help="write a histogram of z-scores here")
    options = parser.parse_args()

    model = research_model(options.data)
    truth, truth_se = TRUTH[options.data]
    rows = []
    for seed in tqdm(range(options.seeds), disable=None):
        started = time.perf_counter()
        result = ev.log_evidence(
            model,
            method=options.method,
            reference=options.reference,
            n_particles=options.n_particles,
            n_islands=options.n_islands,
            target_se=options.target_se,
            **_parsed(options.option),
            random_seed=seed,
            progressbar=False,
        )
        seconds = time.perf_counter() - started
        rows.append((result.logz, result.logz_se, seconds, len(result.warnings)))
    logz, se, seconds, warned = np.array(rows).T
    z = (logz - truth) / np.hypot(se, truth_se)
    print(f"{options.data}: truth {truth} ± {truth_se}, {options.seeds} seeds")
    print(f"  mean error      {logz.mean() - truth:+.4f} ± {logz.std(ddof=1) / len(z) ** 0.5:.4f}")
    print(f"  sd of log Z     {logz.std(ddof=1):.4f}")
    print(f"  mean stated se  {se.mean():.4f}")
    print(f"  RMS z           {np.sqrt(np.mean(z**2)):.3f}")
    print(f"  largest |z|     {np.abs(z).max():.2f}")
    print(f"  runs warned     {int((warned > 0).sum())}")
    print(f"  seconds         median {np.median(seconds):.2f}, largest {seconds.max():.2f}")
    print(f"  variance × seconds {logz.var(ddof=1) * seconds.mean():.5f}")
    if options.plot:
        _histogram(z, options.plot)


def _parsed(words: list[str]) -> dict[str, int | str]:
    pairs = (word.split("=", 1) for word in words)
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def _histogram(z: np.ndarray, path: Path) -> None:
    import matplotlib.pyplot as plt
    from scipy.stats import t

    figure, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
    ax.hist(z, bins=30, density=True, color="0.8", edgecolor="0.4")
    grid = np.linspace(-5, 5, 300)
    ax.plot(grid, t(15).pdf(grid), color="#1b3a5c", label="Student t, 15 df")
    ax.set(xlabel=r"$(\log \hat Z - \log Z)$ / stated se", ylabel="density")
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
