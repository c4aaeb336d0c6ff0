"""How far apart are the bounds on log Z, and do they hold? Bidirectional Monte Carlo.

    python -m scripts.benchmarks.bidirectional --cases 100 --out results/bidirectional

On data simulated from a model the posterior draw they came from is known, so that annealing
down from it bounds log Z from above as annealing up does from below. Printed are

1. the bounds against the number of temperatures, one data set of ``--n`` probit labels;
2. how often bounds and Bennett's ratio agree with log Z on simulated cases where it is known:
   Gaussian noise in closed form, probit with few labels by minimax tilting.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import multivariate_normal
from tqdm.auto import tqdm

import evidence as ev
from scripts import laboratory

NAME = "bidirectional"


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--n", type=int, default=100, help="data in the first part")
    parser.add_argument("--temperatures", type=int, nargs="+", default=[2**k for k in range(10)])
    parser.add_argument("--chains", type=int, default=128)
    parser.add_argument("--cases", type=int, default=100, help="data sets in the second part")
    parser.add_argument("--reference", default="prior")
    parser.add_argument("--move", default="mgrad")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.fast:
        options.n, options.cases, options.temperatures = 40, 8, [2**k for k in range(6)]

    simulated = ev.simulate(_model(options.n, "probit"), options.seed)
    truth, truth_se = _truth(simulated)
    print(
        f"{options.n} probit labels, reference {options.reference}, move {options.move}, "
        f"{options.chains} chains each way; log Z = {truth:.4f} ± {truth_se:.4f}"
    )
    heads = ("lower", "upper", "Bennett", "reverse - forward")
    print("     B  " + "".join(f"{head + ' ± se':<24}" for head in heads) + "seconds")
    results = []
    for n in options.temperatures:
        found = _run(simulated, options, options.seed, n)
        results.append(found)
        pairs = (
            (found.lower, found.lower_se),
            (found.upper, found.upper_se),
            (found.logz, found.logz_se),
            (found.gap, found.gap_se),
        )
        cells = "".join(f"{value:9.3f} ± {se:<12.3f}" for value, se in pairs)
        print(f"{n:6d}  {cells}{found.seconds:.2f}")
    columns = ("lower", "lower_se", "upper", "upper_se", "logz", "logz_se", "gap", "gap_se")
    table = pd.DataFrame([{c: getattr(r, c) for c in (*columns, "seconds")} for r in results])
    table.insert(0, "temperatures", options.temperatures)
    laboratory.save_table(table.assign(truth=truth), options.out, NAME)
    _draw(table, truth, options.out)
    laboratory.save_table(_coverage(options), options.out, f"{NAME}_coverage")


def _model(n: int, likelihood: str, amplitude: float = 3.0, length: float = 8.0) -> ev.GPModel:
    t = np.arange(n)
    K = amplitude**2 * np.exp(-0.5 * ((t[:, None] - t) / length) ** 2)
    return ev.GPModel(K=K, y=np.ones(n), likelihood=likelihood, jitter=1e-6)


def _truth(simulated: ev.Simulated) -> tuple[float, float]:
    model, y = simulated.model, simulated.y
    if model.likelihood.name == "gaussian":
        cov = model.K + model.likelihood.noise_std**2 * np.eye(model.n)
        return float(multivariate_normal(model.mean, cov).logpdf(y)), 0.0
    found = ev.log_orthant(model.K + np.eye(model.n), y, n_draws=20_000, random_seed=0)
    return found.logp, found.se


def _run(
    simulated: ev.Simulated, options: argparse.Namespace, seed: int, betas: str | int
) -> ev.Bidirectional:
    return ev.bidirectional(
        simulated,
        reference=options.reference,
        move=options.move,
        betas=betas,
        n_chains=options.chains,
        random_seed=seed,
    )


def _coverage(options: argparse.Namespace) -> pd.DataFrame:
    """Each case has its own size, length scale and likelihood, and a pilot's own ladder."""
    rng = np.random.default_rng(options.seed)
    rows = []
    for case in tqdm(range(options.cases), disable=None, leave=False):
        likelihood = ("gaussian(noise_std=0.5)", "probit")[case % 2]
        n, amplitude = int(rng.integers(2, 31)), rng.uniform(0.5, 4.0)
        model = _model(n, likelihood, amplitude, rng.uniform(0.5, 8.0))
        simulated = ev.simulate(model, rng)
        truth, truth_se = _truth(simulated)
        found = _run(simulated, options, case, "adaptive")
        rows.append(
            (
                (found.lower - truth) / np.hypot(found.lower_se, truth_se),
                (truth - found.upper) / np.hypot(found.upper_se, truth_se),
                (found.logz - truth) / np.hypot(found.logz_se, truth_se),
                found.gap / found.gap_se,
                found.upper - found.lower,
            )
        )
    table = pd.DataFrame(rows, columns=["lower", "upper", "z", "gap", "width"])
    lower, upper, z, gap, width = table.to_numpy().T
    holds = (lower < 2.0) & (upper < 2.0)
    print(f"\n{options.cases} simulated cases, half of them Gaussian, half probit")
    print(f"  both bounds hold within 2 se      {100 * holds.mean():.0f} %")
    print(f"  lower bound exceeded by           {lower.max():.2f} se at most")
    print(f"  upper bound exceeded by           {upper.max():.2f} se at most")
    print(f"  upper - lower                     {np.median(width):.3f} in the middle")
    print(f"  Bennett within 2 se of log Z      {100 * (np.abs(z) < 2.0).mean():.0f} %")
    print(f"  Bennett, RMS z                    {np.sqrt(np.mean(z**2)):.3f}")
    print(f"  gap between the ways, RMS z       {np.sqrt(np.mean(gap**2)):.3f}")
    return table


def _draw(table: pd.DataFrame, truth: float, out: Path) -> None:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    ax.axhline(0.0, color="0.6", lw=1.0)
    for name, se, style, label in (
        ("upper", "upper_se", dict(marker="v", color="#b3541e"), "upper bound, down"),
        ("lower", "lower_se", dict(marker="^", color="#1b3a5c"), "lower bound, up"),
        ("logz", "logz_se", dict(marker="o", color="0.2", mfc="white"), "Bennett, both"),
    ):
        ax.errorbar(table.temperatures, table[name] - truth, 2.0 * table[se], capsize=3, lw=1.0,
                    ms=5, label=label, **style)  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set(xlabel="temperatures", ylabel="distance from log Z (± 2 se)")
    ax.legend(frameon=False)
    laboratory.save_figure(figure, out, NAME)


if __name__ == "__main__":
    sys.exit(main())
