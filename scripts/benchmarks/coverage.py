"""Do error bars cover exact answers? A thousand random models of ten kinds, one call each.

    python -m scripts.benchmarks.coverage --jobs 2

    probit, logit, poisson, student_t   Gaussian processes whose data share one latent value and
                                        have one each (scripts/catalogue/exact.py)
    bernoulli groups, poisson groups    random intercepts of a known standard deviation
    normal groups, process, likelihood  hyperparameters integrated out: random intercepts, kernels,
                                        free likelihoods (scripts/catalogue/hyperparameters.py)
    density                             smooth, of one mode (scripts/catalogue/families.py)

Truths are closed forms and quadratures, to 1e-3 and mostly far better; their accuracy is in z, the
error in standard errors, which is made a normal deviate through Student's t with one degree of
freedom less than islands: its root mean square should be 1. A row of the table is a kind: RMS and
tails of z of the answers without a warning, misses (|z| > 4.5) with one or without, warnings that
were needless (the answer is precise and right) and warned answers that were not. It goes on where
it ended.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

import evidence as ev
from evidence import plots
from scripts import laboratory
from scripts.benchmarks.random_densities import normal_z
from scripts.benchmarks.random_hyperparameters import verdict
from scripts.catalogue import FAMILIES, exact, hyperparameters, marginals
from scripts.catalogue.problem import log_normal, on_grid

NAME = "coverage"
Rng = np.random.Generator
Known = tuple[Any, float, float]
"""A model, its log Z, and how accurate that is."""

_SMOOTH = ("warped", "ridge", "conflict", "tails", "loggamma", "angles")
_ACCURATE, _EXACT = 1e-6, 1e-11  # quadrature in one dimension, closed forms
_WRONG, _LEVELS = 4.5, 4001  # |z| of a miss; nodes for the common level of groups


def _factor(rng: Rng, likelihood: str) -> Known:
    n, counts = int(rng.integers(4, 31)), likelihood == "poisson"
    common, own = 10.0 ** rng.uniform(-1.0, 0.3 if counts else 1.0), 10.0 ** rng.uniform(-2, -1)
    own *= 1.0 if counts else 10.0 ** rng.uniform(0.0, 1.0)
    x = rng.normal(0.0, common**0.5) + rng.normal(0.0, own**0.5, n)
    if counts:
        y = rng.poisson(np.exp(np.minimum(x, 3.0))).astype(float)
    else:
        y = np.where(rng.random(n) < (ndtr if likelihood == "probit" else expit)(x), 1.0, -1.0)
    return *exact.factor(likelihood, y, common, own), _ACCURATE


def _student(rng: Rng) -> Known:
    """Responses in steps of a half, of which there are few different ones."""
    n, df, scale = int(rng.integers(4, 21)), float(rng.choice([3, 5, 10])), rng.uniform(0.4, 1.0)
    common, own = 10.0 ** rng.uniform(-0.5, 0.5), 10.0 ** rng.uniform(-2.0, -1.0)
    x = rng.normal(0.0, common**0.5) + rng.normal(0.0, own**0.5, n)
    y = np.round(2.0 * (x + scale * rng.standard_t(df, n))) / 2.0
    return *exact.student(y, df, scale, common, own), _ACCURATE


def _groups(rng: Rng, family: str) -> Known:
    g = np.repeat(np.arange(n := rng.integers(4, 13)), rng.integers(2, 9, n))
    tau, sd = 10.0 ** rng.uniform(-1.0, 0.3), float(rng.choice([1.0, 2.5]))
    eta = np.minimum(rng.normal(0.0, min(sd, 1.0)) + tau * rng.normal(size=n)[g], 4.0)
    counts = family == "poisson"
    y = rng.poisson(np.exp(eta)) if counts else (rng.random(g.size) < expit(eta)).astype(int)
    priors = {"Intercept": f"norm(0, {sd})", "sd(1|g)": tau}
    model = ev.from_formula("y ~ 1 + (1 | g)", {"y": y, "g": g}, likelihood=family, priors=priors)
    marginal = marginals.count_groups(family, y, g, 28)

    def log_p(m: np.ndarray) -> np.ndarray:
        return marginal(m, np.full(m.size, tau)) + log_normal(m, 0.0, sd)

    return model, on_grid(log_p, -8.0 * sd, 8.0 * sd, _LEVELS), _ACCURATE


def _hyper(kind: str) -> Callable[[int, Rng], Known]:
    def made(number: int, rng: Rng) -> Known:
        kinds = list(hyperparameters.KINDS)
        case = hyperparameters.random_hyperparameters(kinds.index(kind) + len(kinds) * number)
        return case.model, case.truth, case.accuracy

    return made


def _density(number: int, rng: Rng) -> Known:
    family = _SMOOTH[number % len(_SMOOTH)]
    problem = FAMILIES[family](rng, int(rng.integers(1, 4)))
    accuracy = _EXACT if family in ("ridge", "conflict", "angles") else _ACCURATE
    return exact.with_scipy(problem), problem.truth, accuracy


KINDS: dict[str, Callable[[int, Rng], Known]] = {
    "probit": lambda number, rng: _factor(rng, "probit"),
    "logit": lambda number, rng: _factor(rng, "logit"),
    "poisson": lambda number, rng: _factor(rng, "poisson"),
    "student_t": lambda number, rng: _student(rng),
    "bernoulli groups": lambda number, rng: _groups(rng, "bernoulli"),
    "poisson groups": lambda number, rng: _groups(rng, "poisson"),
    "normal groups": _hyper("groups"),
    "process": _hyper("process"),
    "likelihood": _hyper("intercept"),
    "density": _density,
}


def run(kind: str, number: int) -> dict[str, Any]:
    """What one call says of one model."""
    row: dict[str, Any] = {"kind": kind, "number": number, "failure": ""}
    started = time.process_time()
    try:
        rng = np.random.default_rng([list(KINDS).index(kind), number, 1414])
        model, truth, accuracy = KINDS[kind](number, rng)
        made = time.process_time()
        with ThreadPoolExecutor(1) as one:  # jobs have a core each
            result = ev.log_evidence(model, random_seed=number, executor=one, progressbar=False)
    except Exception as error:
        return row | {"failure": f"{type(error).__name__}: {error}"}
    error, se = result.logz - truth, math.hypot(result.logz_se, accuracy)
    return row | {
        "logz": result.logz, "truth": truth, "accuracy": accuracy, "error": error,
        "se": result.logz_se, "z": normal_z(error, se, result.islands.size),
        "method": result.method, "warnings": " ".join(sorted({w.code for w in result.warnings})),
        "truth_seconds": made - started, "seconds": time.process_time() - made,
    }  # fmt: skip


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each kind, and one for all."""
    table = []
    for kind, own in [*rows.groupby("kind", sort=False), ("all", rows)]:
        records = own.fillna({"warnings": "", "failure": ""}).to_dict("records")
        verdicts = pd.Series([verdict(record) for record in records], own.index)
        quiet = own.z[own.warnings.isna() | (own.warnings == "")].dropna()
        size, missed = quiet.abs(), own.z.abs() > _WRONG
        table.append({
            "kind": kind, "models": len(own), "rms_z": np.sqrt(np.mean(quiet**2)),
            "mean_z": quiet.mean(), "beyond_2": np.mean(size > 2.0),
            "beyond_3": np.mean(size > 3.0), "misses": int(missed.sum()),
            "largest": size.max(), "false_alarms": int((verdicts == "false alarm").sum()),
            "warned": int((verdicts == "warned").sum()),
            "wrong_warned": int((verdicts == "wrong, warned").sum()),
            "failures": int((verdicts == "crash").sum() + (verdicts == "no answer").sum()),
            "median_se": own.se.median(), "seconds": own.seconds.mean(),
        })  # fmt: skip
    return pd.DataFrame(table)


