"""What the figure scripts share: their command line, and where figures and tables go."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm.auto import tqdm

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

T = TypeVar("T")


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
    import pandas as pd

    file.parent.mkdir(parents=True, exist_ok=True)
    done = set()
    if file.exists():
        done = set(pd.read_csv(file)[keys].itertuples(index=False, name=None))
    for case in progress([case for case in cases if case not in done]):
        rows = pd.DataFrame(run(*case))
        rows.to_csv(file, mode="a", header=not file.exists(), index=False)
    return pd.read_csv(file)


def save_table(table: pd.DataFrame, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{name}.csv", index=False)
    print(f"wrote {folder / name}.csv")


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=150)
    figure.savefig(folder / f"{name}.svg")
    print(f"wrote {folder / name}.png and .svg")
