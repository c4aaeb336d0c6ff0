"""Are the error bars of log Z from draws honest? Against exact truths, and R's own formula.

    python -m scripts.benchmarks.bridge --rows gauss5 banana --replications 100 --data folder

For each problem and autocorrelation, replications of 4 chains of 1000 draws: the RMS and the mean
of z = (log Z - truth)/se, which should be near 1 and 0; the RMS error and the mean error bar; the
seconds of one; and how many had a warning. Beside them the same for a normal proposal, one half
of the draws and the error of the R package bridgesampling: Frühwirth-Schnatter's (2004), whose
autocorrelation is that of one autoregression through all chains. The folder of --data holds
turtles.npz; without it these are left out.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import evidence as ev
from evidence.models.density.changes import Bounded
from evidence.proposals.fitted import normal
from evidence.statistics.bridge import bridge
from evidence.statistics.diagnostics import ess_bulk
from scripts import laboratory
from scripts.catalogue import drawn as problems

NAME = "bridge"
CHAINS, DRAWS = 4, 1000
ROWS = {
    "gauss1": lambda: problems.gaussian(1),
    "gauss5": lambda: problems.gaussian(5),
    "gauss50": lambda: problems.gaussian(50),
    "bounded": problems.bounded,
    "skewed": problems.skewed,
    "banana": problems.banana,
    "student": problems.student,
    "bimodal": problems.bimodal,
    "schools": lambda: problems.schools(True),
    "schools_nc": lambda: problems.schools(False),
    "timber1": lambda: problems.regression(0),
    "timber2": lambda: problems.regression(1),
    "groups100": problems.many_groups,
    "turtles0": lambda folder: problems.turtles(False, folder),
    "turtles1": lambda folder: problems.turtles(True, folder),
}
FAST = ["gauss1", "gauss5", "bounded", "schools"]


def made(row: str, folder: Path | None) -> problems.Problem:
    return ROWS[row](folder) if row.startswith("turtles") else ROWS[row]()  # type: ignore[operator]


def draws_of(problem: problems.Problem, rho: float, count: int, draws: int) -> Iterator[Any]:
    """Independent runs of chains."""
    if problem.gibbs is None:
        for seed in range(count):
            rng = np.random.default_rng(seed)
            yield problem.draw(problems.chains(rng, (CHAINS, draws, problem.k), rho))
    else:
        every = problem.gibbs(count * CHAINS, draws, np.random.default_rng(0))
        yield from every.reshape(count, CHAINS, draws, -1)


def as_in_r(problem: problems.Problem, theta: np.ndarray, seed: int) -> tuple[float, float]:
    """log Z and its error from a normal fitted to first halves, as the R package has them."""
    d, half = theta.shape[2], theta.shape[1] // 2
    change = Bounded(problem.bounds if problem.bounds else [None] * d, d)
    x = change.inverse(theta.reshape(-1, d)).reshape(theta.shape)
    fit = normal(x[:, :half].reshape(-1, d), 0.0)
    rest = x[:, half:].reshape(-1, d)
    proposals = fit.draw(np.random.default_rng(seed), len(rest))

    def ratio(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            log_p = problem.log_density(change(x)) + change.log_slope(x).total
        return np.nan_to_num(log_p, nan=-np.inf, neginf=-np.inf) - fit.log_prob(x)

    u, v = ratio(rest), ratio(proposals)
    worth = float(np.median(ess_bulk(x[:, half:])))
    logz = bridge(u.reshape(len(theta), -1), v, worth, rounds=1).logz
    f1, f2 = 2.0 * expit(v - logz), 2.0 * expit(logz - u)
    square = f1.var(ddof=1) / f1.mean() ** 2 / f1.size
    return logz, np.sqrt(square + spectrum0(f2) / f2.mean() ** 2 / f2.size)


def spectrum0(x: np.ndarray) -> float:
    """The spectral density at zero of the autoregression of lowest AIC, coda's spectrum0.ar."""
    n, most = x.size, int(10 * np.log10(x.size))
    x = x - x.mean()
    c = np.array([x[: n - k] @ x[k:] for k in range(most + 1)]) / n
    best, variance, phi = np.inf, c[0], np.zeros(0)
    answer = c[0]
    for order in range(most + 1):
        if order:  # Levinson and Durbin
            k = (c[order] - phi @ c[order - 1 : 0 : -1]) / variance if order > 1 else c[1] / c[0]
            phi = np.append(phi - k * phi[::-1], k)
            variance *= 1.0 - k * k
        aic = n * np.log(variance) + 2.0 * order
        if aic < best:
            best = aic
            answer = variance * n / (n - order - 1) / (1.0 - phi.sum()) ** 2
    return float(answer)


def measure(row: str, rho: float, options: Any) -> dict[str, Any]:
    problem = made(row, options.data)
    count = options.replications
    mine, theirs, seconds = np.empty((count, 2)), np.empty((count, 2)), 0.0
    families, warned = Counter[str](), Counter[str]()
    for i, theta in enumerate(draws_of(problem, rho, count, options.draws)):
        started = time.perf_counter()
        result = ev.evidence_from_draws(
            theta, problem.log_density, bounds=problem.bounds, proposal=options.proposal,
            random_seed=10_000 + i, progressbar=False,
        )  # fmt: skip
        seconds += time.perf_counter() - started
        mine[i] = result.logz, result.logz_se
        families[result.settings["proposal"]] += 1
        warned.update({warning.code for warning in result.warnings})
        theirs[i] = as_in_r(problem, theta, 20_000 + i)
    z, z_r = ((them[:, 0] - problem.logz) / them[:, 1] for them in (mine, theirs))
    return {
        "problem": row,
        "rho": np.nan if problem.gibbs else rho,
        "rms_z": np.sqrt(np.mean(z**2)),
        "mean_z": z.mean(),
        "rms_error": np.sqrt(np.mean((mine[:, 0] - problem.logz) ** 2)),
        "mean_se": mine[:, 1].mean(),
        "seconds": seconds / count,
        "r_rms_z": np.sqrt(np.mean(z_r**2)),
        "r_mean_z": z_r.mean(),
        "r_rms_error": np.sqrt(np.mean((theirs[:, 0] - problem.logz) ** 2)),
        "r_mean_se": theirs[:, 1].mean(),
        "family": " ".join(f"{name} {n}" for name, n in families.most_common()),
        "warned": " ".join(f"{code} {n}" for code, n in warned.most_common()),
    }


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=None)
    parser.add_argument("--rho", nargs="+", type=float, default=[0.0, 0.9])
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--draws", type=int, default=DRAWS, help="in each of 4 chains")
    parser.add_argument("--proposal", default="auto")
    parser.add_argument("--data", type=Path, help="folder of turtles.npz")
    options = parser.parse_args()
    if options.fast:
        options.rows, options.replications = options.rows or FAST, 2
    rows = [row for row in options.rows or ROWS if options.data or "turtles" not in row]
    print("problem     rho  RMS z  mean z  RMS error  mean se  seconds | R: RMS z  RMS error")
    table = []
    for row in rows:
        for rho in options.rho[: 1 if row.startswith("turtles") else None]:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                found = measure(row, rho, options)
            print(
                "{problem:10s} {rho:4.1f} {rms_z:6.2f} {mean_z:+7.2f} {rms_error:10.4f} "
                "{mean_se:8.4f} {seconds:8.2f} | {r_rms_z:8.2f} {r_rms_error:10.4f}   {family}"
                "   {warned}".format(**found),
                flush=True,
            )
            table.append(found)
    laboratory.save_table(pd.DataFrame(table), options.out, NAME)


if __name__ == "__main__":
    main()
