"""Figures of one run: log Z along its path, and as time went by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..execution.lazy import Axes, Figure
from ._given import check_drawn
from ._style import (
    INK,
    LINES,
    approximations,
    axes_of,
    bars,
    legend,
    log_ticks,
    new_figure,
    not_too_near,
    nothing,
    whole_ticks,
    write,
)

if TYPE_CHECKING:
    from ..results.evidence import EvidenceResult

_ALIKE = "too few islands, or none unlike another"


def _check(result: EvidenceResult) -> None:
    parts = "rows", "trace_columns", "history_columns", "islands"
    check_drawn("result", result, "an EvidenceResult", *parts)


def plot_result(result: EvidenceResult) -> Figure:
    """How log Z came about: ``result.plot()``.

    Of tempered runs log Z along β and against time; elsewhere log Z island by island, and its
    error against draws.
    """
    _check(result)
    figure, (left, right) = new_figure(10, 4, 1, 2)
    if len(result.trace_columns.get("beta", ())) == 1 and result.islands.size > 1:
        plot_islands(result, left)
        plot_error(result, right)
    else:
        plot_path(result, left)
        plot_time(result, right)
    return figure


def plot_path(result: EvidenceResult, ax: Axes | None = None) -> Axes:
    """log Z_β along the path from the reference (β = 0) to the posterior (β = 1).

    Parameters
    ----------
    result : EvidenceResult
        Of a Monte Carlo method; :meth:`.EvidenceResult.plot` draws both halves.
    ax : Axes, optional
    """
    _check(result)
    ax, trace = axes_of(ax), result.trace_columns
    if not trace:
        return nothing(ax, "no tempering in this method")
    name = str(result.settings.get("reference", "ep"))
    known = [row.logz for row in result.rows if row.method == name][:1]
    start = [0.0] if name == "prior" else known
    beta = np.append(np.zeros(len(start)), trace["beta"])
    logz = np.append(start, trace["logz"])
    se = np.append(np.zeros(len(start)), trace["logz_se"])
    ax.fill_between(beta, logz - 2 * se, logz + 2 * se, color=INK, alpha=0.2, lw=0, label="± 2 se")
    ax.plot(beta, logz, "o-", color=INK, ms=3.5, lw=1.2, label=r"$\log Z_\beta$")
    origin = {"ep": "EP", "laplace": "Laplace", "prior": "the prior"}.get(name, "the reference")
    ax.set(xlabel=r"inverse temperature $\beta$", ylabel=r"$\log Z_\beta$ (nats)")
    ax.set(title=rf"From {origin} to the posterior: $\log Z$ = {_answer(result)}")
    ax.margins(y=0.15)
    return legend(ax)


def plot_islands(result: EvidenceResult, ax: Axes | None = None) -> Axes:
    """Every island's own estimate, and that of all so far with twice its standard error.

    Parameters
    ----------
    result : EvidenceResult
        Of a method in independent islands.
    ax : Axes, optional
    """
    _check(result)
    ax, logz = axes_of(ax), result.islands
    if not logz.size:
        return nothing(ax, "no independent islands in this method")
    number, far, se = _running(logz)
    later = number > _SPREAD
    low, high = (far - 2.0 * se)[later], (far + 2.0 * se)[later]
    band = "± 2 se" if later.sum() > 1 else None
    ax.fill_between(number[later], low, high, color=INK, alpha=0.2, lw=0, label=band)
    ax.plot(number, far, color=INK, lw=1.2, label="all so far")
    ax.plot(number, logz, "o", color="0.55", ms=3.5, zorder=1, label="each island")
    near = 3.0 * max(float(np.ptp(logz)), 6.0 * result.logz_se)
    approximations(ax, {row.method: row.logz for row in result.rows}, result.logz, near)
    if math.isfinite(worth := float(result.trace_columns.get("ess", [np.nan])[0])):
        ax.plot([], [], " ", label=f"weights: draws are worth {worth:.0%}")
    ax.set(xlabel="islands", ylabel=r"$\log Z$ (nats)")
    ax.set(title=f"Independent islands: {_answer(result)}")
    ax.margins(y=0.15)
    not_too_near(ax.yaxis)
    return legend(whole_ticks(ax))


def plot_error(result: EvidenceResult, ax: Axes | None = None) -> Axes:
    """The standard error after so many draws, beside how far EP and corrected EP are off.

    Parameters
    ----------
    result : EvidenceResult
        Of a method in independent islands.
    ax : Axes, optional
    """
    _check(result)
    ax = axes_of(ax)
    if result.islands.size <= _SPREAD:
        return nothing(ax, _ALIKE)
    number, _, se = _running(result.islands)
    later = number > _SPREAD
    if not later.any() or not (se[later] > 0.0).all():
        return nothing(ax, _ALIKE)
    size = float(result.trace_columns.get("particles", [1.0])[0])
    draws, se = size * number[later], se[later]
    ax.plot(draws, se, "o-", color=INK, ms=3.5, lw=1.2, label=f"{result.method}: ± 1 se")
    ideal = se[-1] * np.sqrt(draws[-1] / draws)
    ax.plot(draws, ideal, color="0.6", lw=0.8, label=r"$1/\sqrt{\mathrm{draws}}$")
    told = list[float]()
    for row in result.rows[:-1]:
        if row.method in LINES and row.logz != result.logz:
            style, name = LINES[row.method]
            if abs(off := row.logz - result.logz) < 2.0 * result.logz_se:
                ax.plot([], [], " ", label=f"{name}: within 2 se")
                continue
            ax.axhline(abs(off), ls=style, color="0.25", lw=1.2)
            crowded = any(abs(math.log(abs(off) / other)) < 0.3 for other in told)
            told.append(abs(off))
            away = (4, -11) if crowded else (4, 4)
            words = f"{name} is off by {off:+.2g}"
            write(ax, words, draws[0], abs(off), fontsize="small", away=away)
    unit = "draws" if size > 1 else "islands"
    ax.set(xscale="log", yscale="log", xlabel=unit, ylabel=r"error of $\log Z$ (nats)")
    ax.margins(y=0.12)  # words stand above the uppermost line
    log_ticks(ax.xaxis, ax.yaxis)
    ax.set(title=f"Error against {unit}")
    return legend(ax)


def _answer(result: EvidenceResult) -> str:
    """With as many digits as the standard error has a first one, from three to six."""
    se = result.logz_se
    digits = min(max(3, math.ceil(-math.log10(se))), 6) if 0.0 < se < 1.0 else 3
    error = f"{se:.{digits}f}" if not 0.0 < se < 1e-6 else f"{se:.0e}"
    return f"{result.logz:.{digits}f} ± {error}"


_SPREAD = 3  # islands up to which nothing is known of their spread


def _running(logz: NDArray[np.float64]) -> tuple[NDArray[Any], ...]:
    """Numbers of islands, log Z of so many, and its standard error."""
    number, top = np.arange(1, logz.size + 1), logz.max()
    w = np.exp(logz - top)
    mean = np.cumsum(w) / number
    variance = np.maximum(np.cumsum(w**2) / number - mean**2, 0.0)
    return number, top + np.log(mean), np.sqrt(variance / np.maximum(number - 1, 1)) / mean


def plot_time(result: EvidenceResult, ax: Axes | None = None) -> Axes:
    """The running estimate with its error bar against wall-clock time, beside EP's lines.

    Parameters
    ----------
    result : EvidenceResult
        Of a Monte Carlo method; :meth:`.EvidenceResult.plot` draws both halves.
    ax : Axes, optional
    """
    _check(result)
    ax = axes_of(ax)
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
    ax.set_xlim(0.0, 1.08 * float(np.max(seconds)) or 1.0)
    not_too_near(ax.yaxis)
    return legend(ax)
