"""Figures of one run, and of many runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ._style import (
    INK,
    LINES,
    MARKER_CYCLE,
    SHADES,
    axes_of,
    distinct,
    legend,
    log_ticks,
    new_figure,
    nothing,
    write,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = Mapping[str, NDArray[np.float64]]


class Estimate(Protocol):
    """A value of log Z and where it comes from."""

    @property
    def method(self) -> str: ...
    @property
    def logz(self) -> float: ...
    @property
    def logz_se(self) -> float: ...


class Timed(Estimate, Protocol):
    """An estimate and what it took."""

    @property
    def seconds(self) -> float: ...


class Run(Estimate, Protocol):
    """A run: its estimates, with the answer last, and their history."""

    @property
    def rows(self) -> Sequence[Timed]: ...
    @property
    def trace_columns(self) -> Columns: ...
    @property
    def history_columns(self) -> Columns: ...
    @property
    def settings(self) -> Mapping[str, object]: ...


def plot_result(result: Run) -> Figure:
    """log Z along β on the left, log Z against time on the right: ``result.plot()``."""
    figure, (left, right) = new_figure(10, 4, 1, 2)
    plot_path(result, left)
    plot_time(result, right)
    return figure


def plot_path(result: Run, ax: Axes) -> Axes:
    """log Z_β along the path from the reference (β = 0) to the posterior (β = 1).

    Parameters
    ----------
    result : EvidenceResult
        Of a Monte Carlo method; :meth:`.EvidenceResult.plot` draws both halves.
    ax : Axes
    """
    trace = result.trace_columns
    if not trace:
        return nothing(ax, "no tempering in this method")
    name = str(result.settings.get("reference", "ep"))
    start = next((row.logz for row in result.rows if row.method == name), 0.0)
    beta = np.append(0.0, trace["beta"])
    logz = np.append(start, trace["logz"])
    se = np.append(0.0, trace["logz_se"])
    ax.fill_between(beta, logz - 2 * se, logz + 2 * se, color=INK, alpha=0.2, lw=0, label="± 2 se")
    ax.plot(beta, logz, "o-", color=INK, ms=3.5, lw=1.2, label=r"$\log Z_\beta$")
    answer = f"{result.logz:.3f} ± {result.logz_se:.3f}"
    write(ax, answer, 1.0, logz[-1], away=(-6, 8), ha="right", color=INK, fontsize="medium")
    origin = {"ep": "EP", "laplace": "Laplace", "prior": "the prior"}.get(name, "the reference")
    ax.set(xlabel=r"inverse temperature $\beta$", ylabel=r"$\log Z_\beta$ (nats)")
    ax.set(title=f"From {origin} to the posterior")
    ax.margins(y=0.15)
    return legend(ax)


def plot_time(result: Run, ax: Axes) -> Axes:
    """The running estimate with its error bar against wall-clock time, beside EP's lines.

    Parameters
    ----------
    result : EvidenceResult
        Of a Monte Carlo method; :meth:`.EvidenceResult.plot` draws both halves.
    ax : Axes
    """
    columns, last = result.history_columns, result.rows[-1]
    seconds, logz, se = (columns.get(name, np.zeros(0)) for name in ("seconds", "logz", "logz_se"))
    if not seconds.size:
        if not math.isfinite(last.logz_se):
            return nothing(ax, "no Monte Carlo in this method")
        seconds, logz, se = np.array([[last.seconds], [last.logz], [last.logz_se]])
    ax.errorbar(
        seconds, logz, yerr=se, fmt="o", color=INK, ms=4, capsize=2.5, lw=1,
        label=f"{result.method} ± se",
    )  # fmt: skip
    # lines further away than this would flatten everything else
    near = 3.0 * max(float(np.ptp(logz)), 6.0 * float(np.nanmax(se, initial=0.0)), 0.5)
    values = {row.method: row.logz for row in result.rows}
    _approximations(ax, values, logz[-1], near)
    ax.set(xlabel="wall-clock time (seconds, EP included)", ylabel=r"$\log Z$ (nats)")
    ax.set(title="Estimate against time")
    ax.set_xlim(left=0.0)
    ax.margins(x=0.1)
    return legend(ax)


def plot_logz_vs_time(
    frame: pd.DataFrame, ax: Axes | None = None, *, published: pd.DataFrame | None = None
) -> Axes:
    """log Z against time for the runs of :func:`evidence.sweep`.

    One point per method, move, ladder and reference: mean over seeds ± one standard deviation
    of single runs, with EP's and corrected EP's values as lines.

    Parameters
    ----------
    frame : DataFrame
        As from :func:`evidence.sweep`, where there is an example.
    ax : Axes, optional
        Where to draw; by default on axes of its own.
    published : DataFrame, optional
        Values from elsewhere, drawn faintly: ``method``, ``ladder``, ``logz``, ``sd``,
        ``seconds``.
    """
    ax = axes_of(ax)
    columns = distinct(frame)
    markers = cycle(MARKER_CYCLE)
    if published is not None:
        ax.errorbar(
            published.seconds, published.logz, yerr=published.sd, fmt="x", color="0.7", ms=5,
            lw=0.8, capsize=2, label="published", zorder=1,
        )  # fmt: skip
        for row in published.itertuples():
            write(ax, row.ladder, row.seconds, row.logz, away=(4, -8), fontsize=6, color="0.6")
    for i, (_, group) in enumerate(frame.groupby(columns, sort=False)):
        points = group.groupby("ladder", sort=False)[["seconds", "logz"]]
        mean = points.mean().sort_values("seconds")
        spread = points.std().logz.reindex(mean.index).fillna(0.0)
        ax.errorbar(
            mean.seconds, mean.logz, yerr=spread, color=SHADES[i % len(SHADES)], ms=5, lw=1,
            fmt=f"{next(markers)}-" if len(mean) > 1 else next(markers), capsize=2.5,
            label=", ".join(str(group[name].iloc[0]) for name in columns),
        )  # fmt: skip
        if frame.ladder.nunique() > 1 and len(mean) > 1:
            for row in mean.itertuples():
                write(ax, row.Index, row.seconds, row.logz)
    values = {name: float(frame[name].iloc[0]) for name in ("ep", "ep_corrected") if name in frame}
    reach = 4.0 * float(frame.logz.std()) + 0.2
    _approximations(ax, values, float(frame.logz.median()), reach)
    ax.set(
        xlabel="wall-clock time (seconds, fitting the reference included)", xscale="log",
        ylabel=r"$\log Z$ (nats), mean ± sd over seeds", title="Estimate against time",
    )  # fmt: skip
    log_ticks(ax.xaxis)
    return legend(ax, fontsize=8)


def _approximations(ax: Axes, values: Mapping[str, float], middle: float, reach: float) -> None:
    """A line for each approximation that is within ``reach`` of ``middle``."""
    for name, (style, label) in LINES.items():
        if name in values and abs(values[name] - middle) < reach:
            ax.axhline(values[name], ls=style, color="0.25", lw=1.2, label=label)
