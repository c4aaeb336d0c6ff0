"""Every parameter against every other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..execution.arguments import array, check_count, listed, number, shown
from ..execution.lazy import Axes, Figure
from ..messages import InputError
from ._style import SHADES, log_ticks, new_figure

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..numerics.arrays import Array, Flags
    from ..results.draws import Draws
    from ..results.evidence import EvidenceResult


def plot_corner(
    draws: Draws | EvidenceResult | ArrayLike,
    names: Sequence[str] | None = None,
    periods: Mapping[str, float] | None = None,
    *,
    points: int = 2000,
) -> Figure:
    """Marginal histograms with the median and a 90 % interval; scatter plots below them.

    Draws of several components (:attr:`.EvidenceResult.component`) differ in colour.

    Parameters
    ----------
    draws : EvidenceResult, Draws or array (S, d)
        Equally weighted draws.
    names : sequence of str, optional
        Parameters to show, by default the first eight; of an array, names of all its columns.
    periods : mapping of str to float, optional
        Of angles, such as ``{"omega": 2.0 * np.pi}``: each is cut where draws leave the widest
        gap, not where its range ends, and those before the cut are drawn one period later.
    points : int
        Draws that are shown, at most.

    Examples
    --------
    >>> figure = plot_corner(np.random.default_rng(0).normal(size=(200, 2)), ["a", "b"])
    >>> [ax.get_xlabel() for ax in figure.axes if ax.get_visible()]
    ['', 'a', 'b']
    """
    most = 8  # parameters that are shown unless others are asked for
    check_count("points", points, optional=False)
    x, known, component = _read(draws, names)
    chosen = known[:most] if names is None else list(names)
    for word, asked in (("names", chosen), ("periods", periods or ())):
        if strange := [name for name in asked if name not in known]:
            raise InputError(f"{word}: {shown(strange[0])} is none of {', '.join(known[:20])}")
    for name, period in (periods or {}).items():
        own = known.index(name)
        x[:, own] = _recut(x[:, own], number(f"periods[{name!r}]", period, above=0.0))
    x = x[:, [known.index(name) for name in chosen]]
    return pairs(x, chosen, points, np.zeros(len(chosen), bool), component)


def pairs(
    x: Array, names: Sequence[str], points: int, logs: Flags, component: Array | None = None
) -> Figure:
    """Histograms of columns on the diagonal, so many points of pairs below it, named at the
    edges; on logarithmic axes where ``logs``."""
    component = np.zeros(len(x)) if component is None else component
    some = np.random.default_rng(0).permutation(len(x))[:points]
    k = len(names)
    figure, axes = new_figure(1.0 + 1.7 * k, 1.0 + 1.7 * k, k, k, squeeze=False, sharex="col")
    for (i, j), ax in np.ndenumerate(axes):
        if j > i:
            ax.set_visible(False)
            continue
        if i == k - 1:
            ax.set_xlabel(names[j])
        if j == 0 and i > 0:
            ax.set_ylabel(names[i])
        if logs[j]:
            ax.set_xscale("log")
            log_ticks(ax.xaxis)
        if i == j:
            _marginal(ax, x[:, i], bool(logs[i]))
            continue
        if logs[i]:
            ax.set_yscale("log")
            log_ticks(ax.yaxis)
        for c in np.unique(component):
            rows = some[component[some] == c]
            shade = SHADES[int(c) % len(SHADES)]
            ax.plot(x[rows, j], x[rows, i], ".", ms=2, alpha=0.4, color=shade)
    return figure


def _recut(x: Array, period: float) -> Array:
    """Angles in one turn that begins after the widest gap between them.

    >>> _recut(np.array([0.1, 0.2, 0.9]), 1.0).round(6).tolist()
    [1.1, 1.2, 0.9]
    """
    ends = np.sort(x % period)
    widest = int(np.argmax(np.diff(ends, append=ends[0] + period)))
    start = ends[(widest + 1) % len(ends)]
    return start + (x - start) % period


def _marginal(ax: Axes, x: Array, log: bool, bins: int = 30) -> None:
    edges = np.geomspace(x.min(), x.max() * (1.0 + 1e-12), bins + 1).tolist() if log else bins
    ax.hist(x, edges, color="0.8")
    low, middle, high = np.quantile(x, [0.05, 0.5, 0.95])
    for at, style in ((low, ":"), (middle, "-"), (high, ":")):
        ax.axvline(at, ls=style, color=SHADES[0], lw=1.0)
    coarse = max(abs(low), abs(high)) / max(high - low, 1e-300)  # digits that draws share
    digits = 3 + int(np.log10(max(coarse, 1.0)))
    ax.set_title(f"{middle:.{digits}g} ({low:.{digits}g}, {high:.{digits}g})", fontsize=8)
    ax.set_yticks([])


def _read(draws: object, names: Sequence[str] | None) -> tuple[Array, list[str], Array]:
    """Rows, names of columns, and the component of every row."""
    component = np.zeros(0)
    known = [] if names is None else listed("names", names)
    if isinstance(draws, type) or not hasattr(draws, "latent_draws"):
        x = array("draws (a result with posterior draws, or an array)", draws, ("S", "d"))
    else:
        x, known = np.asarray(draws.latent_draws), list(getattr(draws, "names", ()))
        x = x.reshape(-1, x.shape[-1]).copy() if x.size else x
        component = getattr(draws, "component", component)
    if not x.size:
        raise InputError(
            f"draws: {shown(draws)} holds no posterior draws: the run ended before it drew, or "
            "its method leaves none"
        )
    if len(known) != x.shape[1]:
        known = [f"x[{i}]" for i in range(x.shape[1])]
    return x, known, component if len(component) == len(x) else np.zeros(len(x))
