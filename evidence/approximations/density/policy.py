r"""How hard a search for the mass of a density tries: what ``effort=`` of log_evidence names.

Effort is in counts of evaluations, never in seconds: the same seed gives the same answer. A
density that takes batches says that evaluations are cheap, and is looked at more often.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...execution.arguments import check_choice
from ...models.density.model import DensityModel


@dataclass(frozen=True)
class Policy:
    """Thresholds of a search. Every count is of evaluations or points, every share of Z."""

    screened: int = 2**11
    """Independent draws of the prior, before each halving, that are judged by what a proposal
    leaves unexplained at them. With n of them in all a region of prior mass 3/n is met with 95 %:
    a normal of a third of the width in eight dimensions, with 2e-5 of the prior, was missed by
    2¹⁵ and met by 2¹⁸; a mode of four, met uphill of 1e-5 of the prior, by 2¹⁷ and 2¹⁹."""
    screened_in_batches: int = 2**18
    """The same where the density takes batches."""
    halving: tuple[int, int] = (128, 512)
    """Points of a first and of a second nested halving."""
    halving_budget: int = 40_000
    """Evaluations of one of these; what is not finished by then forbids certainty."""
    halving_budget_in_batches: int = 1_000_000
    """The same where the density takes batches."""
    climbs: int = 16
    """From peaks among what a proposal leaves unexplained, and as many from where the density
    exceeds it by most."""
    reach: float = 5.0
    """Standard deviations of a fit, relative to its own, that take the place of a prior where a
    density has none."""

    def screen(self, model: DensityModel) -> int:
        return self.screened_in_batches if model.vectorized else self.screened

    def budget(self, model: DensityModel) -> int:
        return self.halving_budget_in_batches if model.vectorized else self.halving_budget


NORMAL = Policy()
THOROUGH = replace(
    NORMAL,
    screened=10 * NORMAL.screened,
    screened_in_batches=4 * NORMAL.screened_in_batches,
    halving=(512, 2048),
    halving_budget=10 * NORMAL.halving_budget,
    halving_budget_in_batches=10 * NORMAL.halving_budget_in_batches,
    climbs=4 * NORMAL.climbs,
)
FRUGAL = replace(NORMAL, screened=2**10, screened_in_batches=2**10)
EFFORTS = {"frugal": FRUGAL, "normal": NORMAL, "thorough": THOROUGH}


def policy_of(effort: str) -> Policy:
    """The policy that a word names."""
    check_choice("effort", effort, tuple(EFFORTS))
    return EFFORTS[effort]
