"""Table 11 of Titsias and Papaspiliopoulos (2018), run again beside the paper's.

    python -m scripts.papers.hyper_tables
    python -m scripts.papers.hyper_tables --draws 5000 --tune 5000 --schemes agrad-z-joint

Hyperparameters of a logistic Gaussian-process classifier on the Pima data, squared-exponential
kernel, flat priors, sampled together with the latent field. Chains run side by side, so ratios
of effective samples per second are what to read. Effective sample sizes are those of all chains
together: chains that disagree have few. Below the table the moments of the log hyperparameters
are compared with EP's evidence on a grid.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

import evidence as ev
from evidence.models.priors import Priors
from evidence.numerics.threads import blas_for
from evidence.statistics import diagnostics
from scripts import laboratory

NAME = "hyper_tables"
#: from 5000 draws of one chain
PAPER = laboratory.published("titsias_2018_table11").set_index("scheme")
#: steps of a scheme for one of agrad-z-joint: what costs far more per step makes fewer
SHARE = {"pseudo-marginal": 0.1}
PRIORS = {"constant_value": "flat", "length_scale": "flat"}


def problem(fast: bool) -> ev.GPModel:
    """Pima, standardised; or a few labels on a line."""
    if fast:
        x = np.linspace(0.0, 6.0, 30)[:, None]
        y = np.where(np.sin(x[:, 0]) > 0.0, 1.0, -1.0)
        return ev.GPModel(x, y, "4.0 * RBF(1.0)", likelihood="logit")
    data = ev.datasets.load("pima")
    X = ev.datasets.standardise(data["X"])
    length, amplitude = np.exp(float(data["log_lengthscale"])), np.exp(data["log_amplitude"])
    kernel = f"{float(amplitude) ** 2} * RBF({length})"
    return ev.GPModel(X, data["y"].astype(float), kernel, likelihood="logit")


def run(model: ev.GPModel, scheme: str, options: argparse.Namespace) -> ev.HyperDraws:
    share = SHARE.get(scheme, 1.0)
    return ev.sample_hyperparameters(
        model,
        PRIORS,
        scheme=scheme,
        draws=int(share * options.draws),
        tune=int(share * options.tune),
        chains=options.chains,
        keep=1,
        random_seed=options.seed,
    )


def row(draws: ev.HyperDraws) -> dict[str, object]:
    """One row of the table; moments of the logs, errors from their effective sample sizes."""
    theta, paper = draws.theta, PAPER.reindex([draws.scheme]).iloc[0]
    natural = diagnostics.ess(draws.values ** [1.0, 2.0])  # σ² and ℓ², as in the paper
    se = theta.std(axis=(0, 1)) / np.sqrt(draws.ess)
    mean = theta.mean(axis=(0, 1))
    return {
        "seconds": draws.seconds,
        "draws": theta.shape[0] * theta.shape[1],
        "kappa": draws.step_sizes[:, 1].mean(),
        "ESS log s2": draws.ess[0],
        "ESS log l": draws.ess[1],
        "ESS s2": natural[0],
        "ESS l2": natural[1],
        "min ESS/s": draws.min_ess_per_second,
        "rhat": draws.rhat.max(),
        "log s2": mean[0],
        "se s2": se[0],
        "log l": mean[1],
        "se l": se[1],
        "sd s2": theta[..., 0].std(),
        "sd l": theta[..., 1].std(),
        "loglik": draws.loglik.mean(),
        "paper kappa": paper.kappa,
        "paper ESS s2": paper.ess_variance,
        "paper ESS l2": paper.ess_squared_length,
        "paper min/s": paper.rate,
    }


def by_grid(model: ev.GPModel, draws: ev.HyperDraws, options: argparse.Namespace) -> np.ndarray:
    """Means of the logs from EP's evidence on a grid along and across the draws' ridge."""
    priors = Priors.of(model.hyperparameters, PRIORS)
    flat = draws.theta.reshape(-1, 2)
    middle = flat.mean(axis=0)
    axes = np.linalg.eigh(np.cov(flat.T))[1][:, ::-1]
    along = (flat - middle) @ axes
    low, high = along.min(axis=0), along.max(axis=0)
    wide = 0.25 * (high - low)
    sides = [
        np.linspace(low[k] - wide[k], high[k] + wide[k], points)
        for k, points in enumerate(options.grid)
    ]
    nodes = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
    theta = middle + nodes @ axes.T
    log_weight = priors.log_density(theta)
    with blas_for(model.n):
        for k, point in enumerate(tqdm(theta, desc="grid", unit="fit", leave=False, ncols=88)):
            log_weight[k] += ev.fit_ep(model.at(point), tol=1e-5).logz
        some = flat[:: max(len(flat) // 5, 1)]
        correction = [float(ev.fit_ep(model.at(point)).correction.sum()) for point in some]
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    square = weight.reshape(options.grid)
    mean = weight @ theta
    sd = np.sqrt(weight @ (theta - mean) ** 2)
    edge = square[[0, -1]].sum() + square[:, [0, -1]].sum()
    print(
        f"grid of EP's evidence: log s2 {mean[0]:.3f} (sd {sd[0]:.3f}), "
        f"log l {mean[1]:.3f} (sd {sd[1]:.3f}); weight at its edge {edge:.1e}; corrections at "
        f"{len(some)} draws from {min(correction):.4f} to {max(correction):.4f}"
    )
    return mean


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    known = [*PAPER.index, "whitened", "pseudo-marginal"]
    parser.add_argument("--schemes", nargs="+", choices=known, default=known)
    parser.add_argument("--draws", type=int, default=3000)
    parser.add_argument("--tune", type=int, default=2500)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--grid", type=int, nargs=2, default=(25, 13), help="0 0 leaves it out")
    options = parser.parse_args()
    if options.fast:
        options.draws, options.tune, options.grid = 60, 60, (4, 3)
    model, rows, runs = problem(options.fast), {}, {}
    for scheme in options.schemes:
        runs[scheme] = draws = run(model, scheme, options)
        rows[scheme] = row(draws)
        print(f"{scheme}: {draws.seconds:.0f} s, ESS {draws.ess.round(1)}", flush=True)
        for warning in draws.warnings:
            print(f"  {warning}")
    frame = pd.DataFrame(rows).T.rename_axis("scheme")
    print(f"\n{options.chains} chains of {options.tune} + {options.draws} steps")
    print(frame.to_string(float_format=lambda v: f"{v:.4g}"))
    if {"agrad-z-joint", "agrad-z-gibbs"} <= set(rows):
        ratio = frame["min ESS/s"]["agrad-z-joint"] / frame["min ESS/s"]["agrad-z-gibbs"]
        print(f"min ESS/s, joint over Gibbs: {ratio:.1f} (paper 25)")
    if min(options.grid) > 0:
        truth = by_grid(model, runs[options.schemes[0]], options)
        for scheme, r in rows.items():
            off = [
                (r[f"log {p}"] - value) / r[f"se {p}"]
                for p, value in zip(("s2", "l"), truth, strict=True)
            ]
            print(f"{scheme}: off the grid by {off[0]:.1f} and {off[1]:.1f} standard errors")
    laboratory.save_table(frame.reset_index(), options.out, NAME)
    laboratory.save_figure(runs[options.schemes[0]].plot(), options.out, NAME)


if __name__ == "__main__":
    sys.exit(main())
