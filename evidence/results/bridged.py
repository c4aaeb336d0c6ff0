"""The log evidence by bridge sampling, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .. import plots
from ..numerics.arrays import Array
from .base import DataFrame, data_frame
from .evidence import EvidenceResult


@dataclass(eq=False, repr=False)
class BridgeEvidence(EvidenceResult):
    """The log evidence from draws; made by :func:`evidence.evidence_from_draws`.

    It is an :class:`~evidence.EvidenceResult`, with what its error consists of.

    Attributes
    ----------
    logz, logz_se : float
        log Z and its standard error, which is also the relative standard error of Z.
    se_draws, se_proposal : float
        What the draws, and what the proposal's draws, contribute, weighted as they are; their
        squares sum to that of ``logz_se``. ``notes`` say what more of either would do.
    pareto_k : float
        Shape of the heaviest tail among what is averaged.
    ess : float
        Effective number of draws, of what is averaged.
    overlap : float
        Of posterior and proposal: 1 where they are the same, 0 where they are far apart.
    halves : DataFrame
        The two estimates that were averaged, each from one half of every chain with a proposal
        fitted to the other: ``logz``, ``logz_se``, ``ess``, ``overlap``, ``k_draws``,
        ``k_proposal``.
    log_weights : dict of arrays
        log of posterior over proposal, both normalised, at ``"draws"`` and at ``"proposal"``.

    Examples
    --------
    >>> import evidence as ev
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(2, 200, 1))
    >>> bridged = ev.evidence_from_draws(draws, lambda x: -0.5 * x[0] ** 2, random_seed=0)
    >>> bool(abs(bridged.logz - 0.9189) < 4 * bridged.logz_se), len(bridged.halves)
    (True, 2)
    """

    _format = "evidence-bridge"
    _figure = plots.plot_bridge

    se_draws: float = np.nan
    se_proposal: float = np.nan
    pareto_k: float = np.nan
    ess: float = np.nan
    overlap: float = np.nan
    half_columns: dict[str, Array] = field(default_factory=dict)
    log_weights: dict[str, Array] = field(default_factory=dict)

    @property
    def halves(self) -> DataFrame:
        """One row per half of the draws."""
        return data_frame(self.half_columns)

    def _about(self) -> list[str]:
        error = f"error: {self.se_draws:.2g} from the draws, {self.se_proposal:.2g} from the "
        worth = f"effective draws {self.ess:.0f}, overlap {self.overlap:.2f}, "
        return [*super()._about(), error + "proposal's", worth + f"Pareto k {self.pareto_k:.2f}"]
