"""Figures that help to choose: models side by side, evidence over hyperparameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..execution.lazy import Axes, Figure
from ..messages import InputError
from ._given import check_drawn, check_table
from ._style import (
    INK,
    LINES,
    MARKERS,
    axes_of,
    bars,
    legend,
    log_ticks,
    new_figure,
    not_too_near,
    short_name,
)

if TYPE_CHECKING:
    from ..numerics.arrays import Array
    from ..results.comparison import Comparison
    from ..results.surface import Surface


_HUGE = 30.0  # nats below the best at which a model only squeezes the others together


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
    bars(ax, table.logz[near], rows[near], None, "D", INK, _kind(table.logz_se), xerr=xerr)
    hollow: dict[str, Any] = {"mfc": "none", "mec": "0.35", "ms": 7, "lw": 0}
    for name, marker in MARKERS.items():
        if name in table:
            label = LINES[name][1]
            ax.plot(table[name][near], rows[near], marker, label=label, **hollow)
    beside = ("axes fraction", "data")
    look: dict[str, Any] = {"xycoords": beside, "va": "center", "fontsize": 8}
    for row, values in zip(rows, table.itertuples(), strict=True):
        if top - values.logz < _HUGE:
            p = values.probability
            extreme = "> 0.999" if p > 0.5 else "< 0.001"
            share = f"= {p:.3f}" if 5e-4 <= p < 0.9995 else extreme
            ax.annotate(f"P {share}", (1.01, row), **look)
        else:
            ax.annotate(f"← {values.logz:.1f}", (0.01, row), color="0.35", **look)
    ax.set_yticks(rows, table.index)
    ax.set(ylim=(-0.6, len(table) - 0.4), xlabel=r"$\log Z$ (nats)", title="Models by evidence")
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    not_too_near(ax.xaxis)
    return legend(ax, fontsize=8)


def _kind(se: ArrayLike) -> str:
    """What numbers with these standard errors are, for a legend."""
    se = np.asarray(se, float)
    if np.isnan(se).all():
        return "an approximation, without error bars"
    return "exact" if np.nanmax(se) < 1e-9 else "Monte Carlo ± 2 se"


def plot_surface(surface: Surface) -> Figure:
    """log Z over two hyperparameters and EP's errors, cell by cell, or curves over one.

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
        return _cells(surface, *free)
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
        bars(ax, table[name], table.logz, 2.0 * table.logz_se, "D", INK, _kind(table.logz_se))
    ax.set(xscale="log", xlabel=short_name(name), ylabel=r"$\log Z$ (nats)", title="Evidence")
    log_ticks(ax.xaxis)
    legend(ax, loc=None)
    return figure


def _cells(surface: Surface, across: str, up: str) -> Figure:
    grid = surface.table.pivot(index=up, columns=across)
    if surface.column == "logz" and np.isfinite(grid.logz_se.to_numpy()).any():
        values = {r"$\log Z$, Monte Carlo": grid.logz}
        errors = {r"EP $-$ Monte Carlo": grid.ep - grid.logz}
        errors |= {r"corrected EP $-$ MC": grid.ep_corrected - grid.logz}
    else:
        values, errors = {"EP, corrected": grid.ep_corrected, "EP": grid.ep}, {}
    reach = max((float(np.nanmax(np.abs(error))) for error in errors.values()), default=0.0)
    panels = len(values) + len(errors)
    figure, axes = new_figure(4.6 * panels, 4, 1, panels)
    x, y = grid.logz.columns.to_numpy(), grid.index.to_numpy()
    for ax, (title, panel) in zip(axes, {**values, **errors}.items(), strict=True):
        z = panel.to_numpy()
        if title in errors:
            scale: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach}
        else:
            top = float(np.nanmax(z))
            scale = {"cmap": "viridis", "vmin": max(float(np.nanmin(z)), top - _HUGE), "vmax": top}
            best = surface.best[across], surface.best[up]
            ax.plot(*best, "s", ms=22, mfc="none", mec="k", mew=2)
            if best[0] in (x[0], x[-1]) or best[1] in (y[0], y[-1]):
                title += "\n(the largest, framed, is on the edge: look further)"
        image = ax.pcolormesh(_edges(x), _edges(y), z, **scale)
        _write(ax, x, y, z, "+.2f" if title in errors else ".1f")
        below = "min" if np.nanmin(z) < scale["vmin"] else "neither"
        figure.colorbar(image, ax=ax, label="nats", format="%.4g", extend=below)
        ax.set(xscale="log", yscale="log", xlabel=short_name(across))
        ax.set_title(title, fontsize="medium")
        log_ticks(ax.xaxis, ax.yaxis)
    axes[0].set_ylabel(short_name(up))
    return figure


def _edges(values: Array) -> Array:
    """Cell borders half-way between the values on a logarithmic axis."""
    logs = np.log(values)
    middle = 0.5 * (logs[1:] + logs[:-1])
    first, last = 1.5 * logs[0] - 0.5 * logs[1], 1.5 * logs[-1] - 0.5 * logs[-2]
    return np.exp(np.concatenate([[first], middle, [last]]))


def _write(ax: Axes, x: Array, y: Array, z: Array, form: str, most: int = 100) -> None:
    """The value in every cell, where there are not more than ``most``."""
    box = {"boxstyle": "round,pad=0.1", "fc": "w", "ec": "none", "alpha": 0.7}
    for j, i in np.argwhere(np.isfinite(z)) if z.size <= most else ():
        words = f"{z[j, i]:{form}}"
        words = words.replace("-", "−") if float(words) else "0"
        ax.text(x[i], y[j], words, ha="center", va="center", fontsize=7, bbox=box)
