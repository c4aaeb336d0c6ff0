"""The figure of a search for hyperparameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._style import INK, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..verbs.optimum import Optimum

_FLOOR = 1e-6  # nats; a logarithmic axis has no zero
_STYLES = ("o-", "s--", "^:", "D-.")


def plot_search(optimum: Optimum, ax: Axes | None = None) -> Axes:
    """Nats below the best against the evaluation, one line per start; crosses are rejected."""
    import matplotlib.pyplot as plt

    if ax is None:
        figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
        plt.close(figure)
    history = optimum.history
    below = (history.objective.max() - history.objective).clip(lower=_FLOOR)
    top = 2.0 * below.max()
    for restart, rows in history.groupby("restart"):
        known = below[rows.index].dropna()
        style = _STYLES[int(restart) % len(_STYLES)]
        ax.plot(
            known.index + 1, known, style, mfc="none", ms=4, lw=1.2, color=INK,
            label=f"start {restart}",
        )  # fmt: skip
    lost = history.index[history.objective.isna()] + 1
    if len(lost):
        ax.plot(lost, [top] * len(lost), "x", color="0.4", ms=6, label="rejected")
    ax.set(
        yscale="log",
        xlabel="evaluation",
        ylabel="nats below the best",
        title=f"Search for hyperparameters, log Z = {optimum.logz:.3f}",
    )
    if history.restart.nunique() > 1 or len(lost):
        ax.legend(frameon=False, ncols=2, fontsize=8)
    return whole_ticks(ax)
