"""The tables of Titsias and Papaspiliopoulos (2018) run again beside the paper's.

    python -m scripts.papers.agrad_tables --data heart german
    python -m scripts.papers.agrad_tables --data lgcp64 --draws 5000 --chains 2 --repeats 1

Tables 1, 4 and 5: Gaussian-process regression with noise variances 0.01, 1 and 0.1; 2 and 6: the
log-Gaussian Cox process, 64 x 64 and merged to 32 x 32; 3 and 7-10: logistic classification, all
with fixed hyperparameters; 11, where hyperparameters are sampled, is ``hyper_tables.py``. Every
sampler uses the prior as its base, as in the paper; rows marked "EP base" use this package's
default. Chains advance as one batch; times and effective sample sizes are those of all chains
after tuning, their standard deviations over repeats with other seeds. The fast mode simulates one
small classification.
"""

from __future__ import annotations

import argparse
import resource
import sys

import numpy as np
import pandas as pd

import evidence as ev
from evidence import moves
from evidence.approximations.reference import prior_reference
from scripts import drawing, laboratory
from scripts.laboratory import research_model

NAME = "agrad_tables"
PAPER = laboratory.published("titsias_2018")
PROBLEMS = list(dict.fromkeys(PAPER.problem))
#: samplers whose metric is constant in x, as the paper's for the Cox process
CONSTANT_METRIC = {
    "mmala": moves.Langevin(0.1, coordinates="expected", name="mmala"),
    "rmhmc": moves.HMC(0.5, coordinates="expected", name="rmhmc", n_leapfrog=3),
}
#: amplitude² and length scale that maximise the marginal likelihood of the regression data
REGRESSION = (5.98, 0.3348)
_NOISE = {"regression 1": "y0", "regression 0.1": "y1", "regression 0.01": "y2"}
_SMALL = ("agrad-z", "mgrad", "elliptical", "pcn")


def problem(name: str, cox_length: float = 64.0 / 33.0) -> ev.GPModel:
    """One of the paper's models; ``cox_length`` is the Cox process's, in cells of 64 x 64."""
    if name in _NOISE:
        data, noise = ev.datasets.load("gp_regression"), float(name.split()[1])
        x, y = data["X"].astype(float), data[_NOISE[name]].astype(float)
        K = REGRESSION[0] * np.exp(-0.5 * ((x[:, None] - x) / REGRESSION[1]) ** 2)
        return ev.GPModel(K=K, y=y, likelihood=f"gaussian(noise_std={noise**0.5})", jitter=1e-8)
    if name.startswith("lgcp"):
        return cox_process(int(name.removeprefix("lgcp")), cox_length)
    return research_model(name, "logit")


def cox_process(side: int, length: float) -> ev.GPModel:
    """The pines on a grid of side², merged from 64²."""
    merged = 64 // side
    counts = ev.datasets.load("lgcp64")["counts"].astype(float).reshape(64, 64)
    counts = counts.reshape(side, merged, side, merged).sum(axis=(1, 3)).ravel()
    i, j = np.divmod(np.arange(counts.size), side)
    distance = merged * np.hypot(i[:, None] - i, j[:, None] - j)
    K, mean = 1.91 * np.exp(-distance / length), np.log(126.0) - 1.91 / 2.0
    return ev.GPModel(K=K, y=counts, mean=mean, likelihood=f"poisson(exposure={1 / side**2})")


def small_classification() -> ev.GPModel:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    blank = ev.GPModel(X, np.ones(100), "4.0 * RBF(1.0)", likelihood="logit")
    return ev.simulate(blank, random_seed=0).model


def run(model: ev.GPModel, reference: object, method: str, seed: int, options) -> dict:
    draws = ev.sample(
        model,
        move=CONSTANT_METRIC.get(method, method),
        reference=reference,
        draws=options.draws,
        tune=options.tune,
        chains=options.chains,
        random_seed=seed,
        progressbar=False,
    )
    step = draws.step_size
    if method in ("mgrad", "agrad-z", "agrad-u"):  # in the units of the paper
        mover = moves.get(method)
        mover.step_size = step
        step = mover.delta(mover.frame(ev.Path(reference)))
    ess = draws.ess
    return {
        "seconds": draws.seconds,
        "step": step,
        "min": ess.min,
        "median": ess.median,
        "max": ess.max,
        "rate": draws.min_ess_per_second,
        "accept": float(draws.acceptance.mean()),
        "rhat": draws.rhat,
    }


