"""Effective sample size against acceptance rate (Titsias and Papaspiliopoulos 2018, Figure 4).

    python -m scripts.papers.agrad_figure4 --out results/agrad_figure4

Gaussian-process regressions with noise variances 1, 0.1 and 0.01: aGrad-z, aGrad-u and mGrad are
tuned to acceptance rates from 0.1 to 0.9, and the effective sample size of the first latent value
is that of a chain of 5000 draws. Each run gives four such values, from four chains; lines are
means over problems and seeds. Finished runs are on disk at once, and the same command goes on from
there. The fast mode simulates one small regression.
"""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pandas as pd

import evidence as ev
from evidence import moves
from evidence.statistics import diagnostics
from scripts import drawing, laboratory
from scripts.papers.agrad_tables import problem

NAME = "agrad_figure4"
MOVES = ("agrad-z", "agrad-u", "mgrad")
TARGETS = np.round(np.arange(0.1, 0.91, 0.1), 1)


def small_regression() -> ev.GPModel:
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 4.0, 120)
    y = np.sin(2.0 * x) + 0.3 * rng.standard_normal(x.size)
    return ev.GPModel(x, y, "1.0 * RBF(0.5)", likelihood="gaussian(noise_std=0.3)")


def run(
    name: str, model: ev.GPModel, move: str, target: float, seed: int, draws: int
) -> list[dict[str, object]]:
    """Every chain is one repeat."""
    chains = ev.sample(
        model,
        move=dataclasses.replace(moves.get(move), target=float(target)),
        reference="prior",
        draws=draws,
        tune=max(draws // 2, 500),
        chains=4,
        random_seed=seed,
        progressbar=False,
    )
    acceptance = np.broadcast_to(chains.acceptance, (4,))
    first = chains.x[:, :, :1]
    return [
        {
            "problem": name, "move": move, "target": target, "seed": seed, "draws": draws,
            "chain": k,
            "acceptance": float(acceptance[k]),
            "ess": float(diagnostics.ess(first[k : k + 1])[0]) * 5000 / draws,
        }
        for k in range(4)
    ]  # fmt: skip


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--draws", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    if options.fast:
        problems, targets = {"small": small_regression()}, TARGETS[::2]
        options.draws, options.seeds = 1000, 1
    else:
        problems = {name: problem(name) for name in ("regression 1", "regression 0.1",
                                                     "regression 0.01")}  # fmt: skip
        targets = TARGETS
    cases = [
        (name, move, float(target), seed, options.draws)
        for seed in range(options.seeds)
        for name in problems
        for move in MOVES
        for target in targets
    ]
    file = options.out / f"{NAME}_runs.csv"
    if options.fast:
        file.unlink(missing_ok=True)
    table = laboratory.kept(
        file, ["problem", "move", "target", "seed", "draws"], cases,
        lambda name, *rest: run(name, problems[name], *rest),
    )  # fmt: skip
    laboratory.save_table(table, options.out, NAME)
    mean = table.groupby(["move", "target"], sort=False)[["acceptance", "ess"]].mean()
    print(mean.round(2).to_string())
    for move in MOVES:
        best = mean.loc[move].ess.idxmax()
        print(f"{move}: largest ESS {mean.loc[move].ess.max():.0f} of 5000 at acceptance {best}")
    _draw(table, options)


def _draw(table: pd.DataFrame, options) -> None:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
    ax.axvspan(0.5, 0.6, color="0.93", zorder=0)
    drawing.plot_ess_vs_acceptance(table, ax)
    ax.set(ylabel="effective sample size of 5000 draws", title="The first latent value")
    laboratory.save_figure(figure, options.out, NAME)


if __name__ == "__main__":
    sys.exit(main())
