"""Work-normalised variance: variance of log Z times seconds, fitting the reference included.

    python -m scripts.benchmarks.work_normalised --data usps-hard --seeds 20 --literal-chains 4

The smaller the better: it is what a run's variance would be after one second. --literal-chains
also times the report's AISq-RMHMC as its pseudo-code has it (12 geometric temperatures, one
trajectory of 10 steps of 0.1 at each, five fixed-point iterations), one chain at a time.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import pandas as pd

import evidence as ev
from scripts import laboratory
from scripts.laboratory import TRUTH, research_model
from scripts.papers.literal import LiteralAIS

NAME = "work_normalised"
CONFIGURATIONS = {
    "auto": {},
    "importance": {"method": "importance"},
    "orthant": {"method": "orthant"},
    "smc": {"method": "smc"},
    "smc waste-free": {"method": "smc", "waste_free": 8},
    "ais": {"method": "ais"},
    "pt": {"method": "pt"},
    "arm": {"method": "arm"},
    "sequential": {"method": "sequential"},
}
TEMPERATURES = 12


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--data", nargs="+", default=["heart", "ripley"], choices=sorted(TRUTH))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--target-se", type=float, default=0.05)
    parser.add_argument("--only", nargs="+", choices=CONFIGURATIONS, default=CONFIGURATIONS)
    parser.add_argument("--literal-chains", type=int, default=0)
    options = parser.parse_args()
    if options.fast:
        options.data, options.seeds = ["simulated"], 3
    rows = []
    for data in options.data:
        if options.fast:
            model = laboratory.simulated_model()
            truth = laboratory.by_tilting(model)
        else:
            model, truth = research_model(data), TRUTH[data]
        print(
            f"{data}\n  {'':<16}{'mean error':>10}{'sd':>10}{'mean se':>10}{'RMS z':>10}"
            f"{'warned':>10}{'seconds':>10}{'worst':>10}{'var × s':>10}"
        )
        for name in options.only:
            rows.append({"data": data, "method": name, **_measure(model, truth, name, options)})
            print(
                f"  {name:<16}", *(f"{v:>9.4g}" for v in list(rows[-1].values())[2:]), flush=True
            )
        if options.literal_chains:
            _literal(model, options.literal_chains)
    laboratory.save_table(pd.DataFrame(rows), options.out, NAME)


def _measure(
    model: ev.GPModel, truth: tuple[float, float], name: str, options: argparse.Namespace
) -> dict[str, float]:
    words = {"target_se": options.target_se, "progressbar": False, **CONFIGURATIONS[name]}
    ev.log_evidence(model, random_seed=10**6, **words)  # compile
    rows = []
    for seed in range(options.seeds):
        started = time.perf_counter()
        result = ev.log_evidence(model, random_seed=seed, **words)
        rows.append(
            (result.logz, result.logz_se, time.perf_counter() - started, len(result.warnings))
        )
    logz, se, seconds, warned = np.array(rows).T
    z = (logz - truth[0]) / np.hypot(se, truth[1])
    return {
        "mean_error": logz.mean() - truth[0],
        "sd": logz.std(ddof=1),
        "mean_se": se.mean(),
        "rms_z": np.sqrt(np.mean(z**2)),
        "warned": int((warned > 0).sum()),
        "seconds": np.median(seconds),
        "slowest": seconds.max(),
        "variance_times_seconds": logz.var(ddof=1) * seconds.mean(),
    }


def _literal(model: ev.GPModel, n: int) -> None:
    """AISq-RMHMC as the pseudo-code has it; EP is not even counted."""
    betas = ev.ladders.geometric(TEMPERATURES, first=0.01)
    chain = LiteralAIS(ev.Path(ev.fit_ep(model)), betas)
    log_w, seconds = [], []
    for seed in range(n):
        started = time.perf_counter()
        log_w.append(chain(np.random.default_rng(seed)))
        seconds.append(time.perf_counter() - started)
        print(f"  literal AISq-RMHMC, chain {seed}: log w {log_w[-1]:.2f}, {seconds[-1]:.0f} s",
              flush=True)  # fmt: skip
    relative = np.exp(np.array(log_w) - max(log_w))
    sd = relative.std(ddof=1) / relative.mean() if n > 1 else np.nan
    print(
        f"  literal AISq-RMHMC, B = {TEMPERATURES}: one chain has relative sd {sd:.2f} (sd of log "
        f"w {np.std(log_w, ddof=1) if n > 1 else np.nan:.2f}) in {np.mean(seconds):.0f} s: "
        f"var × s about {sd**2 * np.mean(seconds):.0f} from {n} chains"
    )


if __name__ == "__main__":
    sys.exit(main())
