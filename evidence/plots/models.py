"""Figures that help to choose: models side by side, evidence over hyperparameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patheffects import Normal, Stroke

from ..messages import InputError
from ..numerics.arrays import Array
from ._given import check_drawn, check_table
from ._style import INK, LINES, MARKERS, axes_of, bars, legend, log_ticks, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..results.comparison import Comparison
    from ..results.surface import Surface


_LABEL = "Monte Carlo ± 2 se"
_HUGE = 30.0  # nats below the best at which a model only squeezes the others together
_CELLS = 100  # of a map, beyond which values are not written into them


def plot_comparison(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """log Z of every model with its error bar (± 2 se), the best at the top.

    Hollow markers are the approximations. Models more than 30 nats below the best are drawn at
    the edge, with their values as text.

    Parameters
    ----------
    comparison : Comparison
        Of :func:`evidence.compare`; ``comparison.plot()`` is the same.
    ax : Axes, optional
        Where to draw; by default on axes of its own.
    """
    check_drawn("comparison", comparison, "a result of ev.compare", "table")
    table = comparison.table
    check_table("comparison.table", table, "logz", "logz_se", "probability")
    ax = axes_of(ax, 7, 1.2 + 0.5 * len(table))
    top = float(table.logz.max())
    rows = np.arange(len(table))[::-1]
    near = (top - table.logz < _HUGE).to_numpy()
    xerr = 2.0 * table.logz_se[near]
    bars(ax, table.logz[near], rows[near], None, "D", INK, _LABEL, xerr=xerr)
    hollow: dict[str, Any] = {"mfc": "none", "mec": "0.35", "ms": 7, "lw": 0}
    for name, marker in MARKERS.items():
        if name in table:
            label = LINES[name][1]
            ax.plot(table[name][near], rows[near], marker, label=label, **hollow)
    look: dict[str, Any] = {"va": "center", "fontsize": 8}
    left = ax.get_xlim()[0]
    for row, values in zip(rows, table.itertuples(), strict=True):
        if top - values.logz < _HUGE:
            share = f"P = {values.probability:.3f}" if values.probability >= 5e-4 else "P < 0.001"
            ax.annotate(share, (1.01, row), xycoords=("axes fraction", "data"), **look)
        else:
            answer = f"← {values.logz:.1f} ± {values.logz_se:.2g}"
            ax.annotate(answer, (left, row), color="0.35", **look)
    ax.set_yticks(rows, table.index)
    ax.set(ylim=(-0.6, len(table) - 0.4), xlabel=r"$\log Z$ (nats)", title="Models by evidence")
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    return legend(ax, fontsize=8)


def plot_surface(surface: Surface) -> Figure:
    """Contours of log Z over two hyperparameters and of EP's errors, or curves over one.

    Parameters
    ----------
    surface : Surface
        Of :func:`evidence.evidence_surface`; ``surface.plot()`` is the same.
    """
    check_drawn("surface", surface, "a result of ev.evidence_surface", "column", "best", "names")
    surface.best  # noqa: B018  (an error where there is nothing to draw)
    free = [name for name in surface.names if surface.table[name].nunique() > 1]
    if len(free) == 1:
        return _curves(surface, free[0])
    if len(free) == 2:
        return _contours(surface, *free)
    raise InputError(
        f"a picture needs one or two hyperparameters that vary, got {len(free)}: "
        f"{', '.join(surface.names)}; choose a slice of surface.table"
    )


def _curves(surface: Surface, name: str) -> Figure:
    table = surface.table.sort_values(name)
    figure, ax = new_figure(7, 4.5)
    for column in ("ep", "ep_corrected"):
        line, label = LINES[column]
        ax.plot(table[name], table[column], line, color="0.35", label=label)
    if table.logz.notna().any():
        bars(ax, table[name], table.logz, 2.0 * table.logz_se, "D", INK, _LABEL)
    ax.set(xscale="log", xlabel=short_name(name), ylabel=r"$\log Z$ (nats)", title="Evidence")
    log_ticks(ax.xaxis)
    legend(ax, loc=None)
    return figure


def _contours(surface: Surface, across: str, up: str) -> Figure:
    grid = surface.table.pivot(index=up, columns=across)
    if surface.column == "logz":
        values = {r"$\log Z$, Monte Carlo": grid.logz}
        errors = {
            r"EP $-$ Monte Carlo": grid.ep - grid.logz,
            r"corrected EP $-$ MC": grid.ep_corrected - grid.logz,
        }
    else:
        values, errors = {"EP, corrected": grid.ep_corrected, "EP": grid.ep}, {}
    reach = max((float(np.nanmax(np.abs(error))) for error in errors.values()), default=0.0)
    panels = len(values) + len(errors)
    figure, axes = new_figure(4.6 * panels, 4, 1, panels)
    x, y = grid.logz.columns.to_numpy(), grid.index.to_numpy()
    for ax, (title, panel) in zip(axes, {**values, **errors}.items(), strict=True):
        z = panel.to_numpy()
        if title in errors:
            image = ax.pcolormesh(_edges(x), _edges(y), z, cmap="RdBu_r", vmin=-reach, vmax=reach)
            _write(ax, x, y, z)
        else:
            levels = _levels(z)
            image = ax.contourf(x, y, z, levels=levels, cmap="viridis", extend="min")
            lines = ax.contour(x, y, z, levels=levels, colors="w", linewidths=0.6, linestyles="-")
            for text in ax.clabel(lines, fmt="%.1f", fontsize=7, colors="k"):
                text.set_path_effects([Stroke(linewidth=2.0, foreground="w"), Normal()])
            best = surface.best[across], surface.best[up]
            ax.plot(*best, "*", color="w", mec="k", ms=13, label="largest", clip_on=False)
            legend(ax, frameon=True, fontsize=8)
        figure.colorbar(image, ax=ax, label="nats", format="%.4g")
        ax.set(xscale="log", yscale="log", xlabel=short_name(across), title=title)
        log_ticks(ax.xaxis, ax.yaxis)
    axes[0].set_ylabel(short_name(up))
    return figure


def _edges(values: Array) -> Array:
    """Cell borders half-way between the values on a logarithmic axis."""
    logs = np.log(values)
    middle = 0.5 * (logs[1:] + logs[:-1])
    first, last = 1.5 * logs[0] - 0.5 * logs[1], 1.5 * logs[-1] - 0.5 * logs[-2]
    return np.exp(np.concatenate([[first], middle, [last]]))


def _levels(z: Array) -> Array:
    """Levels that grow apart below the top, where the interest is."""
    top, bottom = float(np.nanmax(z)), float(np.nanmin(z))
    drops = np.array([0.5, 1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 200, 500, 1000, 2000, 5000])
    drops = drops[drops < max(1.5 * (top - bottom), 1.0)]
    top = np.ceil(top * 10.0) / 10.0
    return np.append(np.sort(top - drops), top)


def _write(ax: Axes, x: Array, y: Array, z: Array) -> None:
    """The value in every cell, where there are not too many."""
    box = {"boxstyle": "round,pad=0.1", "fc": "w", "ec": "none", "alpha": 0.7}
    for j, i in np.argwhere(np.isfinite(z)) if z.size <= _CELLS else ():
        ax.text(x[i], y[j], f"{z[j, i]:+.2f}", ha="center", va="center", fontsize=7, bbox=box)