def draw(rows: pd.DataFrame, folder: Any) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 5, figsize=(16, 6), layout="constrained")
    for ax, (kind, own) in zip(axes.flat, rows.groupby("kind", sort=False), strict=False):
        quiet = own.z[own.warnings.isna() | (own.warnings == "")].dropna()
        plots.plot_calibration(quiet.clip(-8.0, 8.0), ax)
        ax.set(title=f"{kind}, {ax.get_title()}", xlabel="z", ylabel="")
    laboratory.save_figure(figure, folder, NAME)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--models", type=int, default=100, help="of each kind")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.fast:
        options.models = 1
    file = options.out / "runs.csv"
    options.out.mkdir(parents=True, exist_ok=True)
    rows = pd.read_csv(file).to_dict("records") if file.exists() else []
    done = {(row["kind"], row["number"]) for row in rows}
    cases = [(kind, number) for number in range(options.models) for kind in options.kinds]
    with ProcessPoolExecutor(options.jobs) as pool:
        tasks = [pool.submit(run, *case) for case in cases if case not in done]
        for task in laboratory.progress(as_completed(tasks), len(tasks)):
            rows.append(task.result())
            pd.DataFrame(rows).to_csv(file, index=False)
    order = {kind: k for k, kind in enumerate(KINDS)}
    frame = pd.DataFrame(rows).sort_values(["kind", "number"], key=lambda c: c.replace(order))
    table = summary(frame)
    print(table.to_string(index=False, float_format="{:.3g}".format))
    for row in frame[(frame.z.abs() > _WRONG) | (frame.failure.fillna("") != "")].itertuples():
        print(f"{row.kind}, number {row.number}: z = {row.z:.1f}, {row.warnings} {row.failure}")
    laboratory.save_table(table, options.out, NAME)
    draw(frame, options.out)


if __name__ == "__main__":
    sys.exit(main())
