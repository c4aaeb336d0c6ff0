"""What is shown meanwhile."""

from __future__ import annotations

from typing import ClassVar

import numba
import pytest

from evidence.execution import progress


class Line:
    """Stands for tqdm's."""

    lines: ClassVar[list[Line]] = []

    def __init__(self, things, **words):
        self.words, self.n, self.closed = words, 0, False
        self.lines.append(self)

    def update(self):
        self.n += 1

    def close(self):
        self.closed = True


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