def table(model: ev.GPModel, paper: pd.DataFrame, options: argparse.Namespace) -> pd.DataFrame:
    """The paper's table, run here: means over repeats; ``paper`` has its rows by move."""
    prior, names = prior_reference(model), options.moves or list(paper.index)
    cases = [(name, name, prior) for name in names]
    if "mgrad" in names and not options.prior_only:
        cases.append(("mgrad, EP base", "mgrad", ev.fit_ep(model)))
    rows = []
    for label, method, reference in laboratory.progress(cases):
        seeds = range(options.seed, options.seed + options.repeats)
        runs = pd.DataFrame([run(model, reference, method, seed, options) for seed in seeds])
        rows.append({"move": label, **runs.mean(), "rate_sd": runs.rate.std()})
    names = {"step": "paper step", "ess_min": "paper min"} | {
        "rate": "published", "rate_sd": "published_sd"
    }  # fmt: skip
    beside = paper.reindex([row["move"] for row in rows])[list(names)].rename(columns=names)
    return pd.concat([pd.DataFrame(rows), beside.reset_index(drop=True)], axis=1)


def tell(name: str, frame: pd.DataFrame, options: argparse.Namespace) -> None:
    print(f"\n{name}: {options.repeats} runs of {options.chains} chains of "
          f"{options.tune} + {options.draws} steps")  # fmt: skip
    print(frame.set_index("move").to_string(float_format=lambda v: f"{v:.4g}"))
    rates = frame.set_index("move").rate
    if {"mgrad", "elliptical"} <= set(rates.index):
        both = frame.dropna(subset=["published"])
        told = f"mgrad / elliptical: {rates['mgrad'] / rates['elliptical']:.1f}"
        if len(both) > 2:
            rank = both.rate.corr(both.published, method="spearman")
            told += f"; rank correlation with the paper {rank:.2f}"
        print(told)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def draw(frames: dict[str, pd.DataFrame], out) -> None:
    import matplotlib.pyplot as plt

    wide = min(3, len(frames))
    high = -(-len(frames) // wide)
    figure, axes = plt.subplots(
        high, wide, figsize=(5.2 * wide, 3.4 * high), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(frames) :]:
        ax.set_axis_off()
    for ax, (name, frame) in zip(axes.flat, frames.items(), strict=False):
        drawing.plot_moves(frame if frame.published.notna().any() else
                         frame.drop(columns=["published", "published_sd"]), ax)  # fmt: skip
        ax.set_title(name)
    laboratory.save_figure(figure, out, NAME)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--data", nargs="+", choices=sorted(PROBLEMS),
                        default=[name for name in PROBLEMS if name != "lgcp64"])  # fmt: skip
    parser.add_argument("--moves", nargs="+", help="only these")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--tune", type=int, default=2000)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prior-only", action="store_true", help="leave out the EP base")
    parser.add_argument(
        "--cox-length",
        type=float,
        default=64.0 / 33.0,
        help="length scale of the Cox process in cells of 64 x 64; its latent field looks like 33",
    )
    options = parser.parse_args()
    if options.fast:
        options.draws = options.tune = 300
        options.repeats, options.moves, options.data = 2, list(_SMALL), ["simulated"]
    frames = {}
    for name in options.data:
        model = small_classification() if options.fast else problem(name, options.cox_length)
        frames[name] = table(model, PAPER[PAPER.problem == name].set_index("move"), options)
        tell(name, frames[name], options)
        laboratory.save_table(frames[name], options.out, f"{NAME}_{name.replace(' ', '_')}")
        draw(frames, options.out)


if __name__ == "__main__":
    sys.exit(main())
