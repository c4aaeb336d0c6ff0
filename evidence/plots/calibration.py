"""Figures of calibration, and of what a study will show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..execution.arguments import check_count
from ..execution.lazy import Axes, Figure
from ._given import check_drawn
from ._style import INK, axes_of, bars, legend, looks, new_figure

if TYPE_CHECKING:
    from ..results.calibration import Calibration, Design


def plot_reliability(calibration: Calibration, *, bins: int = 6) -> Figure:
    """How often models are true against how probable they were (± 2 se), and ranks: distribution
    functions minus the diagonal, with the band in which 95 % are at each place.

    Parameters
    ----------
    calibration : Calibration
        Of :func:`evidence.calibrate`; ``calibration.plot()`` is the same.
    bins : int
        Of probabilities, with as many data sets each.
    """
    check_drawn("calibration", calibration, "a result of ev.calibrate", "ranks")
    check_count("bins", bins, optional=False)
    figure, (left, right) = new_figure(9.0, 4.0, 1, 2)
    p = calibration.probability[:, len(calibration.names) == 2 :]
    true = calibration.index[:, None] == np.arange(len(calibration.names))[-p.shape[1] :]
    cells = np.array_split(np.argsort(p, axis=None), min(bins, p.size))
    mean, often = (np.array([x.ravel()[cell].mean() for cell in cells]) for x in (p, true))
    se = np.sqrt(mean * (1.0 - mean) / cells[0].size)
    left.plot([0, 1], [0, 1], color="0.6", lw=1.0)
    bars(left, mean, often, 2.0 * se, "D", INK, "data sets, in equal parts")
    left.set(xlabel="probability of the model", ylabel="how often it is true", title="Evidences")
    grid, n = np.linspace(0.0, 1.0, 101), max(map(len, calibration.ranks.values()), default=1)
    for (_, shade), (label, u) in zip(looks(), calibration.ranks.items(), strict=False):
        away = np.searchsorted(np.sort(u), grid) / u.size - grid
        right.step(grid, away, color=shade, label=label)
    band = 1.96 * np.sqrt(grid * (1.0 - grid) / n)
    right.fill_between(grid, -band, band, color=INK, alpha=0.12, lw=0)
    right.set(xlabel="rank", ylabel="distribution function - rank", title="Parameters")
    legend(left, fontsize="small")
    if calibration.ranks:
        legend(right, fontsize="x-small")
    return figure


def plot_design(design: Design, ax: Axes | None = None) -> Axes:
    """Histograms of log Bayes factors, by the model that makes the data.

    Parameters
    ----------
    design : Design
        Of :func:`evidence.design`; ``design.plot()`` is the same.
    ax : Axes, optional
    """
    check_drawn("design", design, "a result of ev.design", "log_bayes_factor")
    ax, each = axes_of(ax), design.log_bayes_factor
    edges = np.histogram_bin_edges(np.concatenate([*each.values()]), "auto").tolist()
    for (_, shade), (name, log) in zip(looks(), each.items(), strict=False):
        ax.hist(log, edges, histtype="step", lw=1.5, color=shade, label=f"data from {name}")
    for factor in (0.1, 1.0, 10.0):
        ax.axvline(np.log(factor), color="0.6", lw=0.8, ls=":" if factor != 1.0 else "-")
    ax.set(xlabel="log Bayes factor of m1 against m0 (dotted: 1/10, 10)", ylabel="data sets")
    return legend(ax, fontsize="small")
