"""Densities in the plane, their metric, and the way moves go through them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..execution.arguments import array, number
from ..messages import InputError
from ._given import check_drawn
from ._style import INK, axes_of, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..models.density.model import DensityModel
    from ..moves.hamiltonian.trajectories import Trajectory


def _check(model: DensityModel) -> None:
    check_drawn("model", model, "a DensityModel", "log_prob", "names", "metric")


def _check_way(way: Trajectory) -> None:
    check_drawn("way", way, "a Trajectory of ev.moves.trajectory", "energy_error", "x")


def plot_density(
    model: DensityModel, ax: Axes | None = None, *, across: tuple[float, float],
    up: tuple[float, float], drops: tuple[float, ...] = (0.5, 1.5, 3.0, 5.0, 8.0, 12.0),
) -> Axes:  # fmt: skip
    """Grey contours of a density of two parameters.

    Parameters
    ----------
    model : DensityModel
        Of dimension 2.
    ax : Axes, optional
    across, up : tuple of float
        What to show of the first parameter, and of the second.
    drops : tuple of float
        Nats below the top at which there are contours.

    Examples
    --------
    >>> import evidence as ev
    >>> import matplotlib.pyplot as plt
    >>> model = ev.examples.banana().model
    >>> ax = ev.plots.plot_density(model, plt.figure().gca(), across=(-20, 20), up=(-15, 10))
    """
    grid = 161
    _check(model)
    (left, right), (low, high) = array("across", across, (2,)), array("up", up, (2,))
    ax = axes_of(ax)
    if len(model.names) != 2:
        raise InputError(f"model must have two parameters, got {len(model.names)}")
    x, y = np.linspace(left, right, grid), np.linspace(low, high, grid)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    log_p = np.asarray(model.log_prob(points)).reshape(grid, grid)
    top = float(np.nanmax(log_p))
    levels = top - np.unique(array("drops", drops, ("n",)))[::-1]
    ax.contour(x, y, log_p, levels=levels, colors="0.7", linewidths=0.8, linestyles="solid")
    ax.set(xlabel=model.names[0], ylabel=model.names[1], xlim=across, ylim=up)
    return ax


def plot_trajectory(
    way: Trajectory, ax: Axes | None = None, *, label: str = "", style: str = "o-",
    color: str = INK,
) -> Axes:  # fmt: skip
    """A trajectory of :func:`evidence.moves.trajectory`, from a cross to a larger marker.

    Parameters
    ----------
    way : Trajectory
    ax : Axes, optional
    label, style, color : str
        For the legend, and as Matplotlib's.
    """
    _check_way(way)
    ax = axes_of(ax)
    if way.x.shape[1] < 2:
        raise InputError("way must be a trajectory of two parameters or more, got one")
    finite = np.isfinite(way.x).all(axis=1)
    x, y = way.x[finite, 0], way.x[finite, 1]
    ax.plot(x, y, style, color=color, ms=3, lw=1.2, label=label)
    ax.plot(x[:1], y[:1], "x", color="k", ms=9, mew=2, zorder=4)
    ax.plot(x[-1:], y[-1:], style[:1], color=color, ms=8, mec="w", zorder=4)
    names = ax.get_xlabel() or "first latent value", ax.get_ylabel() or "second latent value"
    ax.set(xlabel=names[0], ylabel=names[1])  # a density below has named them
    return ax


def plot_energy_error(
    way: Trajectory, ax: Axes | None = None, *, label: str = "", style: str = "o-",
    color: str = INK,
) -> Axes:  # fmt: skip
    """How far H is off along a trajectory, logarithmic where that is more than 10 nats.

    Parameters
    ----------
    way : Trajectory
    ax : Axes, optional
    label, style, color : str
        For the legend, and as Matplotlib's.
    """
    large = 10.0  # nats: errors beyond this need a logarithmic axis
    _check_way(way)
    ax = axes_of(ax)
    ax.plot(
        np.arange(len(way.energy_error)), way.energy_error, style, color=color, ms=3, lw=1.2,
        label=label,
    )  # fmt: skip
    ax.axhline(0.0, color="0.6", lw=0.8, zorder=0)
    if np.nanmax(np.abs(way.energy_error)) > large:
        ax.set_yscale("symlog", linthresh=1.0)
    ax.set(xlabel="leapfrog step", ylabel="energy error (nats)", title="Error of the Hamiltonian")
    return whole_ticks(ax)


def plot_metric(
    model: DensityModel, points: ArrayLike, ax: Axes | None = None, *, size: float = 1.0
) -> Axes:
    """Ellipses wᵀ G(x) w = size² of the metric that Riemannian moves use.

    Parameters
    ----------
    model : DensityModel
        Of dimension 2, with a metric.
    points : array (M, 2)
        Where.
    ax : Axes, optional
    size : float
        Of the ellipses, in standard deviations.
    """
    from matplotlib.patches import Ellipse

    from ..moves.riemannian.dense.field import DensityField
    from ..paths.density import own_path

    _check(model)
    points, size = np.atleast_2d(array("points", points, (2,), ("M", 2))), number("size", size)
    ax = axes_of(ax)
    metric = DensityField(own_path(model), np.ones(len(points))).metric(points)
    basis = np.broadcast_to(np.eye(2), (len(points), 2, 2))
    inverse = np.stack([metric.solve(basis[:, i]) for i in range(2)], axis=-1)
    for point, cov, bad in zip(points, inverse, metric.bad, strict=True):
        if bad:
            continue
        values, vectors = np.linalg.eigh(cov)
        width, height = 2.0 * size * np.sqrt(values)
        angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
        ax.add_patch(Ellipse(tuple(point), width, height, angle=angle, fc="none", ec=INK, lw=0.9))
    return ax
