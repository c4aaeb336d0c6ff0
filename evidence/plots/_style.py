"""What all figures share: readable in black and white, with labels that do not collide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

from ..execution.arguments import shown
from ..messages import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox
    from numpy.typing import ArrayLike

INK = "#1b3a5c"
LINES = {"ep": (":", "EP"), "ep_corrected": ("-", "EP, corrected"), "laplace": ("-.", "Laplace")}
#: 25 apart in CIELAB or more for every kind of colour blindness, where rust and green were 12
SHADES = (INK, "#d55e00", "#2e8b57", "#a05eb5", "0.65")
MARKER_CYCLE = "os^Dv<>pPX*h"
MARKERS = {"ep": "o", "ep_corrected": "s", "laplace": "^"}
_FOR_FILES = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, *, returned: bool = True,
    **options: Any,
) -> tuple[Figure, Any]:  # fmt: skip
    """A figure of so many inches, and its axes.

    It stays open for ``plt.show()``. In a notebook, which shows what is open and what a cell
    returns, a figure that is ``returned`` is closed, so as not to be shown twice; and where
    there is nothing to show it on.
    """
    import matplotlib.pyplot as plt

    options |= {"figsize": (width, height), "layout": "constrained"}
    figure, axes = plt.subplots(rows, columns, **options)
    backend = plt.get_backend().lower()
    if backend in _FOR_FILES or (returned and "inline" in backend):
        plt.close(figure)
    for ax in figure.axes:
        _in_full(ax)
    return figure, axes


def _in_full(ax: Axes) -> None:
    """Ticks as they are, without an offset to be added: log Z of two models may be read off."""
    from matplotlib.ticker import ScalarFormatter

    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(formatter := axis.get_major_formatter(), ScalarFormatter):
            formatter.set_useOffset(False)


def axes_of(ax: Axes | None, width: float = 7.0, height: float = 4.5) -> Axes:
    """``ax``, or those of a new figure."""
    from matplotlib.axes import Axes

    if ax is None:
        return new_figure(width, height, returned=False)[1]
    if not isinstance(ax, Axes):
        raise InputError(f"ax must be one Matplotlib Axes, or None for new ones, got {shown(ax)}")
    _in_full(ax)
    return ax


def looks() -> Iterator[tuple[str, str]]:
    """Markers and shades, never the same pair for long."""
    return zip(cycle(MARKER_CYCLE), cycle(SHADES), strict=False)


def nothing(ax: Axes, reason: str) -> Axes:
    """Empty axes, and why they are."""
    ax.text(0.5, 0.5, reason, ha="center", va="center", transform=ax.transAxes, color="0.4")
    ax.set_axis_off()
    return ax


def legend(ax: Axes, **options: Any) -> Axes:
    """A legend without a frame that hides nothing: beside the axes where there is no room in them,
    or above the data, in two columns, where other panels need the width or a layout is missing
    that would make room."""
    margin = 5.0  # pixels between a legend and what it must not hide
    ax.get_xlim()  # limits that have waited for all data: what is hidden is judged by them
    options = {"frameon": False, "loc": "best", **options}
    figure, legend = ax.get_figure(root=True), ax.legend(**options)
    assert figure is not None
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    if not _hides(ax, legend.get_window_extent().padded(margin)):
        return ax
    if len(figure.axes) == 1 and engine is not None:
        ax.legend(**options | {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": 1})
        return ax
    legend = ax.legend(**options | {"loc": "upper left", "ncols": 2, "fontsize": "small"})
    share = (legend.get_window_extent().height + margin) / ax.get_window_extent().height
    scale, inverse = ax.yaxis.get_transform(), ax.yaxis.get_transform().inverted()
    low, high = scale.transform(ax.get_ylim())
    ax.set_ylim(top=inverse.transform([low + (high - low) / (1.0 - min(share, 0.6))])[0])
    return ax


def _hides(ax: Axes, box: Bbox) -> bool:
    """Whether something of the data is in a box."""
    for line in ax.lines:
        path = line.get_transform().transform_path(line.get_path())
        if line.get_linestyle() == "None":
            path = path.__class__(path.vertices, [path.MOVETO] * len(path))  # points alone
        if path.intersects_bbox(box, filled=False) or box.count_contains(path.vertices):
            return True
    areas = [(c.get_transform(), path) for c in ax.collections for path in c.get_paths()]
    areas += [(patch.get_transform(), patch.get_path()) for patch in ax.patches]
    covered = any(to.transform_path(path).intersects_bbox(box) for to, path in areas)
    return covered or any(box.overlaps(text.get_window_extent()) for text in ax.texts)


def write(
    ax: Axes, text: object, x: float, y: float, *, away: tuple[float, float] = (4, 4), **look: Any
) -> None:
    """A few small words beside a point, ``away`` from it in printer's points."""
    look = {"fontsize": 7, "color": "0.35", **look}
    ax.annotate(str(text), (x, y), xytext=away, textcoords="offset points", **look)


def bars(
    ax: Axes, x: ArrayLike, y: ArrayLike, se: ArrayLike | None, fmt: str, color: str, label: str,
    **look: Any,
) -> None:  # fmt: skip
    """Points with error bars."""
    look = {"ms": 5, "lw": 1.2, "capsize": 2.5, "zorder": 3, **look}
    ax.errorbar(x, y, se, fmt=fmt, color=color, label=label, **look)


def approximations(ax: Axes, values: Mapping[str, float], middle: float, reach: float) -> None:
    """A line for each approximation that is within ``reach`` of ``middle``."""
    for name, (style, label) in LINES.items():
        if name in values and abs(values[name] - middle) < reach:
            ax.axhline(values[name], ls=style, color="0.25", lw=1.2, label=label)


def not_too_near(axis: Axis, least: float = 1e-3) -> None:
    """No axis shorter than so many nats: what is exact differs by rounding alone."""
    ax, (low, high) = axis.axes, axis.get_view_interval()
    if high - low < least:
        middle = 0.5 * (low + high)
        limits = middle - 0.5 * least, middle + 0.5 * least
        ax.set_xlim(limits) if axis is ax.xaxis else ax.set_ylim(limits)


def whole_ticks(ax: Axes) -> Axes:
    """Ticks at whole numbers along x."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    return ax


def log_ticks(*axes: Axis, few: float = 6.0, many: float = 300.0) -> None:
    """Plain numbers on logarithmic axes, however few or many decades they span: in even steps
    where the largest is less than ``few`` times the smallest, powers of ten from ``many`` on."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    for axis in axes:
        low, high = axis.get_view_interval()
        span = high / low if low > 0.0 else many
        subs = (1.0, 2.0, 5.0) if span < many else (1.0,)
        places = MaxNLocator(4) if span < few else LogLocator(subs=subs, numticks=6)
        axis.set_major_locator(places)
        axis.set_major_formatter(FuncFormatter(_short))
        axis.set_minor_formatter(NullFormatter())


def _short(value: float, _: object = None, thousands: float = 1e4) -> str:
    return f"{value / 1000:g}k" if value >= thousands else f"{value:g}"


def short_name(name: str) -> str:
    """The last part of a hyperparameter's name: ``k2__length_scale`` is "length scale"."""
    return name.rpartition("__")[2].replace("_", " ")
