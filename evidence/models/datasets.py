"""Data: a bundled example, the research data sets, and tables on disk."""

from __future__ import annotations

import importlib.util
import os
import zlib
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..execution.arguments import array, check_choice, shown
from ..execution.lazy import pd
from ..messages import InputError, suggest
from ..numerics.arrays import Array

#: research data sets that :func:`load` knows
NAMES = (
    "australian", "german", "gp_regression", "heart", "lgcp64", "mnist1000", "pima", "ripley",
    "usps_3v5",
)  # fmt: skip
_PLACE = "EVIDENCE_DATA"
_PARQUET = (".parquet", ".pq")
_TEXT = {".csv": ",", ".tsv": "\t"}  #: and these with .gz


class Dataset(NamedTuple):
    """Inputs ``X`` (N, D), observations ``y`` (N,) and what they are."""

    X: Array
    y: NDArray[Any]
    features: tuple[str, ...]
    name: str
    description: str
    kernel: str = ""  #: a kernel that suits them, where one is known


def load_demo() -> Dataset:
    """Return the small classification problem of ``evidence demo``; it comes with scikit-learn.

    Every second patient of the Wisconsin breast cancer data and the two measurements that
    tell most, standardised. With ``data.kernel`` Laplace, EP and corrected EP are visibly off
    in different ways.

    >>> data = load_demo()
    >>> data.X.shape, sorted(set(data.y.tolist())), data.kernel
    ((285, 2), [-1, 1], '25.0 * RBF(0.5)')
    """
    from sklearn.datasets import load_breast_cancer

    columns, step = (22, 27), 2  # the two that tell most, and of every second patient
    bunch = load_breast_cancer()
    X = bunch.data[::step, columns]
    features = tuple(str(bunch.feature_names[i]) for i in columns)
    y = 2 * bunch.target[::step].astype(int) - 1
    what = f"benign (+1) or malignant (-1) from {' and '.join(features)}"
    whose = f"{len(X)} patients of the Wisconsin data that scikit-learn bundles"
    about = f"{what}, {whose}"
    return Dataset(standardise(X), y, features, "breast cancer", about, "25.0 * RBF(0.5)")


def load(name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a research data set: ``$EVIDENCE_DATA/<name>.npz``.

    The files are not part of the package. Set the environment variable ``EVIDENCE_DATA`` to
    the folder that holds them. Known names are in :data:`NAMES`.
    """
    check_choice("data set", name, NAMES)
    folder = os.environ.get(_PLACE)
    if not folder:
        raise FileNotFoundError(
            f"data set {shown(name)} is not part of the package: set the environment variable "
            f"{_PLACE} to the folder that holds {name}.npz"
        )
    path = FilePath(folder).expanduser() / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}; {_PLACE} is {folder!r}")
    with np.load(path, allow_pickle=False) as data:
        return {key: data[key] for key in data.files}


def standardise(X: Array) -> Array:
    """Return the columns of ``X`` at mean 0 and standard deviation 1 (ddof 1).

    Constant columns become 0.
    """
    X = array("X", X, ("N", "D"))
    centred = X - X.mean(axis=0)
    constant = np.ptp(X, axis=0) == 0.0
    centred[:, constant] = 0.0
    scale = np.where(constant, 1.0, X.std(axis=0, ddof=1)) if len(X) > 1 else 1.0
    return centred / scale


def read_table(
    path: str | os.PathLike[str], target: str, *, features: Iterable[str] | None = None,
    drop: Iterable[str] = (), standardised: bool = True, sep: str | None = None,
    positive: str | None = None,
) -> Dataset:  # fmt: skip
    """Return features and target from the columns of a table in a file.

    Parameters
    ----------
    path : path to a ``.csv``, ``.tsv``, ``.csv.gz``, ``.tsv.gz`` or ``.parquet`` file
    target : name of the column to explain
    features : names of the columns to explain it from; default all others
    drop : names of columns to leave out
    standardised : scale the features to mean 0 and standard deviation 1 (ddof 1)
    sep : what stands between columns of a text file; default by its name
    positive : the label that is +1, of a target with two labels; the other one is -1
    """
    path = FilePath(path)
    table = read_frame(path, sep)
    names = _choose(list(table.columns), target, features, drop)
    if len(table) < 2:
        raise InputError(f"{path} has {len(table)} row(s) of data; at least 2 are needed")
    y = _target(table[target], positive)
    _check_features(table[names])
    X = np.ascontiguousarray(table[names].to_numpy(dtype=float))
    X = standardise(X) if standardised else X
    about = f"{target} from {len(names)} column(s) of {path.name}, {len(table)} rows"
    return Dataset(X, y, tuple(names), path.name, about)


def read_frame(path: FilePath, sep: str | None = None) -> pd.DataFrame:
    """The table in a file, as :func:`read_table` takes it, with text for the names of columns."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    given, sep = sep, None if sep is None else sep.replace("\\t", "\t")
    if sep is not None and len(sep) != 1:
        raise InputError(f"sep must be one character, got {shown(given)}")
    name = path.name.lower()
    parquet = sep is None and name.endswith(_PARQUET)
    usual = _TEXT.get(FilePath(name.removesuffix(".gz")).suffix)
    if not parquet and usual is None and sep is None:
        raise InputError(
            f"{path}: the name must end in .csv, .tsv (or these and .gz) or .parquet to say what "
            "it is; or give sep= for a table in text"
        )
    if parquet and importlib.util.find_spec("pyarrow") is None:
        raise InputError("reading Parquet needs pyarrow: pip install 'log-evidence[data]'")

    try:
        table = pd.read_parquet(path) if parquet else _read_text(path, sep or usual or ",")
    except (ValueError, EOFError, zlib.error) as error:  # of pandas', pyarrow's and gzip's
        hint = "; text has to be UTF-8" if isinstance(error, UnicodeError) else ""
        raise InputError(f"cannot read {path}: {error}{hint}") from None
    if not isinstance(table.index, pd.RangeIndex):
        text = "its rows have more fields than the header; sep= says what parts them"
        raise InputError(f"cannot read {path}: {text}")
    alone = not parquet and len(table.columns) == 1
    if alone and any(mark in table.columns[0] for mark in ",;|\t"):
        header = shown(table.columns[0])
        raise InputError(
            f"cannot read {path}: it has one column, {header}; sep= says what parts them"
        )
    return table


def _read_text(path: FilePath, sep: str) -> pd.DataFrame:
    """A table in text; decimal commas are read as such where columns are parted otherwise.

    A column of which all commas may be of thousands, as in 1,200, is refused.
    """
    exact = {"float_precision": "round_trip"} if _rounds(pd.__version__) else {}
    words: dict[str, Any] = {"sep": sep, "skipinitialspace": True, "low_memory": False, **exact}
    table = pd.read_csv(path, **words)
    header = pd.read_csv(path, sep=sep, skipinitialspace=True, header=None, nrows=1, dtype=str)
    again = header.iloc[0].dropna()
    if (again := again[again.duplicated()]).size:
        raise ValueError(f"its header has {again.iloc[0]!r} twice; give every column its own name")
    texts = table.select_dtypes(exclude="number").dropna(axis=1, how="all")
    found = {name: _with_commas(texts[name].dropna().astype(str)) for name in texts}
    commas = {name: cells for name, cells in found.items() if len(cells)}
    for name, cells in commas.items():
        if sep == "," or cells.str.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}").all():
            raise ValueError(
                f"column {name!r} has numbers with commas, like {cells.iloc[0]!r}, decimals or "
                "thousands: write them with a decimal point and without separators of thousands"
            )
    return pd.read_csv(path, decimal=",", **words) if commas else table


