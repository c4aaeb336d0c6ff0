"""Leave-one-out predictive densities: datum by datum, their reliability, and their calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom

from ..execution.arguments import check_count
from ..execution.lazy import Axes, Figure
from ..messages import InputError
from ..statistics.psis import LIMIT
from ._given import check_drawn
from ._style import INK, axes_of, legend, new_figure, nothing, write

if TYPE_CHECKING:
    from ..results.loo import LooResult


def _check(loo: LooResult) -> None:
    check_drawn("loo", loo, "a result of ev.loo", "pointwise", "by_method", "pareto_k", "pit")


def plot_loo(loo: LooResult, *, worst: int = 3) -> Figure:
    """Log density given all others and Pareto's k̂ of every datum, and the histogram of PIT values.

    Parameters
    ----------
    loo : LooResult
        Of :func:`evidence.loo`; ``loo.plot()`` is the same.
    worst : int
        Data with their numbers beside them.
    """
    _check(loo)
    check_count("worst", worst, 0, optional=False)
    k, drawn = loo.pareto_k, bool(np.isfinite(loo.pareto_k).any())
    panels = 1 + drawn + bool(loo.pit.size)
    figure, grid = new_figure(7.0, 2.4 * panels, panels, squeeze=False)
    axes = list(grid[:, 0])
    top = axes.pop(0)
    index = np.arange(loo.pointwise.size)
    for name, values in loo.by_method.items():
        own = name == loo.method
        fill = INK if own else "none"
        top.plot(index, values, "o", ms=4, mfc=fill, mec=INK if own else "0.4", label=name)
    for i in np.argsort(loo.pointwise)[:worst]:
        write(top, i, i, loo.pointwise[i])
    top.set(xlabel="datum", ylabel=r"$\log p(y_i | y_{-i})$", title="Predicted from all others")
    if len(loo.by_method) > 1:
        legend(top, fontsize="small")
    if drawn:
        ax = axes.pop(0)
        ax.plot(index, k, "+", color=INK, ms=5)
        ax.axhline(LIMIT, ls="--", color="0.3", lw=1.0)
        for i in np.flatnonzero(k > LIMIT)[:20]:
            write(ax, i, i, k[i])
        ax.set(xlabel="datum", ylabel=r"Pareto $\hat k$", title="Draws tell below the line")
    if loo.pit.size:
        plot_pit(loo, axes.pop(0))
    return figure


def plot_pit(loo: LooResult, ax: Axes | None = None) -> Axes:
    """Histogram of PIT values, and the band in which 95 % of its bars are if they are uniform.

    Parameters
    ----------
    loo : LooResult
        Of :func:`evidence.loo`; ``loo.plot_pit()`` is the same.
    ax : Axes, optional
        Where to draw; by default on axes of its own.
    """
    _check(loo)
    if not loo.pit.size:
        raise InputError("loo has no PIT values: the likelihood has no distribution function")
    ax, pit = axes_of(ax, 7, 3), loo.pit[np.isfinite(loo.pit)]
    if not pit.size:
        return nothing(ax, "no PIT value is finite")
    bins = int(np.clip(np.sqrt(pit.size), 5, 20))
    low, high = binom.ppf([0.025, 0.975], pit.size, 1.0 / bins)
    ax.axhspan(low, high, color=INK, alpha=0.12, lw=0, label="95 % if uniform")
    ax.axhline(pit.size / bins, color="0.4", lw=1.0)
    ax.hist(pit, bins, range=(0.0, 1.0), histtype="step", color=INK, lw=1.5)
    ax.set(xlabel="PIT", ylabel="data", xlim=(0.0, 1.0), title="Calibration")
    return legend(ax, fontsize="small")
