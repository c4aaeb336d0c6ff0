"""How run times grow: with N, with particles, and with worker processes.

    python scripts/scaling.py --sizes 250 500 1000 2000 4000 --plot scaling.png

Resample-move with a fixed ladder and fixed moves on simulated classification data; exponents are
fitted to the larger half. Then one worker process against two on USPS 3-vs-5, in alternation.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from research import research_model

import evidence as ev

BETAS = np.linspace(0.1, 1.0, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[250, 500, 1000, 2000, 4000])
    parser.add_argument("--particles", nargs="+", type=int, default=[32, 64, 128, 256, 512, 1024])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", action="store_true", help="only the worker comparison")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    if not options.workers:
        by_size = pd.DataFrame([_by_size(n) for n in options.sizes])
        print(by_size.round(2).to_string(index=False))
        for part in ("ep", "islands"):
            print(f"  {part}: time ~ N^{_exponent(by_size.n, by_size[part]):.2f}")
        by_particles = pd.DataFrame(
            [_timed(_simulated(1000), m) | {"particles": m} for m in options.particles]
        )
        print(by_particles.round(2).to_string(index=False))
        exponent = _exponent(by_particles.particles, by_particles.islands)
        print(f"  islands: time ~ particles^{exponent:.2f}")
        if options.plot:
            _draw(by_size, by_particles, options.plot)
    _workers(options.repeats)


def _simulated(n: int) -> ev.GPModel:
    """Points in the unit square, so many that neighbours are at one distance for every n."""
    rng = np.random.default_rng(n)
    X = rng.uniform(0.0, np.sqrt(n), (n, 2))
    squared = np.sum((X[:, None] - X) ** 2, axis=2)
    blank = ev.GPModel(K=4.0 * np.exp(-0.5 * squared / 9.0), y=np.ones(n), jitter=1e-6)
    return ev.simulate(blank, random_seed=n).model


def _by_size(n: int) -> dict[str, float]:
    return {"n": n} | _timed(_simulated(n), 128)


def _timed(model: ev.GPModel, particles: int) -> dict[str, float]:
    """Seconds for EP and for 16 islands (the pilot left out)."""
    result = ev.log_evidence(
        model, method="smc", betas=BETAS, n_particles=particles, n_islands=16, random_seed=0,
        progressbar=False,
    )  # fmt: skip
    history = result.history
    first, last = history.seconds.iloc[0], history.seconds.iloc[-1]
    tasks = len(history)
    islands = (last - first) * tasks / max(tasks - 2, 1)  # the first two ended together
    rows = float(result.trace.gradients.sum())
    return {
        "ep": result.estimates.seconds["ep"],
        "islands": islands,
        "us_per_move": 1e6 * islands / rows,
    }


def _exponent(x: pd.Series, y: pd.Series) -> float:
    half = len(x) // 2
    return float(np.polyfit(np.log(x[half:]), np.log(y[half:]), 1)[0])


def _workers(repeats: int) -> None:
    model = research_model("usps-hard")
    context = multiprocessing.get_context("forkserver")
    seconds: dict[int, list[float]] = {1: [], 2: []}
    pools = {k: ProcessPoolExecutor(k, mp_context=context) for k in seconds}
    found = set()
    for repeat in range(repeats + 1):
        for k, pool in pools.items():
            started = time.perf_counter()
            result = ev.log_evidence(
                model, method="smc", n_islands=32, n_particles=128, random_seed=0, executor=pool,
                progressbar=False,
            )  # fmt: skip
            if repeat:  # the first is for imports and compilation
                seconds[k].append(time.perf_counter() - started)
            found.add(result.logz)
    for pool in pools.values():
        pool.shutdown()
    one, two = (np.array(seconds[k]) for k in (1, 2))
    print(
        f"USPS, 32 islands of 128: one worker {np.median(one):.1f} s, two "
        f"{np.median(two):.1f} s, speed-up {np.median(one / two):.2f} "
        f"(smallest {np.min(one / two):.2f}); {len(found)} distinct answer(s)"
    )


def _draw(by_size: pd.DataFrame, by_particles: pd.DataFrame, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for part, marker in (("ep", "s--"), ("islands", "o-")):
        exponent = _exponent(by_size.n, by_size[part])
        label = f"{'EP' if part == 'ep' else '16 islands of 128'}, $N^{{{exponent:.2f}}}$"
        left.loglog(by_size.n, by_size[part], marker, color="#1b3a5c", label=label)
    exponent = _exponent(by_particles.particles, by_particles.islands)
    right.loglog(by_particles.particles, by_particles.islands, "o-", color="#1b3a5c",
                 label=f"16 islands, N = 1000, $M^{{{exponent:.2f}}}$")  # fmt: skip
    left.set(xlabel="data N", ylabel="seconds")
    right.set(xlabel="particles of an island M", ylabel="seconds")
    for ax, ticks in ((left, by_size.n), (right, by_particles.particles)):
        ax.set_xticks(ticks, [f"{tick}" for tick in ticks])
        ax.minorticks_off()
        ax.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
