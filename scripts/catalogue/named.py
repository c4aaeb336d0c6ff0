"""All problems with a name, as cases, made when needed: ``named["hard: shells 2"]()``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from . import dimensions, exact, hard, necks, smooth
from .dressing import Case


def _hard(name: str) -> tuple[Any, float, float]:
    problem = hard.PROBLEMS[name]()
    return exact.with_scipy(problem), problem.truth, problem.truth_se


def _smooth(make: Callable[[], smooth.Problem]) -> tuple[Any, float, float]:
    problem = make()
    return problem.model, problem.truth, problem.truth_se


def _neck(problem: necks.Necked, centred: bool) -> tuple[Any, float]:
    return problem.model(centred), problem.logz()


_AT_DIMENSION = dimensions.AT_DIMENSION | dimensions.BEYOND_ELBOS
_KINDS: dict[str, dict[str, Callable[[], tuple[Any, ...]]]] = {
    "hard": {name: partial(_hard, name) for name in hard.PROBLEMS},
    "exact": {**exact.problems()},
    "dimensions": {**_AT_DIMENSION},
    "necks": {name: partial(_neck, made, True) for name, made in necks.PROBLEMS.items()}
    | {f"{name}, apart": partial(_neck, made, False) for name, made in necks.PROBLEMS.items()},
    "smooth": {name: partial(_smooth, make) for name, make in smooth.problems().items()},
}


def _case(kind: str, name: str) -> Case:
    model, *truth = _KINDS[kind][name]()
    return Case(f"{kind}: {name}", kind, model.n, model, *truth)


named: dict[str, Callable[[], Case]] = {
    f"{kind}: {name}": partial(_case, kind, name) for kind, some in _KINDS.items() for name in some
}
