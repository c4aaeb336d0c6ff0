"""What type checkers are told about keywords is what the functions take."""

from __future__ import annotations

import inspect

import evidence as ev
from evidence.methods.registry import METHODS
from evidence.verbs import _options as options


def own(method: str) -> set[str]:
    parameters = inspect.signature(METHODS[method]).parameters.values()
    return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}


def test_options_are_those_of_the_methods():
    assert options.AisOptions.__optional_keys__ == own("ais")
    assert options.TemperingOptions.__optional_keys__ == own("pt")
    assert options.ResampleMoveOptions.__optional_keys__ == own("smc")
    assert options.MethodOptions.__optional_keys__ == set().union(*map(own, METHODS))


def test_runs_take_what_log_evidence_takes():
    parameters = set(inspect.signature(ev.log_evidence).parameters)
    assert options.Run.__optional_keys__ == parameters - {"model", "method", "options"}
