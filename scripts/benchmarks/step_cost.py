"""Time of a step of every O(N²) move against its bare matrix products, at M = 256.

    python -m scripts.benchmarks.step_cost --n 250 1000 4096

One BLAS thread. "products" counts the N × N products of a step; their time is that of the same
products alone, in the same run, alternating with the step.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import evidence as ev
from evidence import moves
from evidence.approximations.reference import prior_reference
from scripts import laboratory

NAME = "step_cost"
#: move -> (object, products per step)
MOVES = {
    "mgrad": (moves.MGrad(1.0), 2),
    "agrad-z": (moves.AGradZ(1.0), 2),
    "agrad-u": (moves.AGradU(1.0), 2),
    "pcnl": (moves.pcnl(0.1), 2),
    "mala": (moves.Langevin(0.1), 2),
    "pcn": (moves.PCN(0.5), 1),
    "elliptical": (moves.EllipticalSlice(), 1),
    "hmc": (moves.HMC(0.3, n_leapfrog=3), 6),
    "splitting": (moves.SplittingHMC(0.3, n_leapfrog=3), 6),
    "nuts": (moves.NUTS(0.1), None),  # with 0.5 trajectories end at once
}


def model(n: int, likelihood: str) -> ev.GPModel:
    """A smooth GP on a line with simulated data."""
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, n / 50.0, n)
    K = 4.0 * np.exp(-np.abs(t[:, None] - t))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    if likelihood == "poisson":
        y = rng.poisson(1.0, n).astype(float)
    return ev.GPModel(K=K, y=y, likelihood=likelihood)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--n", type=int, nargs="+", default=[250, 1000])
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--likelihood", default="probit")
    parser.add_argument("--moves", nargs="+", default=list(MOVES))
    options = parser.parse_args()
    if options.fast:
        options.n, options.repeats = [50, 100], 3
    rng = np.random.default_rng(1)
    print(f"M = {options.rows}, {options.likelihood}, milliseconds: median of {options.repeats}")
    rows = []
    for n in options.n:
        path = ev.Path(prior_reference(model(n, options.likelihood)))
        T = path.coordinates("base").T
        a = rng.standard_normal((options.rows, n))
        for name in options.moves:
            move, products = MOVES[name]
            move = replace(move)
            with threadpool_limits(1, user_api="blas"):
                found = row(path, move, products, T, a, rng, options)
            rows.append({"N": n, "move": name, **found})
            print(f"N = {n:5d}  {name:11} step {found['step']:8.2f}  products "
                  f"{found['products']:8.2f}  ratio {found['ratio']:5.2f}")  # fmt: skip
    laboratory.save_table(pd.DataFrame(rows), options.out, NAME)


def row(path, move, products, T, a, rng, options) -> dict:  # type: ignore[no-untyped-def]
    state = move.init_reference(rng, path, len(a))
    state, info = move.step(rng, path, 1.0, state)
    steps, bare, counts = [], [], []
    for _ in range(options.repeats):
        started = time.perf_counter()
        state, info = move.step(rng, path, 1.0, state)
        steps.append(time.perf_counter() - started)
        counts.append(_products(products, info, len(a)))
        started = time.perf_counter()
        for k in range(max(1, round(counts[-1]))):
            _ = a @ (T if k % 2 else T.T)
        bare.append((time.perf_counter() - started) / max(1, round(counts[-1])) * counts[-1])
    step, gemm = 1e3 * np.median(steps), 1e3 * np.median(bare)
    return {"step": step, "products": gemm, "ratio": step / gemm}


def _products(products: int | None, info: moves.Info, m: int) -> float:
    return products if products is not None else 2.0 * info.gradients / m


if __name__ == "__main__":
    main()
