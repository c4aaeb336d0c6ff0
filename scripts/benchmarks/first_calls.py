"""Seconds of the first call in a new process: with nothing compiled yet, and with all of it.

    python -m scripts.benchmarks.first_calls
    python -m scripts.benchmarks.first_calls --only "GP poisson" formula

Import of the package, making the model and one default ``log_evidence`` are timed. Small data of
every likelihood under a Gaussian process, and of every structure under one or two likelihoods.
Each case has an empty folder of compiled code, so that none profits from another.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pandas as pd

from scripts import laboratory

NAME = "first_calls"
BEGIN = """
import time
start = time.perf_counter()
import numpy as np
import evidence as ev
rng = np.random.default_rng(0)
n = 40
x, g = rng.normal(size=n), np.arange(n) % 8
labels, counts, noisy = (x > 0.2).astype(int), rng.poisson(1.5, n), x + rng.normal(size=n)
data = {"x": x, "g": g, "labels": labels, "counts": counts, "noisy": noisy}
"""
END = """
ev.log_evidence(model, random_seed=0, progressbar=False)
print(time.perf_counter() - start)
"""
#: responses of likelihoods that do not see counts
RESPONSES = {
    "probit": "labels", "logit": "labels", "cloglog": "labels", "gaussian": "noisy",
    "student_t": "noisy", "gamma": "np.exp(noisy)", "binomial(n=12)": "counts",
    "ordinal(gaps=(1.0,))": "counts.clip(0, 2)", "beta": "rng.uniform(0.1, 0.9, n)",
    "lognormal": "np.exp(noisy)", "exponential": "np.exp(noisy)", "weibull": "np.exp(noisy)",
    "log_logistic": "np.exp(noisy)", "asymmetric_laplace": "noisy",
}  # fmt: skip
COUNTS = (
    "poisson", "negative_binomial", "geometric", "beta_binomial(n=12)", "zero_inflated_poisson",
    "zero_inflated_negative_binomial", "hurdle_poisson", "hurdle_negative_binomial",
)  # fmt: skip
FORMULA = "model = ev.from_formula({!r}, data, likelihood={!r})"
STRUCTURES = {
    "formula probit": FORMULA.format("labels ~ x + (1 | g)", "probit"),
    "formula poisson": FORMULA.format("counts ~ x + (1 | g)", "poisson"),
    "formula student_t": FORMULA.format("noisy ~ x + (1 | g)", "student_t"),
    "formula sigma ~ x": "model = ev.from_formula('noisy ~ x', data, likelihood='gaussian', "
    "predictors={'sigma': 'x'})",
    "softmax": "model = ev.SoftmaxModel(x[:, None], counts.clip(0, 2), '1.0 * RBF(1.0)')",
    "priors": "model = ev.GPModel(x[:, None], labels, 'RBF(1.0)', likelihood='probit')"
    ".with_priors({'length_scale': 'gamma(2)'})",
    "markov poisson": "model = ev.GPModel(x[:, None], counts, '1.0 * Matern(1.0, nu=1.5)', "
    "likelihood='poisson', structure='markov')",
    "vecchia poisson": "model = ev.GPModel(rng.normal(size=(n, 2)), counts, '1.0 * RBF(1.0)', "
    "likelihood='poisson', structure='vecchia')",
    "density": "from scipy import stats; model = ev.DensityModel("
    "lambda x: -0.5 * np.sum((x - 1.0) ** 2) / 0.3, dim=3, prior=stats.norm(0.0, 2.0))",
}


def cases() -> dict[str, str]:
    """A line that makes a model, by name."""
    found = {}
    for name, y in (RESPONSES | dict.fromkeys(COUNTS, "counts")).items():
        made = f"ev.GPModel(x[:, None], {y}, '1.0 * RBF(1.0)', likelihood={name!r})"
        found[f"GP {name}"] = f"model = {made}"
    return found | STRUCTURES


def seconds(line: str, cache: str) -> float:
    """As a process tells that runs the code of one case."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{BEGIN}{line}{END}"], text=True, stdout=subprocess.PIPE,
        env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True,
    )  # fmt: skip
    return float(ended.stdout)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--only", nargs="+", help="beginnings of names of cases")
    options = parser.parse_args()
    only = tuple(options.only or (["GP probit"] if options.fast else [""]))
    table = []
    for name, line in cases().items():
        if name.startswith(only):
            with tempfile.TemporaryDirectory() as cache:
                row = {"case": name, "first": seconds(line, cache), "second": seconds(line, cache)}
            print(f"{name:<40}{row['first']:>6.1f} s {row['second']:>6.1f} s", flush=True)
            table.append(row)
    laboratory.save_table(pd.DataFrame(table), options.out, NAME, quiet=True)


if __name__ == "__main__":
    sys.exit(main())
