"""Choices for all calls: lines of progress, and what is said of results."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

import evidence as ev
from evidence.execution import progress

MODEL = ev.GPModel(K=[[1.0, 0.5], [0.5, 1.0]], y=[1, -1])


def few_draws():
    return ev.sample(MODEL, draws=4, tune=4, chains=2, random_seed=0, progressbar=False)


@pytest.fixture(autouse=True)
def as_before():
    with ev.set_options():
        yield


def test_lines_are_shown_where_both_say_so(monkeypatch):
    seen = []

    def line(*args, disable, **words):
        seen.append(disable)
        return SimpleNamespace(disable=True)

    monkeypatch.setattr(progress, "tqdm", line)
    for everywhere in (True, False):
        with ev.set_options(progressbar=everywhere):
            for here in (True, False):
                progress.progress_line(here)
    assert seen == [None, True, True, True]


def test_no_line_while_compiling(monkeypatch):
    monkeypatch.setattr(progress.event, "install_listener", pytest.fail)
    with ev.set_options(progressbar=False), progress.compiling(True):
        pass


def test_what_is_said_of_results_is_logged(caplog):
    with caplog.at_level(logging.INFO, "evidence"):
        result = few_draws()
        ev.log_evidence(MODEL, random_seed=0, progressbar=False)
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert result.warnings
    assert {("WARNING", str(text)) for text in result.warnings} <= set(said)
    assert "INFO" in dict(said)


def test_verbose_writes_it_down(capsys):
    few_draws()
    assert capsys.readouterr().err == ""
    with ev.set_options(verbose=True):
        ev.set_options(verbose=True)  # twice is no more than once
        result = few_draws()
        said = capsys.readouterr()
    few_draws()
    assert result.warnings
    assert said.err.splitlines() == [f"evidence: {text}" for text in result.warnings]
    assert said.out == capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["progressbar", "verbose"])
def test_no_is_no_truth_value(name):
    with pytest.raises(ev.InputError, match=f"{name} must be True or False, got 'no'"):
        ev.set_options(**{name: "no"})
