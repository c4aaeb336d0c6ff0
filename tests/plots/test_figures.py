"""Figures stay open where somebody may look at them, and are shown once."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest

from evidence.plots import _style


@pytest.mark.parametrize(
    ("backend", "returned", "opened"),
    [
        ("agg", True, False),
        ("agg", False, False),
        ("module://matplotlib_inline.backend_inline", True, False),
        ("module://matplotlib_inline.backend_inline", False, True),
        ("QtAgg", True, True),
    ],
)
def test_figures_are_left_open_for_show(monkeypatch, backend, returned, opened):
    monkeypatch.setattr(plt, "get_backend", lambda: backend)
    figure, _ = _style.new_figure(2, 2, returned=returned)
    try:
        assert plt.fignum_exists(figure.number) is opened
    finally:
        plt.close(figure)
