"""How log Z moves when priors are made narrower or wider."""

from __future__ import annotations

from dataclasses import dataclass

from .. import plots
from ..messages import Message
from .base import Axes, DataFrame, ResultOnAxes


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(ResultOnAxes):
    """Changes of log Z, or of log Bayes factors, one prior at a time.

    Made by :func:`evidence.prior_sensitivity`.

    Attributes
    ----------
    table : DataFrame
        A row for each prior and factor, index ``prior``: the ``factor`` of its scale, the
        ``change`` of log Z, its standard error ``se`` (NaN where data see several predictors and
        it is computed anew: nothing tells), and ``how`` it was found. With two or more models a
        column ``model`` says whose log Z it is; its log Bayes factors against the others change by
        as much.

    Examples
    --------
    >>> import evidence as ev
    >>> data = {"y": [1.2, 0.4, 2.2, 1.9, 0.3], "x": [0.0, 1.0, 2.0, 3.0, 4.0]}
    >>> model = ev.from_formula("y ~ x", data, priors={"sigma": 1.0})
    >>> moved = ev.prior_sensitivity(model, random_seed=0)
    >>> sorted(set(moved.table.index)), sorted(set(moved.table.factor))
    (['Intercept', 'x'], [0.5, 2.0])
    """

    _format = "evidence-sensitivity"
    _digits = ".3f"

    table: DataFrame
    about: str = ""
    warnings: tuple[Message, ...] = ()

    def _about(self) -> list[str]:
        return [self.about]

    def _draw(self, ax: Axes | None) -> Axes:
        return plots.plot_sensitivity(self.table, ax)
