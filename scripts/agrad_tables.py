"""Tables 1-3 and 7-10 of Titsias and Papaspiliopoulos (2018), run again beside the paper's.

    python scripts/agrad_tables.py --data heart german
    python scripts/agrad_tables.py --data lgcp64 --tune 2000 --draws 5000 --chains 2

Logistic Gaussian-process classification, Gaussian-process regression with noise variance 0.01
and the log-Gaussian Cox process, with fixed hyperparameters. Every sampler uses the prior as its
base, as in the paper; rows marked "EP base" use this package's default. Chains advance as one
batch; times and effective sample sizes are those of all chains after tuning.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

import numpy as np
import pandas as pd
from research import research_model

import evidence as ev
from evidence import moves
from evidence.approximations.reference import prior_reference

#: method -> (seconds, step, min, median, max ESS, min ESS/s), from 5000 draws of one chain
PAPER = {
    "gp_regression": {
        "agrad-z": (5.5, 0.005, 306.7, 430.9, 539.3, 55.48),
        "agrad-u": (6.9, 0.006, 345.8, 459.3, 584.8, 50.27),
        "mgrad": (5.8, 0.011, 856.0, 1095.6, 1301.1, 147.67),
        "pmala": (49.3, np.nan, 8.4, 45.1, 155.5, 0.17),
        "elliptical": (11.0, np.nan, 12.9, 50.3, 144.8, 1.18),
        "pcn": (6.6, np.nan, 8.0, 35.4, 107.7, 1.21),
        "pcnl": (23.9, np.nan, 8.7, 54.4, 208.6, 0.36),
    },
    "heart": {
        "agrad-z": (1.7, 1.440, 60.0, 207.2, 419.9, 35.29),
        "agrad-u": (1.9, 2.378, 89.1, 327.2, 641.9, 48.20),
        "mgrad": (1.6, 5.043, 188.9, 593.2, 1096.6, 115.39),
        "pmala": (2.1, 0.049, 21.6, 68.7, 151.3, 10.36),
        "elliptical": (2.5, np.nan, 12.9, 43.9, 101.5, 5.17),
        "pcn": (1.0, 0.041, 6.9, 28.6, 83.6, 6.96),
        "pcnl": (1.5, 0.048, 22.2, 69.0, 149.1, 14.82),
    },
    "australian": {
        "agrad-z": (3.0, 1.520, 47.0, 153.6, 424.7, 15.50),
        "agrad-u": (3.5, 2.649, 96.1, 263.2, 647.3, 27.60),
        "mgrad": (3.0, 5.300, 198.2, 504.2, 1191.0, 66.07),
        "pmala": (7.0, 0.009, 5.1, 21.2, 89.5, 0.73),
        "elliptical": (4.3, np.nan, 6.3, 24.8, 94.7, 1.47),
        "pcn": (1.7, 0.013, 4.2, 17.6, 75.4, 2.56),
        "pcnl": (2.6, 0.009, 5.3, 22.1, 88.8, 2.03),
    },
    "german": {
        "agrad-z": (4.4, 0.681, 47.1, 161.3, 345.4, 10.74),
        "agrad-u": (5.3, 1.134, 78.0, 257.0, 518.2, 14.65),
        "mgrad": (4.5, 2.689, 176.0, 528.0, 929.1, 38.73),
        "pmala": (15.4, 0.016, 6.4, 26.6, 91.6, 0.42),
        "elliptical": (5.4, np.nan, 4.6, 19.8, 66.7, 0.85),
        "pcn": (2.6, 0.013, 3.8, 14.6, 60.5, 1.48),
        "pcnl": (7.7, 0.016, 6.2, 26.4, 92.1, 0.81),
    },
    "pima": {
        "agrad-z": (2.5, 1.667, 96.6, 299.1, 735.5, 39.25),
        "agrad-u": (2.9, 2.943, 176.0, 529.8, 1072.6, 60.66),
        "mgrad": (2.4, 6.134, 322.2, 947.8, 1594.5, 133.75),
        "pmala": (3.6, 0.053, 28.4, 93.0, 233.0, 7.93),
        "elliptical": (3.2, np.nan, 19.2, 66.6, 175.4, 6.06),
        "pcn": (1.4, 0.055, 12.2, 43.1, 128.7, 8.73),
        "pcnl": (2.1, 0.056, 27.8, 93.0, 235.9, 13.35),
    },
    "ripley": {
        "agrad-z": (1.3, 3.589, 21.5, 125.5, 630.0, 16.58),
        "agrad-u": (1.4, 4.526, 28.8, 163.5, 805.3, 19.95),
        "mgrad": (1.2, 9.014, 47.0, 289.4, 1730.3, 38.04),
        "pmala": (1.5, 0.017, 13.8, 58.2, 240.4, 8.94),
        "elliptical": (1.9, np.nan, 11.2, 51.2, 206.9, 5.76),
        "pcn": (0.7, 0.019, 7.3, 30.9, 140.6, 10.70),
        "pcnl": (1.1, 0.017, 14.3, 56.1, 222.1, 13.09),
    },
    "lgcp64": {
        "agrad-z": (89.6, 0.962, 36.1, 181.2, 507.5, 0.40),
        "agrad-u": (134.6, 2.814, 95.8, 469.3, 1092.4, 0.71),
        "mgrad": (132.0, 5.887, 177.8, 801.1, 1628.6, 1.35),
        "pmala": (218.7, 0.006, 3.5, 12.9, 59.3, 0.02),
        "elliptical": (51.5, np.nan, 4.2, 17.0, 66.0, 0.08),
        "pcn": (47.4, 0.012, 3.3, 12.0, 57.6, 0.07),
        "pcnl": (87.7, 0.006, 3.4, 12.6, 60.2, 0.04),
        "mmala": (334.1, 0.070, 21.4, 84.7, 179.4, 0.06),
        "rmhmc": (1493.7, 0.100, 1825.7, 4452.2, 5000.0, 1.22),
    },
}
#: samplers whose metric is constant in x, as the paper's for the Cox process
CONSTANT_METRIC = {
    "mmala": moves.Langevin(0.1, coordinates="expected", name="mmala"),
    "rmhmc": moves.HMC(0.5, coordinates="expected", name="rmhmc", n_leapfrog=3),
}
NOISE = 0.01


def problem(name: str, cox_length: float) -> ev.GPModel:
    """One of the paper's models; ``cox_length`` is the Cox process's length scale in cells."""
    if name == "lgcp64":
        counts = ev.datasets.load(name)["counts"].astype(float)
        i, j = np.divmod(np.arange(counts.size), 64)
        distance = np.hypot(i[:, None] - i, j[:, None] - j)
        K = 1.91 * np.exp(-distance / cox_length)
        mean = np.log(126.0) - 1.91 / 2.0
        return ev.GPModel(K=K, y=counts, mean=mean, likelihood=f"poisson(exposure={1 / 4096})")
    if name == "gp_regression":
        data = ev.datasets.load(name)
        x, y = data["X"].astype(float), data["y2"].astype(float)
        K = REGRESSION[0] * np.exp(-0.5 * ((x[:, None] - x) / REGRESSION[1]) ** 2)
        lik = f"gaussian(noise_std={NOISE**0.5})"
        return ev.GPModel(K=K, y=y, likelihood=lik, jitter=1e-8)
    return research_model(name, "logit")


#: amplitude² and length scale that maximise the marginal likelihood of the regression data
REGRESSION = (5.98, 0.3348)


def run(
    model: ev.GPModel,
    reference: object,
    method: str,
    label: str,
    options: argparse.Namespace,
) -> dict[str, object]:
    """One row of the table."""
    move = CONSTANT_METRIC.get(method, method)
    draws = ev.sample(
        model,
        move=move,
        reference=reference,
        draws=options.draws,
        tune=options.tune,
        chains=options.chains,
        random_seed=options.seed,
    )
    step = draws.step_size
    if method in ("mgrad", "agrad-z", "agrad-u"):  # in the units of the paper
        mover = moves.get(method)
        mover.step_size = step
        step = mover.delta(ev.Path(reference))
    ess = draws.ess
    return {
        "method": label,
        "seconds": draws.seconds,
        "step": step,
        "min": ess.min,
        "median": ess.median,
        "max": ess.max,
        "min/s": draws.min_ess_per_second,
        "accept": float(draws.acceptance.mean()),
        "rhat": draws.rhat,
    }


def table(name: str, options: argparse.Namespace) -> pd.DataFrame:
    """The paper's table, run here."""
    model = problem(name, options.cox_length)
    prior = prior_reference(model)
    paper = PAPER[name]
    names = options.moves or list(paper)
    rows = [run(model, prior, method, method, options) for method in names if method in paper]
    if "mgrad" in names and not options.prior_only:
        rows.append(run(model, ev.fit_ep(model), "mgrad", "mgrad, EP base", options))
    frame = pd.DataFrame(rows).set_index("method")
    for k, column in enumerate(["paper step", "paper min", "paper min/s"]):
        where = (1, 2, 5)[k]
        frame[column] = [paper.get(m, (np.nan,) * 6)[where] for m in frame.index]
    return frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=sorted(PAPER), default=["heart"])
    parser.add_argument("--moves", nargs="+", help="only these")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--tune", type=int, default=2000)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prior-only", action="store_true", help="leave out the EP base")
    parser.add_argument(
        "--cox-length",
        type=float,
        default=64.0 / 33.0,
        help="length scale of lgcp64 in cells; its latent field looks like 33",
    )
    parser.add_argument("--out", type=Path, help="write one CSV per data set here")
    options = parser.parse_args()
    for name in options.data:
        frame = table(name, options)
        print(f"\n{name}: {options.chains} chains of {options.tune} + {options.draws} steps")
        print(frame.to_string(float_format=lambda v: f"{v:.4g}"))
        if {"mgrad", "elliptical"} <= set(frame.index):
            speed = frame["min/s"]
            ours, theirs = frame.dropna()["min/s"], frame.dropna()["paper min/s"]
            print(
                f"mgrad / elliptical: {speed['mgrad'] / speed['elliptical']:.1f}; "
                f"rank correlation with the paper {ours.corr(theirs, method='spearman'):.2f}"
            )
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            frame.to_csv(options.out / f"agrad_{name}.csv")


if __name__ == "__main__":
    main()
