"""What type checkers are told about keywords is what the functions take."""

from __future__ import annotations

import inspect

import pytest

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


@pytest.mark.parametrize("word", ["seed", "rng", "random_state", "key", "Seed"])
def test_other_names_of_the_seed_are_answered(word):
    model = ev.GPModel(K=[[1.0]], y=[1])
    with pytest.raises(TypeError, match="did you mean 'random_seed'"):
        ev.log_evidence(model, method="smc", **{word: 0})
    with pytest.raises(TypeError, match="did you mean 'random_seed'"):
        ev.compare({"a": model}, progressbar=False, **{word: 0})


def test_the_family_of_formulas_is_called_likelihood():
    model = ev.GPModel(K=[[1.0]], y=[1])
    with pytest.raises(TypeError, match="did you mean 'likelihood'"):
        ev.compare({"a": model}, progressbar=False, family="poisson")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("optimize", "optimise"), ("summarize", "summarise"), ("bayes_factor", "compare"),
        ("waic", "loo"), ("log_evidense", "log_evidence"), ("GPmodel", "GPModel"),
    ],
)  # fmt: skip
def test_names_that_the_module_lacks_are_answered(word, meant):
    with pytest.raises(AttributeError, match=f"no attribute '{word}'; did you mean '{meant}'"):
        getattr(ev, word)
