"""What optimising hyperparameters leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..approximations.reference import GaussianReference
from ..hyper.search import End, Search
from ..models.gp import GPModel
from ..results.evidence import EvidenceResult
from .estimate import log_evidence

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_SAME_PLACE = 0.1  # largest difference of logs between ends of one optimum
_SAME_HEIGHT = 0.01  # nats
_CLOSE = 1.0  # nats below the best at which another optimum matters
_FIXED_POINT = 1e-4  # nats


@dataclass(frozen=True, eq=False)
class Optimum:
    """The hyperparameters at which EP's log Z is largest, and how they were found.

    Made by :func:`evidence.optimise`, where there is an example.
    """

    model: GPModel
    """With these hyperparameters."""
    reference: GaussianReference
    """EP there, fitted from nothing."""
    table: pd.DataFrame
    """One row per hyperparameter (index ``name``): ``value``, ``log_value``, ``se`` of the log
    value, bounds ``lower`` and ``upper`` of the value, ``at_bound``. The standard error is that
    of a normal approximation, from the curvature at the optimum; NaN at a bound."""
    history: pd.DataFrame
    """One row per evaluation: ``restart``, ``logz``, ``objective`` (log Z plus the log density
    of the priors), ``gradient`` (largest component of the projected gradient), ``seconds``;
    NaN where the point was rejected."""
    restarts: pd.DataFrame
    """One row per start (0 is the model's own): where it ended, ``logz``, ``objective``,
    ``iterations``, ``converged`` and ``message``."""
    warnings: tuple[str, ...]
    """What went wrong, in words; empty when nothing did."""
    seconds: float
    """Wall-clock time."""

    @property
    def logz(self) -> float:
        """EP's log Z at the optimum."""
        return self.reference.logz

    @property
    def logz_corrected(self) -> float:
        """EP's log Z with its second-order correction."""
        return self.reference.logz_corrected

    @property
    def rejected(self) -> int:
        """Trial points at which the covariance was singular or EP failed."""
        return int(self.history.objective.isna().sum())

    def evidence(self, **words: Any) -> EvidenceResult:
        """Estimate log Z at the optimum: :func:`evidence.log_evidence` with these words."""
        return log_evidence(self.model, **words)

    def summary(self) -> str:
        """A page of text: the answer, its hyperparameters, and any warnings."""
        width = max(map(len, self.table.index))
        lines = [
            f"log Z = {self.logz:.4f} (EP), {self.logz_corrected:.4f} (EP, corrected)",
            f"kernel: {self.model.kernel}",
            f"{len(self.history)} evaluations ({self.rejected} rejected) from "
            f"{len(self.restarts)} start(s) in {self.seconds:.1f} s",
            "",
            f"{'':<{width}}{'value':>12}{'log value':>12}{'± se':>10}",
        ]
        for name, row in self.table.iterrows():
            se = "at bound" if row.at_bound else f"{row.se:.3f}" if row.se == row.se else "-"
            lines.append(f"{name:<{width}}{row.value:>12.5g}{row.log_value:>12.4f}{se:>10}")
        lines += [f"WARNING: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """How far below the best every evaluation was, start by start."""
        from ..plots.optimum import plot_search

        return plot_search(self, ax)

    def __repr__(self) -> str:
        flag = f", {len(self.warnings)} warning(s)" if self.warnings else ""
        return f"Optimum(logz={self.logz:.4f}, {self.model!r}{flag})"


def report(
    search: Search,
    reference: GaussianReference,
    errors: Array | None,
    interrupted: bool,
    seconds: float,
) -> Optimum:
    """What a finished search says; ``reference`` is EP at its best point, from nothing."""
    import pandas as pd

    assert search.best is not None
    free, moving, theta = search.model.hyperparameters, search.moving, search.best.theta
    names = [free.names[i] for i in moving]
    table = pd.DataFrame(
        {
            "value": np.exp(theta[moving]),
            "log_value": theta[moving],
            "se": np.full(moving.size, np.nan) if errors is None else errors,
            "lower": np.exp(search.bounds[:, 0]),
            "upper": np.exp(search.bounds[:, 1]),
            "at_bound": search.at_bounds(theta),
        },
        index=pd.Index(names, name="name"),
    )
    ends = pd.DataFrame(search.ends).drop(columns="theta").set_index("restart")
    ends[names] = np.exp([end.theta[moving] for end in search.ends])
    warnings = [*reference.warnings, *_on_bounds(table)]
    if interrupted:
        warnings.append("interrupted: this is the best so far")
    elif not np.isfinite(table.se[~table.at_bound]).all():
        warnings.append(_on_curvature(names))
    warnings += _on_search(search.ends, interrupted)
    if len(search.ends) > 1:
        warnings += _on_restarts(search.ends, moving, names)
    gap = reference.logz - search.best.reference.logz
    if abs(gap) > _FIXED_POINT:
        warnings.append(
            f"EP has several fixed points here: fitted from nothing its log Z is {gap:+.4g} from "
            "that of the search, which went from one neighbour to the next"
        )
    history = pd.DataFrame(search.history)
    return Optimum(reference.model, reference, table, history, ends, tuple(warnings), seconds)


def _on_bounds(table: pd.DataFrame) -> list[str]:
    said = []
    for name, row in table[table.at_bound].iterrows():
        near_lower = row.log_value - np.log(row.lower) < np.log(row.upper) - row.log_value
        side, bound = ("lower", row.lower) if near_lower else ("upper", row.upper)
        said.append(
            f"{name} is at its {side} bound {bound:g}: widen its bounds, give it a prior, or "
            "hold it in fixed="
        )
    return said


def _on_curvature(names: list[str]) -> str:
    return (
        f"no standard errors: log Z does not curve downwards in every direction of "
        f"{', '.join(names)}; fix one of those the data do not determine, or give it a prior"
    )


def _on_search(ends: list[End], interrupted: bool) -> list[str]:
    """Starts that did not come to an end of their own."""
    said = []
    best = max(ends, key=lambda end: -np.inf if np.isnan(end.objective) else end.objective)
    if not best.converged and not interrupted:
        said.append(
            f"the search stopped early ({best.message}) after {best.iterations} iterations: "
            "raise max_iterations, or start from here with optimise(optimum.model)"
        )
    lost = [end for end in ends if np.isnan(end.objective) and end.message != "interrupted"]
    if lost:
        said.append(f"{len(lost)} of {len(ends)} starts failed, the last {lost[-1].message}")
    return said


def _on_restarts(ends: list[End], moving: NDArray[np.intp], names: list[str]) -> list[str]:
    """Several optima of about one height, or a best one that only one start found."""
    done = sorted((e for e in ends if np.isfinite(e.objective)), key=lambda e: -e.objective)
    best, others = done[0], done[1:]
    apart = [np.abs(end.theta - best.theta)[moving] for end in others]
    below = [best.objective - end.objective for end in others]
    found = 1 + sum(
        a.max() < _SAME_PLACE or b < _SAME_HEIGHT for a, b in zip(apart, below, strict=True)
    )
    rivals = [
        (a, b) for a, b in zip(apart, below, strict=True) if b < _CLOSE and a.max() >= _SAME_PLACE
    ]
    said = []
    if rivals:
        a, b = rivals[0]
        said.append(
            f"restarts disagree: {len(rivals)} of {len(ends)} ended elsewhere less than a nat "
            f"below the best (the first {b:.2g} nats, with {names[int(a.argmax())]} a factor "
            f"{np.exp(a.max()):.3g} away); average over hyperparameters, or give them priors"
        )
    if found == 1:
        said.append(
            f"the best optimum was found by only 1 of {len(ends)} starts; raise n_restarts to "
            "see whether there is a better one"
        )
    return said
