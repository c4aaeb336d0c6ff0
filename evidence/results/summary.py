"""What a regression found: the posterior of effects, of standard deviations, of every group."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr, ndtri

from .. import plots
from ..execution.arguments import shown
from ..execution.lazy import pd
from ..messages import InputError, Message
from ..numerics.arrays import Array
from .base import Axes, DataFrame, ResultOnAxes, quantiles_of

_EFFECT = r"^((?:.*?\|)?[^\[]*)\["  # "x|g" of "x|g[3]"


@dataclass(frozen=True, eq=False, repr=False)
class Summary(ResultOnAxes):
    """Posterior means, standard deviations and quantiles of everything in a regression.

    Made by :func:`evidence.summarise`. :meth:`plot` draws common
    effects and hyperparameters with their intervals, :meth:`plot_groups` the effects of groups.

    Attributes
    ----------
    common, hyperparameters, groups : DataFrame
        A row for each, index ``name``: ``mean``, ``sd``, ``q5``, ``median``, ``q95`` (or the ends
        of the interval asked for); groups have a column ``term`` besides.

    Examples
    --------
    >>> import evidence as ev
    >>> data = {"y": [1.2, 0.4, 2.2, 1.9], "x": [0.0, 1.0, 2.0, 3.0], "g": list("aabb")}
    >>> model = ev.from_formula("y ~ x + (1 | g)", data, priors={"sigma": 1.0, "sd(1|g)": 0.5})
    >>> summary = ev.summarise(model)
    >>> list(summary.common.index), list(summary.groups.index)
    (['Intercept', 'x'], ['1|g[a]', '1|g[b]'])
    """

    _format = "evidence-summary"

    common: DataFrame
    hyperparameters: DataFrame
    groups: DataFrame
    about: str = ""
    warnings: tuple[Message, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def table(self) -> DataFrame:
        """Common effects, then hyperparameters."""
        parts = [part for part in (self.common, self.hyperparameters) if len(part)]
        return pd.concat(parts or [self.common])

    def _about(self) -> list[str]:
        n = len(self.groups)
        return [self.about, f"effects of groups: {n}, not shown" if n else "no effects of groups"]

    def _draw(self, ax: Axes | None) -> Axes:
        return plots.plot_intervals(self.table, ax, standardised=True)

    def plot_groups(self, term: str | None = None, ax: Axes | None = None) -> Axes:
        """The effects of groups, from the smallest to the largest, a panel for each effect.

        Parameters
        ----------
        term : str, optional
            One of ``groups.term``, such as ``"1|clinic"``, or one of its effects; all by default.
        ax : Axes, optional
            For one panel alone, the first of the term.

        Returns
        -------
        Axes
            The first panel; the others are beside it on its figure.
        """
        from ..plots.hyper import panels_of

        if not len(self.groups):
            raise InputError("term: this model has no effects of groups")
        effect = self.groups.index.str.extract(_EFFECT, expand=False)
        known = list(dict.fromkeys([*self.groups.term, *effect]))
        if term is not None and term not in known:
            raise InputError(f"term must be one of {', '.join(known)}, got {shown(term)}")
        own = (term is None) | (self.groups.term == term) | (effect == term)
        panels = self.groups[own].groupby(effect[own], sort=False)
        return panels_of({str(name): part.sort_values("mean") for name, part in panels}, ax)


def of_mixture(mean: Array, var: Array, level: float = 0.9) -> dict[str, Array]:
    """Moments and quantiles of equal mixtures of normals, (S, n): columns of a table.

    >>> columns = of_mixture(np.array([[0.0], [2.0]]), np.ones((2, 1)))
    >>> columns["mean"].tolist(), columns["median"].round(6).tolist()
    ([1.0], [1.0])
    """
    sd = np.sqrt(var)
    columns = {"mean": mean.mean(axis=0), "sd": np.sqrt(var.mean(axis=0) + mean.var(axis=0))}
    for name, q in quantiles_of(level).items():
        each = mean + ndtri(q) * sd
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(0 if len(mean) == 1 else 40):
            middle = 0.5 * (low + high)
            below = ndtr((middle - mean) / sd).mean(axis=0) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        columns[name] = 0.5 * (low + high)
    return columns
