"""Data that a model would make, beside those there are."""

from __future__ import annotations

from dataclasses import dataclass

from .. import plots
from ..numerics.arrays import Array
from .base import ResultOnAxes


@dataclass(frozen=True, eq=False, repr=False)
class Replicates(ResultOnAxes):
    """Draws of data from the prior or the posterior; made by :func:`evidence.replicate`.

    :meth:`plot` draws the distribution function of the data and where nine of ten of those of
    replicated data are; of data of few values the share of each.

    Attributes
    ----------
    y : array (N,)
        The data.
    replicated : array (draws, N)
        Data from the model.
    source : str
        ``"prior"`` or ``"posterior"``.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> made = ev.replicate(model, draws=5, random_seed=0)
    >>> made.source, made.replicated.shape
    ('prior', (5, 2))
    """

    _format = "evidence-replicates"
    _draw = plots.plot_replicates
    _shapes = (("y", ("N",)), ("replicated", ("draws", "N")))

    y: Array
    replicated: Array
    source: str

    def _about(self) -> list[str]:
        return [f"{len(self.replicated)} data sets like the {self.y.size} from the {self.source}"]
