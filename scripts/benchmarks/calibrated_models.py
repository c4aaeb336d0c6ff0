"""Does ev.calibrate find models that are not what was meant, and pass those that are?

    python -m scripts.benchmarks.calibrated_models --pairs process "known noise" --seeds 20

Pairs of models of thirty rows, without and with an effect (of processes: long and short scales),
and four generators: none (data are the models' own), the user's own that say the same, priors of
effects with half the standard deviation, and another parametrisation of the likelihood (noise
that is given as a variance, overdispersion as its inverse). A row for each pair, generator and
seed: the verdict, how many statistics are out of line, and seconds, on two processes or here.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import evidence as ev
from scripts import laboratory

NAME = "calibrated_models"
_ROWS = 30
_PRIORS: dict[str, dict[str, Any]] = {
    "known noise": {"Intercept": "norm(0, 1)", "x": "norm(0, 1)", "sigma": 0.5},
    "regression": {"Intercept": "norm(0, 1)", "x": "norm(0, 1)", "sigma": "halfnorm(scale=1)"},
    "counts": {"Intercept": "norm(1, 0.5)", "x": "norm(0, 0.5)", "dispersion": 0.5},
    "groups": {
        "Intercept": "norm(0, 1)", "x": "norm(0, 1)", "sd(1|g)": "halfnorm(scale=1)",
        "sigma": "halfnorm(scale=1)",
    },
}  # fmt: skip
PAIRS = ("process", *_PRIORS)
KINDS = ("own", "right", "prior", "likelihood")


def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=_ROWS), "g": np.arange(_ROWS) % 6}


def models(pair: str) -> dict[str, Any]:
    """Of responses that only say which kind of numbers they are."""
    if pair == "process":
        x = np.linspace(0.0, 3.0, _ROWS)
        base = ev.GPModel(x, 0.0 * x, "RBF(0.5)", likelihood="gaussian(noise_std=0.5)")
        return {"without": base.at({"length_scale": 2.0}), "with": base}
    data = columns() | {"y": np.arange(_ROWS) % 3}
    group = " + (1 | g)" if pair == "groups" else ""
    family = "negative_binomial" if pair == "counts" else "gaussian"
    made = {}
    for name, formula in {"without": f"y ~ 1{group}", "with": f"y ~ x{group}"}.items():
        priors = {k: v for k, v in _PRIORS[pair].items() if k != "x" or name == "with"}
        made[name] = ev.from_formula(formula, data, likelihood=family, priors=priors)
    return made


def generate(rng: np.random.Generator, name: str, pair: str, kind: str) -> np.ndarray:
    """Data by hand, as the user believes that the models make them."""
    if pair == "process":
        apart = np.subtract.outer(*[np.linspace(0.0, 3.0, _ROWS)] * 2)
        K = np.exp(-0.5 * (apart / (0.5 if name == "with" else 2.0)) ** 2)
        K *= 0.25 if kind == "prior" else 1.0
        K += np.eye(_ROWS) * (0.5 if kind == "likelihood" else 0.25)
        return np.linalg.cholesky(K) @ rng.standard_normal(_ROWS)
    x, g = columns().values()
    scale = 0.5 if kind == "prior" else 1.0
    if pair == "counts":
        eta = 1.0 + 0.5 * scale * rng.normal()
        eta = eta + 0.5 * scale * rng.normal() * x * (name == "with")
        r = 2.0 if kind == "likelihood" else 0.5
        return rng.poisson(np.exp(eta) * rng.gamma(r, 1.0 / r, _ROWS))
    eta = scale * rng.normal() + scale * rng.normal() * x * (name == "with")
    if pair == "groups":
        eta = eta + abs(rng.normal()) * rng.normal(size=6)[g]
    sigma = 0.5 if pair == "known noise" else abs(rng.normal())
    return eta + (sigma**0.5 if kind == "likelihood" else sigma) * rng.normal(size=_ROWS)


def run(pair: str, kind: str, seed: int, n: int) -> list[dict[str, Any]]:
    simulate = None if kind == "own" else partial(generate, pair=pair, kind=kind)
    started = time.perf_counter()
    words: dict[str, Any] = {"simulate": simulate, "random_seed": seed, "progressbar": False}
    if pair == "process":  # so little work that other processes take longer to start
        found = ev.calibrate(models(pair), n, **words)
    else:
        with ProcessPoolExecutor(2) as pool:
            found = ev.calibrate(models(pair), n, executor=pool, **words)
    row = {"pair": pair, "kind": kind, "seed": seed, "passed": found.passed}
    out = int((found.table.p < found.table.limit).sum())
    evidences = found.table.index.str.startswith(("how often", "BF", "log prob"))
    bad = found.table[evidences & (found.table.p < found.table.limit)]
    seconds = time.perf_counter() - started
    return [row | {"out": out, "out_of_evidences": len(bad), "seconds": seconds}]


def draw(table: pd.DataFrame, options: argparse.Namespace) -> None:
    import matplotlib.pyplot as plt

    share = table.groupby(["kind", "pair"], sort=False).passed.mean().unstack()
    figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    share.plot.bar(ax=ax, rot=0, color=["0.2", "0.55", "0.8"], xlabel="", ylabel="share passed")
    laboratory.save_figure(figure, options.out, NAME)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--pairs", nargs="+", default=PAIRS, choices=PAIRS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--n", type=int, default=200)
    options = parser.parse_args()
    if options.fast:
        options.pairs, options.seeds, options.n = ["process"], 1, 20
    cases = [(p, k, s) for p in options.pairs for k in options.kinds for s in range(options.seeds)]
    keys = ["pair", "kind", "seed"]
    rows = laboratory.kept(
        options.out / "runs.csv", keys, cases, partial(run, n=options.n)
    ).astype({"passed": bool})
    groups = rows.groupby(["pair", "kind"], sort=False)
    table = groups.agg(
        runs=("seed", "size"), passed=("passed", "sum"), out=("out", "median"),
        out_of_evidences=("out_of_evidences", "median"), seconds=("seconds", "median"),
    ).reset_index()  # fmt: skip
    print(table.to_string(index=False))
    laboratory.save_table(table, options.out, NAME)
    draw(rows, options)


if __name__ == "__main__":
    sys.exit(main())
