"""How much error is left after how much time."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ._style import INK, MARKER_CYCLE, SHADES, axes_of, distinct, legend, log_ticks, write

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def plot_efficiency(
    frame: pd.DataFrame,
    truth: float,
    ax: Axes | None = None,
    *,
    published: pd.DataFrame | None = None,
) -> Axes:
    """Root mean square error against seconds, for runs whose log Z is known to be ``truth``.

    Parameters
    ----------
    frame : DataFrame
        One row per run, as from :func:`evidence.sweep`: ``method``, ``ladder``, ``seed``,
        ``logz``, ``seconds``, and ``move`` and ``reference`` where they vary.
    truth : float
        log Z, in nats.
    ax : Axes, optional
        Where to draw; by default on axes of its own.
    published : DataFrame, optional
        Values from elsewhere, drawn faintly: ``method``, ``ladder``, ``logz``, ``sd``,
        ``seconds``.

    Returns
    -------
    Axes
        A point for every method and ladder, with error bars of one standard error of the root
        mean square. Thin lines join what is equally efficient: mean square times seconds is the
        same along one, and a tenth of it along the next below.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> frame = ev.sweep(model, ladders=[2, 4], seeds=2, n_particles=64, progressbar=False)
    >>> ax = ev.plots.plot_efficiency(frame, -1.6)
    """
    ax = axes_of(ax)
    if published is not None:
        rms = np.hypot(published.sd, published.logz - truth)
        ax.plot(
            published.seconds, rms, "x", color="0.6", ms=5, mew=1, lw=0, label="published",
            zorder=1,
        )  # fmt: skip
        for label, x, y in zip(published.ladder, published.seconds, rms, strict=True):
            write(ax, label, x, y, color="0.6")
    looks = zip(cycle(MARKER_CYCLE), cycle(SHADES), strict=False)
    for name, group in frame.groupby(distinct(frame), sort=False):
        runs = group.groupby("ladder", sort=False)
        seconds = runs.seconds.mean()
        rms = np.sqrt(runs.logz.agg(lambda values: np.mean((values - truth) ** 2)))
        se = rms / np.sqrt(2.0 * runs.logz.size())
        order = np.argsort(seconds.to_numpy())
        marker, shade = next(looks)
        ax.errorbar(
            seconds.iloc[order], rms.iloc[order], yerr=se.iloc[order], ms=5, lw=1, capsize=2.5,
            fmt=f"{marker}-" if len(order) > 1 else marker, color=shade,
            label=", ".join(map(str, np.atleast_1d(np.array(name, dtype=object)))), zorder=3,
        )  # fmt: skip
        if frame.ladder.nunique() > 1 and len(order) > 1:
            for label in seconds.index:
                write(ax, label, seconds[label], rms[label])
    ax.set(
        xscale="log", yscale="log", xlabel="wall-clock time of a run (seconds)",
        ylabel=r"root mean square error of $\log Z$ (nats)", title="Error against time",
    )  # fmt: skip
    _contours(ax)
    log_ticks(ax.xaxis, ax.yaxis)
    return legend(ax, fontsize=8)


def plot_calibration(z: ArrayLike, ax: Axes, *, df: float | None = None) -> Axes:
    """z-scores (log Z minus truth, over the stated standard error) beside what they should be.

    Honest error bars give a standard normal, or Student's t with ``df`` degrees of freedom where
    they come from the spread of ``df`` + 1 islands. Bars of the histogram carry their own
    standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> import matplotlib.pyplot as plt
    >>> z = np.random.default_rng(0).standard_normal(200)
    >>> plot_calibration(z, plt.figure().gca()).get_title()
    '200 runs, RMS z = 0.96'
    """
    from scipy import stats

    scores = np.asarray(z, dtype=float)
    scores = scores[np.isfinite(scores)]
    n = scores.size
    reach = max(4.0, 0.5 * np.ceil(2.0 * np.abs(scores).max(initial=0.0)))
    edges = np.linspace(-reach, reach, int(np.clip(2.0 * reach * n**0.5 / 4.0, 12, 60)) + 1)
    counts, width = np.histogram(scores, edges)[0], edges[1] - edges[0]
    height, se = counts / (n * width), np.sqrt(counts) / (n * width)
    ax.bar(
        0.5 * (edges[1:] + edges[:-1]), height, width, yerr=se, color="0.85", edgecolor="0.5",
        error_kw={"lw": 0.8, "ecolor": "0.5"}, label="measured",
    )  # fmt: skip
    grid = np.linspace(-reach, reach, 300)
    law = stats.norm() if df is None else stats.t(df)
    name = "standard normal" if df is None else f"Student t, {df:g} df"
    ax.plot(grid, law.pdf(grid), color=INK, lw=1.5, label=name)
    ax.set(
        xlabel=r"$(\log \hat Z - \log Z)$ / stated standard error", ylabel="density",
        title=f"{n} runs, RMS z = {np.sqrt(np.mean(scores**2)):.2f}",
    )  # fmt: skip
    return legend(ax, fontsize=8)


def plot_scaling(frame: pd.DataFrame, ax: Axes, *, size: str, seconds: list[str]) -> Axes:
    """Seconds against a size, log–log, with the exponent fitted to the larger half.

    Parameters
    ----------
    frame : DataFrame
        A row for every run; runs of one size are averaged, bars are standard deviations.
    ax : Axes
    size, seconds : str, list of str
        Columns: what grows, and the times.
    """
    for name, marker, shade in zip(seconds, cycle(MARKER_CYCLE), cycle(SHADES), strict=False):
        cells = frame.groupby(size)[name]
        mean, sd = cells.mean(), cells.std().fillna(0.0)
        label = f"{name.replace('_', ' ')}, exponent {exponent(mean.index, mean):.2f}"
        ax.errorbar(
            mean.index, mean, yerr=np.minimum(sd, 0.8 * mean), fmt=f"{marker}-", color=shade,
            ms=5, lw=1.2, capsize=2.5, label=label,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel=size.replace("_", " "), ylabel="seconds")
    ticks = sorted(frame[size].unique())
    log_ticks(ax.yaxis)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.xaxis.minorticks_off()
    return legend(ax, fontsize=8)


def exponent(size: ArrayLike, seconds: ArrayLike) -> float:
    """Slope of log seconds against log size over the larger half.

    >>> exponent([1, 2, 4, 8], [1.0, 2.0, 8.0, 32.0])
    2.0
    """
    x, y = np.log(np.asarray(size, dtype=float)), np.log(np.asarray(seconds, dtype=float))
    half = min(len(x) // 2, len(x) - 2)
    return float(np.round(np.polyfit(x[half:], y[half:], 1)[0], 12)) if len(x) > 1 else np.nan


def _contours(ax: Axes) -> None:
    """Lines of equal mean square error times seconds, over what is in sight."""
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    x = np.array([x0, x1])
    low, high = np.log10(y0**2 * x0), np.log10(y1**2 * x1)
    for power in np.arange(np.ceil(low), high):
        ax.plot(x, np.sqrt(10.0**power / x), color="0.85", lw=0.7, zorder=0)
    ax.set(xlim=(x0, x1), ylim=(y0, y1))
