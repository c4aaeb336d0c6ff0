from __future__ import annotations

import numpy as np
import pytest

from evidence.drivers import ladders


def test_next_beta_meets_the_conditional_ess():
    tilt = np.random.default_rng(0).normal(0, 5, size=1000)
    beta = ladders.next_beta(tilt, 0.2, 0.9)
    assert 0.2 < beta < 1.0
    assert ladders.conditional_ess(tilt, beta - 0.2) == pytest.approx(0.9, abs=1e-3)


def test_flat_tilt_goes_straight_to_one():
    assert ladders.next_beta(np.zeros(10), 0.0, 0.9) == 1.0


def test_always_forward():
    """Dead and hopeless particles cannot stop the climb."""
    assert ladders.next_beta(np.array([0.0, -np.inf, 0.1, 0.2]), 0.5, 0.99) == 1.0
    assert ladders.next_beta(np.array([0.0, -1e200, -1e200, 1e3]), 0.5, 0.99) > 0.5
    assert ladders.next_beta(np.full(3, -np.inf), 0.5, 0.99) == 1.0


def test_ladders_end_at_one():
    for ladder in (ladders.geometric(7), ladders.linear(5), ladders.check([0.5, 1.0])):
        assert ladder[0] == 0.0
        assert ladder[-1] == 1.0
        assert (np.diff(ladder) > 0).all()


@pytest.mark.parametrize(
    ("betas", "message"),
    [
        ([0.0, 0.5, 0.5, 1.0], "increase strictly"),
        ([0.0, 0.5], "increase strictly from 0 to 1"),
        ([], "vector"),
        ([[0.0, 1.0]], "vector"),
        ([0.0, np.nan, 1.0], "finite"),
    ],
)
def test_bad_ladders(betas, message):
    with pytest.raises(ValueError, match=message):
        ladders.check(betas)


def test_bad_options():
    with pytest.raises(ValueError, match="geometric"):
        ladders.geometric(1)
    with pytest.raises(ValueError, match="linear"):
        ladders.linear(0)
