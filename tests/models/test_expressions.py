"""Text that stands for a kernel, a likelihood or a prior: one line for what cannot be read."""

from __future__ import annotations

import os
import re
import warnings

import pytest
from scipy import stats

import evidence as ev
from evidence.models.kernels.parse import parse_kernel

DATA = {"y": [1.0, 2.0, 4.0], "x": [0.0, 1.0, 3.0]}


def prior(text):
    return ev.from_formula("y ~ x", DATA, priors={"x": text})


READERS = {"kernel": parse_kernel, "likelihood": ev.likelihoods.get, "priors['x']": prior}
NESTED = {
    "kernel": "{}",
    "likelihood": "gaussian(noise_std={})",
    "priors['x']": "norm({}, 1)",
}


def answer(argument, text):
    """The mistake that a reader names, or None."""
    try:
        READERS[argument](text)
    except ev.InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("argument", READERS)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(" * 10_000 + "1" + ")" * 10_000, "nested too deeply|too many|unknown name"),
        ("(" * 999 + "1" + ")" * 999, "nested too deeply|too many|unknown name"),
        ("norm(" * 10_000, "nested too deeply|too many|unknown name"),
        ("norm(" * 390, "nested too deeply|unknown name"),
        ("[" * 1900, "nested too deeply|unknown name"),
        ("-" * 1900 + "x", ""),
        ("~" * 50_000 + "1", "nested too deeply|too many|unknown name"),
        ("1" * 100_000, "too many|unknown name|cannot read"),
        ("x" * 1_000_001, "too many"),
        ("RBF(" * 150, "nested too deeply|unknown name|cannot read|no proper"),
    ],
)
def test_deep_and_endless_text(argument, text, words):
    """An error of one line that names the argument, whether the text stands alone or within."""
    for whole in (text, NESTED[argument].format(text)):
        mistake = answer(argument, whole)
        assert mistake is not None
        assert mistake.startswith(argument)
        assert re.search(words, mistake)
        assert len(mistake) < 450  # all families have names


@pytest.mark.parametrize("argument", READERS)
@pytest.mark.parametrize(
    "code",
    [
        "__import__('os').system('x')",
        "os.system('x')",
        "(lambda: os.system('x'))()",
        "[os.system('x') for _ in '1']",
        "(a := os.system('x'))",
        "f'{os.system(1)}'",
        "1 if 1 else 2",
        "norm.__class__",
        "stats.norm(0, 1)",
        "rvs(1)",
        "1\n2",
        "*[1]",
        "1, *os.system(1)",
        "norm\0(0)",
        "ｎorm",
        "1if 2 else 3",
        "eval('1')",
    ],
)
def test_code_is_not_run(monkeypatch, argument, code):
    seen = []
    monkeypatch.setattr(os, "system", seen.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for whole in (code, NESTED[argument].format(code), f"norm({code})"):
            mistake = answer(argument, whole)
            assert mistake is not None
            assert mistake.startswith(argument)
            assert "\n" not in mistake
    assert not seen


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("normal(0, 1)", "norm"),
        ("Normal(0, 1)", "norm"),
        ("gaussian(0, 1)", "norm"),
        ("half_normal(scale=1)", "halfnorm"),
        ("HalfNormal(1)", "halfnorm"),
        ("exponential(1)", "expon"),
        ("student_t(3)", "t"),
        ("inverse_gamma(1)", "invgamma"),
        ("lognormal(1)", "lognorm"),
        ("half_cauchy(1)", "halfcauchy"),
        ("unifrom(0, 1)", "uniform"),
    ],
)
def test_names_of_distributions_that_people_mean(text, meant):
    words = rf"^priors\['x'\] is .*no proper density; did you mean '{meant}'\?( Its scale|$)"
    with pytest.raises(ev.InputError, match=words):
        prior(text)
    assert isinstance(getattr(stats, meant), stats.rv_continuous)
