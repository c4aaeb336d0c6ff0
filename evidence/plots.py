"""Figures, drawn on axes you may bring yourself; readable in black and white."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
