"""Many runs or moves side by side: what they reach after how much time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..execution.arguments import array, check_positive, listed, number
from ..execution.lazy import Axes, pd
from ._given import check_table
from ._style import INK, approximations, axes_of, bars, legend, log_ticks, looks, write

_RUNS, _NAMES = ("logz", "seconds"), ("method", "ladder")  # columns of a table of runs


def plot_logz_vs_time(
    frame: pd.DataFrame, ax: Axes | None = None, *, published: pd.DataFrame | None = None
) -> Axes:
    """log Z against time for the runs of :func:`evidence.sweep`.

    One point per method, move, ladder and reference: mean over seeds ± one standard deviation
    of single runs, with EP's and corrected EP's values as lines.

    Parameters
    ----------
    frame : DataFrame
        As from :func:`evidence.sweep`, where there is an example.
    ax : Axes, optional
        Where to draw; by default on axes of its own.
    published : DataFrame, optional
        Values from elsewhere, drawn faintly: ``method``, ``ladder``, ``logz``, ``sd``,
        ``seconds``.
    """
    check_table("frame", frame, *_RUNS, words=_NAMES)
    ax = axes_of(ax)
    if published is not None:
        check_table("published", published, *_RUNS, "sd", words=_NAMES)
        _published(ax, published, published.logz, published.sd)
    _runs(ax, frame, lambda logz: (logz.mean(), logz.std().fillna(0.0)))
    values = {name: float(frame[name].iloc[0]) for name in ("ep", "ep_corrected") if name in frame}
    reach = 4.0 * float(frame.logz.std()) + 0.2
    approximations(ax, values, float(frame.logz.median()), reach)
    ax.set(
        xlabel="wall-clock time (seconds, fitting the reference included)", xscale="log",
        ylabel=r"$\log Z$ (nats), mean ± sd over seeds", title="Estimate against time",
    )  # fmt: skip
    log_ticks(ax.xaxis)
    return legend(ax, fontsize=8)


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
    check_table("frame", frame, *_RUNS, words=_NAMES)
    truth, ax = number("truth", truth), axes_of(ax)
    if published is not None:
        check_table("published", published, *_RUNS, "sd", words=_NAMES)
        _published(ax, published, np.hypot(published.sd, published.logz - truth), None)

    def error(logz: pd.api.typing.SeriesGroupBy) -> tuple[pd.Series[Any], pd.Series[Any]]:
        rms = np.sqrt(logz.agg(lambda values: np.mean((values - truth) ** 2)))
        return rms, rms / np.sqrt(2.0 * logz.size())

    _runs(ax, frame, error)
    ax.set(
        xscale="log", yscale="log", xlabel="wall-clock time of a run (seconds)",
        ylabel=r"root mean square error of $\log Z$ (nats)", title="Error against time",
    )  # fmt: skip
    _contours(ax)
    log_ticks(ax.xaxis, ax.yaxis)
    return legend(ax, fontsize=8)


def plot_calibration(z: ArrayLike, ax: Axes | None = None, *, df: float | None = None) -> Axes:
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

    check_positive("df", df)
    scores, ax = array("z", z, ("runs",), finite=False), axes_of(ax)
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


def plot_scaling(
    frame: pd.DataFrame, ax: Axes | None = None, *, size: str, seconds: list[str]
) -> Axes:
    """Seconds against a size, log–log, with the exponent fitted to the larger half.

    Parameters
    ----------
    frame : DataFrame
        A row for every run; runs of one size are averaged, bars are standard deviations.
    ax : Axes, optional
    size, seconds : str, list of str
        Columns: what grows, and the times.
    """
    seconds = listed("seconds", seconds)
    check_table("frame", frame, size, *seconds)
    ax = axes_of(ax)
    for name, (marker, shade) in zip(seconds, looks(), strict=False):
        cells = frame.groupby(size)[name]
        mean, sd = cells.mean(), cells.std().fillna(0.0)
        label = f"{name.replace('_', ' ')}, exponent {exponent(mean.index, mean):.2f}"
        bars(ax, mean.index, mean, np.minimum(sd, 0.8 * mean), f"{marker}-", shade, label)
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


def _published(
    ax: Axes, published: pd.DataFrame, values: pd.Series[Any], sd: ArrayLike | None
) -> None:
    """Values from elsewhere, faintly."""
    bars(ax, published.seconds, values, sd, "x", "0.65", "published", lw=0.8, zorder=1)
    for label, x, y in zip(published.ladder, published.seconds, values, strict=True):
        write(ax, label, x, y, away=(4, -8), color="0.6")


def _runs(ax: Axes, frame: pd.DataFrame, summary: Callable[[Any], tuple[Any, Any]]) -> None:
    """A point for every ladder; those of one method, move and reference joined in order of time.

    ``summary`` takes log Z grouped by ladder to values and lengths of their bars.
    """
    ladders = {str(ladder): str(ladder).partition("(")[0] for ladder in frame.ladder}
    kinds = [kind for ladder, kind in ladders.items() if kind != ladder]
    kind = kinds[0] if len(kinds) > 1 and len(set(kinds)) == 1 else ""
    names = [n for n in ("method", "move", "reference") if n in frame]
    names = [n for n in names if frame[n].nunique() > 1] or names[1:2] or ["method"]
    groups = frame.groupby(names, sort=False)
    for (marker, shade), (_, group) in zip(looks(), groups, strict=False):
        runs = group.groupby("ladder", sort=False)
        seconds = runs.seconds.mean().sort_values()
        value, se = (column.reindex(seconds.index) for column in summary(runs.logz))
        joined = len(seconds) > 1
        label = ", ".join(map(str, group[names].iloc[0]))
        bars(ax, seconds, value, se, f"{marker}-" if joined else marker, shade, label)
        if joined and frame.ladder.nunique() > 1:
            for ladder in seconds.index:
                name = str(ladder)
                short = name[len(kind) + 1 : -1] if kind and ladders[name] == kind else name
                write(ax, short, seconds[ladder], value[ladder], color=shade)
    if kind:
        ax.plot([], [], " ", label=f"numbers: {kind}(…)")
