"""Figures of posterior draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..execution.arguments import array, check_count
from ..execution.lazy import Axes, Figure
from ..statistics import diagnostics
from ._given import check_drawn
from ._style import INK, axes_of, legend, new_figure, nothing, whole_ticks

if TYPE_CHECKING:
    from ..results.draws import Draws


_BY_CHAIN = ("chains", "draws")


def plot_draws(draws: Draws) -> Figure:
    """Traces above; autocorrelations and effective sample sizes below: ``draws.plot()``.

    The slowest latent value is the one with the smallest effective sample size.
    """
    check_drawn("draws", draws, "draws of ev.sample", "logtilt", "label", "ess_by_coordinate")
    order = np.argsort(np.nan_to_num(draws.ess_by_coordinate, nan=-1.0))
    slowest, middle = int(order[0]), int(order[order.size // 2])
    figure, axes = new_figure(10, 7, 2, 2)
    (tilt, latent), (correlation, sizes) = axes
    plot_trace(draws.logtilt, tilt, label="log tilt (nats)")
    plot_trace(draws.x[:, :, slowest], latent, label=f"slowest, {draws.label(slowest)}")
    curves = {f"slowest, {draws.label(slowest)}": draws.x[:, :, slowest]}
    if middle != slowest:
        curves[f"median, {draws.label(middle)}"] = draws.x[:, :, middle]
    curves["log tilt"] = draws.logtilt
    for (label, values), style in zip(curves.items(), ("-", "--", ":"), strict=False):
        plot_autocorrelation(values, correlation, label=label, style=style)
    plot_ess(draws.ess_by_coordinate, sizes, total=draws.logtilt.size)
    return figure


def plot_trace(values: ArrayLike, ax: Axes | None = None, *, label: str = "") -> Axes:
    """A scalar along its chains, from a dark one to a light one.

    Parameters
    ----------
    values : array (chains, draws)
    ax : Axes, optional
    label : str
        Of the vertical axis, with its unit.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> plot_trace(rng.normal(size=(2, 50)), Figure().gca(), label="log tilt (nats)").get_ylabel()
    'log tilt (nats)'
    """
    from matplotlib.colors import LinearSegmentedColormap

    values, ax = array("values", values, _BY_CHAIN, finite=False), axes_of(ax)
    chains, draws = values.shape
    shades = LinearSegmentedColormap.from_list("shades", [INK, "#b9c9da"])
    for chain, shade in zip(values, np.linspace(0.0, 1.0, chains), strict=True):
        ax.plot(np.arange(1, draws + 1), chain, color=shades(shade), lw=0.6)
    title = f"Trace of {chains} chains" if chains > 1 else "Trace of one chain"
    ax.set(xlabel="draw", ylabel=label, title=title)
    ax.margins(x=0.01)
    return whole_ticks(ax)


def plot_autocorrelation(
    values: ArrayLike, ax: Axes | None = None, *, label: str = "", style: str = "-"
) -> Axes:
    """Autocorrelation of a scalar, all chains together.

    Several may share the axes, which reach as far as the slowest needs to die away.

    Parameters
    ----------
    values : array (chains, draws)
    ax : Axes, optional
    label, style : str
        For the legend, and as Matplotlib's.
    """
    values, ax = array("values", values, _BY_CHAIN, finite=False), axes_of(ax)
    rho = np.asarray(diagnostics.autocorrelation(values))
    if np.isnan(rho).any():
        rho, label = rho[:0], f"{label} (undefined)"
    gone = np.flatnonzero(rho < 0.05)
    reach = min(max(2 * int(gone[0]), 20), rho.size - 1) if gone.size else rho.size - 1
    right = max(ax.get_xlim()[1], reach)  # fresh axes end at 1
    bottom = min(ax.get_ylim()[0], -0.2, rho[: int(right) + 1].min(initial=0.0) - 0.05)
    if not ax.lines:
        ax.axhline(0.0, color="0.6", lw=0.8, zorder=0)
    ax.plot(np.arange(rho.size), rho, style, color=INK, lw=1.4, label=label)
    ax.set(xlim=(0.0, right), ylim=(bottom, 1.05))
    ax.set(xlabel="lag (draws)", ylabel="autocorrelation", title="Autocorrelation of the chains")
    if label:
        legend(ax)
    return whole_ticks(ax)


def plot_ess(ess: ArrayLike, ax: Axes | None = None, *, total: int) -> Axes:
    """Effective sample sizes of all coordinates in order, beside the number of draws made.

    Parameters
    ----------
    ess : array (N,)
    ax : Axes, optional
    total : int
        Draws of all chains together.
    """
    check_count("total", total, optional=False)
    ess, ax = array("ess", ess, ("N",), finite=False), axes_of(ax)
    finite = np.sort(ess[np.isfinite(ess)])
    if not finite.size:
        return nothing(ax, "no effective sample sizes")
    missing = ess.size - finite.size  # those without one rank below the worst
    rank = np.arange(missing + 1, ess.size + 1)
    marker = "o" if finite.size <= 50 else ""
    ax.plot(rank, finite, "-", marker=marker, color=INK, ms=3.5, lw=1.4)
    levels = {"smallest": finite[0], "median": np.median(finite), "draws made": total}
    for (name, value), style in zip(levels.items(), ("-.", "--", ":"), strict=True):
        ax.axhline(value, ls=style, color="0.25", lw=1.0, label=f"{name}, {value:.0f}")
    title = "Effective sample sizes" + (f" ({missing} undefined)" if missing else "")
    ax.set(xlabel="latent values, from slowest to fastest", ylabel="effective sample size")
    ax.set(title=title, yscale="log", xlim=(0.0, ess.size + 1.0))
    ax.set_ylim(min(0.7 * finite[0], 0.07 * total), 1.5 * max(finite[-1], total))
    legend(ax, frameon=True, framealpha=0.9, edgecolor="none")
    return whole_ticks(ax)
