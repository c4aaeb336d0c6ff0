"""Problems that others published, and their evidences beside ours.

    EVIDENCE_DATA=folder python -m scripts.published.evidences

Data are read from ``published`` in the folder that EVIDENCE_DATA names. "known" is a number by
quadrature or importance sampling, or as it was published; z compares the two, in standard errors
of both. Seconds are the processor's. A page of the documentation shows the table, which is kept
in scripts/figures/published.csv. Every model and prior is written out here or in
scripts/published/planets.py.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import logsumexp

import evidence as ev
from scripts import laboratory
from scripts.published.planets import Velocities

NAME = "published"
#: EPRV3, narrow prior: log Z without a planet (quadrature) and with one (importance sampling)
PLANETS = {
    1: (-488.097, -441.582),
    2: (-453.861, -380.798),
    3: (-390.621, -372.657),
    4: (-372.149, -366.513),
    5: (-384.592, -375.129),
    6: (-414.132, -389.782),
}
_PLANETS_SE = (0.001, 0.006)
_HALF = stats.halfnorm()
_WIDE, _NARROW = stats.norm(0.0, 5.0), stats.norm(0.0, 2.0)
SLEEP = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])  # hours more, of ten people

Row = tuple[str, str, float, float, Callable[[], tuple[float, float, int]]]


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--only", nargs="+", help="rows whose names begin so")
    options = parser.parse_args()
    rows = []
    for name, source, known, known_se, run in problems(options.fast):
        if options.only and not name.startswith(tuple(options.only)):
            continue
        started = time.process_time()
        value, se, evaluations = run()
        seconds = time.process_time() - started
        row = {
            "problem": name, "source": source, "known": known, "known_se": known_se,
            "ours": value, "se": se, "z": (value - known) / np.hypot(se, known_se),
            "seconds": seconds, "evaluations": evaluations,
        }  # fmt: skip
        print(
            "{problem:34s} {known:10.4f} ± {known_se:.4f}   {ours:10.4f} ± {se:.4f} ({z:+.1f}) "
            "{seconds:6.1f} s {evaluations:>8d}".format(**row),
            flush=True,
        )
        rows.append(row)
    digits = {"known": 3, "known_se": 3, "ours": 3, "se": 3, "z": 1, "seconds": 1}
    laboratory.save_table(pd.DataFrame(rows).round(digits), options.out, NAME, quiet=True)


def problems(fast: bool) -> Iterator[Row]:
    """Name, source, what is known and its standard error, and what makes ours."""
    yield "sleep, paired t test", "BayesFactor", np.log(17.25888), 1e-6, sleep
    yield from boxes()
    if fast:
        return
    if "EVIDENCE_DATA" not in os.environ:
        sys.exit("the rest needs EVIDENCE_DATA=folder, with the data in its folder 'published'")
    folder = Path(os.environ["EVIDENCE_DATA"]) / "published"
    for name, known, known_se, formula, family, priors in mixed():
        data, source = frame(folder, name), "R-INLA's examples"
        yield name, source, known, known_se, _formula(formula, data, family, priors)
    puzzles = pd.read_csv(folder / "puzzles.csv")
    for more, known in (("shape", 2.8648), ("shape + color", 11.888), ("shape * color", 4.436)):
        run = _ratio([f"RT ~ {more} + (1 | ID)", "RT ~ 1 + (1 | ID)"], puzzles)
        yield f"puzzles, {more}", "BayesFactor", np.log(known), 1e-4, run
    yield from planets(folder / "eprv3")


def planets(folder: Path) -> Iterator[Row]:
    """Radial velocities of the challenge; with the wide prior of one planet what lies within the
    narrow one is less by the ratio of their logarithmic widths, and nothing else is near."""
    for number, both in PLANETS.items():
        for n, (known, se) in enumerate(zip(both, _PLANETS_SE, strict=True)):
            model = Velocities(folder, number, n).model
            yield f"EPRV3 set {number}, {n} planets", "EPRV3", known, se, _density(model)
        narrow = Velocities(folder, number, 1)
        wide = Velocities(folder, number, 1, wide=True)
        less = narrow.width - wide.width
        yield (
            f"EPRV3 set {number}, 1 planet, wide",
            "EPRV3",
            both[1] + less,
            se,
            _density(wide.model),
        )
    for number in PLANETS:
        model = Velocities(folder, number, 2).model
        yield f"EPRV3 set {number}, 2 planets", "EPRV3", np.nan, np.nan, _density(model)


def eggbox(x: Any) -> Any:
    return (2.0 + np.cos(0.5 * x[:, 0]) * np.cos(0.5 * x[:, 1])) ** 5


def shells(x: Any) -> Any:
    """Two shells of radius 2 and deviation .1 around (±3.5, 0)."""
    away = [np.hypot(x[:, 0] - side, x[:, 1]) - 2.0 for side in (-3.5, 3.5)]
    return np.logaddexp(
        *(-0.5 * (r / 0.1) ** 2 - np.log(0.1 * np.sqrt(2.0 * np.pi)) for r in away)
    )


def rosenbrock(x: Any) -> Any:
    return -((1.0 - x[:, 0]) ** 2) - 100.0 * (x[:, 1] - x[:, 0] ** 2) ** 2


#: nested samplers' own tests: density and the box that its prior is uniform on
BOXES = {
    "eggbox": (eggbox, (0.0, 10.0 * np.pi)),
    "Gaussian shells": (shells, (-6.0, 6.0)),
    "Rosenbrock": (rosenbrock, (-5.0, 5.0)),
}


def boxes() -> Iterator[Row]:
    for name, (function, limits) in BOXES.items():
        x = limits[0] + (limits[1] - limits[0]) * (np.arange(3000) + 0.5) / 3000
        grid = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
        known = logsumexp(function(grid)) - 2.0 * np.log(x.size)
        model = partial(ev.DensityModel, function, prior=[limits] * 2, vectorized=True)
        yield name, "nested samplers' tests", known, 1e-3, _density(model)


def mixed() -> Iterator[tuple[str, float, float, str, str, dict[str, Any]]]:
    """R-INLA's examples with every prior written out; known by importance sampling."""
    slopes = dict.fromkeys(("x1", "x2", "x1:x2"), _NARROW)
    yield (
        "Seeds", -65.608, 0.013, "r | trials(n) ~ x1 * x2 + (1 | plate)", "binomial",
        {"Intercept": _WIDE, **slopes, "sd(1|plate)": _HALF},
    )  # fmt: skip
    effects = ("Intercept", "ClBase4", "CTrt", "CBT", "ClAge", "CV4")
    yield (
        "Epil", -650.90, 0.05, f"y ~ {' + '.join(effects[1:])} + (1 | Ind) + (1 | rand)",
        "poisson", {**dict.fromkeys(effects, _WIDE), "sd(1|Ind)": _HALF, "sd(1|rand)": _HALF},
    )  # fmt: skip
    yield (
        "Scotland", -180.325, 0.011, "Counts ~ x10 + offset(lE) + (1 | area)", "poisson",
        {"Intercept": _WIDE, "x10": _NARROW, "sd(1|area)": _HALF},
    )  # fmt: skip


