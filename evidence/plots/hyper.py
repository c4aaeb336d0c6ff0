"""Figures of hyperparameters drawn together with the latent field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._style import INK
from .draws import plot_trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from ..results.hyper import HyperDraws

_ROWS = 6  # more hyperparameters than this: the slowest


def plot_hyper_draws(draws: HyperDraws) -> Figure:
    """A row per hyperparameter: its trace and its marginal, on logarithmic axes.

    At most six are shown, those with the smallest effective sample sizes. ``draws.plot()`` for
    draws of :func:`evidence.sample_hyperparameters`.
    """
    import matplotlib.pyplot as plt

    order = np.argsort(np.nan_to_num(draws.ess, nan=-1.0), kind="stable")
    shown = sorted(order[:_ROWS]) if len(order) <= _ROWS else order[:_ROWS]
    figure, axes = plt.subplots(
        len(shown),
        2,
        figsize=(10, 0.8 + 2.2 * len(shown)),
        layout="constrained",
        squeeze=False,
        gridspec_kw={"width_ratios": (2, 1)},
    )
    for (left, right), p in zip(axes, shown, strict=True):
        name, values = draws.names[p], draws.values[:, :, p]
        plot_trace(values, left)
        left.set(yscale="log", ylabel=name.rpartition("__")[2], title=name)
        _plain_ticks(left.yaxis, values)
        plot_marginal(values, right, label=name.rpartition("__")[2])
        right.set_title(f"ESS {draws.ess[p]:.0f}, R-hat {draws.rhat[p]:.3f}")
    plt.close(figure)
    return figure


def plot_marginal(values: ArrayLike, ax: Axes, *, label: str = "") -> Axes:
    """Histograms of a positive scalar, on a logarithmic axis: all chains, and each alone.

    Parameters
    ----------
    values : array (chains, draws)
    ax : Axes
    label : str
        What it is, with its unit.
    """
    values = np.asarray(values, dtype=float)
    low, high = values.min(), values.max()
    if low == high:
        low, high = low / 1.1, high * 1.1
    edges = np.geomspace(low, high, max(10, min(30, values.size // 100)) + 1)
    widths = np.diff(np.log(edges))
    counts = np.histogram(values, edges)[0]
    ax.stairs(counts / values.size / widths, edges, fill=True, color=INK, alpha=0.25)
    for chain in values if len(values) > 1 else ():
        share = np.histogram(chain, edges)[0] / chain.size / widths
        ax.stairs(share, edges, color=INK, lw=0.7)
    ax.axvline(float(np.median(values)), color=INK, ls="--", lw=1.2)
    ax.set(xscale="log", xlabel=label, ylabel="density of the log")
    ax.set_ylim(bottom=0.0)
    _plain_ticks(ax.xaxis, values)
    return ax


def _plain_ticks(axis: Axis, values: NDArray[np.float64]) -> None:
    """Few ticks on a logarithmic axis, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    ratio = values.max() / values.min()
    steps = (1.0, 2.0, 5.0) if ratio < 200.0 else (1.0,)
    axis.set_major_locator(MaxNLocator(4) if ratio < 6.0 else LogLocator(subs=steps, numticks=6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
