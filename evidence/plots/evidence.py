"""Figures of one run: log Z along its path, and as time went by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ._style import INK, approximations, bars, legend, new_figure, nothing, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = dict[str, NDArray[np.float64]]


class Run(Protocol):
    """What is drawn of a run: its estimates, the answer last, and their history."""

    method: str
    logz: float
    logz_se: float
    rows: tuple[Any, ...]
    trace_columns: Columns
    history_columns: Columns
    islands: NDArray[np.float64]
    settings: dict[str, Any]


def plot_result(result: Run) -> Figure:
    """How log Z came about on the left, log Z against time on the right: ``result.plot()``.

    That is log Z along β, or island by island where nothing was tempered.
    """
    figure, (left, right) = new_figure(10, 4, 1, 2)
    if len(result.trace_columns.get("beta", ())) == 1 and result.islands.size > 1:
        plot_islands(result, left)
    else:
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


def plot_islands(result: Run, ax: Axes) -> Axes:
    """Every island's own estimate, and that of all so far with twice its standard error.

    Parameters
    ----------
    result : EvidenceResult
        Of a method in independent islands.
    ax : Axes
    """
    logz, number = result.islands, np.arange(1, result.islands.size + 1)
    top = logz.max()
    w = np.exp(logz - top)
    mean = np.cumsum(w) / number
    variance = np.maximum(np.cumsum(w**2) / number - mean**2, 0.0)
    far, se = top + np.log(mean), np.sqrt(variance / np.maximum(number - 1, 1)) / mean
    later = number > 3  # before that nothing is known of the spread
    low, high = (far - 2.0 * se)[later], (far + 2.0 * se)[later]
    ax.fill_between(number[later], low, high, color=INK, alpha=0.2, lw=0, label="± 2 se")
    ax.plot(number, far, color=INK, lw=1.2, label="all so far")
    ax.plot(number, logz, "o", color="0.55", ms=3.5, zorder=1, label="each island")
    near = 3.0 * max(float(np.ptp(logz)), 6.0 * result.logz_se)
    approximations(ax, {row.method: row.logz for row in result.rows}, result.logz, near)
    answer = f"{result.logz:.3f} ± {result.logz_se:.3f}"
    ax.set(xlabel="islands", ylabel=r"$\log Z$ (nats)", title=f"Independent islands: {answer}")
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
    bars(ax, seconds, logz, se, "o", INK, f"{result.method} ± se")
    # lines further away than this would flatten everything else
    near = 3.0 * max(float(np.ptp(logz)), 6.0 * float(np.nanmax(se, initial=0.0)), 0.5)
    values = {row.method: row.logz for row in result.rows}
    approximations(ax, values, logz[-1], near)
    ax.set(xlabel="wall-clock time (seconds, EP included)", ylabel=r"$\log Z$ (nats)")
    ax.set(title="Estimate against time")
    ax.set_xlim(left=0.0)
    ax.margins(x=0.1)
    return legend(ax)
