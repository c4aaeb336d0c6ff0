"""How formulas are cut into parts, and which texts are none."""

from __future__ import annotations

import pytest

from evidence.messages import InputError
from evidence.models.formulas.parse import check_names, columns, compact_names, parse

CALLS = {"ar1", "bym2"}


@pytest.mark.parametrize(
    ("formula", "response", "extras", "common"),
    [
        ("y ~ x", "y", {}, "x"),
        ("y~x+z", "y", {}, "x + z"),
        ("y ~ 0 + x", "y", {}, "0 + x"),
        ("y ~ -1 + x", "y", {}, "- 1 + x"),
        ("y ~ x - 1", "y", {}, "x - 1"),
        ("y ~ (1 | g)", "y", {}, "1"),
        ("y ~ ar1(t)", "y", {}, "1"),
        ("log(y) ~ x", "log(y)", {}, "x"),
        ("y ~ (x + z)**2 + (1 | g)", "y", {}, "(x + z)**2"),
        ("y ~ I(x - 1) + offset(log(e))", "y", {}, "I(x - 1) + offset(log(e))"),
        ("y ~ `a + b` + (1 | g)", "y", {}, "`a + b`"),
        ("y ~ C(a, levels=['p+q', 'r|s'])", "y", {}, "C(a, levels=['p+q', 'r|s'])"),
        ("y | trials(n) ~ x", "y", {"trials": "n"}, "x"),
        ("y | weights(w) ~ x", "y", {"weights": "w"}, "x"),
        ("p(y, n) ~ x", "y", {"trials": "n"}, "x"),
        ("prop(y, n) | weights(w) ~ x", "y", {"trials": "n", "weights": "w"}, "x"),
        (
            "y | trials(n + 1) + weights(w) ~ x",
            "y",
            {"trials": "n + 1", "weights": "w"},
            "x",
        ),
    ],
)
def test_response_and_common_terms(formula, response, extras, common):
    parts = parse(formula, CALLS)
    assert (parts.response, parts.extras, parts.common) == (response, extras, common)


@pytest.mark.parametrize(
    ("term", "effects", "groups", "correlated"),
    [
        ("(1 | g)", "1", ("g",), True),
        ("(1|g)", "1", ("g",), True),
        ("(1 + x | g)", "1 + x", ("g",), True),
        ("(1 + x || g)", "1 + x", ("g",), False),
        ("(0 + x | g)", "0 + x", ("g",), True),
        ("(1 | a / b)", "1", ("a", "a:b"), True),
        ("(1 | a/b/c)", "1", ("a", "a:b", "a:b:c"), True),
        ("(1 | a:b)", "1", ("a:b",), True),
        ("(1 | a + b)", "1", ("a", "b"), True),
        ("(1 | `my group`)", "1", ("`my group`",), True),
        ("(x*z | g)", "x*z", ("g",), True),
    ],
)
def test_brackets(term, effects, groups, correlated):
    (bracket,) = parse(f"y ~ x + {term}").brackets
    assert bracket == (effects, groups, correlated)


def test_structured_terms():
    one, two = parse("y ~ ar1( week , clinic ) + x + bym2(area, W)", CALLS).structured
    assert one == ("ar1(week,clinic)", "ar1", ("week", "clinic"))
    assert two.arguments == ("area", "W")
    assert parse("y ~ ar1(week)").common == "ar1(week)"  # a function like others


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (None, "formula must be text"),
        (3, "formula must be text"),
        (["y ~ x"], "formula must be text"),
        (b"y ~ x", "formula must be text"),
        ("", "formula must have one ~"),
        ("y", "formula must have one ~"),
        ("y ~ x ~ z", "formula must have one ~"),
        ("~ x", "no response"),
        ("y | trials(n) | weights(w) ~ x", "no response"),
        ("y | rate(n) ~ x", "may have trials"),
        ("y ~ x + weights(w)", "goes with the response"),
        ("y | trials() ~ x", "may have trials"),
        ("y | n ~ x", "may have trials"),
        ("y ~", "a term is missing"),
        ("y ~ x +", "a term is missing"),
        ("y ~ x + + z", "a term is missing"),
        ("y ~ (1 | g", "brackets or quotes do not match"),
        ("y ~ x)", "brackets or quotes do not match"),
        ("y ~ `x", "brackets or quotes do not match"),
        ("y ~ (1 | )", "a bracket is"),
        ("y ~ (| g)", "a bracket is"),
        ("y ~ (1 ||| g)", "a bracket is"),
        ("y ~ (1 | g | h)", "a bracket is"),
        ("y ~ x | g", r"in brackets, as in \(x \| g\)"),
        ("y ~ x + 1 | g", r"in brackets, as in \(1 \| g\)"),
        ("y ~ x - (1 | g)", "cannot be taken away"),
        ("y ~ x - ar1(t)", "cannot be taken away"),
    ],
)
def test_texts_that_are_no_formulas(formula, words):
    with pytest.raises(InputError, match=words):
        parse(formula, CALLS)


def test_columns_that_an_expression_mentions():
    known = ["x", "z", "log", "my col", "β", "df"]
    assert columns("bs(x, df=4) + log(z)", known) == ["x", "z"]
    assert columns("log + log(x)", known) == ["log", "x"]
    assert columns("`my col`*β + 'z'", known) == ["my col", "β"]


def test_names_must_be_columns_or_variables():
    check_names("bs(x, df=4) + a.b + f(True)", ["x"], ["a", "f"])
    with pytest.raises(InputError, match="no column 'temp'; did you mean 'temperature'"):
        check_names("log(temp)", ["temperature", "y"], [])


def test_backticks_keep_their_spaces():
    assert compact_names("sd( 1 | `my  group` )") == "sd(1|`my  group`)"
