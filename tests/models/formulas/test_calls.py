"""Formulas of the shell run no code; in Python they call what is meant."""

from __future__ import annotations

import math
import os

import numpy as np
import pandas as pd
import pytest
from covering import in_turns, seldom
from formulae.categorical import ENCODINGS
from formulae.transforms import TRANSFORMS
from typer.testing import CliRunner

import evidence as ev
from evidence import cli
from evidence.models.formulas import calls
from evidence.models.formulas.model import callers
from evidence.models.formulas.structured import TERMS

from .cases import table

DATA = table()
RUN = "np.f2py.os.system('touch PWNED')"
LOAD = "np.load('d.csv', allow_pickle=True)"
HOSTILE = [
    f"y ~ x + {RUN}",
    f"y ~ x + {LOAD}",
    f"y ~ x + np . f2py . os . system('touch PWNED')",  # noqa: F541
    f"y ~ x + np.f2py.os.system\n(\t'touch PWNED')",  # noqa: F541
    f"y ~ I({RUN})",
    f"y ~ {{{RUN}}}",
    f"y ~ x + {{x + {LOAD}}}",
    f"y ~ C(x, levels={RUN})",
    f"y ~ C(x, {RUN})",
    f"y ~ bs(x, df={RUN})",
    f"y ~ offset({RUN})",
    f"y ~ log(abs(sqrt({RUN})))",
    f"y ~ x:{RUN} + x*{LOAD} + x/{LOAD}",
    f"y ~ (x + {RUN})**2",
    f"y ~ 0 + x - {RUN}",
    f"y ~ x == {RUN}",
    f"{RUN} ~ x",
    f"log({LOAD}) ~ x",
    f"y | trials({RUN}) ~ x",
    f"y | weights(1 + {RUN}) ~ x",
    f"p(y, {LOAD}) ~ x",
    f"y ~ ({LOAD} | g)",
    f"y ~ (1 + {RUN} || g)",
    f"y ~ (1 | {RUN})",
    f"y ~ ar1({RUN})",
    f"y ~ icar(g, {LOAD})",
    f"y ~ x {RUN}",
    f"y ~ x # comment\n + {RUN}",
    f"y ~ x; {RUN}",
    f"y ~ `x` + `g`({RUN})",
    f"y ~ (np.load)('d.csv')",  # noqa: F541
    f"y ~ I(x)({RUN})",
    f"y ~ x[{RUN}]",
    f"y ~ g[np.load]({LOAD})",
    f"y ~ [{RUN} for a in x]",
    f"y ~ (lambda: {RUN})()",
    f"y ~ (a := {RUN})",
    f"y ~ f'{{{RUN}}}'",
    f"y ~ C(g, contrast='\" + {RUN} + \"')",
    f"y ~ 'a\" + {LOAD} + \"a'",
    "y ~ `a` + 'a\" + np.load(`d.csv`) + \"'",
    "y ~ __import__('os').system('touch PWNED')",
    "y ~ eval('os.system(1)')",
    "y ~ exec('x')",
    "y ~ open('PWNED', 'w')",
    "y ~ getattr(np, 'load')('d.csv')",
    "y ~ np.log.__class__('x')",
    "y ~ log.__init__.__globals__.update(x=x)",
    "y ~ bs.__call__.__globals__.get('np')",
    "y ~ I.__globals__.clear()",
    "y ~ np.__loader__.load_module('os')",
    "y ~ np.log.at(x, 1)",
    "y ~ np.fromfile('d.csv')",
    "y ~ np.save('PWNED', x)",
    "y ~ np.vectorize(np.load)(x)",
    "y ~ np.apply_along_axis(np.load, 0, x)",
    "y ~ x.apply(np.load)",
    "y ~ x.to_csv('PWNED')",
    "y ~ x.to_pickle('PWNED')",
    "y ~ ｎｐ.load('d.csv')",
    "y ~ np．load('d.csv')",
    "y ~ np․load('d.csv')",
    "y ~ nр.load('d.csv')",  # a Cyrillic letter
    "y ~ lоg(x)",  # another
    "y ~ np.load（'d.csv'）",
    "y ~ np\u200b.load('d.csv')",
    "y ~ np.ｌoad('d.csv')",
    "y ~ np\\\n.load('d.csv')",
    "y ~ log(x, e)",  # writes into the table
    "y ~ log(x, out=e)",
    "y ~ np.exp(x, where=x, out=e)",
    "y ~ log(**x)",
    "y ~ log(*x)",
    "y ~ scale(x, x)",
    "y ~ bs(x, df=3, df=4)",
    "y ~ x = 3",
    "y ~ I(x = 3)",
    "y ~ 1(x)",
    "y ~ 'np.load'(x)",
    "y ~ x %in% np",
    "y ~ x @ x",
    "y ~ $x",
    "y ~ log(x}",
    "y ~ log{x}",
    "y ~ x, e",
]
BENIGN = [
    "y ~ 1",
    "y ~ x",
    "y ~ 0 + x",
    "y ~ x - 1",
    "y ~ -1 + x",
    "y~x+z+(1|g)",
    "y ~ x*z",
    "y ~ x:a + z",
    "y ~ x/a",
    "y ~ (x + z)**2",
    "y ~ (x + z + a) - z",
    "y ~ I(x**2) + x",
    "y ~ {x**2 - 1} + I(-x)",
    "y ~ I(x > 0) + I((z <= 0.5) * x)",
    "y ~ log(e) + np.log(abs(x)) + scale(np.sqrt(e))",
    "log(abs(y)) ~ log1p(e) + expm1(z)",
    "np.exp(z) ~ sin(x) + cos(x) + tan(z) + tanh(z) + log2(e)",
    "y ~ np.where(x > 0, x, 0) + np.maximum(z, .25) + np.clip(e, 1, 2)",
    "y ~ center(x) + standardize(z)",
    "y ~ bs(x, df=4) + bs(z, df=5, degree=2)",
    "y ~ bs(x, 4) + cr(z, df=4)",
    "y ~ poly(x, 2)",
    "y ~ C(h) + T(a, 'q')",
    "y ~ C(a, Treatment('q'))",
    'y ~ C(a, Sum()) + I(g == "a")',
    "y ~ S(a) + binary(b, 1)",
    "y ~ `my col` + β + (1 | `my group`)",
    "y ~ log + log(e) + C(C)",
    "y ~ x + offset(log(e))",
    "y ~ x + (1 + x || g) + (0 + z | h)",
    "y ~ x + (1 + log(e) | g)",
    "y ~ (1 | g/h)",
    "y ~ (1 | g:h)",
    "y ~ x + (1 | g + a)",
    "y ~ ar1(t) + x",
    "y ~ rw1(t, g) + t + rw2(t)",
    "y | weights(w) ~ x",
    "y | weights(w + 1) ~\n\tx\n + z",
    "`y` ~ Sepal.Length + `a.b.c d'e`",
]


