"""The distance to what this machine can do: seconds of typical work beside bare arithmetic.

    python -m scripts.benchmarks.limits --repeats 5
    python -m scripts.benchmarks.limits --only "EP 767" "draw logit"

First the machine's own rates, in the same run: products and Cholesky factors of matrices by all
cores, exponentials in vector registers by one. Then rows of work, each the median of --repeats
after one run that compiles. ``limit`` is the arithmetic that a row cannot do without, at those
rates: of EP three sweeps of 2 N³ / 3 (a factor and its inverse), of guided draws one exponential
and one logarithm each, of a surface its cells' EP. Research data are read from the folder that
EVIDENCE_DATA names; --fast needs none. First calls are in ``first_calls.py``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import cholesky
from scipy.stats import lognorm

import evidence as ev
from evidence.numerics.jit import jit
from evidence.proposals.guide import make_guide
from scripts import laboratory
from scripts.papers.agrad_tables import cox_process

NAME = "limits"
LIKELIHOODS = ("probit", "logit", "poisson", "negative_binomial", "student_t")
PRIORS = {"constant_value": lognorm(1.0, scale=4.0), "length_scale": lognorm(1.0, scale=3.0)}
DRAWS = 2048


class Rates(NamedTuple):
    """Operations per second, and seconds of one exponential."""

    product: float
    cholesky: float
    exponential: float


class Row(NamedTuple):
    """Work to do, given the rates that say what it could cost."""

    prepare: Callable[[], Callable[[], float]]
    """Makes what is not timed; what it returns does the work and returns its seconds."""
    unit: str
    limit: Callable[[Rates], float]
    seconds: float = 1.0
    """That one unit has."""


@jit
def _exponentials(x, out):
    for i in range(x.size):
        out[i] = np.exp(x[i])


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measured_rates(n: int, repeats: int) -> Rates:
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((n, n)), rng.standard_normal(1 << 14)
    spd, out = a @ a.T + n * np.eye(n), np.empty_like(x)
    _exponentials(x, out)
    works = (lambda: a @ a, lambda: cholesky(spd), lambda: _exponentials(x, out))
    product, factor, exponential = (min(seconds(w) for _ in range(repeats)) for w in works)
    return Rates(2.0 * n**3 / product, n**3 / 3.0 / factor, exponential / x.size)


def timed(work: Callable[[], object]) -> Callable[[], float]:
    return lambda: seconds(work)


def classification(n: int, likelihood: str = "probit") -> ev.GPModel:
    """Labels of a smooth latent function of two inputs."""
    X = np.random.default_rng(0).normal(size=(n, 2))
    blank = ev.GPModel(X, np.ones(n), "4.0 * RBF(0.7)", likelihood=likelihood)
    return ev.simulate(blank, random_seed=0).model


def heart(likelihood: str) -> ev.GPModel:
    X, y = laboratory.research_inputs("heart")
    return ev.GPModel(X, y, "4.0 * RBF(3.0)", likelihood=likelihood)


def surface(model: ev.GPModel) -> Callable[[], float]:
    grid = {"constant_value": np.geomspace(1, 30, 6), "length_scale": np.geomspace(1, 10, 6)}
    return timed(
        lambda: ev.evidence_surface(model, grid, target_se=0.05, random_seed=0, progressbar=False)
    )


def estimate(model: ev.GPModel, target_se: float) -> Callable[[], float]:
    return timed(
        lambda: ev.log_evidence(model, target_se=target_se, random_seed=0, progressbar=False)
    )


def drawing(likelihood: str, n: int) -> Callable[[], float]:
    """Seconds of one latent value of one guided draw, by one thread."""
    guide = make_guide(ev.fit_ep(classification(n, likelihood)))
    return lambda: seconds(lambda: guide.draw(DRAWS, np.random.default_rng(0))) / DRAWS / n


def fit(model: ev.GPModel) -> Callable[[], float]:
    return timed(lambda: ev.fit_ep(model))


def sweeps(n: int, count: int = 1) -> Callable[[Rates], float]:
    """Three sweeps of EP."""
    return lambda rates: count * 3.0 * 2.0 / 3.0 * n**3 / rates.cholesky


def rows(fast: bool) -> dict[str, Row]:
    """By name."""
    n = 60 if fast else 270
    found = {
        f"draw {name}": Row(
            lambda name=name: drawing(name, n), "ns", lambda rates: 2.0 * rates.exponential, 1e-9
        )
        for name in LIKELIHOODS
    }
    if fast:
        found["EP 60"] = Row(lambda: fit(classification(60)), "s", sweeps(60))
        return found
    for name in ("probit", "logit"):
        found[f"surface {name}"] = Row(
            lambda name=name: surface(heart(name)), "s", sweeps(270, 36)
        )
        found[f"integrated {name}"] = Row(
            lambda name=name: estimate(heart(name).with_priors(PRIORS), 0.01), "s", sweeps(270, 30)
        )
    for data in laboratory.TRUTH:
        size = 767 if "usps" in data else 250
        found[f"default {data}"] = Row(
            lambda data=data: estimate(laboratory.research_model(data), 0.05), "s", sweeps(size)
        )
    found["EP 767"] = Row(lambda: fit(laboratory.research_model("usps-hard")), "s", sweeps(767))
    found["EP 4096"] = Row(lambda: fit(cox_process(64, 64.0 / 33.0)), "s", sweeps(4096))
    found["Cox 4096"] = Row(
        lambda: estimate(cox_process(64, 64.0 / 33.0), 0.05), "s", sweeps(4096)
    )
    found["probit 4000"] = Row(lambda: estimate(classification(4000), 0.05), "s", sweeps(4000))
    return found


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="beginnings of names of rows")
    options = parser.parse_args()
    rates = measured_rates(300 if options.fast else 3000, options.repeats)
    print(
        f"products {rates.product / 1e9:.0f} and Cholesky {rates.cholesky / 1e9:.0f} GFlop/s, "
        f"{rates.exponential * 1e9:.2f} ns for an exponential"
    )
    table = []
    for name, row in rows(options.fast).items():
        if options.only and not name.startswith(tuple(options.only)):
            continue
        work = row.prepare()
        work()
        found = [work() / row.seconds for _ in range(options.repeats)]
        limit = row.limit(rates) / row.seconds
        table.append(
            {"what": name, "unit": row.unit, "median": np.median(found), "least": min(found),
             "most": max(found), "limit": limit, "ratio": np.median(found) / limit}
        )  # fmt: skip
        last = table[-1]
        print(
            f"  {name:<24}{last['median']:>9.3g} {row.unit:<3} ({last['least']:.3g} to "
            f"{last['most']:.3g})  limit {limit:.3g}  ratio {last['ratio']:.3g}", flush=True
        )  # fmt: skip
    laboratory.save_table(pd.DataFrame(table), options.out, NAME)


if __name__ == "__main__":
    sys.exit(main())
