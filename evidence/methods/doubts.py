"""What makes an error bar wider than islands make it: doubts, and where they are settled."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .base import Outcome


class Doubt(NamedTuple):
    """A reason to widen an error bar: by so much in quadrature, or until it is as wide."""

    size: float
    least: bool = False


def widen(outcome: Outcome, target_se: float | None = None, met: float = 2.0) -> None:
    """Settle all doubts: the one place where an error bar becomes wider than islands make it.

    Islands stop at the target by their own spread: a wider bar that misses it, by a factor of
    more than ``met``, is told.
    """
    before = outcome.logz_se
    added = [doubt.size for doubt in outcome.doubts if not doubt.least]
    least = [doubt.size for doubt in outcome.doubts if doubt.least]
    outcome.logz_se = math.hypot(outcome.logz_se, *added) if added else outcome.logz_se
    if least:  # of an approximation without an error bar they say nothing
        outcome.logz_se = float(np.maximum(outcome.logz_se, max(least)))
    outcome.doubts = []
    if target_se is not None and before <= met * target_se < outcome.logz_se:
        outcome.warn(
            "target-missed",
            f"target_se={target_se:g} was met by the spread of islands, ± {before:.2g}, but what "
            f"they cannot see is worth ± {math.sqrt(outcome.logz_se**2 - before**2):.2g} more",
        )
