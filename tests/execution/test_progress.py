"""What is shown meanwhile."""

from __future__ import annotations

import io
import time
from contextlib import nullcontext
from functools import partial
from typing import ClassVar

import numba
import pytest

from evidence.execution import progress


class Line:
    """Stands for tqdm's."""

    lines: ClassVar[list[Line]] = []

    def __init__(self, things, **words):
        self.words, self.n, self.closed = words, 0, False
        self.disable = bool(words.get("disable"))
        self.lines.append(self)

    def update(self):
        self.n += 1

    def get_lock(self):
        return nullcontext()

    def refresh(self, nolock):
        assert nolock

    def close(self):
        self.closed = self.disable = True


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
@pytest.mark.parametrize("shown", [True, False])
def test_compiling_is_shown_while_it_lasts(monkeypatch, shown):
    monkeypatch.setattr(progress, "tqdm", Line)
    monkeypatch.setattr(Line, "lines", [])

    @numba.njit
    def inner(x):
        return x + 1.0

    @numba.njit
    def outer(x):
        return inner(x)

    with progress.compiling(shown):
        assert outer(1.0) == 2.0
        assert outer(2.0) == 3.0  # from memory
    outer(1)  # compiled for integers, outside
    if not shown:
        assert Line.lines == []
        return
    (line,) = Line.lines
    assert "first run only" in line.words["desc"]
    assert line.n == 2
    assert line.closed


def test_nothing_is_shown_where_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(progress, "tqdm", Line)
    monkeypatch.setattr(Line, "lines", [])
    with progress.compiling(True):
        pass
    assert Line.lines == []


class Terminal(io.StringIO):
    """Where lines are shown."""

    def isatty(self) -> bool:
        return True


def test_the_clock_of_a_line_goes_on(monkeypatch):
    monkeypatch.setattr(progress, "_TICK", 0.01)
    shown = Terminal()
    with progress.progress_line(True, desc="long", file=shown, ncols=60, mininterval=60.0):
        before = len(shown.getvalue())
        for _ in range(500):
            if len(shown.getvalue()) > before:
                break
            time.sleep(0.01)
    assert len(shown.getvalue()) > before
    assert "long" in shown.getvalue()[before:]


@pytest.mark.parametrize("limit", [0.0, 1e9])
def test_the_last_line_of_a_long_run_stays(monkeypatch, limit):
    monkeypatch.setattr(progress, "_LONG", limit)
    shown = Terminal()
    monkeypatch.setattr(progress, "tqdm", partial(progress.tqdm, file=shown, ncols=90))
    with progress.Progress(True) as line:
        line.phase("guide")
        line.expect(2)
        line.advance(2)
    last = shown.getvalue().rstrip().rpartition("\r")[2]
    assert ("done: islands: 100%" in last) is (limit == 0.0)
    assert shown.getvalue().endswith("\n") is (limit == 0.0)


def test_a_long_run_that_shows_nothing_ends(monkeypatch):
    """EP alone has no phases: after three seconds a line that is none was asked for its name."""
    monkeypatch.setattr(progress, "_LONG", -1.0)
    with progress.Progress(False):
        pass
