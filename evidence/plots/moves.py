"""Moves side by side: effective samples per second, and how well tuning pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._style import INK, bars, legend, looks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def plot_moves(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Smallest effective sample size per second of every move, the best at the top.

    Parameters
    ----------
    frame : DataFrame
        ``move``, ``rate`` and ``rate_sd`` (its standard deviation over repeats); and
        ``published`` and ``published_sd`` for values from elsewhere, drawn hollow.
    ax : Axes

    Examples
    --------
    >>> import pandas as pd
    >>> import matplotlib.pyplot as plt
    >>> frame = pd.DataFrame({"move": ["mgrad", "pcn"], "rate": [900, 20], "rate_sd": [50, 4]})
    >>> ax = plot_moves(frame, plt.figure().gca())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['pcn', 'mgrad']
    """
    frame = frame.sort_values("rate")
    rows = np.arange(len(frame))
    if "published" in frame:
        given = frame.published.notna().to_numpy()
        bars(
            ax, frame.published[given], rows[given], None, "o", "0.5", "published",
            xerr=_on_log(frame, "published")[:, given], mfc="none", ms=6, lw=1, zorder=2,
        )  # fmt: skip
    xerr = _on_log(frame, "rate")
    bars(ax, frame.rate, rows, None, "D", INK, "here", xerr=xerr)
    ax.set_yticks(rows, frame.move)
    ax.set(xscale="log", xlabel="smallest effective sample size per second")
    ax.set_ylim(-0.6, len(frame) - 0.4)
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    return legend(ax, fontsize=8, loc="lower right")


def _on_log(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Lengths of bars that stay on a logarithmic axis, (2, rows)."""
    value, sd = frame[name].to_numpy(float), frame[f"{name}_sd"].fillna(0.0).to_numpy(float)
    return np.array([np.minimum(sd, 0.8 * value), sd])


def plot_ess_vs_acceptance(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Effective sample size against acceptance rate, one line per move.

    Parameters
    ----------
    frame : DataFrame
        ``move``, ``target`` (what was tuned for), ``acceptance`` and ``ess`` of each run; runs
        of one move and target are averaged, bars are standard errors of the mean.
    ax : Axes

    Examples
    --------
    >>> import pandas as pd
    >>> import matplotlib.pyplot as plt
    >>> frame = pd.DataFrame({
    ...     "move": "mgrad", "target": [0.3, 0.3, 0.6, 0.6],
    ...     "acceptance": [0.29, 0.31, 0.6, 0.61], "ess": [300.0, 320, 500, 480],
    ... })
    >>> ax = plot_ess_vs_acceptance(frame, plt.figure().gca())
    """
    groups = frame.groupby("move", sort=False)
    for (marker, shade), (name, runs) in zip(looks(), groups, strict=False):
        cells = runs.groupby("target")
        mean = cells[["acceptance", "ess"]].mean()
        se = cells.ess.std().fillna(0.0) / np.sqrt(cells.size())
        bars(ax, mean.acceptance, mean.ess, se, f"{marker}-", shade, str(name))
    ax.set(xlabel="acceptance rate", ylabel="effective sample size", xlim=(0, 1), ylim=(0, None))
    return legend(ax)
