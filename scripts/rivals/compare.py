r"""Other packages on the same evidence: bias, spread, seconds, and how they fail.

    python -m scripts.rivals.compare --out results/rivals
    python -m scripts.rivals.compare --data heart --only BlackJAX particles --repeats 5
    python -m scripts.rivals.compare --fast

Makes environments with pinned versions (``scripts/rivals/*.txt``) in a cache folder, once. Every
rival runs in a process of its own, on the same cores, with the settings of
``scripts/rivals/roster.py``, in whitened coordinates; where it can start from a Gaussian other
than the prior it has a second row with EP's, whose fit is not counted. This package's seconds
count everything. On one core seconds are those of the processor, which a busy machine disturbs
less. Rows of single runs are appended to ``runs.csv`` as they finish; ``--resume`` goes on there.
The fast mode needs neither data nor environments: it takes a small simulated problem and what runs
in this Python; with --only also rivals whose environment is there.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import venv
from argparse import Namespace
from pathlib import Path
from typing import Any

import pandas as pd

import evidence as ev
from evidence.plots._style import legend, looks
from scripts import laboratory
from scripts.laboratory import TRUTH
from scripts.rivals import problem as problems
from scripts.rivals import runner
from scripts.rivals import table as tables
from scripts.rivals.roster import OWN, ROSTER, Rival

PIECES = Path(__file__).parent
NAME = "rivals"
SIMULATED = "simulated"
COLUMNS = [
    "problem", "rival", "variant", "base", "likelihood", "settings", "cores", "version", "seed",
    "first", "logz", "stated_se", "seconds", "cpu_seconds", "failure",
]  # fmt: skip


def make_model(name: str, likelihood: str = "probit") -> ev.GPModel:
    if name == SIMULATED:
        return laboratory.simulated_model(likelihood)
    return laboratory.research_model(name, likelihood)


def find_truth(name: str, likelihood: str) -> tuple[float, float]:
    """log Z and its standard error: a long run's where nobody has told it."""
    if likelihood == "probit" and name in TRUTH:
        return TRUTH[name]
    model = make_model(name, likelihood)
    if likelihood == "probit":
        return laboratory.by_tilting(model)
    found = ev.log_evidence(model, target_se=0.02, random_seed=0, progressbar=False)
    return found.logz, found.logz_se


def ready(rival: Rival, folder: Path) -> bool:
    """Whether its Python is there with what the pins ask for."""
    if rival.venv == OWN:
        return True
    pins, done = PIECES / f"{rival.venv}.txt", folder / rival.venv / "installed.txt"
    return done.exists() and done.read_text() == pins.read_text()


def build(name: str, folder: Path) -> None:
    """An environment with the pinned versions; its list is kept in it when all are there."""
    pins, home = PIECES / f"{name}.txt", folder / name
    print(f"installing {pins.name} into {home}", flush=True)
    venv.create(home, with_pip=True, clear=True)
    install = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "-r", str(pins)]
    subprocess.run(install, check=True)
    (home / "installed.txt").write_text(pins.read_text())


def parse(arguments: list[str] | None = None) -> Namespace:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--data", nargs="+", default=["heart", "ripley", "usps-hard"],
                        choices=sorted(TRUTH))  # fmt: skip
    parser.add_argument("--only", nargs="+", default=[""], help="how the rivals' names begin")
    parser.add_argument("--repeats", type=int, default=40, help="runs of each, at most")
    parser.add_argument("--least", type=int, default=3, help="runs of each whatever they cost")
    parser.add_argument(
        "--budget", type=float, default=15.0,
        help="seconds for a rival on a problem before it makes do with fewer runs",
    )  # fmt: skip
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of one run")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="keep the runs there are")
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache" / "evidence-rivals",
                        help="folder for the environments (default: %(default)s)")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.fast:
        options.data, options.repeats = [SIMULATED], min(options.repeats, 2)
        options.limit, options.least = min(options.limit, 60.0), 2
        options.budget = min(options.budget, 1.0)
    return options


def choose(options: Namespace) -> list[Rival]:
    """Rivals asked for; environments that are missing are made.

    The fast mode makes none, and uses those that are there for rivals asked for by name.
    """
    asked = [r for r in ROSTER if r.name.startswith(tuple(options.only))]
    if options.fast:
        named = options.only != [""]
        return [r for r in asked if r.venv == OWN or (named and ready(r, options.venv))]
    for name in dict.fromkeys(r.venv for r in asked if not ready(r, options.venv)):
        build(name, options.venv)
    return asked