def _with_commas(cells: pd.Series[str]) -> pd.Series[str]:
    """Numbers like those of a European spreadsheet, of cells that hold nothing but numbers.

    >>> _with_commas(pd.Series(["-0,25", "3", "1,5e3"])).tolist()
    ['-0,25', '1,5e3']
    >>> _with_commas(pd.Series(["1,5", "low"])).tolist()
    []
    """
    numbers = cells.str.fullmatch(r"[+-]?\d*,?\d+(?:[eE][+-]?\d+)?")
    return cells[cells.str.contains(",") & numbers.all()]


def _rounds(pandas: str) -> bool:
    """Whether this version reads numbers in text to all digits only if asked to.

    >>> _rounds("2.2.2"), _rounds("3.1.1")
    (True, False)
    """
    return tuple(int(part) for part in pandas.split(".")[:2]) < (3, 1)


def _choose(
    columns: list[str], target: str, features: Iterable[str] | None, drop: Iterable[str]
) -> list[str]:
    """The names of the feature columns."""
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    if repeated:
        raise InputError(f"column names must differ, found twice: {', '.join(repeated)}")
    chosen = [c for c in columns if c != target] if features is None else list(features)
    drop = list(drop)
    for option, names in (("target", [target]), ("drop", drop), ("features", chosen)):
        for name in names:
            if name not in columns:
                _no_column(option, name, columns)
            if name == target and option != "target":
                raise InputError(f"{option}: {target!r} is the target")
    chosen = [column for column in dict.fromkeys(chosen) if column not in drop]
    if not chosen:
        raise InputError("features: no column is left to explain the target from")
    return chosen


def _no_column(option: str, name: str, columns: list[str]) -> NoReturn:
    listing = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
    raise InputError(
        f"{option}: there is no column {shown(name)}{suggest(name, columns)} Columns: {listing}"
    )


def _target(column: pd.Series, positive: str | None) -> NDArray[Any]:
    """The observations: numbers, or ±1 where a label is said to be positive."""
    if column.isna().any():
        raise InputError(
            f"target {column.name!r} has {int(column.isna().sum())} missing value(s); "
            "drop those rows first"
        )
    text = column.map("{:g}".format if column.dtype.kind == "f" else str)
    labels = sorted(set(text))
    listing = ", ".join(repr(value) for value in labels[:4]) + (", …" if len(labels) > 4 else "")
    if positive is not None:
        if len(labels) != 2 or positive not in labels:
            raise InputError(
                f"positive={shown(positive)} must be one of the two labels of target "
                f"{column.name!r}, which holds {listing}"
            )
        return np.where(text == positive, 1, -1)
    if column.dtype.kind in "biuf":
        return column.to_numpy()
    advice = "numbers are needed"
    if len(labels) == 2:
        advice = f"encode the two classes as -1 and +1, or say which is +1: positive={labels[1]!r}"
    raise InputError(f"target {column.name!r} holds text or dates ({listing}); {advice}")


def _check_features(table: pd.DataFrame) -> None:
    bad = [name for name in table if table[name].dtype.kind not in "biuf"]
    if bad:
        listed = ", ".join(bad[:8]) + (", …" if len(bad) > 8 else "")
        raise InputError(
            f"features: not numeric: {listed}; encode these columns as numbers or drop them"
        )
    finite = np.isfinite(table.to_numpy(dtype=float, na_value=np.nan))
    if not finite.all():
        listed = ", ".join(table.columns[~finite.all(axis=0)][:8])
        raise InputError(
            f"features: missing or infinite values in {int((~finite.all(axis=1)).sum())} row(s), "
            f"column(s) {listed}; drop or impute them first"
        )
