"""Every pair in few cases: whatever depends on two circumstances at once is met. And which of
many cases are run with every change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def covering(*factors: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Cases in which any two factors meet in all their pairs of values: a covering array.

    Greedy, from the first pair that is missing, values that were rare so far before others, and
    the same cases every time.

    >>> len(covering("abc", "xyz", [0, 1, 2]))  # of 27
    11
    """
    values = [list(factor) for factor in factors]
    places = range(len(values))
    missing = dict.fromkeys(
        ((i, a), (j, b))
        for i, j in combinations(places, 2)
        for a, b in product(range(len(values[i])), range(len(values[j])))
    )
    cases, met = [], Counter()
    while missing:
        case = dict(next(iter(missing)))
        for i in places:
            if i not in case:
                case[i] = max(range(len(values[i])), key=lambda a, i=i: (
                    sum(tuple(sorted([(i, a), other])) in missing for other in case.items()),
                    -met[i, a],
                ))  # fmt: skip
        met.update(case.items())
        for pair in combinations(sorted(case.items()), 2):
            missing.pop(pair, None)
        cases.append(tuple(values[i][case[i]] for i in places))
    return cases


def in_turns(first: Iterable[Any], second: Iterable[Any], start: int = 0) -> list[tuple[Any, Any]]:
    """Every value of ``first`` once, with the values of ``second`` in turns: for circumstances
    that do not meet in the code.

    >>> in_turns("abc", "xy")
    [('a', 'x'), ('b', 'y'), ('c', 'x')]
    """
    values = list(second)
    return [(one, values[(start + i) % len(values)]) for i, one in enumerate(first)]


def seldom(cases: Iterable[Any], *often: int) -> list[Any]:
    """Parameters of which those at the places ``often`` are always run; the others are slow.

    >>> [len(case.marks) for case in seldom("abc", 1)]
    [1, 0, 1]
    """
    found = []
    for i, case in enumerate(cases):
        marks = () if i in often else pytest.mark.slow
        found.append(pytest.param(*(case if type(case) is tuple else (case,)), marks=marks))
    return found
