"""log Z against time on USPS 3-vs-5: the report's Figure 2 run again, beside this package.

    python -m scripts.papers.figure2_logz_vs_time --out results/figure2
    python -m scripts.papers.figure2_logz_vs_time --fast

Rows of the table are single runs: one AIS chain with the report's settings (a)-(g), moved by
this package's converged RMHMC and by the literal pseudo-code; one island of data-sequential
resample-move (RM) and of its adaptive form (ARM), with R particles and a sweep after each datum,
in random order; one call of
ev.log_evidence with its defaults. Finished runs are on disk at once, and the same command goes
on from there. Repeats go round all settings, so a run stopped early is a figure with wider
bars. For long ladders of the literal code, seconds are those of its transitions here times
their number, and log Z is not known: the figure says so.

The report does not give the first temperature of its geometric ladders: 0.01 here from EP's
Gaussian, 1e-4 from the prior.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import evidence as ev
from evidence import moves, plots
from evidence.approximations.reference import prior_reference
from evidence.drivers.data import Sequential, prepare
from scripts import drawing, laboratory
from scripts.laboratory import TRUTH, research_model
from scripts.papers.literal import LiteralAIS

NAME = "figure2_logz_vs_time"


class SweepingAlways(Sequential):
    """As in the report: a sweep after each datum, not only where islands were resampled."""

    def move_all(self, population, stage, poor):
        return super().move_all(population, stage, np.ones_like(poor))


FIRST = {"ep": 0.01, "prior": 1e-4}
RMHMC = moves.RMHMC(0.1, n_leapfrog=10, jitter=0.0)
HMC = moves.HMC(0.02, coordinates="identity", n_leapfrog=200, jitter=0.0)


@dataclasses.dataclass(frozen=True)
class Setting:
    """A point of the figure: ``run(rng, seed)`` is one repeat, returning log Z."""

    method: str
    ladder: str
    reference: str
    repeats: int
    run: Callable[[np.random.Generator, int], float]
    warm: Callable[[], object]  # a small run, for compilation
    overhead: float = 0.0  # seconds of fitting the reference, which repeats share
    first_round: int = 0  # when it joins in: what takes long comes late


class Laboratory:
    """One problem with its references, and every setting of the figure."""

    def __init__(self, model: ev.GPModel) -> None:
        self.model = model
        ev.fit_ep(model)  # compile
        started = time.perf_counter()
        self.ep = ev.fit_ep(model)
        self.fit_seconds = time.perf_counter() - started
        self.paths = {"ep": ev.Path(self.ep), "prior": ev.Path(prior_reference(model))}

    def full(self) -> list[Setting]:
        ours, literal, hmc = self.ais(RMHMC), self.literal, self.ais(HMC)
        late = partial(dataclasses.replace, first_round=9)
        return [
            *(self.default(method, 10) for method in DEFAULTS),
            self.default("auto", 10, 0.01),
            *(self.sequential(name, 100, name == "ARM", 10) for name in ("ARM", "RM")),
            *(self.sequential(name, 1000, name == "ARM", 5) for name in ("ARM", "RM")),
            ours("AISq-RMHMC", "a: B = 12", "ep", 12, 10),
            ours("AISq-RMHMC", "b: B = 120", "ep", 120, 10),
            literal("a: B = 12", 12, 10),
            hmc("AISq-HMC", "g: B = 400", "ep", 400, 10),
            ours("AISq-RMHMC", "c: B = 240", "ep", 240, 6),
            ours("AIS-RMHMC", "d: B = 1200", "prior", 1200, 3),
            ours("AISq-RMHMC", "e: B = 540", "ep", 540, 4),
            late(ours("AIS-RMHMC", "f: B = 2000", "prior", 2000, 1)),
            late(literal("b: B = 120", 120, 1)),
            *(late(self.sequential(name, 10**4, name == "ARM", 1)) for name in ("ARM", "RM")),
        ]

    def fast(self) -> list[Setting]:
        ours = self.ais(RMHMC)
        return [
            *(self.default(method, 2) for method in ("auto", "smc", "ais")),
            self.sequential("ARM", 50, True, 3),
            ours("AISq-RMHMC", "a: B = 12", "ep", 12, 4),
            ours("AISq-RMHMC", "b: B = 24", "ep", 24, 4),
            self.ais(HMC)("AISq-HMC", "g: B = 24", "ep", 24, 3),
            self.literal("a: B = 4", 4, 2),
        ]

    def default(self, method: str, repeats: int, target_se: float | None = None) -> Setting:
        def run(rng: np.random.Generator, seed: int) -> float:
            words = {} if method == "auto" else {"method": method}
            if target_se is not None:
                words["target_se"] = target_se
            return ev.log_evidence(self.model, random_seed=seed, progressbar=False, **words).logz

        def warm() -> float:
            return run(np.random.default_rng(), 10**6)

        name = method if target_se is None else f"{method}, se {target_se}"
        return Setting(f"evidence, {name}", "default", "ep", repeats, run, warm)

    def sequential(self, name: str, r: int, adaptive: bool, repeats: int) -> Setting:
        def run(rng: np.random.Generator, seed: int, r: int = r) -> float:
            threshold, i_max = (0.7, 50) if adaptive else (0.9, 0)
            prepared = prepare(self.model, "random", rng)
            loop = SweepingAlways(prepared, threshold=threshold, i_max=i_max)
            islands = loop.run(1, r, np.random.SeedSequence(seed))
            return float(islands.log_z[-1, 0])

        def warm() -> float:
            return run(np.random.default_rng(), 0, 4)

        return Setting(name, f"R = {r}", "data", repeats, run, warm)

    def ais(self, move: moves.base.Move) -> Callable[..., Setting]:
        def setting(method: str, ladder: str, reference: str, n: int, repeats: int) -> Setting:
            path, betas = self.paths[reference], ev.ladders.geometric(n, FIRST[reference])

            def run(rng: np.random.Generator, seed: int) -> float:
                state = move.init_reference(rng, path, 1)
                log_w = path.log_z0
                for before, beta in itertools.pairwise(betas):
                    log_w += (beta - before) * float(state.tilt[0])
                    if beta < 1.0:
                        state, _ = move.step(rng, path, float(beta), state)
                return log_w

            def warm() -> object:
                rng = np.random.default_rng(0)
                return move.step(rng, path, 0.5, move.init_reference(rng, path, 1))

            overhead = self.fit_seconds if reference == "ep" else 0.0
            return Setting(method, ladder, reference, repeats, run, warm, overhead)

        return setting

    def literal(self, ladder: str, n: int, repeats: int) -> Setting:
        chain = LiteralAIS(self.paths["ep"], ev.ladders.geometric(n, FIRST["ep"]))

        def run(rng: np.random.Generator, seed: int) -> float:
            return chain(rng)

        return Setting(LITERAL, ladder, "ep", repeats, run, lambda: None, self.fit_seconds)


LITERAL = "AISq-RMHMC, literal"
PRECISE = "auto, se 0.01"
DEFAULTS = ("auto", "smc", "ais", "pt", "arm", "importance", "orthant")


def pending(settings: list[Setting], done: pd.DataFrame) -> Iterator[tuple[Setting, int]]:
    known = set(zip(done.method, done.ladder, done.seed, strict=True)) if len(done) else set()
    for turn in range(max(setting.first_round + setting.repeats for setting in settings)):
        for setting in settings:
            seed = turn - setting.first_round
            new = (setting.method, setting.ladder, seed) not in known
            if 0 <= seed < setting.repeats and new:
                yield setting, seed


def measure(model: ev.GPModel, fast: bool, file: Path) -> pd.DataFrame:
    lab = Laboratory(model)
    settings = lab.fast() if fast else lab.full()
    done = pd.read_csv(file) if file.exists() else pd.DataFrame()
    todo = list(pending(settings, done))
    warm: set[str] = set()
    with threadpool_limits(1, user_api="blas"):
        for setting, seed in laboratory.progress(todo):
            if setting.method not in warm:
                warm.add(setting.method)
                setting.warm()
            started = time.perf_counter()
            logz = setting.run(np.random.default_rng(seed), seed)
            seconds = time.perf_counter() - started + setting.overhead
            row = pd.DataFrame(
                [dataclasses.asdict(setting) | {"seed": seed, "logz": logz, "seconds": seconds}]
            ).drop(columns=["run", "warm", "repeats", "overhead", "first_round"])
            row = row.assign(ep=lab.ep.logz, ep_corrected=lab.ep.logz_corrected)
            row.to_csv(file, mode="a", header=not file.exists(), index=False)
    return read(file)


def read(file: Path) -> pd.DataFrame:
    """The runs there are, this package's first."""
    runs = pd.read_csv(file)
    ours = [f"evidence, {method}" for method in (DEFAULTS[0], PRECISE, *DEFAULTS[1:])]
    rank = {name: i for i, name in enumerate(ours)}
    return runs.sort_values("method", key=lambda m: m.map(rank).fillna(len(rank)), kind="stable")


