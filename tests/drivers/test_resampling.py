from __future__ import annotations

import numpy as np

from evidence.drivers.resampling import systematic


def test_counts_are_within_one_of_their_expectation():
    rng = np.random.default_rng(0)
    for _ in range(50):
        w = rng.exponential(size=37)
        counts = np.bincount(systematic(w, rng), minlength=37)
        assert np.abs(counts - 37 * w / w.sum()).max() < 1.0 + 1e-9


def test_unbiased():
    """Mean counts over 4,000 resamplings, each within 5 sd (false alarm 6e-6)."""
    rng = np.random.default_rng(1)
    w = np.array([0.05, 0.3, 0.15, 0.5])
    counts = np.mean([np.bincount(systematic(w, rng), minlength=4) for _ in range(4000)], axis=0)
    assert np.abs(counts - 4 * w).max() < 5 * 0.5 / np.sqrt(4000)


def test_zero_weights_die():
    w = np.array([0.0, 1.0, 0.0])
    assert set(systematic(w, np.random.default_rng(2))) == {1}