def stay_on(cores: int) -> None:
    """This process and its children on so many cores, where the system lets them be chosen."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])


def measure(options: Namespace, rivals: list[Rival], file: Path) -> pd.DataFrame:
    """Single runs of all, appended to the file as they come."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not (options.resume and file.exists()):
        pd.DataFrame(columns=COLUMNS).to_csv(file, index=False)
    known = read(file)
    cells = [(name, rival) for name in options.data for rival in rivals]
    with tempfile.TemporaryDirectory() as folder:
        for name, rival in laboratory.progress(cells):
            arrays = Path(folder) / f"{name}.npz"
            if not arrays.exists():
                problems.save(str(arrays), name, make_model(name))
            seeds = left_over(known, name, rival, options)
            rows = runner.measure(
                rival, runner.find_python(rival, options.venv), arrays, name, seeds,
                cores=options.cores, limit=options.limit, budget=options.budget,
                least=options.least,
            )  # fmt: skip
            for row in rows:
                line = pd.DataFrame([row], columns=COLUMNS)
                line.to_csv(file, mode="a", header=False, index=False)
    return read(file)


def read(file: Path) -> pd.DataFrame:
    """Runs from their file; empty text stays empty text."""
    text = ("base", "failure", "version")
    empty = {name: [""] for name in COLUMNS if name not in text}
    return pd.read_csv(file, keep_default_na=False, na_values=empty)


def in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Problems as they came, rivals as in the roster."""
    place = {name: i for i, name in enumerate(runs.problem.unique())}
    rank = {(r.name, r.variant, r.base): i for i, r in enumerate(ROSTER)}
    who = zip(runs.rival, runs.variant, runs.base, strict=True)
    keys = pd.DataFrame(
        {"problem": runs.problem.map(place), "who": [rank.get(w, len(rank)) for w in who]}
    )
    return runs.iloc[keys.sort_values(["problem", "who"], kind="stable").index]


def left_over(known: pd.DataFrame, name: str, rival: Rival, options: Namespace) -> list[int]:
    """Seeds still to run: none where a rival got as far as its budget or limit let it."""
    own = known[(known.problem == name) & (known.rival == rival.name)
                & (known.variant == rival.variant) & (known.base == rival.base)]  # fmt: skip
    if len(own) >= options.least and own.seconds.sum() > options.budget:
        return []
    if own.failure.str.contains(runner.TOO_LONG).any():
        return []
    most = 2 if rival.deterministic else options.repeats
    return [seed for seed in range(most) if seed not in set(own.seed)]


def draw(table: pd.DataFrame) -> Any:
    """What an answer costs beside this package's default: mean square error times seconds."""
    import matplotlib.pyplot as plt

    table = table.assign(who=[tables.label(row) for row in table.itertuples()])
    table = table[table.ratio > 0.0]
    rows = list(table.groupby("who").ratio.median().sort_values(ascending=False).index)
    figure, ax = plt.subplots(figsize=(8.0, 1.2 + 0.24 * len(rows)), layout="constrained")
    for (marker, shade), (name, own) in zip(looks(), table.groupby("problem"), strict=False):
        places = [rows.index(who) for who in own.who]
        ax.plot(own.ratio, places, marker, color=shade, ms=5.5, mfc="none", mew=1.4, label=name)
    ax.axvline(1.0, color="0.4", lw=0.8)
    ax.set_yticks(range(len(rows)), rows)
    ours = [label for label in ax.get_yticklabels() if label.get_text().startswith("evidence")]
    plt.setp(ours, fontweight="bold")
    ax.grid(axis="y", color="0.93", lw=0.8)
    ax.set(
        xscale="log", ylim=(-0.7, len(rows) - 0.3),
        xlabel="mean square error × seconds, relative to this package's default",
    )  # fmt: skip
    legend(ax, loc="upper right")
    plt.close(figure)
    return figure


def main() -> None:
    options = parse()
    rivals = choose(options)
    stay_on(options.cores)
    runs = in_order(measure(options, rivals, options.out / "runs.csv"))
    kinds = runs[["problem", "likelihood"]].drop_duplicates().itertuples(index=False)
    truths = {(name, kind): find_truth(name, kind) for name, kind in kinds}
    table = tables.summarise(runs, truths)
    laboratory.save_table(table, options.out, NAME)
    for row in table.drop_duplicates(["rival", "variant", "base"]).itertuples():
        print(f"{row.version:16} {tables.label(row)}: {row.settings}")
    text = tables.markdown(table)
    (options.out / f"{NAME}.md").write_text(text)
    print(text)
    laboratory.save_figure(draw(table), options.out, NAME)


if __name__ == "__main__":
    main()
