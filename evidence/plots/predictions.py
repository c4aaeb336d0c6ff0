"""Predictions: along a single input, and of several classes along one input or over two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..messages import InputError
from ._given import check_drawn
from ._style import INK, MARKER_CYCLE, SHADES, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..numerics.arrays import Array
    from ..prediction.classes import ClassPrediction
    from ..prediction.gp import Prediction
    from ..results.replicates import Replicates


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
    wanted = "a result of ev.predict for one latent field"
    check_drawn("prediction", prediction, wanted, "X_new", "quantiles", "likelihood", "data")
    X = prediction.X_new
    if X is None or X.shape[1] != 1:
        given = "no inputs" if X is None else f"{X.shape[1]} inputs"
        raise InputError(
            f"prediction must be along a single input, this one has {given}; of a formula "
            "ev.plot_effects(model, data, name) draws one"
        )
    ax = axes_of(ax, 7, 4)
    order = np.argsort(X[:, 0])
    x = X[order, 0]
    binary = hasattr(prediction.likelihood, "probability")
    middle, low, high = expected(prediction)
    look: dict[str, Any] = {"color": INK, "lw": 0}
    if not binary:
        ends = prediction.quantiles([0.05, 0.95], of="y")[:, order]
        ax.fill_between(x, *ends, alpha=0.12, label="new observation, 90 %", **look)
    name = "P(y = +1)" if binary else "E[y]"
    label = f"{name} given x, 90 %"
    ax.fill_between(x, low[order], high[order], alpha=0.3, label=label, **look)
    ax.plot(x, middle[order], color=INK, lw=1.5, label=name)
    if prediction.data is not None:
        inputs, y = prediction.data
        heights = 0.5 * (y + 1.0) if binary else y
        ax.plot(inputs[:, 0], heights, "o", color="k", ms=3.5, mfc="none", mew=0.8, label="data")
    ax.set(xlabel="input", ylabel=name if binary else "y")
    return legend(ax, fontsize="small")


def expected(prediction: Prediction) -> tuple[Array, Array, Array]:
    """E[y], and E[y|x] at the 5 % and 95 % quantiles of x; for labels, probabilities of +1.

    Links are monotone, so that these are quantiles of E[y|x].
    """
    ends = prediction.quantiles([0.05, 0.95])
    if hasattr(prediction.likelihood, "probability"):
        low, high = prediction.probability_given(ends)
        return prediction.probability, low, high
    low, high = np.sort(prediction.given(ends), axis=0)  # labels may be numbers that fall
    return prediction.y_mean, low, high


def plot_effect(
    x: NDArray[Any], middle: Array, low: Array, high: Array, name: str, response: str,
    at: Array, seen: Array | None, ax: Axes | None = None, *, names: int = 8, letters: int = 40,
    spread: float = 0.4,
) -> Axes:  # fmt: skip
    """An expected response and its interval, along a number or for each of some categories.

    Parameters
    ----------
    x : array (n,)
        Numbers, or names of categories.
    middle, low, high : array (n,)
    name, response : str
        Of the covariate, and of what is expected.
    at, seen : array (N,)
        Covariate of the data, or the number of its category, and their response.
    ax : Axes, optional
        Where to draw; by default on axes of its own.
    names, letters : int
        Of categories, up to which their names lie flat; with more letters they are slanted, more
        names stand on end.
    spread : float
        Part of the distance between categories over which their data are spread.
    """
    ax = axes_of(ax, 6, 4)
    if x.dtype.kind in "iuf":
        ax.fill_between(x, low, high, color=INK, alpha=0.25, lw=0, label="90 %")
        ax.plot(x, middle, color=INK, lw=1.5, label=response)
    else:
        places = np.arange(len(x))
        ax.vlines(places, low, high, color=INK, lw=1.4, label="90 %")
        ax.plot(places, middle, "o", color=INK, ms=5, label=response)
        at = at + np.random.default_rng(0).uniform(0.1, spread, at.size)
        words = [str(value) for value in x]
        turned = 90 if len(x) > names else 30 if sum(map(len, words)) > letters else 0
        ax.set_xticks(places, words, rotation=turned, ha="right" if turned == 30 else "center")
        ax.set_xlim(-0.6, len(x) - 0.4)
    if seen is not None:
        ax.plot(at, seen, "o", ms=3, mfc="none", mec="0.5", mew=0.7, zorder=1, label="data")
    ax.set(xlabel=name, ylabel=response)
    return legend(ax, fontsize="small")


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
    wanted = "a result of ev.predict for several classes"
    check_drawn("prediction", prediction, wanted, "X_new", "classes", "probability", "data")
    X = prediction.X_new
    if X is None or X.shape[1] not in (1, 2):
        given = "no inputs" if X is None else f"{X.shape[1]} inputs"
        raise InputError(f"prediction must be along one or two inputs, this one has {given}")
    single = X.shape[1] == 1
    beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if ax is None else {}
    ax = axes_of(ax, 7, 4 if single else 5)
    (_lines if single else _map)(ax, prediction, X)
    return legend(ax, **beside, fontsize="small")


def _look(k: int) -> dict[str, Any]:
    return {"color": SHADES[k % len(SHADES)], "marker": MARKER_CYCLE[k % len(MARKER_CYCLE)]}


def _lines(ax: Axes, prediction: ClassPrediction, X: Array) -> None:
    dashes = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
    order = np.argsort(X[:, 0])
    x = X[order, 0]
    for k, name in enumerate(prediction.classes):
        look = _look(k)
        ax.plot(
            x, prediction.probability[order, k], ls=dashes[k % len(dashes)], lw=1.5,
            color=look["color"], label=str(name),
        )  # fmt: skip
        if prediction.data is not None:
            at = prediction.data[0][prediction.data[1] == name, 0]
            ax.plot(at, np.full(at.size, 1.04 + 0.035 * k), ls="", ms=3.5, mfc="none", **look)
    ax.set(xlabel="input", ylabel="probability of the class", ylim=(0.0, None))
    ax.set_yticks(np.linspace(0.0, 1.0, 6))


def _map(ax: Axes, prediction: ClassPrediction, X: Array, depth: float = 0.5) -> None:
    """Colours of classes, of which ``depth`` is left where one is certain."""
    from matplotlib.colors import to_rgb

    p = prediction.probability
    shades = np.array([to_rgb(_look(k)["color"]) for k in range(p.shape[1])])
    colours = 1.0 - depth * (p @ (1.0 - shades))
    grid = [np.unique(column) for column in X.T]
    if grid[0].size * grid[1].size == len(X) and min(map(len, grid)) > 1:
        order = np.lexsort((X[:, 0], X[:, 1]))
        shape = (grid[1].size, grid[0].size)
        ax.pcolormesh(*grid, colours[order].reshape(*shape, 3), shading="nearest")
        for column in p[order].T:
            rest = np.where(p[order] == column[:, None], -np.inf, p[order]).max(axis=1)
            lead = (column - rest).reshape(shape)
            if np.ptp(np.sign(lead)) > 0.0:
                ax.contour(*grid, lead, [0.0], colors="k", linewidths=0.8)
    else:
        ax.scatter(X[:, 0], X[:, 1], c=colours, s=25, lw=0)
    if prediction.data is not None:
        inputs, labels = prediction.data
        for k, name in enumerate(prediction.classes):
            own = inputs[labels == name]
            ax.plot(*own.T, ls="", ms=5, mec="k", mew=0.5, label=str(name), **_look(k))
    ax.set(xlabel="first input", ylabel="second input")


def plot_replicates(replicates: Replicates, ax: Axes | None = None, *, few: int = 12) -> Axes:
    """The distribution function of the data, and the 90 % band of those of replicated data.

    Data of ``few`` values at most (labels, small counts) have the share of each instead.

    Parameters
    ----------
    replicates : Replicates
        Of :func:`evidence.replicate`; ``replicates.plot()`` is the same.
    ax : Axes, optional
    few : int
        More bars than twelve stand too close to be read.
    """
    check_drawn("replicates", replicates, "a result of ev.replicate", "y", "replicated")
    ax, y, made = axes_of(ax), replicates.y, replicates.replicated
    label, each = f"{replicates.source}, 90 %", np.vstack([y, made])
    values = np.unique(each)
    if values.size <= few:
        share = np.array([(each == value).mean(axis=1) for value in values]).T
        low, high = np.quantile(share[1:], [0.05, 0.95], axis=0)
        at = np.arange(values.size)
        ax.bar(at, high - low, 0.6, low, color=INK, alpha=0.2, label=label)
        ax.plot(at, share[0], "o", color=INK, label="data")
        ax.set(xlabel="y", ylabel="share of the data", ylim=(0.0, None))
        ax.set_xticks(at, [f"{value:g}" for value in values])
        return legend(ax, fontsize="small")
    low, high = np.quantile(np.r_[made.ravel(), np.repeat(y, len(made))], [0.005, 0.995])
    grid = np.unique(np.r_[y, np.linspace(low, high, 200)])
    each = np.array([np.searchsorted(np.sort(row), grid, "right") for row in each]) / y.size
    low, high = np.quantile(each[1:], [0.05, 0.95], axis=0)
    ax.fill_between(grid, low, high, step="post", color=INK, alpha=0.2, lw=0, label=label)
    ax.step(grid, each[0], where="post", color=INK, label="data")
    ax.set(xlabel="y", ylabel="distribution function")
    return legend(ax, fontsize="small")
