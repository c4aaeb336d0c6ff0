"""Pareto smoothing against ArviZ, and where there is no tail."""

import numpy as np
import pytest

from evidence.statistics.psis import smoothed


@pytest.mark.parametrize("efficiency", [1.0, 0.25])
@pytest.mark.parametrize("scale", [0.1, 0.6, 3.0])
@pytest.mark.parametrize("S", [40, 900, 3600])
def test_against_arviz(S, scale, efficiency):
    """Sizes whose tail is a whole number of weights: ArviZ rounds it up before 1.0, then down."""
    az = pytest.importorskip("arviz")
    log_w = scale * np.random.default_rng(S).standard_exponential(S) - 7.0
    before = log_w.copy()
    ours, shape = smoothed(log_w, efficiency)
    with np.errstate(over="ignore"):  # in theirs
        if hasattr(az, "psislw"):  # before 1.0
            theirs, their_shape = az.psislw(log_w, reff=efficiency)
        else:
            base = pytest.importorskip("arviz_stats.base")
            theirs, their_shape = base.array_stats.psislw(-log_w, r_eff=efficiency)
    np.testing.assert_allclose(ours, theirs, atol=1e-11)
    assert shape == pytest.approx(float(their_shape), abs=1e-11)
    np.testing.assert_array_equal(log_w, before)


def test_without_a_tail():
    log_w, shape = smoothed(np.full(100, 3.0))
    assert shape == -np.inf
    np.testing.assert_allclose(log_w, -np.log(100))
    log_w, shape = smoothed(np.arange(10.0))
    assert shape == np.inf
    np.testing.assert_allclose(np.diff(log_w), 1.0)
