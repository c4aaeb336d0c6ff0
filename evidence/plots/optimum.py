"""The figure of a search for hyperparameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ._style import INK, axes_of, legend, whole_ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_FLOOR = 1e-6  # nats; a logarithmic axis has no zero
_STYLES = ("o-", "s--", "^:", "D-.")


class Search(Protocol):
    """Where a search was, and how high it came."""

    @property
    def history(self) -> pd.DataFrame: ...
    @property
    def logz(self) -> float: ...


def plot_search(optimum: Search, ax: Axes | None = None) -> Axes:
    """Nats below the best against the evaluation, one line per start; crosses are rejected."""
    ax = axes_of(ax, 6, 4)
    history = optimum.history
    below = (history.objective.max() - history.objective).clip(lower=_FLOOR)
    top = 2.0 * below.max()
    for restart, rows in history.groupby("restart"):
        values = below[rows.index].dropna()
        style = _STYLES[int(restart) % len(_STYLES)]
        ax.plot(
            values.index + 1, values, style, mfc="none", ms=4, lw=1.2, color=INK,
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
        legend(ax, ncols=2, fontsize=8)
    return whole_ticks(ax)