def frame(folder: Path, name: str) -> pd.DataFrame:
    """The data, with the columns that formulas name."""
    data = pd.read_csv(folder / f"{name}.txt", sep=r"\s+")
    if name == "Epil":
        base = np.log(data.Base / 4.0)
        age = np.log(data.Age)
        data["ClBase4"], data["ClAge"] = base - base.mean(), age - age.mean()
        data["CTrt"], data["CV4"] = data.Trt - data.Trt.mean(), data.V4 - data.V4.mean()
        both = data.Trt * base
        data["CBT"] = both - both.mean()
    if name == "Scotland":
        data["x10"], data["lE"], data["area"] = data.X / 10.0, np.log(data.E), range(len(data))
    return data


def _formula(
    formula: str, data: pd.DataFrame, family: str, priors: dict[str, Any]
) -> Callable[[], tuple[float, float, int]]:
    def run() -> tuple[float, float, int]:
        model = ev.from_formula(formula, data, likelihood=family, priors=priors)
        result = ev.integrated_evidence(model, random_seed=0, progressbar=False)
        return result.logz, result.logz_se, 0

    return run


def _ratio(formulas: list[str], data: Any, **words: Any) -> Callable[[], tuple[float, float, int]]:
    def run() -> tuple[float, float, int]:
        table = ev.compare(
            formulas, data, priors="jzs", random_seed=0, progressbar=False, **words
        ).table
        one, two = (table.loc[formula] for formula in formulas)
        return one.logz - two.logz, float(np.hypot(one.logz_se, two.logz_se)), 0

    return run


def _density(model: Callable[[], Any]) -> Callable[[], tuple[float, float, int]]:
    def run() -> tuple[float, float, int]:
        result = ev.log_evidence(model(), random_seed=0, progressbar=False)
        return result.logz, result.logz_se, sum(result.evaluations.values())

    return run


def sleep() -> tuple[float, float, int]:
    return _ratio(["d ~ 1", "d ~ 0"], {"d": SLEEP})()


if __name__ == "__main__":
    sys.exit(main())
