"""What formulas call: functions under fixed names, and the check of formulas that may not be code.

In Python a formula is code: it may call whatever its writer sees. In the shell it is text that may
come from anywhere, and :func:`check` lets nothing pass but operators, columns, numbers, quoted
words, and calls of the names below. It reads characters alone, before anything is looked up; and
:data:`PLAIN` is all that could be found there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...messages import InputError, suggest
from ..expressions import check_length, quoted
from .parse import LONGEST

_ELEMENTWISE = (
    "abs", "cos", "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sqrt", "tan", "tanh"
)  # fmt: skip
_OF_NUMPY = {
    "arccos": 1, "arcsin": 1, "arcsinh": 1, "arctan": 1, "cbrt": 1, "ceil": 1, "clip": 3,
    "cosh": 1, "floor": 1, "maximum": 2, "minimum": 2, "power": 2, "sign": 1, "sinh": 1,
    "square": 1, "where": 3,
} | dict.fromkeys(_ELEMENTWISE, 1)  # fmt: skip

FUNCTIONS: dict[str, Any] = {name: getattr(np, name) for name in _ELEMENTWISE}
"""Under these names, whatever is called so where a formula is written."""
PLAIN: dict[str, Any] = {"np": SimpleNamespace(**{name: getattr(np, name) for name in _OF_NUMPY})}
"""What there is besides for a formula that is no code."""

_SPLINE = "df knots lower_bound upper_bound center"
_CALLS: dict[str, tuple[int, str]] = {  # how many arguments at most, and words before =
    **dict.fromkeys(_ELEMENTWISE, (1, "")),  # one: the second of NumPy's is where to write
    **{f"np.{name}": (most, "") for name, most in _OF_NUMPY.items()},
    **dict.fromkeys(
        ("I", "center", "offset", "scale", "standardize", "trials", "weights"), (1, "")
    ),
    "bs": (8, f"{_SPLINE} degree intercept"),
    "cc": (6, f"{_SPLINE} period"),
    "cr": (6, _SPLINE),
    "tp": (5, "df center max_knots seed"),
    "poly": (3, "degree raw"),
    **dict.fromkeys(("B", "binary"), (2, "success")),
    **dict.fromkeys(("p", "prop", "proportion"), (2, "")),
    "cens": (3, ""),
    "trunc": (3, "lb ub"),
    "C": (3, "contrast levels"),
    "S": (3, "omit levels"),
    "T": (3, "ref levels"),
    "Sum": (1, "omit"),
    "Treatment": (1, "reference"),
    **dict.fromkeys(("ar1", "rw1", "rw2", "icar", "bym2"), (2, "")),
}
_SMOOTH = "for a smooth curve write bs(x, df=5), or x + rw2(x)"
_INSTEAD = {
    **dict.fromkeys(("s", "te", "ti", "t2", "ns", "lo", "ps", "pb", "smooth", "spline"), _SMOOTH),
    "cbind": "successes are 'y | trials(n) ~ …', n being all trials, with a binomial likelihood",
    **dict.fromkeys(("factor", "as.factor", "ordered"), "categories are C(x)"),
    "ln": "the natural logarithm is log(x)",
    **dict.fromkeys(
        ("gp", "hsgp"),
        "a Gaussian process of any inputs is an ev.GPModel, which ev.compare puts beside formulas",
    ),
}  # what people know from elsewhere
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[^\W\d][\w.]*)
    | (?P<quoted>`[^`]+`|'[^'"]*'|"[^'"]*")
    | (?P<open>[({])
    | (?P<close>[)}])
    | (?P<mark>\*\*|[=!<>]=|[-+*/:~|,=<>])""",
    re.VERBOSE,
)  # a quote within other quotes ends the text for some readers, but not for all


class _Token(NamedTuple):
    kind: str
    text: str


class _Call(NamedTuple):
    """A bracket that is open; of a call, unless its name is empty."""

    name: str
    bracket: str
    arguments: list[str]
    """Words before =, or nothing."""


