"""Densities with known evidence: every method against the truth, over many seeds.

    python -m scripts.benchmarks.density_truths --seeds 20 --out results/truths

Prints for each problem and method the mean error, the RMS of (log Z - truth) / se, which should
be near 1 (Student's t with 15 degrees of freedom, from 16 islands, has 1.07), the largest |z|
and the seconds per run; for mixtures also how much of its draws parallel tempering leaves in
each mode. Then the posteriors whose truth comes from quadrature or from importance weights.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

import evidence as ev
from scripts import laboratory
from scripts.catalogue.smooth import Problem, problems

NAME = "density_truths"
_ROUNDING = 1e-6  # below this, an error is rounding


class Row(NamedTuple):
    problem: str
    method: str
    seed: int
    logz: float
    se: float
    truth: float
    truth_se: float
    seconds: float
    warnings: int
    shares: str

    @property
    def z(self) -> float:
        return (self.logz - self.truth) / float(np.hypot(self.se, self.truth_se) + _ROUNDING)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="+", help="problems by name")
    parser.add_argument("--methods", nargs="+", default=["smc", "ais", "pt", "arm", "auto"])
    options = parser.parse_args()
    if options.fast:
        options.seeds, options.methods = 1, options.methods[:1]
        options.only = options.only or ["Gaussian 2-D", "mixture 2-D"]

    rows: list[Row] = []
    print(f"{'problem':28s} {'method':5s}  runs    error ± its se   RMS z  max |z|   se   seconds")
    for name, make in problems().items():
        if not options.only or name in options.only:
            rows += _problem(name, make, options.methods, options.seeds)
            table = pd.DataFrame(rows).assign(z=[row.z for row in rows])
            laboratory.save_table(table, options.out, NAME)
    z = np.array([row.z for row in rows])
    print(f"\n{len(z)} runs: RMS z {_rms(z):.2f}, beyond 3 se: {int((np.abs(z) > 3).sum())}")
    _draw(rows, options.out)


def _problem(
    name: str, make: Callable[[], Problem], methods: list[str], seeds: int
) -> Iterator[Row]:
    problem = make()
    for method in methods:
        words = {**problem.words, **problem.by_method.get(method, {})}
        if words.pop("skip", False):
            continue
        found = []
        for seed in tqdm(range(min(seeds, problem.most)), desc=f"{name} {method}", disable=None):
            started = time.perf_counter()
            result = ev.log_evidence(
                problem.model,
                method=method,
                random_seed=seed,
                progressbar=False,
                **words,
            )
            seconds = time.perf_counter() - started
            shares = _shares(problem, result) if method == "pt" else None
            told = "" if shares is None else " ".join(f"{s:.4f}" for s in shares)
            truth, error = problem.truth, problem.truth_se
            warned = len(result.warnings)
            found.append(
                Row(
                    name,
                    method,
                    seed,
                    result.logz,
                    result.logz_se,
                    truth,
                    error,
                    seconds,
                    warned,
                    told,
                )
            )
        _tell(name, method, found)
        yield from found


def _shares(problem: Problem, result: Any) -> np.ndarray | None:
    """The share of the draws in every mode."""
    if problem.assign is None or result.samples is None:
        return None
    modes = problem.assign(result.samples.reshape(-1, problem.model.n))
    return np.bincount(modes, minlength=problem.weights.size) / modes.size


def _tell(name: str, method: str, rows: list[Row]) -> None:
    error = np.array([row.logz - row.truth for row in rows])
    z = np.array([row.z for row in rows])
    spread = error.std(ddof=1) / len(z) ** 0.5 if len(z) > 1 else np.nan
    print(
        f"{name:28s} {method:5s}  {len(z):4d}  {error.mean():+.4f} ± {spread:.4f}  {_rms(z):6.2f} "
        f"{np.abs(z).max():7.2f}  {np.mean([row.se for row in rows]):.4f} "
        f"{np.median([row.seconds for row in rows]):7.2f}"
        + (f"  {sum(row.warnings > 0 for row in rows)} warned" if rows[0].warnings else ""),
        flush=True,
    )
    if rows[0].shares and len(rows) > 1:
        shares = np.array([[float(s) for s in row.shares.split()] for row in rows])
        se = shares.std(axis=0, ddof=1) / len(rows) ** 0.5
        told = ", ".join(
            f"{m:.4f} ± {s:.4f}" for m, s in zip(shares.mean(axis=0), se, strict=True)
        )
        print(f"{'':28s}        draws in each mode: {told}", flush=True)


def _rms(z: np.ndarray) -> float:
    return float(np.sqrt(np.mean(z**2)))


def _draw(rows: list[Row], out: Path) -> None:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row.problem for row in rows))
    methods = list(dict.fromkeys(row.method for row in rows))
    figure, ax = plt.subplots(figsize=(7, 0.45 * len(names) + 1.2), layout="constrained")
    for k, method in enumerate(methods):
        mine = [row for row in rows if row.method == method]
        height = [names.index(row.problem) + 0.13 * (k - 0.5 * (len(methods) - 1)) for row in mine]
        z = np.clip([row.z for row in mine], -6.0, 6.0)
        ax.plot(z, height, ".", ms=4, alpha=0.7, label=method)
    ax.axvspan(-3.0, 3.0, color="0.93", zorder=0)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set(xlabel=r"$(\log \hat Z - \log Z)$ / stated se", xlim=(-6.2, 6.2))
    figure.legend(ncols=len(methods), loc="outside upper right", frameon=False)
    laboratory.save_figure(figure, out, NAME)


if __name__ == "__main__":
    sys.exit(main())
