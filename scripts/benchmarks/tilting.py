"""Where minimax tilting degenerates: the variance of one weight against the number of data.

    python -m scripts.benchmarks.tilting --sizes 100 200 400 800 1600

Labels are drawn from probit models whose latent function varies over a fraction of the inputs'
spread, so that every datum adds something of its own. Of minimax tilting, and of draws guided by
EP's sites (which learn a twist where weights are uneven), the table has the relative variance of
one weight, the seconds of one draw and of all that comes before, and what they add up to: the
seconds to a standard error of 0.05. A relative variance is itself estimated from --draws weights:
where it comes near their number it is a lower bound.
"""

from __future__ import annotations

import contextlib
import sys
import time

import numpy as np
import pandas as pd

import evidence as ev
from evidence import plots
from evidence.proposals.guide import CannotGuide, make_guide
from evidence.proposals.tilting import draw, minimax_proposal, oriented
from evidence.proposals.twist import twisted
from evidence.statistics.weights import Weights
from scripts import laboratory

NAME = "tilting"
SE = 0.05
KERNEL = "4.0 * RBF(0.15)"
BATCH, TAUGHT = 512, 1024


def simulated(n: int, seed: int) -> ev.GPModel:
    X = np.random.default_rng((n, seed)).normal(size=(n, 2))
    return ev.simulate(ev.GPModel(X, np.ones(n), KERNEL), random_seed=seed).model


def by_guide(model: ev.GPModel, rng):
    """What draws log weights, and the log of what multiplies them."""
    guide = make_guide(ev.fit_ep(model))
    with contextlib.suppress(CannotGuide):
        guide = twisted(guide, *guide.draw(TAUGHT, rng))
    return lambda n: guide.draw(n, rng)[1], guide.log_z0


def by_tilting(model: ev.GPModel, rng):
    proposal = minimax_proposal(*oriented(model.K + np.eye(model.n), model.y, model.mean))
    return lambda n: draw(proposal, n, rng)[1], 0.0


SAMPLERS = {"minimax tilting": by_tilting, "guided draws": by_guide}


def measure(n: int, seed: int, sampler: str, draws: int) -> dict[str, object]:
    model, rng = simulated(n, seed), np.random.default_rng(seed)
    started = time.perf_counter()
    more, log_z0 = SAMPLERS[sampler](model, rng)
    before = time.perf_counter() - started
    weights, started = Weights(), time.perf_counter()
    while weights.n < draws:
        weights.add(more(BATCH))
    per_draw = (time.perf_counter() - started) / weights.n
    variance = weights.relative_variance
    return {
        "N": n,
        "seed": seed,
        "sampler": sampler,
        "logz": log_z0 + weights.log_mean,
        "logz_se": weights.se,
        "log_weight_sd": weights.log_sd,
        "relative_variance": variance,
        "us_per_draw": 1e6 * per_draw,
        "seconds_before": before,
        "seconds": before + per_draw * variance / SE**2,
    }


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 200, 400, 800, 1600])
    parser.add_argument("--draws", type=int, default=16384)
    parser.add_argument("--repeats", type=int, default=3, help="data sets of every size")
    options = parser.parse_args()
    if options.fast:
        options.sizes, options.draws, options.repeats = [50, 100, 200], 2048, 2
    for sampler in SAMPLERS:
        measure(50, 0, sampler, BATCH)  # compile
    cases = [(n, seed, s) for n in options.sizes for seed in range(options.repeats)
             for s in SAMPLERS]  # fmt: skip
    table = pd.DataFrame([measure(*case, options.draws) for case in laboratory.progress(cases)])
    means = table.groupby(["N", "sampler"]).mean(numeric_only=True).drop(columns="seed")
    print(means.to_string(float_format=lambda v: f"{v:.3g}"))
    laboratory.save_table(table, options.out, NAME)
    _draw(table, options)


def _draw(table: pd.DataFrame, options) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    columns = {"relative_variance": "relative variance of one weight",
               "seconds": f"seconds to a standard error of {SE}"}  # fmt: skip
    for ax, (column, label) in zip(axes, columns.items(), strict=True):
        wide = table.pivot(index=["N", "seed"], columns="sampler", values=column).reset_index()
        plots.plot_scaling(wide, ax, size="N", seconds=list(SAMPLERS))
        ax.set(xlabel="data N", ylabel=label)
    axes[0].set_title(f"probit, {KERNEL}, {options.repeats} data sets of each size")
    laboratory.save_figure(figure, options.out, NAME)


if __name__ == "__main__":
    sys.exit(main())
