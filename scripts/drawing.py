"""Figures of papers alone: names beside points, moves side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evidence.plots._style import INK, axes_of, bars, legend, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: where a name may stand, in printer's points from its point
_PLACES = [
    ((sign * across, up), "left" if sign > 0 else "right")
    for across, ups in [
        (7, (0, 5, -5, 10, -10)),
        (12, (16, -16, 22, -22)),
        (20, (30, -30, 40, -40, 55, -55, 75, -75, 95, -95)),
    ]
    for up in ups
    for sign in (1, -1)
]


def name_points(ax: Axes, **look: Any) -> Axes:
    """The names of a legend beside their points, in their colours, where they hide least.

    Of a series it is the point with most room; a thin line leads there from a name further away.
    The figure must have its size and limits: call this last.

    Parameters
    ----------
    ax : Axes
        With points that have error bars and labels; a legend on it is taken away.
    **look
        Of the text, as for Matplotlib's ``annotate``: ``fontsize=7``.
    """
    from matplotlib.container import ErrorbarContainer
    from matplotlib.transforms import Bbox

    ax = axes_of(ax)
    figure = ax.get_figure(root=True)
    if (old := ax.get_legend()) is not None:
        old.remove()
    assert figure is not None
    figure.draw_without_rendering()
    frame, scale = ax.get_window_extent(), figure.dpi / 72.0
    series = [
        (label, handle[0])
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
        if isinstance(handle, ErrorbarContainer)
    ]
    points = {
        label: [p for p in ax.transData.transform(line.get_xydata()) if frame.contains(*p)]
        for label, line in series
    }
    taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for p in points.values() for x, y in p]
    taken += [text.get_window_extent() for text in ax.texts]
    look = {"fontsize": 7, "annotation_clip": False, **look}
    for label, line in series:
        best: tuple[float, Any, Any] | None = None
        for x, y in points[label]:
            for away, side in _PLACES:
                text = ax.annotate(
                    label, (x, y), xycoords="figure pixels", xytext=away, ha=side, va="center",
                    textcoords="offset points", color=line.get_color(), **look,
                )  # fmt: skip
                box = text.get_window_extent()
                text.remove()
                hidden = sum(_overlap(box, other) for other in taken)
                outside = box.width * box.height - _overlap(box, frame)
                cost = 3.0 * hidden + 4.0 * outside + 6.0 * scale * abs(away[0] + 1j * away[1])
                if best is None or cost < best[0]:
                    best = cost, box, (ax.transData.inverted().transform((x, y)), away, side)
        if best is not None:
            _, box, (point, away, side) = best
            far = abs(away[0] + 1j * away[1]) > 12.0
            arrow = (
                dict(arrowstyle="-", lw=0.4, color=line.get_color(), shrinkB=2) if far else None
            )
            ax.annotate(
                label, point, xytext=away, textcoords="offset points", ha=side, va="center",
                color=line.get_color(), arrowprops=arrow, **look,
            ).set_in_layout(False)  # fmt: skip
            taken.append(box)
    return ax


def _overlap(one: Any, other: Any) -> float:
    """The area that two boxes share."""
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    high = min(one.y1, other.y1) - max(one.y0, other.y0)
    return max(wide, 0.0) * max(high, 0.0)


def plot_moves(frame: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Smallest effective sample size per second of every move, the best at the top.

    Parameters
    ----------
    frame : DataFrame
        ``move``, ``rate`` and ``rate_sd`` (its standard deviation over repeats); and
        ``published`` and ``published_sd`` for values from elsewhere, drawn hollow.
    ax : Axes, optional

    Examples
    --------
    >>> import pandas as pd
    >>> import matplotlib.pyplot as plt
    >>> frame = pd.DataFrame({"move": ["mgrad", "pcn"], "rate": [900, 20], "rate_sd": [50, 4]})
    >>> ax = plot_moves(frame, plt.figure().gca())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['pcn', 'mgrad']
    """
    ax, frame = axes_of(ax), frame.sort_values("rate")
    rows = np.arange(len(frame))
    if "published" in frame:
        given = frame.published.notna().to_numpy()
        bars(
            ax, frame.published[given], rows[given], None, "o", "0.5", "published",
            xerr=_on_log(frame, "published")[:, given], mfc="none", ms=6, lw=1, zorder=2,
        )  # fmt: skip
    xerr = _on_log(frame, "rate")
    bars(ax, frame.rate, rows, None, "D", INK, "here", xerr=xerr)
    ax.set_yticks(rows, frame.move)
    ax.set(xscale="log", xlabel="smallest effective sample size per second")
    ax.set_ylim(-0.6, len(frame) - 0.4)
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    return legend(ax, fontsize=8, loc="lower right")


def _on_log(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Lengths of bars that stay on a logarithmic axis, (2, rows)."""
    value, sd = frame[name].to_numpy(float), frame[f"{name}_sd"].fillna(0.0).to_numpy(float)
    return np.array([np.minimum(sd, 0.8 * value), sd])


def plot_ess_vs_acceptance(frame: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Effective sample size against acceptance rate, one line per move.

    Parameters
    ----------
    frame : DataFrame
        ``move``, ``target`` (what was tuned for), ``acceptance`` and ``ess`` of each run; runs
        of one move and target are averaged, bars are standard errors of the mean.
    ax : Axes, optional

    Examples
    --------
    >>> import pandas as pd
    >>> import matplotlib.pyplot as plt
    >>> frame = pd.DataFrame({
    ...     "move": "mgrad", "target": [0.3, 0.3, 0.6, 0.6],
    ...     "acceptance": [0.29, 0.31, 0.6, 0.61], "ess": [300.0, 320, 500, 480],
    ... })
    >>> ax = plot_ess_vs_acceptance(frame, plt.figure().gca())
    """
    ax, groups = axes_of(ax), frame.groupby("move", sort=False)
    for (marker, shade), (name, runs) in zip(looks(), groups, strict=False):
        cells = runs.groupby("target")
        mean = cells[["acceptance", "ess"]].mean()
        se = cells.ess.std().fillna(0.0) / np.sqrt(cells.size())
        bars(ax, mean.acceptance, mean.ess, se, f"{marker}-", shade, str(name))
    ax.set(xlabel="acceptance rate", ylabel="effective sample size", xlim=(0, 1), ylim=(0, None))
    return legend(ax)
