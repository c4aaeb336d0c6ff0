"""Names beside points: all there, where there is room, and the legend gone."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import evidence as ev
from evidence import plots


def test_names_hide_no_other_name():
    rng = np.random.default_rng(0)
    figure, ax = plt.subplots(figsize=(7, 5))
    for k, (x, y) in enumerate(rng.uniform(0.2, 0.8, (12, 2))):
        ax.errorbar(x, y, yerr=0.01, fmt="o", label=f"method {k}")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.legend()
    plots.name_points(ax)
    figure.canvas.draw()
    assert ax.get_legend() is None
    assert sorted(t.get_text() for t in ax.texts) == sorted(f"method {k}" for k in range(12))
    boxes = [t.get_window_extent() for t in ax.texts]
    frame = ax.get_window_extent()
    assert all(frame.x0 <= b.x0 and b.x1 <= frame.x1 for b in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    plt.close(figure)


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
