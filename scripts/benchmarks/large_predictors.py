"""Models of several predictors as people have them: log Z, its error and seconds.

    python -m scripts.benchmarks.large_predictors

- *classes*: 300 rows of three classes under softmax; *digits*: scikit-learn's, 500 of all ten.
- *noise*: a curve of 133 points whose noise varies, a Gaussian process for both; beside it
  annealing by tempered particles.
- *zeros*: 5,000 zero-inflated negative binomial counts in 500 groups, zi ~ x, hyperparameters
  integrated out; then all parameters held at glmmTMB's maximum (`zeros.R`, where R has it), for
  its likelihood by Laplace's method, by quadrature of each group's effect, and as log Z here.

A problem is run twice, since the first call of a process compiles: the second one is timed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.polynomial.hermite_e import hermegauss
from scipy import optimize, stats
from scipy.special import expit, log_expit, logsumexp
from sklearn.datasets import load_digits

import evidence as ev
from scripts import laboratory

NAME = "large_predictors"
NODES = 60  # of a group's effect
Row = dict[str, Any]


def classes(fast: bool) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30 if fast else 300, 2))
    f = 2.0 * np.c_[X, -X.sum(1)]
    y = np.argmax(f + rng.gumbel(size=f.shape), axis=1)
    return ev.SoftmaxModel(X, y, "2.0 * RBF(1.0)")


def digits(fast: bool) -> Any:
    X, y = load_digits(return_X_y=True)
    rows = np.concatenate([np.flatnonzero(y == k)[: 3 if fast else 50] for k in range(10)])
    return ev.SoftmaxModel(X[rows] / 16.0, y[rows], "4.0 * RBF(3.0)")


def noise(fast: bool) -> Any:
    rng = np.random.default_rng(0)
    n = 20 if fast else 133
    x = np.sort(rng.uniform(0.0, 1.0, n))
    mean, log_sd = np.sin(9.0 * x) * (x > 0.25), -2.5 + 1.5 * np.sin(3.0 * x)
    y = mean + np.exp(log_sd) * rng.normal(size=n)
    return ev.PredictorsModel(x, y, {"mu": "RBF(0.2)", "sigma": "RBF(0.4)"}, mean={"sigma": -1.5})


def counts(fast: bool) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows, groups = (60, 6) if fast else (5000, 500)
    x, g = rng.normal(size=rows), np.arange(rows) % groups
    mean = np.exp(0.5 + 0.4 * x + 0.6 * rng.normal(size=groups)[g])
    some = rng.random(rows) >= expit(-1.0 + 0.7 * x)
    y = some * rng.negative_binomial(2.0, 2.0 / (2.0 + mean))
    return pd.DataFrame({"y": y, "x": x, "g": g})


def zeros(data: pd.DataFrame, **priors: Any) -> Any:
    return ev.from_formula(
        "y ~ x + (1 | g)", data, likelihood="zero_inflated_negative_binomial",
        predictors={"zi": "x"}, priors=priors or None,
    )  # fmt: skip


def timed(problem: str, compute: Callable[[], Any], fast: bool = False) -> Row:
    if not fast:
        compute()
    began, cpu = time.perf_counter(), time.process_time()
    found = compute()
    return {
        "problem": problem, "logz": found.logz, "se": found.logz_se,
        "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu,
        "warnings": " ".join(w.code for w in found.warnings),
    }  # fmt: skip


def by_quadrature(data: pd.DataFrame, at: dict[str, float]) -> float:
    """log p(y | θ), each group's effect integrated out about its mode."""
    nodes, weights = hermegauss(NODES)

    def log_joint(u: np.ndarray, rows: pd.DataFrame) -> np.ndarray:
        x, y = rows.x.to_numpy()[:, None], rows.y.to_numpy()[:, None]
        mean = np.exp(at["b0"] + at["b1"] * x + u)
        own = stats.nbinom(at["size"], at["size"] / (at["size"] + mean)).logpmf(y)
        zi = at["z0"] + at["z1"] * x
        each = np.logaddexp(own + log_expit(-zi), np.where(y == 0, log_expit(zi), -np.inf))
        return np.asarray(each.sum(0) + stats.norm.logpdf(u, 0.0, at["sd"]))

    total = 0.0
    for _, rows in data.groupby("g"):
        at_mode = optimize.minimize_scalar(lambda u, r=rows: -log_joint(np.array([u]), r)[0])
        near = at_mode.x + 1e-3 * np.array([-1.0, 0.0, 1.0])
        width = 1e-3 / np.sqrt(-np.diff(log_joint(near, rows), 2)[0])
        values = log_joint(at_mode.x + width * nodes, rows) + 0.5 * nodes**2
        total += logsumexp(values, b=weights * width)
    return float(total)


def beside_glmmtmb(data: pd.DataFrame) -> list[Row]:
    """The likelihood at the maximum of glmmTMB three times; no rows without R and glmmTMB."""
    script = str(Path(__file__).with_name("zeros.R"))
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "counts.csv"
        data.to_csv(table, index=False)
        command = ["Rscript", script, str(table)]
        done = shutil.which("Rscript") and subprocess.run(
            command, capture_output=True, text=True, check=False
        )
    if not done or done.returncode:
        print("glmmTMB: not installed" if not done else f"glmmTMB: {done.stderr.strip()[-200:]}")
        return []
    names = ("logz", "seconds", "b0", "b1", "z0", "z1", "size", "sd")
    at = dict(zip(names, map(float, done.stdout.split()), strict=True))
    held = {"Intercept": at["b0"], "x": at["b1"], "zi:Intercept": at["z0"], "zi:x": at["z1"]}
    narrow = {name: f"norm({value!r}, 1e-7)" for name, value in held.items()}
    model = zeros(data, **narrow, **{"sd(1|g)": at["sd"], "shape": at["size"]})
    truth = {"problem": "zeros, quadrature", "logz": by_quadrature(data, at)}
    rival = {"problem": "zeros, glmmTMB", "logz": at["logz"], "seconds": at["seconds"]}
    same = timed("zeros, held", lambda: ev.log_evidence(model, random_seed=0, progressbar=False))
    return [same, rival, truth]


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    options = parser.parse_args()
    fast, rows = options.fast, []
    words: Row = {"random_seed": 0, "progressbar": False}
    data, curve = counts(fast), noise(fast)
    runs: dict[str, tuple[Any, Row]] = {
        "classes": (classes(fast), {}),
        "digits": (digits(fast), {"target_se": 0.1}),
        "noise": (curve, {}),
        "noise, smc": (curve, {"method": "smc", "target_se": 0.05 if fast else 0.01}),
        "zeros": (zeros(data), {}),
    }
    for name, (model, own) in laboratory.progress(runs.items()):
        rows.append(timed(name, lambda m=model, w=words | own: ev.log_evidence(m, **w), fast))
        table = pd.DataFrame(rows)
        laboratory.save_table(table, options.out, NAME, quiet=True)
    table = pd.DataFrame(rows + ([] if fast else beside_glmmtmb(data)))
    print(table.to_string(index=False, float_format="{:.4g}".format))
    laboratory.save_table(table, options.out, NAME)


if __name__ == "__main__":
    main()
