"""A model's formula as text, cut into its parts; what they mean is for others.

``"y | trials(n) ~ x + offset(log(a)) + (1 + x | g) + ar1(week)"`` has a response with its extras,
common terms (which :mod:`formulae` reads), brackets of effects that differ between groups, and
structured terms, whose names are given.

>>> parts = parse("y | trials(n) ~ x + offset(e) + (1 + x | g/h) + ar1(week)", {"ar1"})
>>> parts.response, parts.extras, parts.common
('y', {'trials': 'n'}, 'x + offset(e)')
>>> parts.brackets[0].effects, parts.brackets[0].groups, parts.structured[0].call
('1 + x', ('g', 'g:h'), 'ar1(week)')
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from ...messages import InputError, suggest
from ..expressions import check_length, quoted

LONGEST = 100_000  # characters; formulas with a term for each of some thousand columns are made
_EXTRAS = ("trials", "weights", "cens", "trunc")
_OPEN, _CLOSE = "([{", ")]}"
_WORD = re.compile(
    r"`([^`]+)`|'[^']*'|\"[^\"]*\"|([^\W\d][\w.]*)\s*(\(|=(?!=))?|\d[\d.]*(?:[eE][+-]?\d+)?"
)


class Bracket(NamedTuple):
    """``(effects | group)``; ``||`` where they are independent of each other."""

    effects: str
    groups: tuple[str, ...]
    correlated: bool


class Structured(NamedTuple):
    """``ar1(week, group)``: its text, its name, and its arguments."""

    call: str
    name: str
    arguments: tuple[str, ...]


class Parts(NamedTuple):
    """What a formula consists of."""

    response: str
    extras: dict[str, str]
    common: str
    brackets: tuple[Bracket, ...]
    structured: tuple[Structured, ...]


def parse(formula: str, structured: Collection[str] = ()) -> Parts:
    """Cut ``formula`` into its parts; ``structured`` are names of structured terms."""
    if not isinstance(formula, str):
        raise InputError(
            f"formula must be text such as 'y ~ x + (1 | group)', got {type(formula).__name__}"
        )
    check_length("formula", formula, LONGEST)
    if formula.count("~") != 1:
        raise InputError(
            f"formula must have one ~ between the response and the terms, got {formula!r}"
        )
    left, right = formula.split("~")
    response, extras = _response(formula, left)
    common, brackets, special = "", list[Bracket](), list[Structured]()
    for sign, term in _terms(formula, right):
        bracket = _bracket(formula, term)
        if not bracket and len(split(term, "|")) > 1:
            raise InputError(f"formula: effects of groups are in brackets, as in ({term})")
        call = re.fullmatch(r"(\w+)\s*\((.*)\)", term, re.DOTALL)
        if sign == "-" and (bracket or (call and call[1] in structured)):
            raise InputError(f"formula: {term} cannot be taken away; leave it out")
        if bracket:
            brackets.append(bracket)
        elif call and call[1] in _EXTRAS:
            raise InputError(
                f"formula: {term} goes with the response, as in '{response} | {term} ~ …'"
            )
        elif call and call[1] in structured:
            arguments = tuple(word for _, word in split(call[2], ","))
            special.append(Structured(compact(term), call[1], arguments))
        else:
            common += f" {sign} {term}" if common or sign == "-" else term
    return Parts(response, extras, common.strip() or "1", tuple(brackets), tuple(special))


def compact(text: str) -> str:
    """Text of a term without spaces, as it is named in tables."""
    return re.sub(r"\s+", "", text)


def compact_names(text: str) -> str:
    """The same, but for names in backticks."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else compact(piece) for piece in pieces)


def pieces(term: str, known: Collection[str]) -> list[str]:
    """What an interaction is of, spelt as in formulas: columns may need backticks.

    >>> pieces("my col:log(x)", {"my col", "x"})
    ['`my col`', 'log(x)']
    """
    each = [piece for _, piece in split(term, ":")]
    return [f"`{p}`" if p in known and not re.fullmatch(r"[^\W\d][\w.]*", p) else p for p in each]


