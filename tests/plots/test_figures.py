"""Figures stay open where somebody may look at them, and are shown once."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

import evidence as ev
from evidence.plots import _style

pytestmark = pytest.mark.usefixtures("no_layout")


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


def test_a_result_shows_what_was_computed():
    model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    guided = ev.log_evidence(model, method="guided", random_seed=0, progressbar=False)
    betas = [0.0, 0.5, 1.0]
    tempered = ev.log_evidence(model, method="smc", betas=betas, random_seed=0, progressbar=False)
    assert guided.islands.size == guided.history.n_islands.iloc[-1]
    left, _ = guided.plot().axes
    assert left.get_xlabel() == "islands"
    assert f"{guided.logz:.3f}" in left.get_title()
    points = next(line for line in left.lines if line.get_label() == "each island")
    assert list(points.get_ydata()) == list(guided.islands)
    assert tempered.plot().axes[0].get_xlabel().startswith("inverse temperature")


def test_error_against_draws_ends_at_the_answers_own():
    model = ev.GPModel(np.linspace(0, 3, 30)[:, None], np.arange(30) % 3, "1.0 * RBF(1.0)",
                       likelihood="poisson")  # fmt: skip
    result = ev.log_evidence(model, method="guided", random_seed=0, progressbar=False)
    figure = result.plot()
    right = figure.axes[1]
    line = next(line for line in right.lines if line.get_marker() == "o")
    assert 0.3 < line.get_ydata()[-1] / result.logz_se < 3.0
    assert (np.diff(line.get_xdata()) > 0).all()
    plt.close(figure)
