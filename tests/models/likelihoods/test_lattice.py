"""Sums over lattices against the adaptive rule: where they answer they agree, and they answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from covering import seldom

from evidence.models.likelihoods import (
    BetaBinomial,
    Binomial,
    Cloglog,
    Gamma,
    HurdleNegativeBinomial,
    Likelihood,
    Logit,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    Weibull,
    ZeroInflatedPoisson,
    describe,
    from_function,
    quadrature,
)
from evidence.models.likelihoods.lattice import lattice_moments
from evidence.models.likelihoods.quadrature import evaluate

from .cases import CASES, POINTWISE, one_of_each

CASES = [case for case in CASES if case.likelihood.name != "asymmetric_laplace"]  # has kinks

_EPS = np.finfo(float).eps


def lattice(likelihood, y, m, v, order=2):
    """Moments by lattices, and which data they leave to the adaptive rule."""
    out, left = np.full((order + 1, y.size), np.nan), np.ones(y.size, bool)
    strip = np.full(y.shape, likelihood.strip(y))
    # copies are of one type, which is compiled once
    given = [np.array(a, order="C") for a in (likelihood.theta(y), m, v, likelihood.locations(y))]
    lattice_moments(likelihood.kernel, likelihood.log_concave, strip, *given, out, left)
    return out, left


def adaptive(likelihood, y, m, v, order=2):
    theta, hints = likelihood.theta(y), likelihood.locations(y)
    return quadrature.tilted_moments(likelihood.kernel, theta, m, v, hints, order)


def differences(likelihood, y, got, want):
    """Of log Ẑ, and of mean and moments in units of sd, beyond what rounding of x explains."""
    sd = np.sqrt(want[2])
    value, slope, *_ = quadrature.evaluate(likelihood.kernel, likelihood.theta(y), want[1])
    x = np.abs(want[1])
    rounding = 8.0 * _EPS * (x * (np.abs(slope) + 1.0 / sd) + np.abs(value))
    scales = [1.0 + np.abs(want[0]), *(sd**k for k in range(1, got.shape[0]))]
    off = [np.abs(a - b) / s for a, b, s in zip(got, want, scales, strict=True)]
    return np.maximum(np.array(off) - rounding, 0.0)


def grid(ys):
    near, far = np.linspace(-12.0, 12.0, 33), [-900.0, -40.0, 40.0, 900.0]
    m, v = (a.ravel() for a in np.meshgrid([*near, *far], 10.0 ** np.arange(-8.0, 6.5, 0.5)))
    m, v = np.concatenate([m, m * np.sqrt(v)]), np.concatenate([v, v])
    return np.repeat(ys, m.size), np.tile(m, len(ys)), np.tile(v, len(ys))


@pytest.mark.parametrize("case", one_of_each(CASES), ids=lambda case: describe(case.likelihood))
def test_agrees_with_the_adaptive_rule(case):
    """1e-10, and 1e-9 where a tail holds much of the variance and the adaptive rule stops."""
    y, m, v = (a[:: 11 if case in POINTWISE else 3] for a in grid(case.ys))
    got, left = lattice(case.likelihood, y, m, v)
    off = differences(case.likelihood, y, got, adaptive(case.likelihood, y, m, v))[:, ~left]
    assert np.mean(~left) > 0.3
    assert np.mean(off.max(axis=0) > 1e-10) < 1e-2
    assert off.max() < 1e-9


@pytest.mark.parametrize("case", one_of_each(CASES), ids=lambda case: describe(case.likelihood))
def test_moments_up_to_the_eighth(case):
    y, m, v = (a[:: 23 if case in POINTWISE else 11] for a in grid(case.ys))
    got, left = lattice(case.likelihood, y, m, v, 8)
    off = differences(case.likelihood, y, got, adaptive(case.likelihood, y, m, v, 8))[:, ~left]
    typical = np.quantile(off, 0.99, axis=1)
    assert (typical < 1e-9 * 10.0 ** np.maximum(np.arange(9) / 2 - 1, 0)).all(), typical


def realistic(simulate, scale=1.0, n=1500):
    """Cavities of variance 0.01 to 10 around values that made the data."""
    rng = np.random.default_rng(5)
    f, v = scale * rng.normal(size=n), 10.0 ** rng.uniform(-2.0, 1.0, n)
    return simulate.simulate(f, rng), f + np.sqrt(v) * rng.normal(size=n), v


@pytest.mark.parametrize(
    ("likelihood", "share"),
    [
        (Logit(), 0.999),
        (Poisson(), 0.98),
        (Poisson(exposure=100.0), 0.999),
        (NegativeBinomial(2.0), 0.99),
        (Binomial(20), 0.99),
        (StudentT(4.0, 0.5), 0.95),
        (Cloglog(), 0.98),
        (Gamma(2.0), 0.99),
        (Ordinal((1.0, 0.5)), 0.999),
        (ZeroInflatedPoisson(0.3), 0.95),
        (HurdleNegativeBinomial(0.5, 0.3), 0.95),
        (BetaBinomial(20, 3.0), 0.95),
        (Weibull(3.0), 0.95),
    ],
    ids=lambda p: describe(p) if isinstance(p, Likelihood) else "",
)
@pytest.mark.parametrize("order", [2, 8])
def test_answers_what_ep_asks(likelihood, share, order):
    y, m, v = realistic(likelihood)
    got, left = lattice(likelihood, y, m, v, order)
    assert np.mean(~left) >= share
    want = adaptive(likelihood, y, m, v, order)
    assert differences(likelihood, y, got, want)[:3, ~left].max() < 1e-10


@pytest.mark.parametrize("likelihood", [Logit(), Poisson(), StudentT(4.0, 0.5)])
@pytest.mark.parametrize("order", [2, 8])
def test_bits_do_not_depend_on_neighbours(likelihood, order):
    y, m, v = realistic(likelihood, n=600)
    together = Likelihood._tilted_moments(likelihood, y, m, v, order)
    for i in (*range(40), *range(250, 262), 598, 599):
        one = slice(i, i + 1)
        alone = Likelihood._tilted_moments(likelihood, y[one], m[one], v[one], order)
        np.testing.assert_array_equal(together[:, i], alone[:, 0])
    shuffled = np.random.default_rng(0).permutation(y.size)
    again = Likelihood._tilted_moments(likelihood, y[shuffled], m[shuffled], v[shuffled], order)
    np.testing.assert_array_equal(together[:, shuffled], again)


@pytest.mark.slow
def test_two_modes_and_needles_of_a_student_t():
    """Data far from narrow and wide cavities; whatever lattices answer is right."""
    rng = np.random.default_rng(2)
    y, m, v = rng.uniform(-9.0, 9.0, 3000), np.zeros(3000), 10.0 ** rng.uniform(-1.0, 1.0, 3000)
    v[::2], y[1::4] = 1.0, np.round(y[1::4])
    for scale in (0.003, 0.05, 0.2, 0.5):
        for df in (1.0, 8.0, 30.0):
            t = StudentT(df, scale)
            got, left = lattice(t, y, m, v)
            off = differences(t, y, got, adaptive(t, y, m, v))[:, ~left]
            assert off.max(initial=0.0) < 2e-9  # of the adaptive rule


def test_a_needle_between_two_nodes():
    """Half of the mass is 0.001 wide, nine standard deviations away; no node would see it."""
    t, y = StudentT(7.0, 8e-4), np.linspace(10.0, 12.0, 101)
    m, v = np.zeros(y.size), np.ones(y.size)
    want = adaptive(t, y, m, v)
    assert np.mean((want[1] > 1.0) & (want[1] < y - 1.0)) > 0.05
    np.testing.assert_array_equal(np.array(t.tilted(y, m, v)), want)
    assert lattice(t, y, m, v)[1].all()


def laplace(x, y):
    return -abs(x - y), (1.0 if x < y else -1.0), 0.0, 0.0


def hinge(x, y):
    z = 1.0 - y * x
    return (-z, y, 0.0, 0.0) if z > 0.0 else (0.0, 0.0, 0.0, 0.0)


def step(x, y):
    return (0.0 if x > y else -math.inf), 0.0, 0.0, 0.0


def interval(x, y):
    """Logistic noise, rounded to whole numbers."""
    a, b = 1.0 / (1.0 + math.exp(x - y + 0.5)), 1.0 / (1.0 + math.exp(x - y - 0.5))
    da, db = a * (1.0 - a), b * (1.0 - b)
    value = math.log(b * (1.0 - a) * (1.0 - math.exp(-1.0)))
    return value, a + b - 1.0, -da - db, da * (1.0 - 2.0 * a) + db * (1.0 - 2.0 * b)


def clipped(x, y):
    z = min(max(x - y, -1.0), 1.0)
    inside = abs(x - y) < 1.0
    return -2.0 * z * z, (-4.0 * z if inside else 0.0), (-4.0 if inside else 0.0), 0.0


def places():
    """Round numbers, where lattices may meet kinks, and others."""
    round_m, round_v = np.meshgrid(np.arange(-6.0, 6.1, 0.25), [0.01, 0.25, 1.0, 4.0])
    rng = np.random.default_rng(3)
    m = np.concatenate([round_m.ravel(), rng.uniform(-6.0, 6.0, 2000)])
    v = np.concatenate([round_v.ravel(), 10.0 ** rng.uniform(-3.0, 3.0, 2000)])
    return np.repeat([1.0, -1.0, 0.0], m.size), np.tile(m, 3), np.tile(v, 3)


@pytest.mark.parametrize("function", seldom([laplace, hinge, step, clipped], 0, 3))
def test_kinks_and_cliffs_are_left_to_the_adaptive_rule(function):
    """Only where they are too far to matter do lattices answer; the last is not log-concave."""
    likelihood = from_function(function, check_derivatives=False, log_concave=True)
    y, m, v = places()
    got, left = lattice(likelihood, y, m, v)
    want = adaptive(likelihood, y, m, v)
    off = differences(likelihood, y, got, want)[:, ~left]
    assert np.mean(left) > 0.05
    assert off.max() < 1e-9
    np.testing.assert_array_equal(np.array(likelihood.tilted(y, m, v))[:, left], want[:, left])


def test_smooth_likelihoods_of_users_are_fast_too():
    likelihood = from_function(interval, name="rounded", log_concave=True)
    y, m, v = places()
    got, left = lattice(likelihood, y, m, v)
    assert np.mean(~left) > 0.9
    off = differences(likelihood, y, got, adaptive(likelihood, y, m, v))
    assert off[:, ~left].max() < 1e-10


def bumps(x, y):
    """Two narrow bumps of which users named one."""
    a, b = math.exp(-50.0 * (x - y) ** 2), 3.0 * math.exp(-50.0 * (x - y - 3.0) ** 2)
    p = a + b + 1e-9
    d = -100.0 * ((x - y) * a + (x - y - 3.0) * b)
    return math.log(p), d / p, -1.0, 0.0


@pytest.mark.slow
def test_nothing_is_promised_nothing_is_skipped():
    likelihood = from_function(bumps, check_derivatives=False)
    y, m, v = places()
    want = adaptive(likelihood, y, m, v)
    np.testing.assert_array_equal(np.array(likelihood.tilted(y, m, v)), want)


def test_without_a_density():
    """What is no distribution is left, in a batch with others, which do not notice."""
    y, m, v = realistic(Logit(), n=300)
    want = np.array(Logit().tilted(y, m, v))
    bad = [3, 70, 71, 200, 256]
    m[bad], v[bad] = [0.0, np.nan, 0.0, np.inf, 0.0], [-1.0, 1.0, np.nan, 1.0, np.inf]
    m[299], v[299] = 0.3, 0.0
    got = np.array(Logit().tilted(y, m, v))
    assert np.isnan(got[:, bad]).all()
    assert got[:, 299].tolist() == [Logit().log_prob([0.3], y[299:])[0], 0.3, 0.0]
    good = np.delete(np.arange(299), bad)
    np.testing.assert_array_equal(got[:, good], want[:, good])


def test_a_kernel_reads_numbers_of_any_kind_and_order():
    """It is called by address: whole numbers and views must become plain arrays first."""
    probit, z = Probit(), np.linspace(-2.0, 2.0, 8)
    y = np.array([1, -1, 1, 1])
    expected = probit.tilted(y.astype(float), z[::2].copy(), np.ones(4))
    for one, other in zip(probit.tilted(y, z[::2], np.ones(4)), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    every = evaluate(probit.kernel, np.ones((1, 4)), z[::2])
    np.testing.assert_array_equal(every, evaluate(probit.kernel, np.ones((1, 4)), z[::2].copy()))
