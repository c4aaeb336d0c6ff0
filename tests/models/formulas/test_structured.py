"""Series, smooth functions and maps among the terms of a formula."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import evidence as ev
from evidence import precisions

from .cases import N, indicators, table

DATA = table().assign(area=np.array(list("uvwxyz"))[np.arange(N) % 6], place=np.arange(N) % 6)
CHAIN = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
AREAS = list("uvwxyz")


class Graph:
    """As networkx has it."""

    nodes = AREAS
    edges = tuple(zip("uvwxy", "vwxyz", strict=True))


class Weights:
    """As libpysal has it."""

    id_order = AREAS
    sparse = sp.csr_array(CHAIN / 2.0)


GRAPHS = {
    "networkx": Graph(),
    "libpysal": Weights(),
    "frame": pd.DataFrame(CHAIN, AREAS, AREAS),
    "mapping": {a: [b for b in AREAS if abs(AREAS.index(a) - AREAS.index(b)) == 1] for a in AREAS},
    "matrix": CHAIN,
    "sparse": sp.csr_array(CHAIN),
    "pairs": [(i, i + 1) for i in range(5)],
}


@pytest.mark.parametrize("name", ["ar1", "rw1", "rw2"])
def test_series(name):
    model = ev.from_formula(f"y ~ {name}(t)", DATA.assign(t=2 * DATA.t + 5))
    where = model.slices[f"{name}(t)"]
    np.testing.assert_array_equal(model.A.toarray()[:, where], indicators(DATA.t, range(10)))
    values = model.at({f"{name}(t)__sigma": 0.3})
    own = precisions.ar1(10, 0.5, 0.3) if name == "ar1" else getattr(precisions, name)(10, 0.3)
    np.testing.assert_allclose(values.Q.toarray()[where, where], own.matrix().toarray())
    assert model.names[where][0] == f"{name}(t)[5]"


@pytest.mark.parametrize("name", ["ar1", "rw1", "rw2"])
def test_series_of_groups(name):
    """A series for each, with the same hyperparameters."""
    model = ev.from_formula(f"y ~ {name}(t, g)", DATA)
    where = model.slices[f"{name}(t,g)"]
    both = indicators(DATA.g, list("abcd"))[:, :, None] * indicators(DATA.t, range(10))[:, None]
    np.testing.assert_array_equal(model.A.toarray()[:, where], both.reshape(N, 40))
    one = ev.from_formula(f"y ~ {name}(t)", DATA)
    Q = one.Q.toarray()[one.slices[f"{name}(t)"], one.slices[f"{name}(t)"]]
    np.testing.assert_allclose(model.Q.toarray()[where, where], np.kron(np.eye(4), Q))
    assert len(model.hyperparameters.names) == len(one.hyperparameters.names)
    assert model.names[where][11] == f"{name}(t,g)[1,b]"
    constraints = {"ar1": 0, "rw1": 1, "rw2": 2}[name]
    assert model.describe()["constraints"] == 4 * constraints


def at_steps(count, rows, start="2020-01-01", **words):
    return pd.Series(pd.date_range(start, periods=count, **words)[rows])


ALL, SOME = np.arange(N), np.sort(np.random.default_rng(3).permutation(2 * N)[:N])


@pytest.mark.parametrize(
    ("times", "steps"),
    [
        (at_steps(N, ALL), N),
        (at_steps(2 * N, SOME), SOME[-1] - SOME[0] + 1),
        (at_steps(N, ALL, freq="MS"), N),
        (at_steps(2 * N, SOME, freq="MS"), SOME[-1] - SOME[0] + 1),
        (at_steps(2 * N, SOME, freq="ME"), SOME[-1] - SOME[0] + 1),
        (at_steps(2 * N, SOME, freq="YS"), SOME[-1] - SOME[0] + 1),
        (at_steps(N, ALL, "2020-01-15", freq=pd.DateOffset(months=1)), N),
        (at_steps(N, ALL, freq="W"), N),
        (at_steps(N, ALL, freq="B"), N),
        (at_steps(N, ALL, freq="QS"), N),
        (at_steps(N, ALL, freq="h"), N),
        (at_steps(N, ALL, tz="Europe/Berlin"), N),
        (pd.Series(pd.period_range("2020-01", periods=2 * N, freq="M")[SOME]),
         SOME[-1] - SOME[0] + 1),
        (pd.Series(pd.to_timedelta(3 * SOME, "h")), SOME[-1] - SOME[0] + 1),
        (pd.Series(0.1 * SOME), SOME[-1] - SOME[0] + 1),
        (pd.Series(1e6 + 0.1 * SOME).astype("Float64"), SOME[-1] - SOME[0] + 1),
        (pd.Series(7 * SOME).astype("Int64"), SOME[-1] - SOME[0] + 1),
        (pd.Series(SOME).astype("int8"), SOME[-1] - SOME[0] + 1),
        (pd.Series(np.r_[0, 2, 5, 7, np.full(N - 4, 2)]), 8),
    ],
)  # fmt: skip
def test_times_of_every_kind(times, steps):
    """Equal steps from first to last; those that no datum has are there too."""
    data = DATA.assign(t=times.to_numpy() if times.dtype.kind in "iu" else times)
    data["t"] = times
    model = ev.from_formula("y ~ ar1(t)", data)
    A = model.A.toarray()[:, model.slices["ar1(t)"]]
    assert A.shape == (N, steps)
    np.testing.assert_array_equal(A.sum(axis=1), 1.0)
    order = np.argsort(times.to_numpy(), kind="stable")
    assert np.all(np.diff(A[order].argmax(axis=1)) >= 0)
    assert len(np.unique(A.argmax(axis=1))) == times.nunique()
    some = data.iloc[[5, 1, 17]]
    np.testing.assert_array_equal(model.design(some).toarray(), model.A.toarray()[[5, 1, 17]])


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (np.r_[0.0, 1.0, 2.3, np.zeros(N - 3)], "equal distances.*1 to 1.3"),
        (np.r_[0, 1, 10**6, np.zeros(N - 3, int)], "equal distances"),
        (np.random.default_rng(0).normal(size=N), "equal distances"),
        (np.arange(N) % 2, "at least 3 different values, got 2"),
        (list("ab") * (N // 2), "needs numbers or times.*to_datetime"),
        ([str(d) for d in at_steps(N, ALL)], "needs numbers or times.*to_datetime"),
        ([d.date() for d in at_steps(N, ALL)], "needs numbers or times.*to_datetime"),
    ],
)
def test_times_that_are_none(times, words):
    with pytest.raises(ev.InputError, match=rf"ar1\(t\).*{words}"):
        ev.from_formula("y ~ ar1(t)", DATA.assign(t=times))


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("name", ["icar", "bym2"])
def test_maps(name, kind):
    column = "place" if kind in ("matrix", "sparse", "pairs") else "area"
    model = ev.from_formula(f"y ~ {name}({column}, W)", DATA, namespace={"W": GRAPHS[kind]})
    where = model.slices[f"{name}({column},W)"]
    own = getattr(precisions, name)(CHAIN)
    A = indicators(DATA.place, range(6))
    A = A if own.design is None else A @ own.design.toarray()
    np.testing.assert_array_equal(model.A.toarray()[:, where], A)
    at = {f"{name}({column},W)__sigma": 1.0}
    values = model.at(at | ({"phi": 0.5} if name == "bym2" else {}))
    np.testing.assert_allclose(values.Q.toarray()[where, where], own.matrix().toarray())
    first = "u" if column == "area" else "0"
    assert model.names[where][0] == f"{name}({column},W)[{first}]"
    assert len(set(model.names)) == model.n


def test_graphs_are_found_where_the_formula_is_written():
    borders = GRAPHS["mapping"]
    assert ev.from_formula("y ~ icar(area, borders)", DATA).n == 7
    del borders
    with pytest.raises(ev.InputError, match="nothing is called 'borders'"):
        ev.from_formula("y ~ icar(area, borders)", DATA)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ({a: [] for a in "uvw"}, "3 areas of the data are not in the graph: x, y, z"),
        (CHAIN, "6 areas of the data are not in the graph"),
        ({"u": ["q"]}, "graph: q is a neighbour"),
        (pd.DataFrame(CHAIN, AREAS, range(6)), "graph: a frame"),
        ("W", "graph must be"),
        (None, "graph must be"),
    ],
)
def test_graphs_that_do_not_fit(graph, words):
    with pytest.raises(ev.InputError, match=words):
        ev.from_formula("y ~ icar(area, W)", DATA, namespace={"W": graph})


@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("ar1()", r"write ar1\(time\)"),
        ("ar1(t, g, h)", r"write ar1\(time\)"),
        ("ar1(t, group=g)", r"write ar1\(time\)"),
        ("icar(area)", r"write icar\(area, graph\)"),
        ("ar1(time)", r"ar1\(time\): data have no column 'time'"),
        ("rw1(t, groups)", "no column 'groups'; did you mean 'g'|no column 'groups'"),
        ("ar1(t) + ar1(t)", "a term twice"),
    ],
)
def test_calls_that_are_wrong(term, words):
    with pytest.raises(ev.InputError, match=words):
        ev.from_formula(f"y ~ {term}", DATA)
