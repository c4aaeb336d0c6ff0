"""Predictions of several classes, along one input or over two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..messages import InputError
from ._style import MARKER_CYCLE, SHADES, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_DEPTH = 0.5  # of a class's colour where it is certain


class ClassPrediction(Protocol):
    """What a model of several classes says at new points."""

    @property
    def X_new(self) -> Array | None: ...
    @property
    def data(self) -> tuple[Array, NDArray[Any]] | None: ...
    @property
    def classes(self) -> NDArray[Any]: ...
    @property
    def probability(self) -> Array: ...


def plot_class_prediction(prediction: ClassPrediction, ax: Axes | None = None) -> Axes:
    """Class probabilities along a single input, or a map of the classes over two; and the data.

    On the map colours are mixed in the proportions of the probabilities; where the new points
    make a full grid, lines separate the most probable classes.

    Parameters
    ----------
    prediction : ClassPrediction
        Of :func:`evidence.predict`, at new points; ``prediction.plot()`` is the same.
    ax : Axes, optional
        Where to draw; by default on axes of its own.
    """
    X = prediction.X_new
    if X is None or X.shape[1] not in (1, 2):
        given = "no inputs" if X is None else f"{X.shape[1]} inputs"
        raise InputError(f"plot is for predictions along one or two inputs, this one has {given}")
    single = X.shape[1] == 1
    ax = axes_of(ax, 7, 4 if single else 5)
    (_lines if single else _map)(ax, prediction, X)
    return legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")


def _look(k: int) -> dict[str, Any]:
    return {"color": SHADES[k % len(SHADES)], "marker": MARKER_CYCLE[k % len(MARKER_CYCLE)]}


def _lines(ax: Axes, prediction: ClassPrediction, X: Array) -> None:
    order = np.argsort(X[:, 0])
    x = X[order, 0]
    for k, name in enumerate(prediction.classes):
        look = _look(k)
        ax.plot(
            x, prediction.probability[order, k], ls=_DASHES[k % len(_DASHES)], lw=1.5,
            color=look["color"], label=str(name),
        )  # fmt: skip
        if prediction.data is not None:
            at = prediction.data[0][prediction.data[1] == name, 0]
            ax.plot(at, np.full(at.size, 1.04 + 0.035 * k), ls="", ms=3.5, mfc="none", **look)
    ax.set(xlabel="input", ylabel="probability of the class", ylim=(0.0, None))
    ax.set_yticks(np.linspace(0.0, 1.0, 6))


def _map(ax: Axes, prediction: ClassPrediction, X: Array) -> None:
    from matplotlib.colors import to_rgb

    p = prediction.probability
    shades = np.array([to_rgb(_look(k)["color"]) for k in range(p.shape[1])])
    colours = 1.0 - _DEPTH * (p @ (1.0 - shades))
    grid = [np.unique(column) for column in X.T]
    if grid[0].size * grid[1].size == len(X) and min(map(len, grid)) > 1:
        order = np.lexsort((X[:, 0], X[:, 1]))
        shape = (grid[1].size, grid[0].size)
        ax.pcolormesh(*grid, colours[order].reshape(*shape, 3), shading="nearest")
        for column in p[order].T:
            rest = np.where(p[order] == column[:, None], -np.inf, p[order]).max(axis=1)
            if np.ptp(np.sign(column - rest)) > 0.0:
                ax.contour(
                    *grid, (column - rest).reshape(shape), [0.0], colors="k", linewidths=0.8
                )
    else:
        ax.scatter(X[:, 0], X[:, 1], c=colours, s=25, lw=0)
    if prediction.data is not None:
        inputs, labels = prediction.data
        for k, name in enumerate(prediction.classes):
            own = inputs[labels == name]
            ax.plot(*own.T, ls="", ms=5, mec="k", mew=0.5, label=str(name), **_look(k))
    ax.set(xlabel="first input", ylabel="second input")
