"""Figures of papers alone: names beside points hide no other name, moves are sorted."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from scripts import drawing


def test_names_hide_no_other_name():
    rng = np.random.default_rng(0)
    figure, ax = plt.subplots(figsize=(7, 5))
    for k, (x, y) in enumerate(rng.uniform(0.2, 0.8, (12, 2))):
        ax.errorbar(x, y, yerr=0.01, fmt="o", label=f"method {k}")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.legend()
    drawing.name_points(ax)
    figure.canvas.draw()
    assert ax.get_legend() is None
    assert sorted(t.get_text() for t in ax.texts) == sorted(f"method {k}" for k in range(12))
    boxes = [t.get_window_extent() for t in ax.texts]
    frame = ax.get_window_extent()
    assert all(frame.x0 <= b.x0 and b.x1 <= frame.x1 for b in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    plt.close(figure)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_moves_are_sorted_and_beside_published_rates(ax):
    frame = pd.DataFrame(
        {"move": ["pcn", "mgrad"], "rate": [3.0, 900.0], "rate_sd": [5.0, 20.0],
         "published": [np.nan, 100.0], "published_sd": [np.nan, 10.0]}
    )  # fmt: skip
    drawing.plot_moves(frame, ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["pcn", "mgrad"]
    lower = min(line.get_xdata().min() for c in ax.containers for line in c.lines[1])
    assert lower > 0.0  # bars end before zero


def test_ess_against_acceptance_averages_runs(ax):
    frame = pd.DataFrame(
        {"move": "m", "target": [0.5, 0.5], "acceptance": [0.4, 0.6], "ess": [100.0, 300.0]}
    )
    drawing.plot_ess_vs_acceptance(frame, ax)
    np.testing.assert_allclose(ax.containers[0].lines[0].get_xydata(), [[0.5, 200.0]])
