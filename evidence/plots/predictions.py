"""Predictions along a single input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..messages import InputError
from ._style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_prediction(prediction: Any, ax: Axes | None = None) -> Axes:
    """Expected observation and 90 % bands against the input, and the data.

    The dark band is where the expectation E[y|x] lies (for labels, the probability of +1); the
    light one, absent for labels, is where a new observation does.

    Parameters
    ----------
    prediction : Prediction
        Of :func:`evidence.predict`, at new points; ``prediction.plot()`` is the same.
    ax : Axes, optional
        Where to draw; by default on axes of its own.
    """
    import matplotlib.pyplot as plt

    X = prediction.X_new
    if X is None or X.shape[1] != 1:
        found = "no inputs" if X is None else f"{X.shape[1]} inputs"
        raise InputError(f"plot is for predictions along a single input, this one has {found}")
    if ax is None:
        figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
        plt.close(figure)  # the caller has the axes; no window should pop up for it later
    order = np.argsort(X[:, 0])
    x = X[order, 0]
    binary = hasattr(prediction.likelihood, "probability")
    low, high = _expected(prediction, binary)
    middle = prediction.probability if binary else prediction.y_mean
    if not binary:
        ends = prediction.quantiles([0.05, 0.95], of="y")[:, order]
        ax.fill_between(x, *ends, color=INK, alpha=0.12, lw=0, label="new observation, 90 %")
    name = "P(y = +1)" if binary else "E[y]"
    ax.fill_between(
        x, low[order], high[order], color=INK, alpha=0.3, lw=0, label=f"{name} given x, 90 %"
    )
    ax.plot(x, middle[order], color=INK, lw=1.5, label=name)
    if prediction.data is not None:
        inputs, y = prediction.data
        shown = 0.5 * (y + 1.0) if binary else y
        ax.plot(inputs[:, 0], shown, "o", color="k", ms=3.5, mfc="none", mew=0.8, label="data")
    ax.set(xlabel="input", ylabel=name if binary else "y")
    ax.legend(frameon=False, loc="best", fontsize="small")
    return ax


def _expected(prediction: Any, binary: bool) -> np.ndarray:
    """E[y|x] at the 5 % and 95 % quantiles of x; links are monotone."""
    x = prediction.quantiles([0.05, 0.95])
    mean, _ = prediction.likelihood.conditional_moments(x)
    return 0.5 * (mean + 1.0) if binary else mean
