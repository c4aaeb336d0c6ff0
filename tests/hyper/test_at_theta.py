"""Evidence at one setting of hyperparameters, and settings that have none."""

from __future__ import annotations

import numpy as np
import pytest

import evidence as ev
from evidence import precisions
from evidence.hyper.at_theta import NoEvidence, ep_at


@pytest.mark.parametrize("log_odds", [28.0, 50.0])
def test_a_share_that_rounds_to_one_has_no_evidence(log_odds: float) -> None:
    # a default prior of bym2 has mass there, where a matrix is singular or 1 - phi is zero
    areas = precisions.bym2([(0, 1), (1, 2), (2, 3), (3, 4)], sigma=0.5)
    model = ev.SparseModel(areas, [3, 1, 4, 1, 5], likelihood="poisson")
    assert np.isfinite(ep_at(model, np.array([-0.7, 3.0])).logz)
    with pytest.raises(NoEvidence):
        ep_at(model, np.array([-0.7, log_odds]))