def columns(text: str, known: Collection[str]) -> list[str]:
    """Which of the ``known`` columns an expression mentions."""
    return [word for word in dict.fromkeys(_words(text)) if word in known]


def check_names(text: str, known: Collection[str], namespace: Collection[str]) -> None:
    """Every name must be a column, or known where the formula was written."""
    elsewhere = {*namespace, "True", "False", "inf"}
    for word in _words(text):
        if word not in known and word.partition(".")[0] not in elsewhere:
            raise InputError(
                f"formula: data have no column {quoted(word)}{suggest(word, known)} Columns: "
                f"{', '.join(map(str, known))}"
            )


def _words(text: str) -> Iterator[str]:
    """Names in an expression, but those of functions that it calls and of their arguments."""
    for match in _WORD.finditer(text):
        if word := match[1] or (match[2] if match[3] is None else None):
            yield word


def _response(formula: str, left: str) -> tuple[str, dict[str, str]]:
    (_, response), *more = split(left, "|") or [("", "")]
    if not response or len(more) > 1:
        raise InputError(f"formula: no response before ~ in {formula!r}")
    extras = {}
    if share := re.fullmatch(r"(?:p|prop|proportion)\s*\(([^,]+),([^,]+)\)", response):
        response, extras["trials"] = share[1].strip(), share[2].strip()
    if bounded := re.fullmatch(r"(cens|trunc)\s*\((.*)\)", response, re.DOTALL):
        response, *own = (word for _, word in split(bounded[2], ","))
        extras[bounded[1]] = ", ".join(own)
    for _, extra in split(more[0][1], "+") if more else ():
        call = re.fullmatch(r"(\w+)\s*\((.*)\)", extra)
        if call is None or call[1] not in _EXTRAS or not call[2].strip():
            raise InputError(
                "formula: after | the response may have trials(n), weights(w), cens(c) or "
                f"cens(c, y2), and trunc(lower, upper), got {extra!r}"
            )
        extras[call[1]] = call[2].strip()
    return response, extras


def _terms(formula: str, right: str) -> Iterator[tuple[str, str]]:
    terms = split(right, "+-")
    if not terms or any(not term for _, term in terms):
        raise InputError(f"formula: a term is missing in {formula!r}")
    yield from terms


def _bracket(formula: str, term: str) -> Bracket | None:
    if not (term.startswith("(") and term.endswith(")")):
        return None
    inside = term[1:-1]
    halves = [half for _, half in split(inside, "|")]
    if len(halves) < 2 and not inside.strip().startswith("|"):
        return None
    correlated = not (len(halves) == 3 and halves[1] == "")
    if not 2 <= len(halves) <= (2 if correlated else 3) or not halves[0] or not halves[-1]:
        raise InputError(f"formula: a bracket is (effects | group), got {term} in {formula!r}")
    groups = tuple(name for _, part in split(halves[-1], "+") for name in _nested(part))
    return Bracket(halves[0], groups, correlated)


def _nested(text: str) -> Iterator[str]:
    """``a/b`` is a, and b within a."""
    path = [compact_names(part) for _, part in split(text, "/")]
    for depth in range(1, len(path) + 1):
        yield ":".join(path[:depth])


def split(text: str, marks: str) -> list[tuple[str, str]]:
    """Pieces between ``marks`` that no bracket or quote encloses, each with the mark before."""
    pieces = list[tuple[str, str]]()
    depth, start, quote, mark = 0, 0, "", "+"
    for i, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character in marks and depth == 0:
            if pieces or text[start:i].strip():  # else a sign before the first term
                pieces.append((mark, text[start:i].strip()))
            start, mark = i + 1, character
    if depth or quote:
        raise InputError(f"formula: brackets or quotes do not match in {text.strip()!r}")
    pieces.append((mark, text[start:].strip()))
    return pieces if text.strip() else []
