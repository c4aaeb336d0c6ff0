r"""What a map costs: log-Gaussian Cox processes on grids of growing size.

    python -m scripts.benchmarks.sparse_scaling --out results/sparse_scaling

Three parts. *Cost*: seconds of EP and of log Z to a standard error, entries of the factor, and
draws of an island, for side × side cells (64 to 512; ``--fast``: 16 and 32), with exponents of
the number of cells n fitted to them. *Workers*: the same log Z from processes of a Dask cluster,
one and two, bit for bit (where ``distributed`` is installed). *Dense*: a grid of 64 × 64 (8 × 8)
by its covariance matrix, which must agree within three standard errors.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

import evidence as ev
from scripts import laboratory
from scripts.benchmarks.sparse_truths import cox, forget_peak, peak_memory

NAME = "sparse_scaling"
SIDES, FAST_SIDES = [64, 128, 256, 512], [8, 16]
DENSE, FAST_DENSE = 64, 8
COSTS = ("entries", "ep_seconds", "seconds")


def model_of(side: int, seed: int) -> ev.SparseModel:
    return cox(side, seed, None).model


def cost(side: int, seed: int, target_se: float) -> dict[str, Any]:
    """One row: EP, then all of it."""
    model = model_of(side, seed)
    ev.log_evidence(model_of(8, seed), method="guided", progressbar=False)  # compile
    forget_peak()
    started, used = time.perf_counter(), time.process_time()
    ep = ev.fit_ep(model)
    of_ep = time.perf_counter() - started
    found = ev.log_evidence(
        model, method="guided", reference=ep, target_se=target_se, random_seed=seed,
        progressbar=False,
    )  # fmt: skip
    return {
        "side": side,
        "n": side**2,
        "entries": model.describe()["nonzeros of its Cholesky factor"],
        "ep_seconds": of_ep,
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - used,
        "peak_mb": peak_memory(),
        "sweeps": ep.n_sweeps,
        "draws_per_island": found.settings["draws_per_island"],
        "ep": ep.logz,
        "logz": found.logz,
        "logz_se": found.logz_se,
        "warnings": "; ".join(found.warnings),
    }


def exponents(table: pd.DataFrame) -> dict[str, float]:
    """Slopes of log cost in log n."""
    n = np.log(table.n.to_numpy(float))
    return {name: float(np.polyfit(n, np.log(table[name]), 1)[0]) for name in COSTS}


def by_workers(side: int, seed: int) -> pd.DataFrame:
    """log Z without a cluster, and with one of one and of two workers."""
    model, rows = model_of(side, seed), []

    def run(workers: int, executor: Any = None) -> None:
        started = time.perf_counter()
        found = ev.log_evidence(
            model, method="guided", target_se=0.1, random_seed=seed, executor=executor,
            progressbar=False,
        )  # fmt: skip
        seconds = time.perf_counter() - started
        rows.append({"workers": workers, "logz": found.logz, "seconds": seconds})

    run(0)
    if find_spec("distributed") is not None:
        from distributed import Client, LocalCluster

        for workers in (1, 2):
            with (
                LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
            ):
                run(workers, client.get_executor())
    return pd.DataFrame(rows)


def against_dense(side: int, seed: int) -> pd.DataFrame:
    """The same model by K, the inverse of its precision."""
    model = model_of(side, seed)
    A, rows = model.A.toarray(), []
    K = A @ np.linalg.solve(model.Q.toarray(), A.T)
    twin = ev.GPModel(
        K=(K + K.T) / 2, y=model.y, likelihood=model.likelihood, mean=model.prior.mean,
        structure="dense",
    )  # fmt: skip
    for name, one in (("sparse", model), ("dense", twin)):
        started = time.perf_counter()
        found = ev.log_evidence(
            one, method="guided", target_se=0.05, random_seed=seed, progressbar=False
        )
        seconds = time.perf_counter() - started
        rows.append(
            {"structure": name, "logz": found.logz, "logz_se": found.logz_se, "seconds": seconds}
        )
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame, slopes: dict[str, float]) -> Any:
    """Costs against n, both logarithmic."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.5, 4.0), layout="constrained")
    for name, label in (("ep_seconds", "EP"), ("seconds", "log Z, EP included")):
        ax.loglog(table.n, table[name], "o-", label=f"{label}: n^{slopes[name]:.2f}")
    ax.set(xlabel="cells n", ylabel="seconds")
    ax.legend(frameon=False)
    plt.close(figure)
    return figure


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--sides", nargs="+", type=int, help="of the grids")
    parser.add_argument("--target-se", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", default=["cost", "workers", "dense"],
                        choices=["cost", "workers", "dense"])  # fmt: skip
    options = parser.parse_args()
    sides = options.sides or (FAST_SIDES if options.fast else SIDES)
    if "cost" in options.parts:
        rows = [cost(side, options.seed, options.target_se) for side in laboratory.progress(sides)]
        table = pd.DataFrame(rows)
        print(table.drop(columns="warnings").to_string(index=False))
        slopes = exponents(table)
        print("; ".join(f"{name} ~ n^{slope:.2f}" for name, slope in slopes.items()))
        laboratory.save_table(table, options.out, NAME)
        laboratory.save_figure(draw(table, slopes), options.out, NAME)
    if "workers" in options.parts:
        table = by_workers(sides[0], options.seed)
        print(table.to_string(index=False))
        print("same bits:", bool((table.logz == table.logz[0]).all()))
        laboratory.save_table(table, options.out, f"{NAME}_workers")
    if "dense" in options.parts:
        table = against_dense(FAST_DENSE if options.fast else DENSE, options.seed)
        z = table.logz.diff().iloc[1] / np.hypot(*table.logz_se)
        print(table.to_string(index=False))
        print(f"dense - sparse = {z:+.2f} standard errors")
        laboratory.save_table(table, options.out, f"{NAME}_dense")


if __name__ == "__main__":
    main()
