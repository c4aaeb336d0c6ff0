"""Figures of posterior draws of hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ._style import INK, log_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MANY = 2000  # points of a scatter plot


def plot_hyperparameters(names: Sequence[str], theta: ArrayLike) -> Figure:
    """Histograms on the diagonal and pairs below it, on logarithmic axes.

    Parameters
    ----------
    names : sequence of str
    theta : array (S, P)
        Draws of the logs of the hyperparameters.
    """
    import matplotlib.pyplot as plt

    values = np.exp(np.asarray(theta, dtype=float))
    p = len(names)
    short = [name.rpartition("__")[2].replace("_", " ") for name in names]
    if len(set(short)) < p:
        short = list(names)
    figure, axes = plt.subplots(
        p, p, figsize=(2.6 * p + 1, 2.3 * p + 0.6), layout="constrained", squeeze=False
    )
    thinned = values[:: max(1, -(-len(values) // _MANY))]
    for i in range(p):
        for j in range(p):
            ax = axes[i, j]
            if j > i:
                ax.set_axis_off()
                continue
            ax.set_xscale("log")
            if i == j:
                low, high = values[:, i].min(), values[:, i].max()
                ax.hist(values[:, i], np.geomspace(low, high * (1 + 1e-12), 31), color=INK,
                        alpha=0.75)  # fmt: skip
                ax.set_yticks([])
                log_ticks(ax, "x")
            else:
                ax.plot(thinned[:, j], thinned[:, i], ".", color=INK, ms=2.5, alpha=0.4)
                ax.set_yscale("log")
                log_ticks(ax)
            if i == p - 1:
                ax.set_xlabel(short[j])
            if j == 0 and i > 0:
                ax.set_ylabel(short[i])
    plt.close(figure)
    return figure
