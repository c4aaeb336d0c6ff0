"""How run times grow: with N, with particles, and with worker processes.

    python -m scripts.benchmarks.scaling --sizes 250 500 1000 2000 4000

Resample-move with a fixed ladder and fixed moves on simulated classification data; exponents are
fitted to the larger half. Then one worker process against two, in alternation, on USPS 3-vs-5
(the fast mode: on simulated data). Finished runs are on disk at once, and the same command goes
on from there.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd

import evidence as ev
from evidence import plots
from evidence.plots.efficiency import exponent
from scripts import laboratory
from scripts.laboratory import research_model

NAME = "scaling"
BETAS = np.linspace(0.1, 1.0, 10)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--sizes", nargs="+", type=int, default=[250, 500, 1000, 2000, 4000])
    parser.add_argument("--particles", nargs="+", type=int, default=[32, 64, 128, 256, 512, 1024])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    middle = 1000
    if options.fast:
        options.sizes, options.particles, options.repeats = [50, 100], [16, 32], 1
        middle = 100
    repeats = range(options.repeats)
    cases = [("N", n, 128, k) for n in options.sizes for k in repeats]
    cases += [("particles", middle, m, k) for m in options.particles for k in repeats]
    _timed("", 50, 16, 0)  # compile
    file = options.out / f"{NAME}_runs.csv"
    if options.fast:
        file.unlink(missing_ok=True)
    table = laboratory.kept(file, ["varied", "N", "particles", "repeat"], cases, _timed)
    by_size, by_particles = (table[table.varied == name] for name in ("N", "particles"))
    for frame, size, parts in ((by_size, "N", ["EP", "islands"]),
                               (by_particles, "particles", ["islands"])):  # fmt: skip
        mean = frame.groupby(size).mean(numeric_only=True)
        print(mean.round(3).to_string())
        for part in parts:
            power = exponent(mean.index, mean[part])
            print(f"  {part}: time ~ {size}^{power:.2f}")
    laboratory.save_table(table, options.out, NAME)
    _draw(by_size, by_particles, options.out)
    workers = _workers(options)
    laboratory.save_table(workers, options.out, f"{NAME}_workers")


def _simulated(n: int) -> ev.GPModel:
    """Points in the unit square, so many that neighbours are at one distance for every n."""
    rng = np.random.default_rng(n)
    X = rng.uniform(0.0, np.sqrt(n), (n, 2))
    squared = np.sum((X[:, None] - X) ** 2, axis=2)
    blank = ev.GPModel(K=4.0 * np.exp(-0.5 * squared / 9.0), y=np.ones(n), jitter=1e-6)
    return ev.simulate(blank, random_seed=n).model


def _timed(varied: str, n: int, particles: int, repeat: int) -> list[dict[str, object]]:
    """Seconds for EP and for 16 islands (the pilot left out)."""
    model = _simulated(n)
    result = ev.log_evidence(
        model, method="smc", betas=BETAS, n_particles=particles, n_islands=16, random_seed=0,
        progressbar=False,
    )  # fmt: skip
    history = result.history
    first, last = history.seconds.iloc[0], history.seconds.iloc[-1]
    tasks = len(history)
    islands = (last - first) * tasks / max(tasks - 2, 1)  # the first two ended together
    rows = float(result.trace.gradients.sum())
    return [
        {
            "varied": varied,
            "N": n,
            "particles": particles,
            "repeat": repeat,
            "EP": result.estimates.seconds["ep"],
            "islands": islands,
            "us_per_move": 1e6 * islands / rows,
        }
    ]


def _workers(options) -> pd.DataFrame:
    model = _simulated(200) if options.fast else research_model("usps-hard")
    context = multiprocessing.get_context("forkserver")
    pools = {k: ProcessPoolExecutor(k, mp_context=context) for k in (1, 2)}
    rows = []
    for repeat in range(options.repeats + 1):
        for k, pool in pools.items():
            started = time.perf_counter()
            result = ev.log_evidence(
                model, method="smc", n_islands=64, n_particles=128, random_seed=0, executor=pool,
                progressbar=False,
            )  # fmt: skip
            if repeat:  # the first is for imports and compilation
                rows.append((repeat, k, time.perf_counter() - started, result.logz))
    for pool in pools.values():
        pool.shutdown()
    table = pd.DataFrame(rows, columns=["repeat", "workers", "seconds", "logz"])
    wide = table.pivot(index="repeat", columns="workers", values="seconds")
    ratio = wide[1] / wide[2]
    print(
        f"N = {model.n}, 64 islands of 128: one worker {wide[1].median():.1f} s, two "
        f"{wide[2].median():.1f} s, speed-up {ratio.median():.2f} (smallest {ratio.min():.2f}); "
        f"{table.logz.nunique()} distinct answer(s)"
    )
    return table


def _draw(by_size: pd.DataFrame, by_particles: pd.DataFrame, out) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    plots.plot_scaling(by_size, left, size="N", seconds=["EP", "islands"])
    left.set(xlabel="data N", title="16 islands of 128 particles")
    plots.plot_scaling(by_particles, right, size="particles", seconds=["islands"])
    right.set(xlabel="particles of an island", title=f"N = {int(by_particles.N.iloc[0])}")
    laboratory.save_figure(figure, out, NAME)


if __name__ == "__main__":
    sys.exit(main())
