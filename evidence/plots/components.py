"""Figures of a posterior with several parts: what each holds of Z, and where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._given import check_drawn
from ._style import INK, axes_of, bars, legend, looks, nothing, whole_ticks, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..results.evidence import EvidenceResult

_NONE = "one Gaussian was enough: there are no components"


def _axes(result: EvidenceResult, ax: Axes | None) -> Axes:
    """Those given, or new ones, for a result that has what is drawn."""
    check_drawn("result", result, "an EvidenceResult", "component_rows", "component", "samples")
    return axes_of(ax)


def plot_components(result: EvidenceResult | Any, ax: Axes | None = None) -> Axes:
    """log Z of every component with its error bar, beside that of all of them.

    Parameters
    ----------
    result : EvidenceResult
        Of a mixture: see :attr:`.EvidenceResult.components`.
    ax : Axes, optional
    """
    ax = _axes(result, ax)
    if not result.component_rows:
        return nothing(ax, _NONE)
    names, each, se = zip(*result.component_rows, strict=True)
    at, logz = np.arange(len(names)), np.array(each)
    bars(ax, at, logz, np.nan_to_num(se), "o", INK, "component")
    for x, z in enumerate(each):
        write(ax, f"{np.exp(z - result.logz):.1%}", x, z, color="k", fontsize="medium")
    ax.axhline(result.logz, color="0.5", lw=1.0, label="all")
    ax.set(xlabel="component", ylabel=r"$\log Z$ (nats)", title="Shares of the posterior")
    ax.set_xticks(at, [f"{i}\n{name}" for i, name in enumerate(names)])
    ax.margins(x=0.15, y=0.15)
    return legend(ax)


def plot_modes(result: EvidenceResult | Any, ax: Axes | None = None) -> Axes:
    """Where the components lie: mean and standard deviation of each in every parameter.

    In units of the whole posterior: its mean is 0 and its standard deviation 1.

    Parameters
    ----------
    result : EvidenceResult
        Of a mixture: see :attr:`.EvidenceResult.components`.
    ax : Axes, optional
    """
    many = 24  # parameters beyond which their names would collide
    share = 0.5  # of the distance between parameters, over which components are spread
    ax = _axes(result, ax)
    x, component = result.samples, result.component
    if not len(component) or len(component) != len(x):
        return nothing(ax, _NONE)
    spread = x.std(axis=0)
    z = (x - x.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    at, found = np.arange(x.shape[1]), np.unique(component)
    shifts = share * ((np.arange(found.size) + 0.5) / found.size - 0.5)
    for c, shift, (marker, shade) in zip(found, shifts, looks(), strict=False):
        its = z[component == c]
        label = f"component {int(c)}, {len(its) / len(z):.1%}"
        bars(ax, at + shift, its.mean(axis=0), its.std(axis=0), marker, shade, label)
    ax.axhline(0.0, color="0.8", lw=0.8, zorder=0)
    ax.set(ylabel="standard deviations", title="Where the modes are")
    if at.size <= many and len(result.names) == at.size:
        ax.set_xticks(at, result.names, rotation=45 if at.size > 6 else 0)
    else:
        ax.set_xlabel("parameter")
        whole_ticks(ax)
    return legend(ax)
