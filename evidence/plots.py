"""Figures, drawn on axes you may bring yourself; readable in black and white."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from . import diagnostics

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .draws import Draws
    from .result import Estimate, EvidenceResult

_INK = "#1b3a5c"
_LINES = {"ep": (":", "EP"), "ep_corrected": ("-", "EP, corrected"), "laplace": ("-.", "Laplace")}


def plot_result(result: EvidenceResult) -> Figure:
    """log Z along β on the left, log Z against time on the right."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    plot_path(result, left)
    plot_time(result, right)
    plt.close(figure)  # the caller has the figure; no window should pop up for it later
    return figure


def plot_path(result: EvidenceResult, ax: Axes) -> Axes:
    """log Z_β − log Z₁ along the path from the reference (β = 0) to the posterior (β = 1)."""
    trace = result.trace_columns
    if not trace:
        return _nothing(ax, "no tempering in this method")
    beta = np.concatenate([[0.0], trace["beta"]])
    logz = np.concatenate([[_start(result)], trace["logz"]])
    se = np.concatenate([[0.0], trace["logz_se"]])
    ax.fill_between(
        beta, logz - 2 * se, logz + 2 * se, color=_INK, alpha=0.2, lw=0, label="± 2 se"
    )
    ax.plot(beta, logz, "o-", color=_INK, ms=3.5, lw=1.2, label=r"$\log Z_\beta$")
    ax.annotate(
        f"{result.logz:.3f} ± {result.logz_se:.3f}",
        (1.0, logz[-1]),
        xytext=(-6, 8),
        textcoords="offset points",
        ha="right",
        color=_INK,
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
    """The running estimate with its error bar against wall-clock time, beside EP's lines."""
    history = result.history_columns
    rows = {row.method: row for row in result.rows}
    if not history or not history["seconds"].size:
        last = result.rows[-1]
        if not math.isfinite(last.logz_se):
            return _nothing(ax, "no Monte Carlo in this method")
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
        color=_INK,
        ms=4,
        capsize=2.5,
        lw=1,
        label=f"{result.method} ± se",
    )
    for method, (style, label) in _LINES.items():
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


