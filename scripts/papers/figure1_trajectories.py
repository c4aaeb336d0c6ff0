"""Trajectories of HMC and Riemannian HMC on a mixture of three Gaussians (the report's Figure 1).

    python -m scripts.papers.figure1_trajectories --out results/figure1

Both start at the same cross, with the same normals for their momenta, and go as many leapfrog
steps; RMHMC's metric is SoftAbs, the implicit leapfrog's fixed points are solved to 1e-9. Beside
them, how far the Hamiltonian is off along the way. The full mode also starts many trajectories at
exact draws of the mixture and reports acceptance and squared distance for a range of step sizes.
"""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pandas as pd

import evidence as ev
from evidence import moves, plots
from evidence.models.examples.mixture import Mixture
from evidence.paths.density import own_path
from scripts import laboratory

NAME = "figure1_trajectories"
START, SEED, STEPS = np.array([-2.5, -0.1]), 4, 20
HMC = moves.HMC(0.25, coordinates="identity", n_leapfrog=STEPS, jitter=0.0)
RMHMC = moves.RMHMC(0.25, n_leapfrog=STEPS, jitter=0.0)


def mixture() -> ev.examples.Example:
    """Three Gaussians of equal weight that overlap, with correlations of ±0.97 and 0."""
    means = np.array([[-1.5, 1.0], [1.5, 1.0], [0.0, -2.5]])
    covs = np.array(
        [[[1.0, 0.97], [0.97, 1.0]], [[1.0, -0.97], [-0.97, 1.0]], [[2.0, 0], [0, 0.2]]]
    )
    density = Mixture(means, np.linalg.cholesky(covs), np.full(3, 1.0 / 3.0))
    model = density.model()
    model.metric = ev.SoftAbs(alpha=2.0)
    return ev.examples.Example(model, 0.0, density.draws, "three correlated Gaussians")


def trajectories(example: ev.examples.Example) -> pd.DataFrame:
    rows = []
    for name, move in (("HMC", HMC), ("RMHMC", RMHMC)):
        way = moves.trajectory(move, example.model, START, random_seed=SEED)
        for step, (x, error) in enumerate(zip(way.x, way.energy_error, strict=True)):
            rows.append((name, step, *x, error))
    return pd.DataFrame(rows, columns=["move", "step", "x0", "x1", "energy_error"])


def compared(example: ev.examples.Example, rows: int) -> pd.DataFrame:
    """Acceptance and expected squared jump from exact draws, by step size."""
    path, rng = own_path(example.model), np.random.default_rng(0)
    assert example.draws is not None
    start = example.draws(rng, rows)
    table = []
    cases = [(n, m, e) for n, m in (("HMC", HMC), ("RMHMC", RMHMC)) for e in STEP_SIZES]
    for name, move, eps in laboratory.progress(cases):
        steps = max(1, round(3.0 / eps))
        mover = dataclasses.replace(move, step_size=eps, n_leapfrog=steps)
        new, info = mover.step(rng, path, 1.0, mover.init(path, start.copy()))
        jump = np.sum((mover.latent(path, new) - start) ** 2, axis=1)
        table.append(
            (name, eps, steps, info.acceptance.mean(), info.acceptance.std() / rows**0.5,
             info.failures / rows, jump.mean(), jump.std() / rows**0.5)
        )  # fmt: skip
    names = [
        "move",
        "step_size",
        "steps",
        "acceptance",
        "acceptance_se",
        "failed",
        "jump",
        "jump_se",
    ]
    return pd.DataFrame(table, columns=names)


STEP_SIZES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25)


def draw(example: ev.examples.Example, table: pd.DataFrame, out) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    looks = (("HMC", HMC, "s--", "#b5542a"), ("RMHMC", RMHMC, "o-", "#1b3a5c"))
    for ax, (name, move, style, color) in zip(axes, looks, strict=False):
        way = moves.trajectory(move, example.model, START, random_seed=SEED)
        plots.plot_density(example.model, ax, across=(-5, 5), up=(-5, 4))
        if name == "RMHMC":
            plots.plot_metric(example.model, way.x[::4], ax, size=0.5)
        plots.plot_trajectory(way, ax, style=style, color=color)
        ax.set(title=f"{name}, ε = {move.step_size:g}, {STEPS} steps", aspect="equal")
        plots.plot_energy_error(way, axes[2], label=name, style=style, color=color)
    axes[2].legend(frameon=False)
    laboratory.save_figure(figure, out, NAME)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, _, style, color in looks:
        rows = table[table.move == name]
        for ax, column in ((left, "acceptance"), (right, "jump")):
            ax.errorbar(
                rows.step_size, rows[column], yerr=rows[f"{column}_se"], fmt=style, color=color,
                ms=5, capsize=2.5, lw=1.2, label=name,
            )  # fmt: skip
    left.set(xlabel="step size ε", ylabel="acceptance probability", ylim=(0, 1.02))
    right.set(xlabel="step size ε", ylabel="expected squared jump", ylim=(0, None))
    left.legend(frameon=False)
    laboratory.save_figure(figure, out, f"{NAME}_steps")


def main() -> None:
    options = laboratory.parser(__doc__, NAME).parse_args()
    example = mixture()
    table = compared(example, 200 if options.fast else 4000)
    print(table.round(3).to_string(index=False))
    laboratory.save_table(trajectories(example), options.out, NAME)
    laboratory.save_table(table, options.out, f"{NAME}_steps")
    draw(example, table, options.out)


if __name__ == "__main__":
    sys.exit(main())
