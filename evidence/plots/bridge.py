"""How a posterior and a proposal meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..execution.arguments import number
from ._given import check_drawn
from ._style import INK, legend, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results.bridged import BridgeEvidence


def plot_bridge(result: BridgeEvidence, *, reach: float = 12.0) -> Figure:
    """Histograms of log p/g at draws and at proposals: ``result.plot()``.

    They should overlap around zero. Draws far on the right are where the proposal seldom goes;
    proposals far on the left are wasted.

    Parameters
    ----------
    result : BridgeEvidence
        From :func:`evidence.evidence_from_draws`.
    reach : float
        Nats from zero beyond which values are counted at the edge.
    """
    check_drawn("result", result, "a result of evidence_from_draws", "log_weights")
    figure, ax = new_figure(7, 4)
    reach = number("reach", reach, above=0.0)
    shown = {name: np.clip(u, -reach, reach) for name, u in result.log_weights.items()}
    together = np.concatenate(list(shown.values()))
    bins = np.linspace(together.min() - 1e-6, together.max() + 1e-6, 60)
    looks = {"draws": dict(color=INK, lw=1.6), "proposal": dict(color="0.5", ls="--", lw=1.6)}
    for name, u in shown.items():
        ax.hist(u, bins, histtype="step", density=True, label=name, **looks[name])
    ax.set(xlabel="log posterior / proposal (nats)", ylabel="density")
    ax.set_title(f"log Z = {result.logz:.3f} ± {result.logz_se:.3f}")
    legend(ax)
    return figure
