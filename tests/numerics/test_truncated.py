"""Truncated normals against mpmath and SciPy.

The Kolmogorov–Smirnov tests use fixed seeds and 20,000 draws, and fail below p = 1e-6: a false
alarm of 1e-6 per case.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import kstest, truncnorm

from evidence.numerics.jit import jit
from evidence.numerics.truncated import multiply_tails, slice_step, upper_tail, upper_tails

M = 20_000
TINY = 2.0**-53
LOWER = [-40.0, -38.0, -10.0, -3.0, -1.44, -1.0, -0.1, 0.0, 0.5, 1.44, 3.0, 7.0, 20.0, 37.0]
LOWER += [29.999, 30.0, 30.001, 40.0, 100.0, 1e4, 1e8]
UNIFORM = [1e-300, 1e-100, 1e-17, TINY, 1e-6, 0.02, 0.0749, 0.0751, 0.3, 0.5, 0.7]
UNIFORM += [0.9249, 0.9251, 0.99, 1 - 1e-6, 1 - 1e-12, 1 - TINY]


def tail(z):
    """P(N > z) to many digits."""
    return mpmath.erfc(z / mpmath.sqrt(2)) / 2


def error(z, lower, u):
    """Distance from ``z`` to the exact quantile: one Newton step, on the side that is small."""
    with mpmath.workdps(80):
        z, lower, u = mpmath.mpf(z), mpmath.mpf(lower), mpmath.mpf(u)
        side = 1 if z > 0 else -1
        target = (1 - u) * tail(lower) if side == 1 else u + (1 - u) * tail(-lower)
        log_ratio = mpmath.log(tail(side * z) / target)
        hazard = mpmath.npdf(z) / tail(side * z)
        return float(abs(log_ratio / hazard))


@pytest.mark.interpreted
@pytest.mark.parametrize("lower", LOWER)
def test_quantiles_against_mpmath(lower):
    for u in UNIFORM:
        z = upper_tail(lower, u)
        assert z >= lower
        assert error(z, lower, u) < 1e-13 * max(abs(z), 1.0), u


@pytest.mark.interpreted
@pytest.mark.parametrize("lower", [30.1, 100.0, 1e3, 1e5])
def test_excess_in_the_far_tail(lower):
    """There z - lower is all that matters: exact up to the spacing of numbers around lower."""
    for u in UNIFORM[3:]:
        z = upper_tail(lower, u)
        spacing = np.spacing(lower)
        assert error(z, lower, u) < 1e-9 * (z - lower) + spacing


@pytest.mark.interpreted
@pytest.mark.parametrize("lower", [-math.inf, *LOWER, 1e200])
def test_quantiles_increase_from_the_bound(lower):
    assert upper_tail(lower, 0.0) == pytest.approx(lower, rel=1e-14)
    u = np.sort(np.r_[UNIFORM, 0.075 + np.linspace(-1e-9, 1e-9, 9), np.linspace(0.001, 0.999, 99)])
    z = np.array([upper_tail(lower, v) for v in u])
    assert np.isfinite(z).all()
    assert np.all(np.diff(z) >= -1e-14 * np.abs(z[1:]))


@pytest.mark.interpreted
def test_rows_are_the_scalar_form():
    """Every pair of bound and uniform, and many at random; masses against SciPy."""
    rng = np.random.default_rng(3)
    bounds = np.array([-math.inf, *LOWER])
    lower, u = (a.ravel() for a in np.meshgrid(bounds, [0.0, *UNIFORM]))
    lower, u = np.r_[lower, 3.0 * rng.standard_normal(500)], np.r_[u, rng.random(500)]
    mass, z = np.empty_like(u), np.empty_like(u)
    upper_tails(lower, u, mass, z)
    told = np.array([upper_tail(a, b) for a, b in zip(lower, u, strict=True)])
    finite = np.isfinite(told)  # u = 0 of the whole line is not
    np.testing.assert_allclose(z[finite], told[finite], rtol=2e-14, atol=2e-14)
    np.testing.assert_array_equal(z[~finite], told[~finite])
    usual = lower < 37.0
    np.testing.assert_allclose(mass[usual], ndtr(-lower[usual]), rtol=4e-15)
    assert np.all(mass[lower >= 40.0] < 1e-300)


@pytest.mark.interpreted
def test_products_of_tails():
    lower = np.array([-2.0, 0.5, 4.99, 5.0, 5.01, 30.0, 300.0])
    mass, product, logs = ndtr(-lower), np.full(7, 0.5), np.ones(7)
    multiply_tails(lower, mass, product, logs)
    np.testing.assert_allclose(logs + np.log(product), 1.0 - math.log(2.0) + log_ndtr(-lower))
    assert np.all((product == 0.5) == (lower >= 5.0))
    least = ndtr(-5.0) ** 40
    assert least > 1e-300


@jit
def _draw(lower, u, out):
    for i in range(out.size):
        out[i] = upper_tail(lower, u[i])


@jit
def _step(z, lower, u1, u2):
    for i in range(z.size):
        z[i] = slice_step(z[i], lower, 1.0 - u1[i], u2[i])


@pytest.mark.parametrize("lower", [-40.0, -2.0, -0.5, 0.0, 1.5, 6.0, 35.0])
def test_draws_against_scipy(lower):
    rng = np.random.default_rng(0)
    z = np.empty(M)
    _draw(lower, rng.random(M), z)
    assert kstest(z, truncnorm(lower, np.inf).cdf).pvalue > 1e-6


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("lower", [-40.0, -2.0, -0.5, 0.0, 1.5, 6.0, 35.0])
def test_slices_leave_the_truncated_normal_invariant(lower, steps):
    """SciPy's draws stay draws, and the step does move them."""
    law = truncnorm(lower, np.inf)
    start = law.rvs(M, random_state=1)
    rng = np.random.default_rng(2)
    z = start.copy()
    for _ in range(steps):
        _step(z, lower, rng.random(M), rng.random(M))
    assert z.min() > lower
    assert kstest(z, law.cdf).pvalue > 1e-6
    assert np.corrcoef(start, z)[0, 1] < 0.7


@pytest.mark.interpreted
@pytest.mark.parametrize(("z", "lower"), [(0.3, -1.0), (-0.8, -1.0), (2.5, 2.0), (41.0, 40.0)])
def test_slices_are_what_they_say(z, lower):
    """Every level: the ends are those of {z' > lower, exp(-z'²/2) > u1 exp(-z²/2)}."""
    for u1 in (1.0, 0.8, 0.1, 1e-9):
        left, right = slice_step(z, lower, u1, 0.0), slice_step(z, lower, u1, 1.0)
        assert 0.5 * (right**2 - z**2) == pytest.approx(-math.log(u1), abs=1e-10)
        assert left == pytest.approx(max(lower, -right))
        assert slice_step(z, lower, u1, 0.25) == pytest.approx(0.75 * left + 0.25 * right)
