"""Elementwise functions against 80-digit arithmetic; bounds are relative errors."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from evidence.numerics import special as _special

pytestmark = pytest.mark.interpreted

_RNG = np.random.default_rng(0)
_TINY = 10.0 ** _RNG.uniform(-300, 0, 200)
_NORMAL = _RNG.standard_normal(300)


def _error(got, want, x):
    """Largest relative error; ``want`` maps one mpmath number to the truth."""
    with mp.workdps(80):
        truth = [want(mp.mpf(float(t))) for t in x]
        return max(abs(float((mp.mpf(float(g)) - w) / w)) for g, w in zip(got, truth, strict=True))


def _each(function, *columns):
    return np.array([function(*row) for row in zip(*columns, strict=True)])


def test_exp():
    x = np.concatenate([np.linspace(-708.0, 709.78, 801), _NORMAL, _TINY, -_TINY])
    assert _error(_each(_special.exp, x), mp.exp, x) < 2e-16


def test_exp_saturates():
    x = np.array([-np.inf, -1e300, -745.0, -708.1, 0.0, -0.0, 709.79, 1e300, np.inf, np.nan])
    with np.errstate(over="ignore"):
        got = _each(_special.exp, x)
    np.testing.assert_array_equal(got, [0, 0, 0, 0, 1, 1, np.inf, np.inf, np.inf, np.nan])


def test_parts_of_exp_give_expm1():
    def expm1(x):
        h, r, t = _special.exp_parts(x, 0.0)
        return 2.0 * (h * (r + t) + (h - 0.5))

    x = np.concatenate([np.linspace(-700.0, 709.7, 800), _NORMAL, _TINY, -_TINY])
    assert _error(_each(expm1, x), mp.expm1, x) < 3e-16


def test_parts_of_exp_near_zero():
    """There h = ½, r = x and t = exp(x) - 1 - x, without cancellation."""
    x = np.concatenate([np.linspace(-0.3465, 0.3465, 400), 10.0 ** _RNG.uniform(-30, -1, 100)])
    h, r, t = _each(_special.exp_parts, x, np.zeros(x.size)).T
    np.testing.assert_array_equal(h, 0.5)
    np.testing.assert_array_equal(r, x)
    assert _error(t, lambda v: mp.expm1(v) - v, x) < 4e-16


def test_low_part_of_exp():
    x, low = np.linspace(-700.0, 700.0, 101), _RNG.uniform(-1e-5, 1e-5, 101)

    def exp(x, low):
        h, r, t = _special.exp_parts(x, low)
        return 2.0 * h * (1.0 + (r + t))

    got, shift = _each(exp, x, low), dict(zip(x, low, strict=True))
    assert _error(got, lambda t: mp.exp(t + mp.mpf(shift[float(t)])), x) < 3e-16


def test_log():
    x = np.concatenate([10.0 ** _RNG.uniform(-307, 308, 500), 1.0 + _RNG.uniform(-0.5, 1.0, 500)])
    assert _error(_each(_special.log, x, x - 1.0), mp.log, x) < 4e-16
    assert _special.log(1.0, 0.0) == 0.0
    assert np.isnan(_special.log(np.nan, np.nan))
    np.testing.assert_array_equal(_each(_special.log, [np.inf] * 2, [np.inf, 1.0]), np.inf)
    assert _special.log(1.7976931348623157e308, 1.7976931348623157e308) == np.log(2.0) * 1024


def test_log_is_log1p_of_its_second_argument():
    f = np.concatenate([np.linspace(-0.5, 1.0, 1001), _TINY, -0.5 * _TINY])
    assert _error(_each(_special.log, 1.0 + f, f), mp.log1p, f) < 4e-16


def test_erfcx():
    x = np.concatenate([np.linspace(0.0, 60.0, 600), _TINY])
    got = np.empty_like(x)
    _special.erfcx_into(x, got)
    assert _error(got, lambda t: mp.exp(t * t) * mp.erfc(t), x) < 5e-16


def _slopes(z):
    value, slope = np.empty_like(z), np.empty_like(z)
    _special.log_ndtr_slopes(z.copy(), value, slope)
    return value, slope


def test_log_ndtr_slopes():
    """Over the whole line, also where Φ(-z) is nearly the smallest double."""
    z = np.concatenate([np.linspace(-60.0, 37.6, 326), 2.0 * _NORMAL, _TINY, -_TINY])

    def tail(t):
        return mp.erfc(abs(t) / mp.sqrt(2)) / 2

    def log_ndtr(t):
        return mp.log(tail(t)) if t <= 0 else mp.log1p(-tail(t))

    def ratio(t):
        return mp.npdf(t) / (tail(t) if t <= 0 else 1 - tail(t))

    value, slope = _slopes(z)
    assert _error(value, log_ndtr, z) < 2e-15
    assert _error(slope, ratio, z) < 2e-15


def test_log_ndtr_slopes_far_out():
    value, slope = _slopes(np.array([40.0, 1e160, np.inf, -1e6, -1e100, np.nan]))
    np.testing.assert_array_equal(value[:3], 0.0)
    np.testing.assert_array_equal(slope[:3], 0.0)
    np.testing.assert_allclose(value[3:5], [-0.5e12 - np.log(1e6 * np.sqrt(2 * np.pi)), -5e199])
    np.testing.assert_allclose(slope[3:5], [1e6 + 1e-6, 1e100], rtol=1e-15)
    assert np.isnan(value[5])
    assert np.isnan(slope[5])