def check(formula: str) -> None:
    """Refuse a formula in which anything is not understood, or called but not known.

    >>> check("log(y) ~ bs(x, df=4) + C(`my col`) + (1 + np.sqrt(z) || g)")
    >>> check("y ~ np.load('x')")
    Traceback (most recent call last):
    evidence.InputError: formula: in the shell it cannot call 'np.load'; did you mean 'np.log'? ...
    """
    check_length("formula", formula, LONGEST)
    before, earlier = _Token("", ""), _Token("", "")
    opened = list[_Call]()
    for token in _tokens(formula):
        operand = before.kind in ("number", "name", "quoted", "close")
        if operand and token.kind in ("number", "name", "quoted"):
            raise _wrong(f"nothing between {quoted(before.text)} and {quoted(token.text)}")
        if token.kind == "open":
            opened.append(_opened(token, before, operand))
        elif token.kind == "close":
            _closed(token, opened)
        elif token.text == ",":
            if not opened or not opened[-1].name:
                raise _wrong("a comma that is in no call")
            opened[-1].arguments.append("")
        elif token.text == "=":
            _named(before, earlier, opened)
        earlier, before = before, token
    if opened:
        raise InputError("formula: brackets or quotes do not match")


def check_function(name: str, functions: Mapping[str, Any]) -> None:
    """Refuse a function that is not there, with what to write instead."""
    root, dot, _ = name.partition(".")
    if root in functions and (dot or callable(functions[root])):
        return
    if name in _INSTEAD:
        raise InputError(f"formula: there is no function {name}(); {_INSTEAD[name]}")
    if root in functions:
        kind = type(functions[root]).__name__
        raise InputError(f"formula: {name}() calls what is no function, but of type {kind}")
    choices = [word for word, found in functions.items() if len(word) > 1 and callable(found)]
    raise InputError(f"formula: unknown function {quoted(name)}{suggest(name, choices)}")


def _tokens(formula: str) -> Iterator[_Token]:
    place = 0
    while place < len(formula):
        match = _TOKEN.match(formula, place)
        if match is None or match.lastgroup is None:
            raise _wrong(repr(formula[place]))
        if match.lastgroup != "space":
            yield _Token(match.lastgroup, match[0])
        place = match.end()


def _opened(token: _Token, before: _Token, operand: bool) -> _Call:
    if before.kind != "name":
        if operand:
            raise _wrong(f"{token.text} behind {quoted(before.text)}")
        return _Call("", token.text, [])
    name = before.text
    if token.text != "(":
        raise _wrong(f"{token.text} behind {quoted(name)}")
    if name not in _CALLS:
        if name in _INSTEAD:
            check_function(name, {})
        names = ", ".join(n for n in _CALLS if "." not in n)
        raise InputError(
            f"formula: in the shell it cannot call {quoted(name)}{suggest(name, _CALLS)} It may "
            f"call {names}, np.log and the like"
        )
    return _Call(name, token.text, [""])


def _closed(token: _Token, opened: list[_Call]) -> None:
    if not opened or opened[-1].bracket + token.text not in ("()", "{}"):
        raise InputError("formula: brackets or quotes do not match")
    call = opened.pop()
    if call.name and len(call.arguments) > (most := _CALLS[call.name][0]):
        raise InputError(
            f"formula: {call.name}() takes at most {most} arguments in the shell, got "
            f"{len(call.arguments)}"
        )


def _named(before: _Token, earlier: _Token, opened: list[_Call]) -> None:
    """A word before =, which a call must know."""
    if before.kind != "name" or earlier.text not in ("(", ",") or not opened[-1].name:
        raise _wrong("= that names no argument of a call; equal is ==")
    call, word = opened[-1], before.text
    words = _CALLS[call.name][1].split()
    if word not in words or word in call.arguments:
        takes = f"takes {', '.join(words)} by name" if words else "takes nothing by name"
        raise InputError(
            f"formula: {call.name}() {takes} in the shell, each once, got {quoted(word)}"
        )
    call.arguments[-1] = word


def _wrong(what: str) -> InputError:
    return InputError(f"formula: in the shell it cannot have {what}")
