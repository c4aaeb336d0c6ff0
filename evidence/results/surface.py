"""Evidence over a grid of hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass

from .. import plots
from ..messages import InputError, Message
from .base import DataFrame, Result


@dataclass(frozen=True, eq=False, repr=False)
class Surface(Result):
    """Evidence over a grid, one row per cell, and its picture.

    Made by :func:`evidence.evidence_surface`. :meth:`plot` draws
    cells over two hyperparameters, or curves over one; errors of EP beside them.

    Attributes
    ----------
    names : tuple of str
        Hyperparameters along the axes.
    table : DataFrame
        Their values, then ``ep``, ``ep_corrected``, ``logz``, ``logz_se``, ``method``,
        ``seconds``, ``warnings`` (texts, empty when all is well).
    warnings : tuple of Message
        What to be careful about: texts, each with a ``code``.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel([0.0, 1.0, 2.0], [1, 1, -1], "1.0 * RBF(1.0)")
    >>> surface = ev.evidence_surface(model, {"length_scale": [0.5, 1.0, 2.0]}, progressbar=False)
    >>> surface.names, len(surface.table)
    (('k2__length_scale',), 3)
    """

    _format = "evidence-surface"
    _figure = plots.plot_surface

    names: tuple[str, ...]
    table: DataFrame
    warnings: tuple[Message, ...] = ()

    @property
    def column(self) -> str:
        """The best there is: ``logz`` where Monte Carlo was run, else ``ep_corrected``."""
        return "logz" if self.table.logz.notna().any() else "ep_corrected"

    @property
    def best(self) -> dict[str, float]:
        """Hyperparameters of the cell with the largest evidence, for ``model.at``."""
        values = self.table[self.column]
        if values.isna().all():
            raise InputError("no cell has an evidence: " + "; ".join(self.warnings))
        row = self.table.loc[values.idxmax()]
        return {name: float(row[name]) for name in self.names}

    def _about(self) -> list[str]:
        size = " x ".join(str(self.table[name].nunique()) for name in self.names)
        axes = f"{size}: {', '.join(self.names)}"
        top = self.table[self.column].max()
        if top != top:
            return [f"{axes}; no evidence yet"]
        where = ", ".join(f"{name} = {value:.4g}" for name, value in self.best.items())
        return [f"{axes}; largest {top:.3f} at {where}"]
