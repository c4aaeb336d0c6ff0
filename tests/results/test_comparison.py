"""What people print and report of a comparison: numbers that can be read, notes, words."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

import evidence as ev
from evidence.results.comparison import STRENGTHS, BayesFactor, Comparison, in_figures
from evidence.results.evidence import Estimate, EvidenceResult
from evidence.results.loo import stacking


def result(logz, se, **words):
    return EvidenceResult("smc", logz, se, (Estimate("smc", logz, se, 0.1),), **words)


def compared(logz, se=0.05, names=None, **words):
    names = names or [f"m{k}" for k in range(len(logz))]
    results = {n: result(z, se, model={"N": 7}) for n, z in zip(names, logz, strict=True)}
    return Comparison.of(results, dict.fromkeys(names, 1.0), **words)


def body(comparison):
    """The rows of the printed table, by name."""
    lines = str(comparison).split("\n\n")[1].splitlines()
    return {line.split()[0]: line for line in lines[1:]}


def test_numbers_can_be_read_whatever_their_size():
    rows = body(compared([-10.0, -12.0, -79.0, -4000.0]))
    assert re.search(r" 1 +0\.881 ", rows["m0"])
    assert re.search(r"-12\.000 ± 0\.050 +0\.135 +7\.1 % +0\.119", rows["m1"])
    assert re.search(r" 1\.1e-30 +7\.1 % +< 0\.001", rows["m2"])
    assert re.search(r" e?\d\.\de-1733 +7\.1 % +< 0\.001", rows["m3"])
    sure = str(compared([0.0, -30.0]))
    assert "P > 0.999" in sure
    assert not re.search(r"0\.000\b(?! ±)|1\.000", sure.replace("0.000 ±", ""))
    silent = body(compared([0.0, -3.0], se=math.nan))
    assert re.search(r"0\.0498 +- +0\.047", silent["m1"])


def test_a_baseline_is_what_factors_are_against():
    comparison = compared([-10.0, -12.0, -13.0], baseline="m1")
    assert comparison.baseline == "m1"
    assert comparison.best == "m0"
    table = comparison.table
    assert table.log_bayes_factor.tolist() == [2.0, 0.0, -1.0]
    assert table.log_bayes_factor_se["m1"] == 0.0
    factor = comparison.bayes_factor("m0")
    assert factor == (2.0, pytest.approx(0.05 * 2**0.5))
    assert comparison.bayes_factor("m1", "m0").log == -2.0
    assert comparison.bayes_factor("m2", "m2") == (0.0, 0.0)
    with pytest.raises(ev.InputError, match="unknown b 'm'"):
        comparison.bayes_factor("m0", "m")


def test_errors_of_factors_are_those_of_lognormal_numbers():
    """Against a million draws: a percent of Monte Carlo error."""
    factor = BayesFactor(1.3, 0.4)
    draws = np.exp(0.4 * np.random.default_rng(0).standard_normal(1_000_000))
    assert factor.error == pytest.approx(draws.std() / draws.mean(), rel=0.01)
    assert factor.se == pytest.approx(factor.value * factor.error)
    assert BayesFactor(5000.0, 0.1).value == math.inf
    assert str(BayesFactor(math.log(20.0), 9.0)) == "20 ± > 1000 %"
    assert str(BayesFactor(math.log(20.0), math.nan)) == "20"


@pytest.mark.parametrize("scale", list(STRENGTHS))
def test_words_for_strength_change_at_the_bounds_of_their_scale(scale):
    reference, words = STRENGTHS[scale]
    for (bound, word), (end, _) in itertools.pairwise([*words.items(), (1e9, "")]):
        for at in (bound * 1.001, end * 0.999):
            assert BayesFactor(math.log(at), 0.1).strength(scale) == f"{word} ({reference})"
            against = BayesFactor(-math.log(at), 0.1).strength(scale)
            assert against == f"against, {word} ({reference})"
    with pytest.raises(ev.InputError, match="unknown scale 'fisher'"):
        BayesFactor(1.0, 0.1).strength("fisher")


def test_the_table_fits_a_screen_and_keeps_long_names():
    long = "y ~ " + " + ".join(f"some_column_{k}" for k in range(20))
    comparison = compared([-1e5, -2e5, -2e5], names=["y ~ 1", long, "x" * 300])
    lines = str(comparison).splitlines()
    assert max(map(len, lines)) <= 100
    assert all(f"some_column_{k}" in str(comparison) for k in range(20))
    assert str(comparison).count("x") >= 300


def test_notes_of_one_model_are_told_with_its_name():
    class Model:
        def __init__(self, *notes):
            self.notes = notes

    models = {"m0": Model("3 rows left out", "own"), "m1": Model("3 rows left out")}
    comparison = compared([0.0, -1.0], models=models)
    assert comparison.notes == ("3 rows left out", "m0: own")
    for text in (str(comparison), comparison.to_markdown(), comparison._repr_html_()):
        assert "3 rows left out" in text
        assert "m0: own" in text
    assert "3 rows left out." in comparison.report()


def test_documents():
    comparison = compared([-1.0, -3.0], names=["y ~ x", "y ~ x_1 + (1 | g)"])
    lines = comparison.to_markdown().splitlines()
    assert lines[0].startswith("| model | log Z | BF |")
    assert len({re.sub(r"\\\|", "", line).count("|") for line in lines[:4]}) == 1
    assert r"`y ~ x_1 + (1 \| g)`" in lines[3]
    latex = comparison.to_latex().splitlines()
    assert latex[0] == r"\begin{tabular}{lrrrrr}"
    assert r"y $\sim$ x\_1 + (1 $|$ g) & -3.000 $\pm$ 0.050 & 0.135 & 7.1 \% & 0.119" in latex[5]
    report = comparison.report("jeffreys")
    assert "models of 7 observations" in report
    assert "is 0.135 ± 7.1 %, against, substantial (Jeffreys" in report
    assert "log Z = -1.000 ± 0.050 (P = 0.881, 0.5 before the data)" in report


def test_figures_of_extremes():
    assert [in_figures(x) for x in (math.inf, -math.inf, math.nan)] == ["inf", "0", "-"]
    assert in_figures(math.log(9.97e-5)) == "1.0e-4"
    assert in_figures(-3e7) == "3.5e-13028835"


def test_stacking_against_a_grid():
    """The best of all mixtures of three, on a grid of hundredths."""
    p = np.random.default_rng(1).gamma(0.5, size=(3, 40)) + 1e-3
    grid = [(a / 100, b / 100) for a in range(101) for b in range(101 - a)]
    w = np.array([(a, b, 1.0 - a - b) for a, b in grid])
    scores = np.log(np.maximum(w, 0.0) @ p).sum(axis=1)
    found = stacking(np.log(p))
    assert found.sum() == pytest.approx(1.0)
    assert np.log(found @ p).sum() >= scores.max() - 1e-9
    np.testing.assert_allclose(found, w[np.argmax(scores)], atol=0.02)
    assert np.isnan(stacking([np.array([np.nan, 0.0]), np.zeros(2)])).all()
    np.testing.assert_allclose(stacking(np.log(p) - 2000.0), found, atol=1e-6)
