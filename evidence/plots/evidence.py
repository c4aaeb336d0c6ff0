"""Figures of one run, and of many runs side by side."""

from __future__ import annotations

import math
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from ._style import INK, LINES, MARKER_CYCLE, SHADES, log_ticks, nothing, told

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..results.evidence import Estimate, EvidenceResult


def plot_result(result: EvidenceResult) -> Figure:
    """log Z along β on the left, log Z against time on the right: ``result.plot()``."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    plot_path(result, left)
    plot_time(result, right)
    plt.close(figure)  # the caller has the figure; no window should pop up for it later
    return figure


def plot_path(result: EvidenceResult, ax: Axes) -> Axes:
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
    beta = np.concatenate([[0.0], trace["beta"]])
    logz = np.concatenate([[_start(result)], trace["logz"]])
    se = np.concatenate([[0.0], trace["logz_se"]])
    ax.fill_between(beta, logz - 2 * se, logz + 2 * se, color=INK, alpha=0.2, lw=0, label="± 2 se")
    ax.plot(beta, logz, "o-", color=INK, ms=3.5, lw=1.2, label=r"$\log Z_\beta$")
    ax.annotate(
        f"{result.logz:.3f} ± {result.logz_se:.3f}",
        (1.0, logz[-1]),
        xytext=(-6, 8),
        textcoords="offset points",
        ha="right",
        color=INK,
    )
    ax.set(
        xlabel=r"inverse temperature $\beta$",
        ylabel=r"$\log Z_\beta$ (nats)",
        title=f"From {_name(result)} to the posterior",
    )
    ax.margins(y=0.15)
    ax.legend(frameon=False, loc="best")
    return ax


def plot_time(result: EvidenceResult, ax: Axes) -> Axes:
    """The running estimate with its error bar against wall-clock time, beside EP's lines.

    Parameters
    ----------
    result : EvidenceResult
        Of a Monte Carlo method; :meth:`.EvidenceResult.plot` draws both halves.
    ax : Axes
    """
    history = result.history_columns
    rows = {row.method: row for row in result.rows}
    if not history or not history["seconds"].size:
        last = result.rows[-1]
        if not math.isfinite(last.logz_se):
            return nothing(ax, "no Monte Carlo in this method")
        history = {
            "seconds": np.array([last.seconds]),
            "logz": np.array([last.logz]),
            "logz_se": np.array([last.logz_se]),
        }
    ax.errorbar(
        history["seconds"],
        history["logz"],
        yerr=history["logz_se"],
        fmt="o",
        color=INK,
        ms=4,
        capsize=2.5,
        lw=1,
        label=f"{result.method} ± se",
    )
    for method, (style, label) in LINES.items():
        if method in rows and _in_sight(rows[method], history["logz"], history["logz_se"]):
            ax.axhline(rows[method].logz, ls=style, color="0.25", lw=1.2, label=label)
    ax.set(
        xlabel="wall-clock time (seconds, EP included)",
        ylabel=r"$\log Z$ (nats)",
        title="Estimate against time",
    )
    ax.set_xlim(left=0.0)
    ax.margins(x=0.1)
    ax.legend(frameon=False, loc="best")
    return ax


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
    import matplotlib.pyplot as plt

    if ax is None:
        figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
        plt.close(figure)
    columns = told(frame)
    markers = cycle(MARKER_CYCLE)
    if published is not None:
        _faintly(published, ax)
    for i, (_, group) in enumerate(frame.groupby(columns, sort=False)):
        points = group.groupby("ladder", sort=False)[["seconds", "logz"]]
        mean = points.mean().sort_values("seconds")
        spread = points.std().logz.reindex(mean.index).fillna(0.0)
        ax.errorbar(
            mean.seconds,
            mean.logz,
            yerr=spread,
            fmt=f"{next(markers)}-" if len(mean) > 1 else next(markers),
            color=SHADES[i % len(SHADES)],
            ms=5,
            lw=1,
            capsize=2.5,
            label=", ".join(str(group[name].iloc[0]) for name in columns),
        )
        if frame.ladder.nunique() > 1 and len(mean) > 1:
            for ladder, row in mean.iterrows():
                ax.annotate(
                    str(ladder),
                    (row.seconds, row.logz),
                    xytext=(4, 4),
                    textcoords="offset points",
                    fontsize=7,
                    color="0.35",
                )
    middle, reach = float(frame.logz.median()), 4.0 * float(frame.logz.std()) + 0.2
    for name in ("ep", "ep_corrected"):
        if name not in frame:
            continue
        style, label = LINES[name]
        value = float(frame[name].iloc[0])
        if abs(value - middle) < reach:
            ax.axhline(value, ls=style, color="0.25", lw=1.2, label=label)
    ax.set(
        xlabel="wall-clock time (seconds, fitting the reference included)",
        ylabel=r"$\log Z$ (nats), mean ± sd over seeds",
        xscale="log",
        title="Estimate against time",
    )
    log_ticks(ax, "x")
    ax.legend(frameon=False, loc="best", fontsize=8)
    return ax


def _faintly(published: pd.DataFrame, ax: Axes) -> None:
    ax.errorbar(
        published.seconds, published.logz, yerr=published.sd, fmt="x", color="0.7", ms=5, lw=0.8,
        capsize=2, label="published", zorder=1,
    )  # fmt: skip
    for _, row in published.iterrows():
        ax.annotate(
            str(row.ladder), (row.seconds, row.logz), xytext=(4, -8),
            textcoords="offset points", fontsize=6, color="0.6",
        )  # fmt: skip


def _name(result: EvidenceResult) -> str:
    return {"ep": "EP", "laplace": "Laplace", "prior": "the prior"}.get(
        result.settings.get("reference", ""), "the reference"
    )


def _start(result: EvidenceResult) -> float:
    """log Z of the reference, where the path begins."""
    name = result.settings.get("reference", "ep")
    return next((row.logz for row in result.rows if row.method == name), 0.0)


def _in_sight(row: Estimate, logz: np.ndarray, se: np.ndarray) -> bool:
    """Whether a line is near enough not to flatten everything else."""
    spread = max(float(np.ptp(logz)), 6.0 * float(np.nanmax(se, initial=0.0)), 0.5)
    return bool(abs(row.logz - logz[-1]) < 3.0 * spread)