@pytest.fixture
def csv(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = {"Sepal.Length": DATA.z**2, "a.b.c d'e": DATA.x**2}
    DATA.assign(**more).to_csv("d.csv", index=False)
    return tmp_path / "d.csv"


@pytest.fixture
def ran(monkeypatch):
    """What was run that must not be."""
    seen = list[str]()
    for where, name in [(os, "system"), (np, "load"), (np, "fromfile"), (np, "save")]:
        monkeypatch.setattr(where, name, lambda *_, name=name, **__: seen.append(name))
    return seen


COMMANDS = {
    "compare": lambda csv, formula: ["compare", csv, "y ~ x", formula],
    "fit": lambda csv, formula: ["fit", csv, formula],
    "predict": lambda csv, formula: ["predict", csv, formula, csv],
}


@pytest.mark.parametrize(
    ("formula", "command"),
    seldom(
        [pair for start in range(3) for pair in in_turns(HOSTILE, COMMANDS, start)],
        *range(len(HOSTILE)),
    ),
)
def test_no_formula_of_the_shell_runs_code(csv, ran, formula, command):
    before, words = csv.read_bytes(), COMMANDS[command](csv, formula)
    got = CliRunner().invoke(cli.app, list(map(str, words)), catch_exceptions=False)
    assert got.exit_code == 2, got.output
    assert got.stderr.startswith("error: formula: ")
    assert got.stderr.count("\n") == 1
    assert not got.stdout
    assert not ran
    assert [path.name for path in csv.parent.iterdir()] == ["d.csv"]
    assert csv.read_bytes() == before


@pytest.mark.parametrize("formula", BENIGN)
def test_formulas_of_the_shell_are_those_of_python(csv, formula):
    (model,) = cli._Regression().models(csv, [formula]).values()
    same = ev.from_formula(formula, pd.read_csv(csv))
    assert model.names == same.names
    np.testing.assert_array_equal(model.A.toarray(), same.A.toarray())
    np.testing.assert_array_equal(model.y, same.y)


@pytest.mark.parametrize("code", [RUN, LOAD, "__import__('os').system('touch PWNED')"])
def test_no_other_text_of_the_shell_is_run(csv, ran, code):
    table = ["estimate", csv, "--target", "y", "--features", "x", "--kernel"]
    fit = ["fit", csv, "y ~ x + (1 | g)"]
    for words in (
        [*table, code], [*table, f"RBF({code})"], [*table, "RBF(1)", "--likelihood", code],
        [*table, "RBF(1)", "--likelihood", f"student_t(df={code})"],
        [*table, "RBF(1)", "--method", code], [*table, "RBF(1)", "--reference", code],
        [*table, "RBF(1)", "--move", code], [*table[:4], "--features", code, "--kernel", "RBF(1)"],
        [*table, "RBF(1)", "--drop", code], [*table, "RBF(1)", "--sep", code],
        [*fit, "--prior", f"x={code}"], [*fit, "--prior", f"x=norm({code}, 1)"],
        [*fit, "--prior", f"sd(1|g)=expon(scale={code})"], [*fit, "--prior", f"{code}=norm(0, 1)"],
        [*fit, "--family", code], [*fit, "--link", code], [*fit, "--positive", code],
    ):  # fmt: skip
        got = CliRunner().invoke(cli.app, list(map(str, words)), catch_exceptions=False)
        assert (got.exit_code, got.stdout) == (2, ""), words
        assert got.stderr.startswith("error: ")
        assert got.stderr.count("\n") == 1
    assert not ran
    assert [path.name for path in csv.parent.iterdir()] == ["d.csv"]


def test_columns_may_be_called_like_code(csv, ran):
    name = "np.load('d.csv')"
    DATA.assign(**{name: DATA.z, "np": DATA.x}).to_csv(csv, index=False)
    formula = f"`{name}` ~ np + (1 + np | g)"
    (model,) = cli._Regression().models(csv, [formula]).values()
    np.testing.assert_array_equal(model.y, DATA.z)
    np.testing.assert_array_equal(model.A.toarray()[:, 1], DATA.x)
    assert not ran


def test_the_shell_counts_successes(csv):
    for formula in ("s | trials(n) ~ x", "s | trials(1e1) ~ x", "p(s, n) ~ x", "prop(s, 9) ~ x"):
        calls.check(formula)
        (model,) = cli._Regression("binomial").models(csv, [formula]).values()
        np.testing.assert_array_equal(model.y, DATA.s)


def test_nothing_else_is_within_reach_of_a_formula_of_the_shell(csv, monkeypatch, ran):
    """Should a text get past the check, there is still nothing to call."""
    monkeypatch.setattr(calls, "check", lambda formula: None)
    for formula in (f"y ~ x + {RUN}", f"y ~ x + {LOAD}", "y ~ np.fromfile('d.csv')"):
        with pytest.raises(ev.InputError, match="cannot be evaluated"):
            cli._Regression().models(csv, [formula])
    assert not ran


def test_what_may_be_called_is_there():
    """The table of names has all of the language, and no more than that."""
    names = {name for name in calls._CALLS if not name.startswith("np.")}
    own = {*TERMS, "trials", "weights", "cens", "trunc"}
    assert names - own == {*calls.FUNCTIONS, *TRANSFORMS, *ENCODINGS}
    for name in calls._OF_NUMPY:
        assert isinstance(getattr(np, name), np.ufunc) or name in ("clip", "where")


# -- in Python ------------------------------------------------------------------------------


def test_a_formula_in_python_is_code():
    calls = []

    def own(x):
        calls.append(1)
        return x**2

    seen = ev.from_formula("y ~ 0 + own(x) + np.power(z, 2)", DATA).A.toarray()
    np.testing.assert_allclose(seen, np.column_stack([DATA.x**2, DATA.z**2]))
    assert calls


def test_fixed_names_come_before_those_of_the_caller():
    x = log = sqrt = np = 3.0  # noqa: F841
    exp, center = math.exp, len  # noqa: F841
    formula = "y ~ 0 + x + log(e) + np.sqrt(e) + exp(z) + sqrt(abs(log))"
    seen = ev.from_formula(formula, DATA)
    other = ev.from_formula(formula, DATA, namespace={})
    assert (seen.A != other.A).nnz == 0
    assert "exp() is NumPy's; another function of that name is not used" in seen.notes
    assert other.notes == tuple(note for note in seen.notes if "NumPy" not in note)
    assert not any("center" in note for note in seen.notes)
    assert ev.from_formula("y ~ center(x)", DATA).names == ("Intercept", "center(x)")


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ s(x)", r"no function s\(\).* write bs\(x, df=5\)"),
        ("y ~ x + s(z) + (1 | g)", r"write bs\(x, df=5\)"),
        ("y ~ (1 + s(x) | g)", r"write bs\(x, df=5\)"),
        ("y ~ te(x, z)", r"write bs\(x, df=5\)"),
        ("y ~ factor(a)", r"categories are C\(x\)"),
        ("y ~ ln(e)", r"log\(x\)"),
        ("cbind(s, n) ~ x", r"no function cbind\(\).* 'y \| trials\(n\) ~ …'"),
        ("y ~ sqrrt(e)", "'sqrrt'; did you mean 'sqrt'"),
        ("y ~ Log10(e)", "'Log10'; did you mean 'log10'"),
    ],
)
def test_functions_that_people_know_from_elsewhere(csv, formula, words):
    s = te = object()  # noqa: F841 - no functions
    with pytest.raises(ev.InputError, match=words):
        ev.from_formula(formula, DATA)
    with pytest.raises(ev.InputError, match=words):
        ev.compare([formula], DATA)
    with pytest.raises(ev.InputError, match=words):
        cli._Regression().models(csv, [formula])


