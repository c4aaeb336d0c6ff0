"""Figures of hyperparameters: the search for the best, and posterior draws."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..execution.arguments import array, check_count, listed, number
from ..execution.arguments import names as check_names
from ..execution.lazy import Axes, Figure, pd
from ..messages import InputError
from ._given import check_drawn, check_table
from ._style import (
    INK,
    SHADES,
    axes_of,
    legend,
    log_ticks,
    new_figure,
    nothing,
    short_name,
    whole_ticks,
)
from .corner import pairs
from .draws import plot_trace

if TYPE_CHECKING:
    from ..results.hyper import HyperDraws
    from ..results.optimum import Optimum


_LABELLED = 40  # rows with names
_QUANTILE = re.compile(r"q\d[\d.]*")
_STYLES = ("o-", "s--", "^:", "D-.")


def plot_hyper_draws(draws: HyperDraws, *, rows: int = 6) -> Figure:
    """A row per hyperparameter: its trace and its marginal, on logarithmic axes if positive.

    ``draws.plot()`` for draws of :func:`evidence.sample_hyperparameters`.

    Parameters
    ----------
    draws : HyperDraws
    rows : int
        How many to show: those with the smallest effective sample sizes.
    """
    check_drawn("draws", draws, "draws of sample_hyperparameters", "names", "values", "ess")
    check_count("rows", rows, optional=False)
    order = np.argsort(np.nan_to_num(draws.ess, nan=-1.0), kind="stable")
    shown = sorted(order) if len(order) <= rows else order[:rows]
    n = len(shown)
    figure, axes = new_figure(10, 0.8 + 2.2 * n, n, 2, squeeze=False, width_ratios=(2, 1))
    for (left, right), p in zip(axes, shown, strict=True):
        name, values = draws.names[p], draws.values[:, :, p]
        plot_trace(values, left)
        left.set(ylabel=short_name(name), title=name)
        positive = bool((values > 0.0).all())
        if positive:
            left.set_yscale("log")
            log_ticks(left.yaxis)
        plot_marginal(values, right, label=short_name(name), log=positive)
        right.set_title(f"ESS {draws.ess[p]:.0f}, R-hat {draws.rhat[p]:.3f}")
    return figure


def plot_marginal(
    values: ArrayLike, ax: Axes | None = None, *, label: str = "", log: bool = True
) -> Axes:
    """Histograms of a scalar, on a logarithmic axis: all chains, and each alone.

    Parameters
    ----------
    values : array (chains, draws)
    ax : Axes, optional
    label : str
        What it is, with its unit.
    log : bool
        Whether it is positive, and its axis logarithmic.
    """
    values, ax = array("values", values, ("chains", "draws")), axes_of(ax)
    low, high = values.min(), values.max()
    if log and low <= 0.0:
        raise InputError(f"values must be positive where log=True, got {low:g} among them")
    if low == high:
        low, high = (low / 1.1, high * 1.1) if log else (low - 0.1, high + 0.1)
    space = np.geomspace if log else np.linspace
    edges = space(low, high, max(10, min(30, values.size // 100)) + 1)
    widths = np.diff(np.log(edges) if log else edges)
    counts = np.histogram(values, edges)[0]
    ax.stairs(counts / values.size / widths, edges, fill=True, color=INK, alpha=0.25)
    for chain in values if len(values) > 1 else ():
        share = np.histogram(chain, edges)[0] / chain.size / widths
        ax.stairs(share, edges, color=INK, lw=0.7)
    ax.axvline(float(np.median(values)), color=INK, ls="--", lw=1.2)
    ax.set(xlabel=label, ylabel="density of the log" if log else "density")
    ax.set_ylim(bottom=0.0)
    if log:
        ax.set_xscale("log")
        log_ticks(ax.xaxis)
    return ax


def plot_hyperparameters(
    names: Sequence[str], values: ArrayLike, positive: ArrayLike = True, *, points: int = 2000
) -> Figure:
    """Marginal histograms with the median and a 90 % interval; scatter plots below them. On
    logarithmic axes where positive.

    Parameters
    ----------
    names : sequence of str
    values : array (S, P)
        Draws of the hyperparameters.
    positive : bool or array (P,)
        Which are positive numbers; the others, such as correlations, have linear axes.
    points : int
        Draws that are shown below the diagonal, at most.
    """
    check_count("points", points, optional=False)
    values = array("values", values, ("S", "P"))
    p = values.shape[1]
    names = check_names("names", listed("names", names), p)
    logs = np.broadcast_to(array("positive", positive, (), (p,)) > 0.0, p)
    labels = [short_name(name) for name in names]
    if len(set(labels)) < p:
        labels = list(names)
    return pairs(values, labels, points, logs)


def plot_search(optimum: Optimum, ax: Axes | None = None) -> Axes:
    """Nats below the best against the evaluation, one line per start; crosses are rejected."""
    floor = 1e-6  # nats; a logarithmic axis has no zero
    check_drawn("optimum", optimum, "a result of ev.optimise", "history", "logz")
    check_table("optimum.history", optimum.history, "objective", "restart")
    ax = axes_of(ax, 6, 4)
    history = optimum.history
    below = (history.objective.max() - history.objective).clip(lower=floor)
    top = 2.0 * below.max()
    for restart, rows in history.groupby("restart"):
        values = below[rows.index].dropna()
        style = _STYLES[int(restart) % len(_STYLES)]
        ax.plot(
            values.index + 1, values, style, mfc="none", ms=4, lw=1.2, color=INK,
            label=f"start {restart}",
        )  # fmt: skip
    lost = history.index[history.objective.isna()] + 1
    if len(lost):
        ax.plot(lost, [top] * len(lost), "x", color="0.4", ms=6, label="rejected")
    ax.set(yscale="log", xlabel="evaluation", ylabel="nats below the best")
    ax.set_title(f"Search for hyperparameters, log Z = {optimum.logz:.3f}")
    if history.restart.nunique() > 1 or len(lost):
        legend(ax, ncols=2, fontsize=8)
    return whole_ticks(ax)


def plot_intervals(
    table: pd.DataFrame, ax: Axes | None = None, *, standardised: bool = False, far: float = 10.0
) -> Axes:
    """Means as points with their intervals, a row for each; zero is marked.

    Parameters
    ----------
    table : DataFrame
        Columns ``mean`` and two quantiles, such as ``q5`` and ``q95``; its index names the rows.
    ax : Axes, optional
    standardised : bool
        Each row in units of its own standard deviation, column ``sd``, with its mean and interval
        in words beside it.
    far : float
        Standard deviations beyond which such rows are arrows at the edge: others stay legible.
    """
    ends = [name for name in getattr(table, "columns", ()) if _QUANTILE.fullmatch(str(name))]
    if ends and not len(table):
        return nothing(axes_of(ax, 6.4, 1.2), "no common effects or hyperparameters to draw")
    ends = ends if len(ends) == 2 else ["q5", "q95"]
    check_table("table", table, "mean", *ends, *["sd"] * standardised)
    n = len(table)
    ax = axes_of(ax, 6.4, 1.2 + 0.28 * min(n, _LABELLED))
    y = np.arange(n)[::-1]
    drawn, (low, high) = table[["mean", *ends]], ends
    if standardised:
        far = number("far", far, above=0.0)
        sd = table.sd.where(table.sd > 0.0, 1.0)
        drawn = drawn.div(sd, axis=0).clip(-far, far)
        for at, row in zip(y, table[["mean", *ends]].to_numpy(), strict=True):
            words = "{:.3g}  [{:.3g}, {:.3g}]".format(*row)
            place = ax.get_yaxis_transform()
            ax.text(1.01, at, words, transform=place, va="center", fontsize=7, color="0.35")
        for sign, arrow in ((1, ">"), (-1, "<")):
            out = sign * table["mean"] / sd > far
            ax.plot(np.full(out.sum(), sign * far), y[out], arrow, color=INK, ms=7)
    ax.hlines(y, drawn[low], drawn[high], color=INK, lw=1.4 if n <= _LABELLED else 0.6)
    ax.plot(drawn["mean"], y, "o", color=INK, ms=4 if n <= _LABELLED else 2)
    ax.axvline(0.0, color=INK, lw=0.7, ls=":")
    if n <= _LABELLED:
        ax.set_yticks(y, [str(name) for name in table.index])
    else:
        ax.set_yticks([])
    ax.set_ylim(-0.7, n - 0.3)
    unit = ", each in its own standard deviation" if standardised else ""
    mass = float(high[1:]) - float(low[1:])
    ax.set_xlabel(f"posterior mean and {mass:g} % interval{unit}")
    return ax


def panels_of(parts: Mapping[str, pd.DataFrame], ax: Axes | None) -> Axes:
    """Intervals, a panel for each table, or the first of them on ``ax``; the first panel."""
    rows = min(max(map(len, parts.values())), _LABELLED)
    size = 1.2 + 4.2 * len(parts), 1.2 + 0.28 * rows
    axes = [ax] if ax else new_figure(*size, 1, len(parts), returned=False, squeeze=False)[1][0]
    for (name, part), panel in zip(parts.items(), axes, strict=False):
        plot_intervals(part, panel).set_title(name)
    return axes[0]


def plot_sensitivity(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Changes of log Z as bars, a row for each prior, a shade for each factor of its scale.

    Parameters
    ----------
    table : DataFrame
        Columns ``factor`` and ``change``, and perhaps ``model``; its index names the priors.
    ax : Axes, optional
    """
    check_table("table", table, "factor", "change")
    names = table.index.astype(str)
    if "model" in table:
        names = table.model.astype(str) + ": " + names
    rows, factors = list(dict.fromkeys(names)), list(dict.fromkeys(table.factor))
    ax = axes_of(ax, 6.4, 1.4 + 0.34 * len(rows))
    height = 0.8 / len(factors)
    for k, (factor, shade) in enumerate(zip(factors, cycle(SHADES), strict=False)):
        part = table.factor == factor
        y = [-rows.index(name) + (k - 0.5 * (len(factors) - 1)) * height for name in names[part]]
        ax.barh(y, table.change[part], height, color=shade, label=f"scale × {factor:g}")
    ax.set_yticks(-np.arange(len(rows)), rows)
    ax.axvline(0.0, color="0.25", lw=0.8)
    ax.set_xlabel("change of log Z, nats")
    return legend(ax)
