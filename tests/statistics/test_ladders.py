from __future__ import annotations

import numpy as np
import pytest

from evidence.statistics import ladders
from evidence.statistics.weights import incremental


def test_next_beta_meets_the_conditional_ess():
    tilt = np.random.default_rng(0).normal(0, 5, size=1000)
    beta = ladders.next_beta(tilt, 0.2, 0.9)
    assert 0.2 < beta < 1.0
    assert incremental(tilt, beta - 0.2).ess == pytest.approx(0.9, abs=1e-3)


def test_flat_tilt_goes_straight_to_one():
    assert ladders.next_beta(np.zeros(10), 0.0, 0.9) == 1.0


def test_always_forward():
    """Dead and hopeless particles cannot stop the climb."""
    assert ladders.next_beta(np.array([0.0, -np.inf, 0.1, 0.2]), 0.5, 0.99) == 1.0
    assert ladders.next_beta(np.array([0.0, -1e200, -1e200, 1e3]), 0.5, 0.99) > 0.5
    assert ladders.next_beta(np.full(3, -np.inf), 0.5, 0.99) == 1.0


SHAPES = {
    "geometric": ladders.geometric,
    "linear": ladders.linear,
    "power": ladders.power,
    "sigmoid": ladders.sigmoid,
}


@pytest.mark.parametrize("n", [2, 3, 17, 100])
@pytest.mark.parametrize("shape", SHAPES)
def test_n_steps_from_zero_to_one(shape, n):
    ladder = SHAPES[shape](n)
    assert (ladder[0], ladder[-1]) == (0.0, 1.0)
    assert (np.diff(ladder) > 0).all()
    assert ladder.size == n + 1


def test_where_ladders_are_dense():
    even = ladders.sigmoid(10)
    np.testing.assert_allclose(even, 1 - even[::-1], atol=1e-15)
    np.testing.assert_allclose(ladders.sigmoid(10, 1e-3), ladders.linear(10), atol=1e-7)
    np.testing.assert_allclose(ladders.power(10, 1.0), ladders.linear(10))


def test_equal_barrier_shares_a_known_barrier():
    """Λ(β) = √β on a fine pilot: the ladder of equal shares is (i/n)²."""
    pilot = ladders.power(60, 3.0)
    found = ladders.equal_barrier(pilot, np.diff(np.sqrt(pilot)), 8)
    np.testing.assert_allclose(found, ladders.power(8, 2.0), atol=1e-4)


def test_equal_barrier_of_little():
    """Free steps still get their share, and nothing known means equal steps."""
    np.testing.assert_allclose(
        ladders.equal_barrier([0.0, 0.1, 1.0], [0.0, 0.0], 5), ladders.linear(5)
    )
    found = ladders.equal_barrier([0.0, 0.5, 1.0], [0.4, 0.0], 6)
    assert (np.diff(found) > 0).all()
    assert found[-2] < 0.51
    assert ladders.equal_barrier([0.0, 1.0], [1.0], 1).tolist() == [0.0, 1.0]


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
        ([], "betas must be"),
        ([[0.0, 1.0]], "betas must be"),
        ([0.0, np.nan, 1.0], "finite"),
    ],
)
def test_bad_ladders(betas, message):
    with pytest.raises(ValueError, match=message):
        ladders.check(betas)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ladders.geometric(1), "n must be"),
        (lambda: ladders.linear(0), "n must be"),
        (lambda: ladders.power(3, -1.0), "exponent must be"),
        (lambda: ladders.power(100, 400.0), "coincide in power .* smaller exponent"),
        (lambda: ladders.sigmoid(0), "n must be"),
        (lambda: ladders.sigmoid(100, 1e3), "coincide in sigmoid .* smaller"),
        (
            lambda: ladders.equal_barrier([0.0, 0.5, 1.0], [0.1], 3),
            "rates must be",
        ),
        (lambda: ladders.equal_barrier([0.0, 1.0], [-0.1], 3), "rates must not be negative"),
        (lambda: ladders.equal_barrier([0.0, 1.0], [np.nan], 3), "finite"),
        (lambda: ladders.equal_barrier([0.0, 1.0], [0.5], 0), "n must be"),
        (lambda: ladders.equal_barrier([0.0, 0.9], [0.5], 2), "increase strictly"),
    ],
)
def test_bad_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()
