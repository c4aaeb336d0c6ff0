"""Hyperparameters and the line: round trips, and slopes by differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from evidence.models.priors import Priors
from evidence.models.scales import log_slope, natural, to_line

LOWS = np.array([np.nan, -1.0, 0.0, -0.5])


def test_round_trips():
    theta = np.random.default_rng(0).normal(0.0, 3.0, (100, 4))
    values = natural(theta, LOWS)
    assert np.all(values[:, 0] > 0.0)
    assert np.all((LOWS[1:] < values[:, 1:]) & (values[:, 1:] < 1.0))
    np.testing.assert_allclose(to_line(values, LOWS), theta, atol=1e-9)


def test_ends_are_at_infinity():
    ends = to_line([[0.0, -1.0, 0.0, -0.5], [np.inf, 1.0, 1.0, 1.0]], LOWS)
    np.testing.assert_array_equal(ends, [[-np.inf] * 4, [np.inf] * 4])
    np.testing.assert_array_equal(natural(ends, LOWS)[0], [0.0, -1.0, 0.0, -0.5])
    np.testing.assert_array_equal(natural(ends, LOWS)[1], [np.inf, 1.0, 1.0, 1.0])


def test_values_are_inside_wherever_they_are_on_the_line():
    theta = np.array([[-700.0], [-40.0], [40.0], [700.0]])
    values = natural(theta, LOWS[1:])
    assert np.all((LOWS[1:] < values) & (values < 1.0))


def test_slopes_are_those_of_values():
    theta = np.random.default_rng(1).normal(0.0, 3.0, (100, 4))
    step = 1e-5
    slope = (natural(theta + step, LOWS) - natural(theta - step, LOWS)) / (2.0 * step)
    np.testing.assert_allclose(np.exp(log_slope(theta, LOWS)), slope, rtol=1e-5, atol=1e-9)
    far = log_slope(np.array([[700.0, 700.0, -700.0, 700.0]]), LOWS)
    assert np.isfinite(far).all()


@pytest.mark.parametrize(
    ("low", "prior"),
    [
        (np.nan, stats.expon(scale=2.0)),
        (-1.0, stats.uniform(-1.0, 2.0)),
        (-1.0, stats.beta(0.5, 0.5, loc=-1.0, scale=2.0)),
        (0.0, stats.beta(0.5, 0.5)),
    ],
)
def test_densities_on_the_line_integrate_to_one(low, prior):
    priors = Priors(("a",), np.array([0]), (prior,), np.array([low]))
    total, _ = integrate.quad(lambda t: np.exp(priors.log_density([t])), -40, 40, limit=300)
    assert total == pytest.approx(1.0, abs=1e-6)
