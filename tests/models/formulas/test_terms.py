"""Designs of common effects and of groups against dense ones made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BSpline

import evidence as ev

from .cases import N, indicators, table

DATA = table()
ONE = np.ones(N)
A, G, H = indicators(DATA.a, list("pqr")), indicators(DATA.g, list("abcd")), None


def dense(formula, data=DATA, **words):
    model = ev.from_formula(formula, data, **words)
    return model, model.A.toarray()


@pytest.mark.parametrize(
    ("terms", "columns", "names"),
    [
        ("1", [ONE], ["Intercept"]),
        ("x", [ONE, DATA.x], ["Intercept", "x"]),
        ("0 + x", [DATA.x], ["x"]),
        ("-1 + x", [DATA.x], ["x"]),
        ("x - 1", [DATA.x], ["x"]),
        ("a", [ONE, A[:, 1], A[:, 2]], ["Intercept", "a[q]", "a[r]"]),
        ("0 + a", [A], ["a[p]", "a[q]", "a[r]"]),
        ("C(h)", [ONE, indicators(DATA.h, range(1, 5))],
         ["Intercept", *(f"C(h)[{i}]" for i in range(1, 5))]),
        ("x:z", [ONE, DATA.x * DATA.z], ["Intercept", "x:z"]),
        ("x*z", [ONE, DATA.x, DATA.z, DATA.x * DATA.z], ["Intercept", "x", "z", "x:z"]),
        ("a*x", [ONE, A[:, 1:], DATA.x, A[:, 1:] * DATA.x.to_numpy()[:, None]],
         ["Intercept", "a[q]", "a[r]", "x", "a[q]:x", "a[r]:x"]),
        ("I(x**2)", [ONE, DATA.x**2], ["Intercept", "I(x ** 2)"]),
        ("log(e)", [ONE, np.log(DATA.e)], ["Intercept", "log(e)"]),
        ("log + log(e)", [ONE, DATA.x, np.log(DATA.e)], ["Intercept", "log", "log(e)"]),
        ("np.sqrt(e)", [ONE, np.sqrt(DATA.e)], ["Intercept", "np.sqrt(e)"]),
        ("scale(x)", [ONE, (DATA.x - DATA.x.mean()) / DATA.x.std(ddof=0)],
         ["Intercept", "scale(x)"]),
        ("`my col`", [ONE, DATA.x], ["Intercept", "my col"]),
        ("β", [ONE, DATA.z], ["Intercept", "β"]),
        ("C", [ONE, G[:, 1:]], ["Intercept", "C[b]", "C[c]", "C[d]"]),
        ("x + x", [ONE, DATA.x], ["Intercept", "x"]),
    ],
)  # fmt: skip
def test_common_effects(terms, columns, names):
    model, A = dense(f"y ~ {terms}")
    np.testing.assert_allclose(A, np.column_stack(columns), atol=1e-12)
    assert list(model.names) == names
    np.testing.assert_array_equal(model.y, DATA.y)
    np.testing.assert_array_equal(model.offset, 0.0)


def test_splines():
    """B-splines of degree three with knots at quantiles, each with mean zero over the data."""
    model, A = dense("y ~ bs(x, df=5)")
    ends = [DATA.x.min(), DATA.x.max()]
    knots = np.r_[[ends[0]] * 4, np.quantile(DATA.x, [1 / 3, 2 / 3]), [ends[1]] * 4]
    basis = BSpline.design_matrix(DATA.x.to_numpy(), knots, 3).toarray()
    np.testing.assert_allclose(A[:, 1:].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(A @ np.linalg.lstsq(A, basis)[0], basis, atol=1e-12)
    assert np.linalg.matrix_rank(A) == basis.shape[1] == 6
    assert model.names[1] == "bs(x, df=5)[0]"


@pytest.mark.parametrize(
    "values",
    [
        DATA.b.astype(bool), DATA.b.astype("boolean"), DATA.b.astype("Int64"),
        DATA.b.astype("Float64"), DATA.b.astype("int8"), DATA.b.astype(float),
    ],
)  # fmt: skip
def test_numbers_of_every_type_are_the_same_column(values):
    _, A = dense("y ~ v", DATA.assign(v=values))
    np.testing.assert_array_equal(A, np.column_stack([ONE, DATA.b]))
    model, _ = dense("v ~ 1", DATA.assign(v=values), likelihood="poisson")
    np.testing.assert_array_equal(model.y, DATA.b)


@pytest.mark.parametrize(
    "dtype", [object, "string", "category", pd.CategoricalDtype(["p", "q", "r"], ordered=True)]
)
def test_texts_of_every_type_are_the_same_factor(dtype):
    data = DATA.assign(a=DATA.a.astype(dtype))
    model, seen = dense("y ~ a", data)
    np.testing.assert_array_equal(seen, np.column_stack([ONE, A[:, 1:]]))
    model, seen = dense("y ~ 0 + (1 | a)", data)
    np.testing.assert_array_equal(seen, A)
    assert model.names == ("1|a[p]", "1|a[q]", "1|a[r]")


def test_categories_in_their_own_order_and_without_those_that_do_not_occur():
    own = pd.Categorical(DATA.a, ["r", "q", "p", "never"], ordered=True)
    model, seen = dense("y ~ a", DATA.assign(a=own))
    np.testing.assert_array_equal(seen, np.column_stack([ONE, A[:, 1], A[:, 0]]))
    assert model.names == ("Intercept", "a[q]", "a[p]")
    model, seen = dense("y ~ 0 + (1 | a)", DATA.assign(a=own))
    np.testing.assert_array_equal(seen, A[:, ::-1] if model.names[0] == "1|a[r]" else A)


def kron(Z, columns):
    """Effects of a level side by side, level after level."""
    wide = Z[:, :, None] * np.column_stack(columns)[:, None, :]
    return wide.reshape(len(Z), -1)


H = indicators(DATA.h, range(5))
PAIRS = [f"{g}:{h}" for g in "abcd" for h in range(5)]
GH = indicators([f"{g}:{h}" for g, h in zip(DATA.g, DATA.h, strict=True)], PAIRS)


@pytest.mark.parametrize(
    ("terms", "design", "first", "parameters"),
    [
        ("(1 | g)", [G], "1|g[a]", ["sd(1|g)"]),
        ("(1 | `my group`)", [G], "1|`my group`[a]", ["sd(1|`my group`)"]),
        ("(1 | C)", [G], "1|C[a]", ["sd(1|C)"]),
        ("(1 | h)", [H], "1|h[0]", ["sd(1|h)"]),
        ("(1 | g) + (1 | h)", [G, H], "1|g[a]", ["sd(1|g)", "sd(1|h)"]),
        ("(1 | g + h)", [G, H], "1|g[a]", ["sd(1|g)", "sd(1|h)"]),
        ("(1 | g:h)", [GH], "1|g:h[a:0]", ["sd(1|g:h)"]),
        ("(1 | g/h)", [G, GH], "1|g[a]", ["sd(1|g)", "sd(1|g:h)"]),
        ("(1 + x | g)", [kron(G, [ONE, DATA.x])], "1|g[a]",
         ["sd(1|g)", "sd(x|g)", "cor(1,x|g)"]),
        ("(x | g)", [kron(G, [ONE, DATA.x])], "1|g[a]", ["sd(1|g)", "sd(x|g)", "cor(1,x|g)"]),
        ("(0 + x | g)", [kron(G, [DATA.x])], "x|g[a]", ["sd(x|g)"]),
        ("(1 + x || g)", [G, kron(G, [DATA.x])], "1|g[a]", ["sd(1|g)", "sd(x|g)"]),
        ("(1 | g) + (0 + x | g)", [G, kron(G, [DATA.x])], "1|g[a]", ["sd(1|g)", "sd(x|g)"]),
        ("(1 + x + z | h)", [kron(H, [ONE, DATA.x, DATA.z])], "1|h[0]",
         ["sd(1|h)", "sd(x|h)", "sd(z|h)", "cor(1,x|h)", "cor(1,z|h)", "cor(x,z|h)"]),
        ("(0 + a | g)", [kron(G, [A])], "a[p]|g[a]",
         ["sd(a[p]|g)", "sd(a[q]|g)", "sd(a[r]|g)", "cor(a[p],a[q]|g)", "cor(a[p],a[r]|g)",
          "cor(a[q],a[r]|g)"]),
    ],
)  # fmt: skip
def test_effects_of_groups(terms, design, first, parameters):
    model, seen = dense(f"y ~ 0 + {terms}")
    every = np.column_stack(design)
    np.testing.assert_allclose(seen, every[:, every.any(axis=0)], atol=1e-12)
    assert model.names[0] == first
    assert len(set(model.names)) == model.n
    assert list(model.hyperparameters.names) == [*parameters, "sigma"]


def test_terms_stand_side_by_side():
    model, seen = dense("y ~ x + (1 | g) + ar1(t) + (1 | h)")
    each = {
        "common": np.column_stack([ONE, DATA.x]),
        "1|g": G,
        "1|h": H,
        "ar1(t)": indicators(DATA.t, range(10)),
    }
    assert list(model.slices) == list(each)
    for name, own in each.items():
        np.testing.assert_array_equal(seen[:, model.slices[name]], own)


def test_the_prior_precision_of_groups():
    model = ev.from_formula("y ~ x + (1 + x | g)", DATA)
    at = model.at({"sd(1|g)": 0.7, "sd(x|g)": 0.3, "cor(1,x|g)": -0.5})
    K = np.linalg.inv(at.Q.toarray())
    block = np.array([[0.49, -0.105], [-0.105, 0.09]])
    own = K[at.slices["1+x|g"], at.slices["1+x|g"]]
    np.testing.assert_allclose(own, np.kron(np.eye(4), block), atol=1e-12)


def test_offsets_add_up():
    model, seen = dense("y ~ x + offset(e) + offset(log(e)) + (1 | g)")
    np.testing.assert_allclose(model.offset, DATA.e + np.log(DATA.e))
    np.testing.assert_array_equal(seen[:, :2], np.column_stack([ONE, DATA.x]))
    alone, seen = dense("y ~ 0 + offset(e) + (1 | g)")
    np.testing.assert_array_equal(seen, G)
    np.testing.assert_array_equal(alone.offset, DATA.e)
    np.testing.assert_array_equal(alone.new_offset(DATA[:3]), DATA.e[:3])


def test_functions_are_those_of_who_wrote_the_formula():
    def compact(x):  # a name that the package has too
        return 3.0 * x

    seen = ev.from_formula("y ~ 0 + compact(x)", DATA).A.toarray()
    np.testing.assert_allclose(seen[:, 0], 3.0 * DATA.x)
    _, seen = dense("y ~ 0 + compact(x)", namespace={"compact": np.square})
    np.testing.assert_allclose(seen[:, 0], DATA.x**2)


@pytest.mark.parametrize(
    "formula",
    ["y ~ x + a + bs(z, df=4) + offset(e) + (1 + x | g) + (1 | g:h) + ar1(t)",
     "y ~ scale(x) + poly(z, 2) + (1 | `my group`) + rw2(t, g)", "y ~ 0 + (scale(x) || h)"],
)  # fmt: skip
def test_new_data_see_what_the_data_saw(formula):
    """Also with rows in another order, and columns of another type."""
    model = ev.from_formula(formula, DATA)
    rows = np.array([30, 3, 3, 17])
    new = DATA.iloc[rows].astype({"a": "category", "g": "string", "h": "Int64", "t": "int8"})
    np.testing.assert_allclose(
        model.design(new).toarray(), model.A.toarray()[rows], rtol=0, atol=1e-12
    )
    A, offset, _ = model.rows_of({name: new[name].tolist() for name in new})
    np.testing.assert_allclose(A.toarray(), model.A.toarray()[rows], rtol=0, atol=1e-12)
    np.testing.assert_allclose(offset, model.offset[rows])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"g": "new"}, r"g has 1 level\(s\).*: new"),
        ({"a": "new"}, "new data do not fit the formula.*new"),
        ({"t": 99}, r"ar1\(t\) has 1 level.*99"),
        ({"x": None}, "no column 'x'"),
        ({"x": "a"}, "X_new: new data do not fit the formula: could not convert string"),
        ({"g": None}, "no column 'g'"),
        ({"t": None}, "no column 't'"),
    ],
)
def test_new_data_that_do_not_fit(change, words):
    model = ev.from_formula("y ~ x + a + (1 | g) + ar1(t)", DATA)
    (name, value), new = *change.items(), DATA[:4]
    new = new.drop(columns=name) if value is None else new.assign(**change)
    with pytest.raises(ev.InputError, match=words):
        model.rows_of(new)


def test_new_data_with_missing_values():
    model = ev.from_formula("y ~ x", DATA)
    with pytest.raises(ev.InputError, match="missing values in 4 rows"):
        model.rows_of(DATA[:4].assign(x=np.nan))
    with pytest.raises(ev.InputError, match="X_new has no rows"):
        model.rows_of(DATA[:0])
    assert model.rows_of(DATA[:4].assign(y=np.nan))[0].shape == (4, 2)


def test_a_column_whose_spread_is_lost_beside_its_mean_is_refused():
    """Log Z was .67 off with an error bar of zero where x was 1e8 spreads from zero."""
    far = DATA.assign(x=DATA.x + 1e8)
    with pytest.raises(ev.InputError, match=r"x can be written.*center\(x\)"):
        ev.from_formula("y ~ x", far)
    ev.from_formula("y ~ center(x)", far)


def test_later_versions_of_what_formulas_need_are_no_concern_of_a_model(recwarn):
    data = DATA.assign(kind=pd.Categorical(np.resize(list("uvw"), len(DATA))))
    model = ev.from_formula("y ~ 0 + bs(x, df=5, intercept=True)", data)
    other = ev.from_formula("y ~ kind", data)
    new = data.iloc[:3].assign(kind=pd.Categorical(list("uvw"), categories=list("uvwz")))
    assert model.design(new).shape == (3, 5)
    assert other.design(new).shape == (3, 3)
    assert not recwarn.list
