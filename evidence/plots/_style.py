"""What all figures share: readable in black and white."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1b3a5c"
LINES = {"ep": (":", "EP"), "ep_corrected": ("-", "EP, corrected"), "laplace": ("-.", "Laplace")}
MARKERS = {"ep": "o", "ep_corrected": "s", "laplace": "^"}


def nothing(ax: Axes, reason: str) -> Axes:
    ax.text(0.5, 0.5, reason, ha="center", va="center", transform=ax.transAxes, color="0.4")
    ax.set_axis_off()
    return ax


def whole_ticks(ax: Axes) -> Axes:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    return ax
