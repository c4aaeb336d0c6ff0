"""Names of points where they stand, in place of a legend of twenty entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._style import axes_of

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
