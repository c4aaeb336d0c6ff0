"""What scripts share: their command line, where tables and figures go, and the research data.

Research data are read from the folder that EVIDENCE_DATA names, see
:func:`evidence.models.datasets.load`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

import evidence as ev

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
HERE = Path(__file__).parent

#: data set -> (log Z, its standard error) for the probit models of :func:`research_model`
TRUTH = {
    "heart": (-116.0426, 0.0016),
    "ripley": (-87.9500, 0.0045),
    "usps-hard": (-105.7990, 0.0060),
    "usps-book": (-94.6500, 0.0100),
}
_USPS = {"usps-hard": (4.85, 5.10), "usps-book": (2.85, 2.35)}


def parser(doc: str | None, name: str) -> argparse.ArgumentParser:
    """--fast and --out, for the script whose docstring this is."""
    first, _, rest = (doc or "").partition("\n")
    made = argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--fast", action="store_true", help="small problems, less than a minute, no data needed"
    )
    made.add_argument(
        "--out", type=Path, default=Path("results") / name,
        help="folder for figures and tables (default: %(default)s)",
    )  # fmt: skip
    return made


def progress(steps: Iterable[T], total: int | None = None) -> Iterable[T]:
    """One line that says how far; silent where nobody looks."""
    return tqdm(steps, total=total, disable=None)


def kept(
    file: Path, keys: list[str], cases: Iterable[tuple[Any, ...]], run: Callable[..., Any]
) -> pd.DataFrame:
    """Rows of ``run(*case)`` for every case, on disk at once: a case that is there is not run.

    A row says which case it belongs to in the columns ``keys``.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    done = set()
    if file.exists():
        done = set(pd.read_csv(file)[keys].itertuples(index=False, name=None))
    for case in progress([case for case in cases if case not in done]):
        rows = pd.DataFrame(run(*case))
        rows.to_csv(file, mode="a", header=not file.exists(), index=False)
    return pd.read_csv(file)


def published(name: str) -> pd.DataFrame:
    """A paper's own table, from ``papers/tables``."""
    return pd.read_csv(HERE / "papers" / "tables" / f"{name}.csv")


def save_table(table: pd.DataFrame, folder: Path, name: str, quiet: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{name}.csv", index=False)
    if not quiet:
        print(f"wrote {folder / name}.csv")


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=150)
    figure.savefig(folder / f"{name}.svg")
    print(f"wrote {folder / name}.png and .svg")


def simulated_model(likelihood: str = "probit") -> ev.GPModel:
    """Forty labels drawn from a GP classifier."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    blank = ev.GPModel(X, np.ones(40), "9.0 * RBF(1.0)")
    drawn = ev.simulate(blank, random_seed=0).model
    return ev.GPModel(K=drawn.K, y=drawn.y, likelihood=likelihood, jitter=0.0)


def by_tilting(model: ev.GPModel, target_se: float = 0.001) -> tuple[float, float]:
    """log Z of a probit model and its standard error, from minimax tilting."""
    found = ev.log_evidence(
        model, method="orthant", target_se=target_se, random_seed=0, progressbar=False
    )
    return found.logz, found.logz_se


def research_inputs(name: str) -> tuple[np.ndarray, np.ndarray]:
    """X, standardised except for USPS, and y."""
    data = ev.datasets.load("usps_3v5" if name in _USPS else name)
    X = data["X"].astype(float)
    if name not in _USPS:
        X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    return X, data["y"].astype(float)


def research_model(
    name: str,
    likelihood: str = "probit",
    log_lengthscale: float | None = None,
    log_amplitude: float | None = None,
) -> ev.GPModel:
    """A squared-exponential GP classifier on one of the data sets.

    Small sets are standardised and bring their own hyperparameters; USPS 3-vs-5 is used raw at
    one of two settings.
    """
    if name in _USPS:
        stored_l, stored_a = _USPS[name]
    else:
        data = ev.datasets.load(name)
        stored_l, stored_a = float(data["log_lengthscale"]), float(data["log_amplitude"])
    X, y = research_inputs(name)
    length = np.exp(stored_l if log_lengthscale is None else log_lengthscale)
    amplitude = np.exp(stored_a if log_amplitude is None else log_amplitude)
    squared = np.sum(X**2, axis=1)
    distance = np.maximum(squared[:, None] + squared - 2.0 * X @ X.T, 0.0)
    K = amplitude**2 * np.exp(-0.5 * distance / length**2)
    return ev.GPModel(K=K, y=y, likelihood=likelihood, jitter=1e-6)
