from __future__ import annotations

import numpy as np
import pytest

from evidence.diagnostics import log_mean


def test_log_mean_is_calibrated():
    """Log-normal estimates with known mean: z-scores over 2,000 repeats have RMS near 1."""
    rng = np.random.default_rng(0)
    sd = 0.3
    draws = rng.normal(-(sd**2) / 2, sd, size=(2000, 16))  # E[exp] = 1
    z = np.array([(e.value - 0.0) / e.se for e in map(log_mean, draws)])
    assert 0.95 < np.sqrt(np.mean(z**2)) < 1.25  # Student t with 15 df has RMS 1.07


def test_shift_and_single():
    assert log_mean([-1000.0, -1000.0]).value == pytest.approx(-1000.0)
    assert log_mean([-1000.0, -1000.0]).se == 0.0
    assert np.isnan(log_mean([3.0]).se)


def test_all_zero_estimates():
    assert log_mean([-np.inf, -np.inf]).value == -np.inf