def extrapolated(runs: pd.DataFrame) -> pd.DataFrame:
    """The literal code's seconds for ladders it did not climb, from its transitions' time."""
    literal = runs[runs.method == LITERAL]
    if literal.empty:
        return pd.DataFrame(columns=["method", "ladder", "seconds"])
    each = float((literal.seconds / (_temperatures(literal.ladder) - 1)).median())
    ours = runs[runs.method.isin(["AISq-RMHMC", "AIS-RMHMC"])]
    missing = ours[~ours.ladder.isin(literal.ladder)].drop_duplicates("ladder")
    return pd.DataFrame(
        {
            "method": LITERAL,
            "ladder": _short(missing.ladder),
            "seconds": each * (_temperatures(missing.ladder) - 1),
        }
    )


def _temperatures(ladders: pd.Series) -> pd.Series:
    return ladders.str.extract(r"= (\d+)")[0].astype(int)


def summary(runs: pd.DataFrame, truth: float) -> pd.DataFrame:
    groups = runs.groupby(["method", "ladder"], sort=False)
    table = groups.agg(
        runs=("logz", "size"), logz=("logz", "mean"), sd=("logz", "std"),
        seconds=("seconds", "mean"),
    ).reset_index()  # fmt: skip
    table["error"] = table.logz - truth
    table["variance_times_seconds"] = table.sd**2 * table.seconds
    table["mse_times_seconds"] = (
        groups.logz.apply(lambda values: float(np.mean((values - truth) ** 2))).to_numpy()
        * table.seconds
    )
    return table