def plot_logz_vs_time(frame: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """log Z against time for the runs of :func:`evidence.sweep`.

    One point per method, move, ladder and reference: mean over seeds ± one standard deviation
    of single runs, with EP's and corrected EP's values as lines.
    """
    import matplotlib.pyplot as plt

    if ax is None:
        figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
        plt.close(figure)
    told = ["method", "move", "reference"]
    told = [name for name in told if frame[name].nunique() > 1] or ["move"]
    markers = iter("os^Dv<>pPX*h" * 9)
    shades = ("#1b3a5c", "#b5542a", "#4d7c4a", "#7a5195", "0.45")
    for i, (_, group) in enumerate(frame.groupby(["method", "move", "reference"], sort=False)):
        points = group.groupby("ladder", sort=False)[["seconds", "logz"]]
        mean = points.mean().sort_values("seconds")
        spread = points.std().logz.reindex(mean.index).fillna(0.0)
        ax.errorbar(
            mean.seconds,
            mean.logz,
            yerr=spread,
            fmt=f"{next(markers)}-" if len(mean) > 1 else next(markers),
            color=shades[i % len(shades)],
            ms=5,
            lw=1,
            capsize=2.5,
            label=", ".join(str(group[name].iloc[0]) for name in told),
        )
        if len(frame.ladder.unique()) > 1:
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
        style, label = _LINES[name]
        value = float(frame[name].iloc[0])
        if abs(value - middle) < reach:
            ax.axhline(value, ls=style, color="0.25", lw=1.2, label=label)
    ax.set(
        xlabel="wall-clock time (seconds, fitting the reference included)",
        ylabel=r"$\log Z$ (nats), mean ± sd over seeds",
        xscale="log",
        title="Estimate against time",
    )
    ax.legend(frameon=False, loc="best", fontsize=8)
    return ax


def plot_draws(draws: Draws) -> Figure:
    """Traces above; autocorrelations and effective sample sizes below.

    The slowest latent value is the one with the smallest effective sample size.
    """
    import matplotlib.pyplot as plt

    order = np.argsort(np.nan_to_num(draws.ess_by_coordinate, nan=-1.0))
    slowest, middle = int(order[0]), int(order[order.size // 2])
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    (tilt, latent), (correlation, sizes) = axes
    plot_trace(draws.logtilt, tilt, label="log tilt (nats)")
    plot_trace(draws.x[:, :, slowest], latent, label=f"slowest, $x_{{{slowest}}}$")
    curves = {f"slowest, $x_{{{slowest}}}$": draws.x[:, :, slowest]}
    curves |= {f"median, $x_{{{middle}}}$": draws.x[:, :, middle]} if middle != slowest else {}
    curves["log tilt"] = draws.logtilt
    for (label, values), style in zip(curves.items(), ("-", "--", ":"), strict=False):
        plot_autocorrelation(values, correlation, label=label, style=style)
    plot_ess(draws.ess_by_coordinate, sizes, total=draws.logtilt.size)
    plt.close(figure)
    return figure


def plot_trace(values: ArrayLike, ax: Axes, *, label: str = "") -> Axes:
    """A scalar of shape (chains, draws) along its chains, from a dark one to a light one."""
    from matplotlib.colors import LinearSegmentedColormap

    values = np.asarray(values, dtype=float)
    chains, draws = values.shape
    shades = LinearSegmentedColormap.from_list("shades", [_INK, "#b9c9da"])
    for chain, shade in zip(values, np.linspace(0.0, 1.0, chains), strict=True):
        ax.plot(np.arange(1, draws + 1), chain, color=shades(shade), lw=0.6)
    title = f"Trace of {chains} chains" if chains > 1 else "Trace of one chain"
    ax.set(xlabel="draw", ylabel=label, title=title)
    ax.margins(x=0.01)
    return _whole_ticks(ax)


def plot_autocorrelation(
    values: ArrayLike, ax: Axes, *, label: str = "", style: str = "-"
) -> Axes:
    """Autocorrelation of a scalar of shape (chains, draws), all chains together.

    Several may share the axes, which reach as far as the slowest needs to die away.
    """
    rho = np.asarray(diagnostics.autocorrelation(values))
    if np.isnan(rho).any():
        rho, label = rho[:0], f"{label} (undefined)"
    gone = np.flatnonzero(rho < 0.05)
    reach = min(max(2 * int(gone[0]), 20), rho.size - 1) if gone.size else rho.size - 1
    right = max(ax.get_xlim()[1], reach)  # fresh axes end at 1
    bottom = min(ax.get_ylim()[0], -0.2, rho[: int(right) + 1].min(initial=0.0) - 0.05)
    if not ax.lines:
        ax.axhline(0.0, color="0.6", lw=0.8, zorder=0)
    ax.plot(np.arange(rho.size), rho, style, color=_INK, lw=1.4, label=label)
    ax.set(xlim=(0.0, right), ylim=(bottom, 1.05))
    ax.set(xlabel="lag (draws)", ylabel="autocorrelation", title="Autocorrelation of the chains")
    if label:
        ax.legend(frameon=False, loc="best")
    return _whole_ticks(ax)


def plot_ess(ess: ArrayLike, ax: Axes, *, total: int) -> Axes:
    """Effective sample sizes of all coordinates in order, beside the number of draws made."""
    ess = np.asarray(ess, dtype=float)
    known = np.sort(ess[np.isfinite(ess)])
    if not known.size:
        return _nothing(ax, "no effective sample sizes")
    missing = ess.size - known.size  # those without one rank below the worst
    rank = np.arange(missing + 1, ess.size + 1)
    marker = "o" if known.size <= 50 else ""
    ax.plot(rank, known, "-", marker=marker, color=_INK, ms=3.5, lw=1.4)
    for value, style, name in (
        (known[0], "-.", "smallest"),
        (np.median(known), "--", "median"),
        (total, ":", "draws made"),
    ):
        ax.axhline(value, ls=style, color="0.25", lw=1.0, label=f"{name}, {value:.0f}")
    ax.set(
        xlabel="latent values, from slowest to fastest",
        ylabel="effective sample size",
        title="Effective sample sizes" + (f" ({missing} undefined)" if missing else ""),
        yscale="log",
        xlim=(0.0, ess.size + 1.0),
        ylim=(min(0.7 * known[0], 0.07 * total), 1.5 * max(known[-1], total)),
    )
    ax.legend(framealpha=0.9, edgecolor="none", loc="best")
    return _whole_ticks(ax)


def _whole_ticks(ax: Axes) -> Axes:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    return ax


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


def _nothing(ax: Axes, reason: str) -> Axes:
    ax.text(0.5, 0.5, reason, ha="center", va="center", transform=ax.transAxes, color="0.4")
    ax.set_axis_off()
    return ax