def test_a_function_of_the_caller_may_have_any_other_name():
    def s(x):
        return x**2

    thing = DATA  # noqa: F841
    assert ev.from_formula("y ~ s(x)", DATA).names == ("Intercept", "s(x)")
    with pytest.raises(ev.InputError, match=r"thing\(\) calls what is no function.* DataFrame"):
        ev.from_formula("y ~ thing(x)", DATA)


@pytest.mark.parametrize(
    ("terms", "word"),
    [("x z", "z"), ("x%z", "%"), ("x//2", "/"), ("x log(", "log"), ("x + 1e3*z", "e3"),
     ("x in z", "in"), ("(1 + x z | g)", "z"), ("x + C(a) 'b'", "'b'")],
)  # fmt: skip
def test_all_of_a_formula_is_read(terms, word):
    """A term after which no operator comes was left out."""
    with pytest.raises(ev.InputError, match="formula: "):
        ev.from_formula(f"y ~ {terms}", DATA)


DEEP = [
    "(" * 10_000 + "x" + ")" * 10_000, "(" * 400 + "x" + ")" * 400,
    "bs(" * 5000 + "x" + ")" * 5000, "{" * 900 + "x" + "}" * 900, f"I({'-' * 5000}x)",
    f"I({'x + ' * 3000}x)", "x:" * 4000 + "x", "x" * 200_000, "x + " * 100_000 + "x",
]  # fmt: skip
PLACES = ["y ~ {}", "{} ~ x", "y | trials({}) ~ x", "y ~ ({} | g)"]


@pytest.mark.parametrize(
    ("text", "place"),
    seldom(
        [pair for start in range(4) for pair in in_turns(DEEP, PLACES, start)], *range(len(DEEP))
    ),
)
def test_deep_and_endless_formulas(place, text):
    with pytest.raises(
        ev.InputError, match=r"^formula: .*(nested too deeply|too many|COLON)"
    ) as caught:
        ev.from_formula(place.format(text), DATA)
    assert len(str(caught.value)) < 300


def test_a_call_that_no_python_made():
    """R's, or a thread's first: there is no frame of a caller."""
    assert callers(10_000) == {"np": np}
