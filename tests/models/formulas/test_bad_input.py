"""Mistakes in formulas and data: an error at once, which names what is wrong."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import evidence as ev

from .cases import N, table

DATA = table()
TWICE = pd.concat([DATA[["y", "x"]], DATA[["x"]]], axis=1)
ROWS = {"x": np.where(np.arange(N) < 2, np.nan, DATA.x)}
WRONG_X = np.where(np.arange(N) < 3, np.inf, DATA.x)


MIXED = pd.DataFrame({"x": [*map(str, DATA.x[1:]), "1,5"], "y": DATA.y})


def test_a_covariate_with_one_value_that_is_no_number():
    """It would be categories, one for every row: log Z was 59 nats lower, in silence."""
    words = rf"data: {N - 1} of {N} values of 'x' are numbers, but '1,5' is not.*C\(x\)"
    for formula in ("y ~ x", "y ~ x + (1 | x)"):
        with pytest.raises(ev.InputError, match=words):
            ev.from_formula(formula, MIXED)
    for formula in ("y ~ (1 | x)", "y ~ C(x)"):
        ev.from_formula(formula, MIXED)
    doses = pd.DataFrame({"x": ["1", "2", "none"] * 10, "y": np.arange(30.0)})
    assert ev.from_formula("y ~ x", doses).n == 3


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ xx", "no column 'xx'; did you mean 'x'"),
        ("yy ~ x", "no column 'yy'; did you mean 'y'"),
        ("y ~ (1 + xx | g)", "no column 'xx'"),
        ("y ~ (1 | gg)", "no column 'gg'; did you mean 'g'"),
        ("y ~ (1 | `my grup`)", "no column 'my grup'; did you mean 'my group'"),
        ("y ~ offset(log(ee))", "no column 'ee'"),
        ("y ~ f(x)", "unknown function 'f'"),
        ("y ~ .", "cannot be evaluated"),
        ("y ~ x ** z", "powers of terms are their interactions"),
        ("y ~ x**2 + I(x**2)", r"x\*\* is the same term.*a square is I\(x\*\*2\)"),
        ("y ~ x + (1 + x**2 | g)", "powers of terms are their interactions"),
        ("y ~ I(x^2)", r"\^ is no power.*I\(x\*\*2\)"),
        ("y ~ 0", "no terms at all"),
        ("y ~ x + y", "the response y explains itself"),
        ("y ~ (1 | g) + (1 | g)", "a term twice"),
        ("y ~ (1 | g) + (1 + x | g)", r"sd\(1\|g\) occurs twice"),
        ("y ~ (1 | g*h)", r"no column 'g\*h'"),
        ("y ~ x + I(2 * x)", r"I\(2 \* x\) can be written by the other columns"),
        ("y ~ a + C(a)", "can be written by the other columns"),
        ("y ~ x + I(0 * x)", "is zero in every row"),
        ("y ~ (0 + I(0 * x) | g)", "is zero in every row"),
        ("a + g ~ x", "cannot be evaluated|must be one column"),
        ("g ~ x", "the response must hold numbers"),
        ("y | weights(e) ~ x", "weights must be whole numbers"),
        ("y | weights(-1) ~ x", "weights must be whole numbers"),
        ("y | weights(0) ~ x", "weights are zero in every row"),
        ("y | weights(g) ~ x", r"weights\(g\) must be numbers"),
        ("y | trials(n) ~ x", "trials.* is for likelihood='binomial'"),
    ],
)
def test_formulas(formula, words):
    with pytest.raises(ev.InputError, match=words):
        ev.from_formula(formula, DATA)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "data must be a pandas DataFrame or a mapping of columns, got NoneType"),
        (DATA[["y", "x"]].to_numpy(), "data must be"),
        ("table.csv", "data must be"),
        ({"y": [1.0, 2.0], "x": [1.0]}, "data: .* same length {'y': 2, 'x': 1}"),
        ({"y": 1.0, "x": 2.0}, "data: "),
        ({}, "no column 'y'"),
        ({"y": [], "x": []}, "no row without missing values is left"),
        ({"y": [np.nan, 1.0], "x": [1.0, np.nan]}, "no row without missing values is left"),
        (TWICE, "2 columns called 'x'"),
        (DATA.assign(x=WRONG_X), "x is infinite or not a number in 3 rows"),
        (DATA.assign(y=WRONG_X), "the response is infinite or not a number in 3 rows"),
        (DATA.assign(x="one"), "x has one level, one"),
        (DATA.assign(x=True), "x has one level, True"),
        (DATA.assign(x=pd.Categorical(["p"] * N, ["p", "q"])), "x has one level, p"),
        (DATA.assign(x=0.0), "x is zero in every row"),
        (DATA.assign(x=DATA.x + 1j), "data: a column of Intercept, x is complex, not real"),
        (DATA.assign(x=0.1), "x can be written by the other columns"),
    ],
)
def test_data(data, words):
    with pytest.raises(ev.InputError, match=words):
        ev.from_formula("y ~ x", data)


def test_powers_of_numbers_and_of_sums_of_terms():
    model = ev.from_formula("y ~ (x + e)**2 + {x**2} + np.exp(x**2)", DATA)
    assert {"x:e", "I(x ** 2)", "np.exp(x ** 2)"} < set(model.names)


def test_a_logarithm_of_negative_numbers_is_told_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ev.InputError, match=r"log\(x\) is infinite or not a number in"):
            ev.from_formula("y ~ log(x)", DATA)


def test_objects_that_are_numbers_are_taken_for_numbers():
    """As tables that began with a word, or with nothing, have them."""
    own, rest = (ev.from_formula("y ~ x", data) for data in (DATA, DATA.astype(object)))
    np.testing.assert_array_equal(own.A.toarray(), rest.A.toarray())
    new = DATA[:5].astype(object)
    np.testing.assert_array_equal(own.rows_of(new)[0].toarray(), rest.rows_of(new)[0].toarray())


@pytest.mark.parametrize("one", [{"g": "a"}, {"g": 1}, {"g": pd.Categorical(["a"] * N)}])
def test_groups_of_one_level(one):
    with pytest.raises(ev.InputError, match="g has one level"):
        ev.from_formula("y ~ (1 | g)", DATA.assign(**one))


@pytest.mark.parametrize(
    ("response", "likelihood", "change", "words"),
    [
        ("k", "binom", {}, "unknown family 'binom'; did you mean 'binomial'"),
        ("k", 3, {}, "likelihood must be a name"),
        ("k", "poisson", {"k": -1}, "counts"),
        ("y", "poisson", {}, "counts"),
        ("y", "negative_binomial", {}, "counts"),
        ("y", "gamma", {}, "y: the gamma likelihood|positive"),
        ("s", "binomial", {}, r"'y \| trials\(n\) ~ x'"),
        ("s | trials(n)", "binomial", {"n": 2}, "must not exceed"),
        ("s | trials(n)", "binomial", {"n": 0}, "trials must be whole numbers"),
        ("s | trials(n)", "binomial", {"n": 5.5}, "trials must be whole numbers"),
        ("s | trials(g)", "binomial", {}, r"trials\(g\) must be numbers"),
        ("s | trials(m)", "binomial", {}, "no column 'm'"),
        ("k", "bernoulli", {}, "two different values"),
        ("a", "bernoulli", {}, "two different values.*got 3: p, q, r"),
        ("b", "ordinal", {"b": 1}, "at least two categories"),
    ],
)
def test_responses(response, likelihood, change, words):
    with pytest.raises(ev.InputError, match=words):
        ev.from_formula(f"{response} ~ x", DATA.assign(**change), likelihood=likelihood)


@pytest.mark.parametrize(
    ("likelihood", "link"),
    [("poisson", "logit"), ("gaussian", "log"), ("bernoulli", "log"), ("ordinal", "probit")],
)
def test_links_of_other_families(likelihood, link):
    with pytest.raises(ev.InputError, match=f"link of {likelihood} must be one of"):
        ev.from_formula("b ~ x", DATA, likelihood=likelihood, link=link)


@pytest.mark.parametrize(
    ("column", "missing"),
    [
        ("x", np.nan), ("g", None), ("g", np.nan), ("β", np.nan), ("my col", np.nan),
        ("Int64", pd.NA), ("boolean", pd.NA), ("string", pd.NA), ("category", None),
        ("time", pd.NaT), ("y", np.nan), ("w", np.nan),
    ],
)  # fmt: skip
def test_missing_values(column, missing):
    """Rows are left out with a count, or refused; columns that are not used do not count."""
    data = DATA.assign(
        Int64=DATA.h.astype("Int64"), boolean=DATA.b.astype("boolean"),
        string=DATA.a.astype("string"), category=DATA.a.astype("category"),
        time=pd.date_range("2020-01-01", periods=N), unused=np.nan,
        g=DATA.g.astype(object), w=1.0,
    )  # fmt: skip
    data.loc[[3, 11], column] = missing
    terms = {"g": "(1 | g)", "time": "ar1(time)", "my col": "`my col`"}.get(column, column)
    left = "y | weights(w)" if column == "w" else "y"
    formula = f"{left} ~ {terms if column not in 'yw' else 'x'}"
    model = ev.from_formula(formula, data)
    assert model.y.size == N - 2
    np.testing.assert_array_equal(model.y, DATA.y.drop([3, 11]))
    assert any(f"2 of {N} rows have missing values ({column})" in note for note in model.notes)
    with pytest.raises(ev.InputError, match=f"2 rows have missing values in {column}"):
        ev.from_formula(formula, data, missing="error")


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_columns_that_know_missing_values_themselves(backend):
    """They are NumPy's to a formula, as terms and as arguments: the same model."""
    if backend == "pyarrow":
        pytest.importorskip("pyarrow")
    data = DATA[["y", "x", "b", "g"]].assign(n=1, t=np.arange(N) // 2)
    own = data.convert_dtypes(dtype_backend=backend)
    formula = "y ~ x + b + offset(n) + (1 | g) + rw1(t)"
    one, other = (ev.from_formula(formula, table) for table in (data, own))
    assert one.names == other.names
    np.testing.assert_array_equal(one.A.toarray(), other.A.toarray())


def test_a_column_may_not_be_called_as_the_constant_is():
    """It would be taken for that."""
    with pytest.raises(ev.InputError, match="data have a column 'Intercept'"):
        ev.from_formula("y ~ Intercept", DATA.assign(Intercept=DATA.x))
    assert ev.from_formula("y ~ x", DATA.assign(Intercept=DATA.x)).n == 2


def test_what_to_do_with_missing_values():
    with pytest.raises(ev.InputError, match="missing"):
        ev.from_formula("y ~ x", DATA, missing="keep")


@pytest.mark.parametrize("term", ["binary(a)", "I(x - np.mean(x))", "(binary(a) | g)"])
def test_rows_that_depend_on_others_predict_nothing(term):
    """Success would be chosen anew from new rows, and the mean be theirs."""
    model = ev.from_formula(f"y ~ {term}", DATA.assign(a=np.where(DATA.x > 0.0, "yes", "no")))
    with pytest.raises(ev.InputError, match=r"depends on the rows beside it.*center\(x\)"):
        ev.predict(model, {"a": ["yes"], "x": [1.0], "g": [DATA.g[0]]})


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64", "float16"])
def test_products_of_small_numbers_do_not_overflow(kind):
    x, z = np.arange(N) % 50, (7 * np.arange(N)) % 90
    formula = "y ~ x * z + I((x - z)**2) + I(x**2) + log(z + 1)"
    wide, narrow = (
        ev.from_formula(formula, DATA[["y"]].assign(x=x.astype(k), z=z.astype(k)))
        for k in (float, kind)
    )
    np.testing.assert_allclose(narrow.A.toarray(), wide.A.toarray(), rtol=1e-12)


def test_columns_of_other_kinds_are_named():
    dated = DATA.assign(d=pd.date_range("2020-01-01", periods=N))
    with pytest.raises(ev.InputError, match=r"numbers, text or categories, got {'d': 'datetime64"):
        ev.from_formula("y ~ d", dated)
