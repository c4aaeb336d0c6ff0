"""Structured terms of a formula: series in time, smooth functions, maps.

``ar1(week)``, ``rw1(age)``, ``rw2(age)``: values on a grid of equal steps between the first and
the last that occur. Those of ``rw1`` have mean zero; those of ``rw2`` have no slope either, which
is for a common effect, ``age + rw2(age)``. With a second argument, ``ar1(week, clinic)``, one
series for each group, with the same hyperparameters. ``icar(area, graph)`` and
``bym2(area, graph)``: areas and who borders on whom, as a networkx graph, libpysal weights, a
GeoDataFrame, a frame or mapping of neighbours by name, or a matrix or list of pairs for areas
0, 1, …
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.sparse import csr_array

from ...execution.arguments import shown
from ...execution.lazy import pd
from ...messages import InputError, suggest
from .. import precisions
from ..precisions.base import Precision
from ..precisions.graph import adjacency
from .parse import Structured
from .terms import Common, Groups, Source, keys, named_effect, named_term, places

_EVEN = 1e-6  # of a step


@dataclass(frozen=True, eq=False)
class OnLevels:
    """Values that belong to levels of a column, and perhaps to groups of another."""

    call: str
    precision: Precision
    priors: Mapping[str, Any]
    column: str
    levels: pd.Index
    factor: str | None = None
    groups: pd.Index | None = None
    step: float = np.nan
    """Between levels that are numbers or times; NaN for names."""
    of_predictor: str = ""

    @property
    def name(self) -> str:
        return named_term(self.of_predictor, self.call)

    @property
    def labels(self) -> list[str]:
        call = named_effect(self.of_predictor, self.call)
        extra = "" if self.groups is None else ","
        groups = [""] if self.groups is None else list(map(str, self.groups))
        names = [f"{call}[{level}{extra}{g}]" for g in groups for level in self.levels]
        more = self.precision.n - len(names)  # values that no datum sees itself
        return names + [f"structured {name}" for name in names[:more]]

    def rows(self, data: pd.DataFrame) -> csr_array:
        """One value for every row of data."""
        values = column(self.column, data, self.call)
        if self.step == self.step:
            values = self.levels[:1].append(_snapped(values, self.levels, self.step))[1:]
        code = places(self.call, values, self.levels)
        if self.groups is not None and self.factor is not None:
            group = places(self.factor, keys(self.factor, data), self.groups)
            code = code + len(self.levels) * group
        seen = len(self.levels) * (1 if self.groups is None else len(self.groups))
        starts = np.arange(len(data) + 1)
        return csr_array((np.ones(len(data)), code, starts), shape=(len(data), seen))


#: latent values with one prior, and the rows of data that see them
Term = Common | Groups | OnLevels


def column(name: str, data: pd.DataFrame, call: str) -> pd.Index:
    """A column of data as an index."""
    if name not in data.columns:
        known = list(map(str, data.columns))
        raise InputError(f"{call}: data have no column {name!r}{suggest(name, known)}")
    values = data[name]
    return pd.Index(values.to_numpy(getattr(values.dtype, "numpy_dtype", None)))


def structured(written: Structured, source: Source, scale: float) -> OnLevels:
    """The term that a call in a formula stands for."""
    make, least, most = TERMS[written.name]
    if not least <= len(written.arguments) <= most or any("=" in a for a in written.arguments):
        name = written.name
        usage = f"{name}(time) or {name}(time, group)" if most > least else f"{name}(area, graph)"
        raise InputError(f"formula: write {usage}, got {written.call}")
    return make(written, source, scale)


def _walk(written: Structured, source: Source, scale: float) -> OnLevels:
    name, *factor = written.arguments
    levels, step = grid(written.call, column(name, source.frame, written.call))
    n, priors = len(levels), {"sigma": stats.expon(scale=scale)}
    if written.name == "ar1":
        part: Precision = precisions.ar1(n, 0.5, 0.5 * scale)
        priors["rho"] = stats.uniform(-1.0, 2.0)
    else:
        part = getattr(precisions, written.name)(n, 0.5 * scale)
    if not factor:
        return OnLevels(written.call, part, priors, name, levels, step=step)
    groups = keys(factor[0], source.frame).unique().sort_values()
    copies = precisions.copies(part, len(groups))
    return OnLevels(written.call, copies, priors, name, levels, factor[0], groups, step)


def _map(written: Structured, source: Source, scale: float) -> OnLevels:
    name, graph = written.arguments
    if graph not in source.namespace:
        raise InputError(
            f"formula: {written.call} needs a graph, but nothing is called {graph!r} here; pass "
            f"namespace={{{graph!r}: …}}"
        )
    levels, W = neighbours(source.namespace[graph])
    areas = column(name, source.frame, written.call).unique()
    if strange := areas[levels.get_indexer(areas) < 0].tolist():
        raise InputError(
            f"formula: {written.call}: {len(strange)} areas of the data are not in the graph: "
            f"{', '.join(map(str, strange[:5]))}; its areas are {levels[0]!r}, {levels[1]!r}, …"
        )
    priors: dict[str, Any] = {"sigma": stats.expon(scale=scale)}
    if written.name == "bym2":
        priors["phi"] = stats.beta(0.5, 0.5)
    part = getattr(precisions, written.name)(W, sigma=0.5 * scale)
    return OnLevels(written.call, part, priors, name, levels)


def grid(call: str, values: pd.Index, *, sparse: int = 50) -> tuple[pd.Index, float]:
    """Equal steps from the first to the last of the values, and their size.

    ``sparse``: steps for every value that occurs, at most.
    """
    if values.dtype.kind not in "iufMmb" and not isinstance(values, pd.PeriodIndex):
        raise InputError(
            f"formula: {call} needs numbers or times, got {shown(values[0])}; for dates as text "
            "or objects use pandas.to_datetime"
        )
    if isinstance(values, pd.PeriodIndex):
        steps = pd.period_range(values.min(), values.max(), freq=values.freq)
        return pd.Index(steps), np.nan
    levels = values.unique().sort_values()
    if len(levels) < 3:
        raise InputError(f"formula: {call} needs at least 3 different values, got {len(levels)}")
    if values.dtype.kind == "M":
        times = pd.DatetimeIndex(levels)
        with warnings.catch_warnings():  # of what pandas 4 will give in place of a text
            warnings.simplefilter("ignore")
            rule: str | pd.DateOffset | None = pd.infer_freq(times) or _months(times)
        if rule:
            return pd.Index(pd.date_range(levels[0], levels[-1], freq=rule)), np.nan
    fractions = levels.dtype.kind == "f"
    numbers = levels.to_numpy().astype(float if fractions else "int64")
    steps = np.diff(numbers)
    step = steps.min() if fractions else np.gcd.reduce(steps)
    places = (numbers - numbers[0]) / step
    if np.abs(places - np.round(places)).max() > _EVEN or places[-1] > sparse * len(levels):
        gaps = levels[1:] - levels[:-1]
        raise InputError(
            f"formula: {call} needs values at equal distances (some may be missing); these have "
            f"steps from {_short(gaps.min())} to {_short(gaps.max())}; round them, or number them"
        )
    every = numbers[0] + step * np.arange(round(places[-1]) + 1)
    if fractions:
        return pd.Index(every), float(step)
    return pd.Index(every.astype(levels.dtype)), np.nan


def _short(step: object) -> str:
    return f"{step:.6g}" if isinstance(step, float) else str(step)


def _months(times: pd.DatetimeIndex) -> pd.DateOffset | None:
    """Steps of whole months, if all times are at the same place in theirs."""
    ends = bool(times.is_month_end.all())
    if len(set(times.time)) > 1 or not (ends or len(set(times.day)) == 1):
        return None
    step = int(np.gcd.reduce(np.diff(12 * times.year + times.month)))
    return pd.offsets.MonthEnd(step) if ends else pd.DateOffset(months=step)


def _snapped(values: pd.Index, levels: pd.Index, step: float) -> pd.Index:
    """Values onto the grid where they are on it but for rounding."""
    code = np.round((np.asarray(values, float) - levels[0]) / step)
    inside = np.clip(code, 0, len(levels) - 1).astype(int)
    close = np.abs(levels.to_numpy()[inside] - values) <= _EVEN * step
    return pd.Index(np.where(close, levels.to_numpy()[inside], values))


def neighbours(graph: Any) -> tuple[pd.Index, Any]:
    """Names of areas, and the matrix of who borders on whom."""
    if hasattr(graph, "geometry") and hasattr(graph, "sindex"):  # a GeoDataFrame
        pairs = graph.sindex.query(graph.geometry, predicate="touches").T
        return pd.Index(graph.index), _matrix(pairs, len(graph))
    if hasattr(graph, "id_order") and hasattr(graph, "sparse"):  # weights of libpysal
        pairs = np.transpose(graph.sparse.tocoo().coords)
        return pd.Index(graph.id_order), _matrix(pairs, len(graph.id_order))
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):  # networkx
        names = pd.Index(list(graph.nodes))
        pairs = [(names.get_loc(a), names.get_loc(b)) for a, b, *_ in graph.edges]
        return names, _matrix(pairs, len(names))
    if isinstance(graph, pd.DataFrame):
        if not graph.index.equals(graph.columns):
            raise InputError("graph: a frame must have the same areas as its rows and its columns")
        return graph.index, graph.to_numpy(float)
    if isinstance(graph, Mapping):
        names = pd.Index(list(graph))
        every = [(a, b) for a, around in graph.items() for b in around]
        strange = {str(b) for _, b in every} - set(map(str, names))
        if strange:
            raise InputError(f"graph: {min(strange)} is a neighbour, but not one of the areas")
        return names, _matrix([(names.get_loc(a), names.get_loc(b)) for a, b in every], len(names))
    W = adjacency(graph)
    return pd.RangeIndex(W.shape[0]), W


def _matrix(pairs: object, n: int) -> csr_array:
    rows, columns = np.reshape(np.asarray(pairs, int), (-1, 2)).T
    W = csr_array((np.ones(rows.size), (rows, columns)), shape=(n, n))
    W = csr_array(W + W.T)
    W.data[:] = 1.0
    return W


Make = Callable[[Structured, Source, float], OnLevels]
TERMS: dict[str, tuple[Make, int, int]] = dict.fromkeys(("ar1", "rw1", "rw2"), (_walk, 1, 2))
TERMS |= dict.fromkeys(("icar", "bym2"), (_map, 2, 2))
