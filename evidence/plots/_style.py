"""What all figures share: readable in black and white."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

INK = "#1b3a5c"
LINES = {"ep": (":", "EP"), "ep_corrected": ("-", "EP, corrected"), "laplace": ("-.", "Laplace")}
SHADES = (INK, "#b5542a", "#4d7c4a", "#7a5195", "0.45")
_MANY = 300.0  # from such a span on, powers of ten are labels enough
MARKER_CYCLE = "os^Dv<>pPX*h"
MARKERS = {"ep": "o", "ep_corrected": "s", "laplace": "^"}


def nothing(ax: Axes, reason: str) -> Axes:
    ax.text(0.5, 0.5, reason, ha="center", va="center", transform=ax.transAxes, color="0.4")
    ax.set_axis_off()
    return ax


def whole_ticks(ax: Axes) -> Axes:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    return ax


def told(frame: pd.DataFrame) -> list[str]:
    """The columns that tell runs apart, for legends."""
    names = [n for n in ("method", "move", "reference") if n in frame]
    return [n for n in names if frame[n].nunique() > 1] or names[1:2] or ["method"]


def log_ticks(ax: Axes, which: str = "both") -> Axes:
    """Logarithmic axes whose labels do not run into each other, however few decades they span."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for name in ("x", "y") if which == "both" else (which,):
        axis = getattr(ax, f"{name}axis")
        low, high = axis.get_view_interval()
        few = low > 0.0 and high / low < _MANY
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=6))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    return ax
