"""Figures that help to choose: models side by side, evidence over hyperparameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..messages import InputError
from ._style import INK, LINES, MARKERS, log_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..verbs.compare import Comparison
    from ..verbs.surface import Surface

_HUGE = 30.0  # nats below the best at which a model only squeezes the others together


def plot_comparison(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """log Z of every model with its error bar (± 2 se), the best at the top.

    Hollow markers are the approximations. Models more than 30 nats below the best are drawn at
    the edge, with their values in words.

    Parameters
    ----------
    comparison : Comparison
        Of :func:`evidence.compare`; ``comparison.plot()`` is the same.
    ax : Axes, optional
        Where to draw; by default on axes of its own.
    """
    import matplotlib.pyplot as plt

    table = comparison.table
    if ax is None:
        figure, ax = plt.subplots(figsize=(7, 1.2 + 0.5 * len(table)), layout="constrained")
        plt.close(figure)
    top = float(table.logz.max())
    rows = np.arange(len(table))[::-1]
    near = (top - table.logz < _HUGE).to_numpy()
    ax.errorbar(
        table.logz[near], rows[near], xerr=2.0 * table.logz_se[near], fmt="D", color=INK, ms=5,
        capsize=3, lw=1.2, label="Monte Carlo ± 2 se", zorder=3,
    )  # fmt: skip
    for name, marker in MARKERS.items():
        if name in table:
            ax.plot(
                table[name][near], rows[near], marker, mfc="none", mec="0.35", ms=7, lw=0,
                label=LINES[name][1],
            )  # fmt: skip
    left = ax.get_xlim()[0]
    for row, (_, values) in zip(rows, table.iterrows(), strict=True):
        if top - values.logz < _HUGE:
            told = f"P = {values.probability:.3f}" if values.probability >= 5e-4 else "P < 0.001"
            ax.annotate(
                told, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=8
            )
        else:
            ax.annotate(
                f"← {values.logz:.1f} ± {values.logz_se:.2g}", (left, row), va="center",
                fontsize=8, color="0.35",
            )  # fmt: skip
    ax.set_yticks(rows, table.index)
    ax.set(ylim=(-0.6, len(table) - 0.4), xlabel=r"$\log Z$ (nats)", title="Models by evidence")
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize=8, loc="best")
    return ax


def plot_surface(surface: Surface) -> Figure:
    """Contours of log Z over two hyperparameters and of EP's errors, or curves over one.

    Parameters
    ----------
    surface : Surface
        Of :func:`evidence.evidence_surface`; ``surface.plot()`` is the same.
    """
    surface.best  # noqa: B018  (says what is wrong where no cell is known)
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
    import matplotlib.pyplot as plt

    table = surface.table.sort_values(name)
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for column in ("ep", "ep_corrected"):
        style, label = LINES[column]
        ax.plot(table[name], table[column], style, color="0.35", label=label)
    if table.logz.notna().any():
        ax.errorbar(
            table[name], table.logz, yerr=2.0 * table.logz_se, fmt="D", color=INK, ms=4,
            capsize=3, lw=1.2, label="Monte Carlo ± 2 se",
        )  # fmt: skip
    ax.set(xscale="log", xlabel=_short(name), ylabel=r"$\log Z$ (nats)", title="Evidence")
    log_ticks(ax, "x")
    ax.legend(frameon=False)
    plt.close(figure)
    return figure


def _contours(surface: Surface, across: str, up: str) -> Figure:
    import matplotlib.pyplot as plt

    table = surface.table
    panels = {surface.column: _title(surface.column)}
    if surface.column == "logz":
        table = table.assign(
            ep_error=table.ep - table.logz, corrected_error=table.ep_corrected - table.logz
        )
        panels |= {"ep_error": r"EP $-$ Monte Carlo", "corrected_error": r"corrected EP $-$ MC"}
    else:
        panels |= {"ep": "EP"}
    grids = {column: table.pivot(index=up, columns=across, values=column) for column in panels}
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.6 * len(panels), 4), layout="constrained"
    )
    errors = [np.abs(g.to_numpy()) for column, g in grids.items() if column.endswith("error")]
    reach = max((float(np.nanmax(e)) for e in errors), default=0.0)
    for ax, (column, title) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        grid = grids[column]
        x, y, z = grid.columns.to_numpy(), grid.index.to_numpy(), grid.to_numpy()
        if column.endswith("error"):
            image = ax.pcolormesh(_edges(x), _edges(y), z, cmap="RdBu_r", vmin=-reach, vmax=reach)
            _write(ax, x, y, z, "{:+.2f}")
        else:
            levels = _levels(z)
            image = ax.contourf(x, y, z, levels=levels, cmap="viridis", extend="min")
            lines = ax.contour(x, y, z, levels=levels, colors="w", linewidths=0.6)
            ax.clabel(lines, fmt="%.1f", fontsize=7)
            best = surface.best
            ax.plot(best[across], best[up], "*", color="w", mec="k", ms=13, label="largest",
                clip_on=False)  # fmt: skip
            ax.legend(frameon=True, fontsize=8, loc="best")
        figure.colorbar(image, ax=ax, label="nats", format="%.4g")
        ax.set(xscale="log", yscale="log", xlabel=_short(across), title=title)
        log_ticks(ax)
    np.atleast_1d(axes)[0].set_ylabel(_short(up))
    plt.close(figure)
    return figure


def _short(name: str) -> str:
    return name.rpartition("__")[2].replace("_", " ")


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cell borders half-way between the values on a logarithmic axis."""
    logs = np.log(values)
    middle = 0.5 * (logs[1:] + logs[:-1])
    first, last = 1.5 * logs[0] - 0.5 * logs[1], 1.5 * logs[-1] - 0.5 * logs[-2]
    return np.exp(np.concatenate([[first], middle, [last]]))


def _title(column: str) -> str:
    return {"logz": r"$\log Z$, Monte Carlo", "ep_corrected": "EP, corrected"}[column]


def _levels(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Levels that grow apart below the top, where the interest is."""
    top, bottom = float(np.nanmax(z)), float(np.nanmin(z))
    drops = np.array([0.5, 1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 200, 500, 1000, 2000, 5000])
    drops = drops[drops < max(1.5 * (top - bottom), 1.0)]
    top = np.ceil(top * 10.0) / 10.0
    return np.append(np.sort(top - drops), top)


def _write(
    ax: Axes,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    z: NDArray[np.float64],
    form: str,
) -> None:
    if z.size > 100:
        return
    for j, row in enumerate(z):
        for i, value in enumerate(row):
            if np.isfinite(value):
                ax.text(x[i], y[j], form.format(value), ha="center", va="center", fontsize=7,
                        bbox={"boxstyle": "round,pad=0.1", "fc": "w", "ec": "none",
                              "alpha": 0.7})  # fmt: skip
