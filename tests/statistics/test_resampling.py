from __future__ import annotations

import numpy as np
import pytest

from evidence.statistics.resampling import SCHEMES, residual, stratified, systematic

W = np.array([0.05, 0.3, 0.0, 0.15, 0.5])


def counts(scheme, w, rng, size=None):
    return np.bincount(SCHEMES[scheme](w, rng, size), minlength=w.size)


@pytest.mark.interpreted
def test_systematic_as_it_was():
    """The formula, number for number, on weights of any scale."""
    rng = np.random.default_rng(3)
    for m in (1, 2, 37, 500):
        w = rng.exponential(size=m) ** 4 * 1e-5
        cumulative = np.cumsum(w)
        points = (np.arange(m) + np.random.default_rng(4).random()) * (cumulative[-1] / m)
        expected = np.minimum(np.searchsorted(cumulative, points, side="right"), m - 1)
        np.testing.assert_array_equal(systematic(w, np.random.default_rng(4)), expected)


@pytest.mark.parametrize("size", [None, 3, 40])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_expected_counts_are_proportional(scheme, size):
    """Mean counts over 4,000 resamplings, each within 5 sd (false alarm 3e-6 a case)."""
    rng = np.random.default_rng(1)
    m = size or W.size
    found = np.array([counts(scheme, W, rng, size) for _ in range(4000)])
    assert (found.sum(axis=1) == m).all()
    largest_sd = np.sqrt(m * W * (1.0 - W)) + 0.5
    assert (np.abs(found.mean(axis=0) - m * W) < 5 * largest_sd / np.sqrt(4000)).all()


def test_order_of_variances():
    """Residual and stratified are below multinomial whatever f (Douc et al. 2005).

    Sums of f over 2,000 resamplings; the ratios of variances are far from one, so a slack of
    10 % (3 sd) decides safely. Systematic resampling has no such guarantee: for a sorted f its
    one uniform moves all points together, for an f without order it is the best.
    """
    rng = np.random.default_rng(2)
    w, f = rng.exponential(size=30), rng.standard_normal(30)

    def spread(scheme, f):
        return np.var([f @ counts(scheme, w, rng) for _ in range(2000)])

    assert spread("residual", f) < 0.9 * spread("multinomial", f)
    assert spread("systematic", f) < 0.9 * spread("multinomial", f)
    assert spread("stratified", f) < 0.9 * spread("multinomial", f)
    assert spread("stratified", np.sort(f)) < 0.5 * spread("residual", np.sort(f))


@pytest.mark.interpreted
@pytest.mark.parametrize("scheme", SCHEMES)
def test_zero_weights_die(scheme):
    rng = np.random.default_rng(5)
    for w in (np.array([0.0, 1.0, 0.0]), np.array([0.0, 1e-300, 0.0, 3e-300, 0.0, 0.0])):
        for size in (1, 7, 50):
            survivors = SCHEMES[scheme](w, rng, size)
            assert survivors.shape == (size,)
            assert (w[survivors] > 0.0).all()


def test_the_largest_uniform_does_not_reach_dead_particles():
    class Top:
        def random(self, size=None):
            return np.nextafter(1.0, 0.0) if size is None else np.full(size, 1.0 - 2.0**-53)

    w = np.array([0.3, 0.3, 0.3, 0.1, 0.0])
    for scheme in SCHEMES.values():
        assert scheme(w, Top(), 3).max() <= 3


@pytest.mark.parametrize("size", [None, 11])
def test_floors_are_certain(size):
    """Residual: at least ⌊size w⌋ copies, all of them if the expectations are whole."""
    rng = np.random.default_rng(6)
    for _ in range(50):
        w = rng.exponential(size=8)
        floor = np.floor((size or 8) * w / w.sum())
        assert (counts("residual", w, rng, size) >= floor).all()
    assert residual(np.array([2.0, 0.0, 1.0, 1.0]), rng).tolist() == [0, 0, 2, 3]
    assert residual(np.full(7, 1.0 / 7.0), rng).tolist() == list(range(7))


def test_counts_are_near_their_expectation():
    rng = np.random.default_rng(0)
    for _ in range(50):
        w = rng.exponential(size=37)
        for scheme, bound in ((systematic, 1.0), (stratified, 2.0)):
            found = np.bincount(scheme(w, rng), minlength=37)
            assert np.abs(found - 37 * w / w.sum()).max() < bound + 1e-9


@pytest.mark.parametrize("scheme", SCHEMES)
def test_ancestors_ascend(scheme):
    w = np.random.default_rng(7).exponential(size=20)
    assert (np.diff(SCHEMES[scheme](w, np.random.default_rng(8), 33)) >= 0).all()
