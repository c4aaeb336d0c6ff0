"""Predictions along a single input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..messages import InputError
from ._style import INK, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]


class Prediction(Protocol):
    """What a model says at new points."""

    @property
    def X_new(self) -> Array | None: ...
    @property
    def data(self) -> tuple[Array, Array] | None: ...
    @property
    def likelihood(self) -> Any: ...
    @property
    def y_mean(self) -> Array: ...
    @property
    def probability(self) -> Array: ...
    def quantiles(self, q: ArrayLike, of: str = "latent") -> Array: ...


def plot_prediction(prediction: Prediction, ax: Axes | None = None) -> Axes:
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
    X = prediction.X_new
    if X is None or X.shape[1] != 1:
        given = "no inputs" if X is None else f"{X.shape[1]} inputs"
        raise InputError(f"plot is for predictions along a single input, this one has {given}")
    ax = axes_of(ax, 7, 4)
    order = np.argsort(X[:, 0])
    x = X[order, 0]
    binary = hasattr(prediction.likelihood, "probability")
    low, high = _expected(prediction, binary)
    middle = prediction.probability if binary else prediction.y_mean
    if not binary:
        ends = prediction.quantiles([0.05, 0.95], of="y")[:, order]
        ax.fill_between(
            x, ends[0], ends[1], color=INK, alpha=0.12, lw=0, label="new observation, 90 %"
        )
    name = "P(y = +1)" if binary else "E[y]"
    ax.fill_between(
        x, low[order], high[order], color=INK, alpha=0.3, lw=0, label=f"{name} given x, 90 %"
    )
    ax.plot(x, middle[order], color=INK, lw=1.5, label=name)
    if prediction.data is not None:
        inputs, y = prediction.data
        heights = 0.5 * (y + 1.0) if binary else y
        ax.plot(inputs[:, 0], heights, "o", color="k", ms=3.5, mfc="none", mew=0.8, label="data")
    ax.set(xlabel="input", ylabel=name if binary else "y")
    return legend(ax, fontsize="small")


def _expected(prediction: Prediction, binary: bool) -> Array:
    """E[y|x] at the 5 % and 95 % quantiles of x; links are monotone."""
    x = prediction.quantiles([0.05, 0.95])
    mean, _ = prediction.likelihood.conditional_moments(x)
    return 0.5 * (mean + 1.0) if binary else mean
