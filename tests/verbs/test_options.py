"""What type checkers are told about keywords is what the functions take."""

from __future__ import annotations

import inspect
import pickle
from typing import get_args

import pytest

import evidence as ev
from evidence.approximations.density.policy import EFFORTS
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


def test_what_type_checkers_allow_is_what_there_is():
    assert set(get_args(options.Method)) == {*METHODS, "ep", "laplace"}
    assert set(get_args(options.Effort)) == set(EFFORTS)


@pytest.mark.parametrize("word", ["seed", "rng", "random_state", "key", "Seed"])
def test_other_names_of_the_seed_are_answered(word):
    model = ev.GPModel(K=[[1.0]], y=[1])
    with pytest.raises(TypeError, match="did you mean 'random_seed'"):
        ev.log_evidence(model, method="smc", **{word: 0})
    with pytest.raises(TypeError, match="did you mean 'random_seed'"):
        ev.compare({"a": model}, progressbar=False, **{word: 0})


def test_the_family_of_formulas_is_called_likelihood():
    model = ev.GPModel(K=[[1.0]], y=[1])
    with pytest.raises(ev.InputError, match="likelihood goes with formulas and data"):
        ev.compare({"a": model}, progressbar=False, family="poisson")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("optimize", "optimise"), ("summarize", "summarise"), ("bayes_factor", "compare"),
        ("waic", "loo"), ("log_evidense", "log_evidence"), ("GPmodel", "GPModel"),
        ("bridge_sampler", "evidence_from_draws"), ("anovaBF", "all_submodels"), ("bf", "compare"),
        ("logz", "log_evidence"), ("sample_smc", "resample_move"), ("summary", "summarise"),
    ],
)  # fmt: skip
def test_names_that_the_module_lacks_are_answered(word, meant):
    with pytest.raises(AttributeError, match=f"no attribute '{word}'; did you mean '{meant}'"):
        getattr(ev, word)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("dlogz", "target_se"), ("maxcall", "max_evaluations"), ("nlive", "n_particles"),
     ("verbose", "progressbar"), ("n_jobs", "executor"), ("timeout", "max_seconds")],
)  # fmt: skip
def test_what_samplers_call_it_is_answered(word, meant):
    """By the methods, whose options are open, and by functions whose are not."""
    model = ev.GPModel(K=[[1.0]], y=[1])
    with pytest.raises(TypeError, match=f"no option '{word}'; did you mean '{meant}'"):
        ev.log_evidence(model, **{word: 1})
    if meant in CLOSED["simulate"] | CLOSED["optimise"]:
        with pytest.raises(TypeError, match=f"no argument '{word}'; did you mean '{meant}'"):
            ev.optimise(model, **{word: 1})


def test_options_of_all_calls_are_answered():
    with pytest.raises(TypeError, match=r"set_options\(\) .*'quiet'; did you mean 'progressbar'"):
        ev.set_options(quiet=True)


def closed():
    """Public functions and models without ``**options``, and what they take."""
    for name in ev.__all__:
        found = getattr(ev, name)
        if inspect.isfunction(found) or name in ("GPModel", "SparseModel"):
            parameters = inspect.signature(found).parameters
            if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                yield name, set(parameters)


CLOSED = dict(closed())


@pytest.mark.parametrize("word", ["seed", "rng", "random_state"])
@pytest.mark.parametrize("verb", [n for n, takes in CLOSED.items() if "random_seed" in takes])
def test_the_seed_of_functions_without_options_is_answered(verb, word):
    said = rf"{verb}\(\) has no argument '{word}'; did you mean 'random_seed'\? \(it takes "
    with pytest.raises(TypeError, match=said):
        getattr(ev, verb)(object(), **{word: 0})


HAVE_NONE = [n for n, takes in CLOSED.items() if "likelihood" in takes and n != "from_formula"]


@pytest.mark.parametrize("verb", HAVE_NONE)
def test_the_family_of_functions_without_options_is_answered(verb):
    with pytest.raises(
        TypeError, match=rf"{verb}\(\) has no argument 'family'; did you mean 'lik"
    ):
        getattr(ev, verb)(object(), family="poisson")


def test_functions_without_a_seed_say_what_they_take():
    with pytest.raises(
        TypeError, match=r"summarise\(\) has .* \(it takes model, posterior, level"
    ):
        ev.summarise(object(), seed=0)


def test_functions_that_answer_are_known_by_their_signatures():
    assert {"optimise", "loo", "sample", "simulate", "from_formula", "GPModel"} <= set(CLOSED)
    assert "n_restarts" in inspect.signature(ev.optimise).parameters
    assert ev.optimise.__name__ == "optimise"
    assert "log Z" in ev.optimise.__doc__
    assert pickle.loads(pickle.dumps(ev.optimise)) is ev.optimise