def draw(runs: pd.DataFrame, published: pd.DataFrame | None, truth: float, out: Path) -> None:
    import matplotlib.pyplot as plt

    long = extrapolated(runs)
    runs = runs.drop(columns="reference").assign(ladder=_short(runs.ladder))
    if published is not None:
        published = published.assign(ladder=_short(published.ladder))
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
    plots.plot_logz_vs_time(runs, left, published=published)
    left.set_title("One run: one chain, one island, or one call; names on the right")
    for text in list(left.texts):
        text.remove()  # those that are right stand on one another
    spread = runs.groupby(["method", "ladder"]).logz.agg(["mean", "std"])
    near = spread[(spread["mean"] - truth).abs() < _NEAR]
    left.set_ylim((near["mean"] - near["std"]).min() - 0.5, (near["mean"] + near["std"]).max() + 1)
    plots.plot_efficiency(runs, truth, right, published=published)
    right.set_ylim(top=20.0)  # names stand beside points, and need no room above them
    low, high = right.get_xlim()
    for _, row in long.iterrows():
        right.axvline(row.seconds, color="0.6", ls=(0, (1, 3)), lw=0.9)
        right.annotate(
            f"literal, {row.ladder}, extrapolated", (row.seconds, 0.01), rotation=90,
            xycoords=("data", "axes fraction"), fontsize=7, color="0.4", va="bottom", ha="right",
        )  # fmt: skip
        high = max(high, 1.3 * row.seconds)
    right.set_xlim(low, high)
    drawing.name_points(right)
    lines = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
    kept = [name for name in ("EP", "EP, corrected", "published") if name in lines]
    left.legend([lines[name] for name in kept], kept, loc="lower right", frameon=False)
    laboratory.save_figure(figure, out, NAME)


_NEAR = 5.0  # nats: what is farther off is left out of the left panel


def _short(ladders: pd.Series) -> pd.Series:
    """The report's letters, powers of ten for numbers of particles."""
    powers = {"R = 100": "$10^2$", "R = 1000": "$10^3$", "R = 10000": "$10^4$"}
    return ladders.str.split(":").str[0].replace(powers)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--draw", action="store_true", help="only draw what is in --out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{NAME}_runs.csv"
    if options.fast:
        data = ev.datasets.load_demo()
        model = ev.GPModel(data.X[:40], data.y[:40], data.kernel, likelihood="probit")
        truth = ev.log_evidence(model, method="orthant", target_se=0.002, random_seed=0).logz
        file.unlink(missing_ok=True)
        runs, published = measure(model, True, file), None
    else:
        truth, published = TRUTH["usps-hard"][0], laboratory.published("report_2016")
        runs = read(file) if options.draw else measure(research_model("usps-hard"), False, file)
    table = summary(runs, truth)
    print(table.round(4).to_string(index=False))
    laboratory.save_table(table, options.out, NAME)
    draw(runs, published, truth, options.out)


if __name__ == "__main__":
    sys.exit(main())
