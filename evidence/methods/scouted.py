"""What a scout from the prior saw, compared with the answer: an independent second opinion."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Outcome

_STANDARD_ERRORS = 3.0


def compare_with_scout(reference: Any, outcome: Outcome) -> None:
    """A warning, and an error bar as wide as the gap, where the scout saw clearly more."""
    parts = getattr(reference, "components", (reference,))
    scouted = getattr(parts[0], "scouted", None)
    if scouted is None or np.isnan(outcome.logz):
        return
    gap = scouted.logz - outcome.logz
    if gap > _STANDARD_ERRORS * np.hypot(scouted.se, np.nan_to_num(outcome.logz_se)):
        outcome.warn(
            "scout-saw-more",
            f"a look from the prior, which shares nothing with this estimate, sees log Z = "
            f"{scouted.logz:.1f} ± {scouted.se:.1f}: a part of the posterior may be missing; "
            "the error bar is as wide as the gap",
        )
        outcome.logz_se = float(np.fmax(outcome.logz_se, gap))
