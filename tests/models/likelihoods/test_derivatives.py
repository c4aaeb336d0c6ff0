"""log p and its first three derivatives against 40-digit differentiation."""

from __future__ import annotations

import ctypes

import mpmath as mp
import numpy as np
import pytest

from evidence.models.likelihoods import (
    AsymmetricLaplace,
    Beta,
    Gamma,
    Gaussian,
    Logit,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    describe,
)
from evidence.models.likelihoods.quadrature import evaluate

from . import oracle
from .cases import CASES, one_of_each

_GRID = [0.0, 1e-8, 1e-3, 0.5, 1.5, 4.0, 12.0, 25.0, 40.0]
# both sides of where the probit kernel changes its formula
_PROBIT = [4 - 1e-9, 4 + 1e-9, 7 - 1e-9, 7 + 1e-9]
# relative to the datum: its mode, and where the count kernels change theirs (±½)
_AROUND = [0.0, 1e-6, 0.02, 0.5 - 1e-9, 0.5 + 1e-9, 3.0]


def _points(likelihood, y):
    centre = likelihood.location(np.array([y]))[0]
    grid = _GRID + _PROBIT * (likelihood.name == "probit")
    x = [s * g for g in grid for s in (1, -1)] + [centre + s * a for a in _AROUND for s in (1, -1)]
    return np.unique(x)


@pytest.mark.parametrize("case", one_of_each(CASES), ids=lambda c: describe(c.likelihood))
def test_kernel_matches_mpmath(case):
    """Relative error below 1e-10; where terms cancel to zero, 1e-13 of the largest of them."""
    for turn, y in enumerate(case.ys):  # every other point for each of them
        x = _points(case.likelihood, y)[turn % 2 :: 2]
        x = x[x != y] if isinstance(case.likelihood, AsymmetricLaplace) else x  # a kink
        got = case.likelihood.derivatives(x, np.full(x.size, y))
        with mp.workdps(40):
            log_density = case.log_density(y)
            want = np.array([[float(d) for d in oracle.derivatives(log_density, t)] for t in x]).T
        terms = np.array([case.terms(t, y) for t in x]).T
        allowed = np.maximum(1e-10 * np.abs(want), 1e-13 * terms) + 1e-300
        bad = np.abs(got - want) > allowed
        assert not bad.any(), [
            (y, k, x[i], got[k, i], want[k, i]) for k, i in np.argwhere(bad)[:5]
        ]


@pytest.mark.parametrize("case", CASES, ids=lambda c: describe(c.likelihood))
def test_no_log_density_is_above_the_ceiling(case):
    lik = case.likelihood
    for y in case.ys:
        ceiling = lik.ceiling(np.array([y]))
        x = np.unique(np.concatenate([_points(lik, y), np.linspace(-60, 60, 2401)]))
        highest = lik.log_prob(x, np.full(x.size, y)).max()
        assert highest <= ceiling + 1e-9 * abs(ceiling)
        assert ceiling <= max(highest, 0.0) + 1e-9 * abs(ceiling)


@pytest.mark.parametrize("case", CASES, ids=lambda c: describe(c.likelihood))
def test_first_order_agrees_with_third(case):
    """Kernels may take a shorter way when only log p and its slope are asked for."""
    lik = case.likelihood
    for y in case.ys:
        x = np.unique(np.concatenate([_points(lik, y), np.linspace(-60, 60, 2401)]))
        want = lik.derivatives(x, np.full(x.size, y))
        theta, got = lik.theta(np.array([y])), np.empty((4, x.size))
        pointers = (_pointer(x), _pointer(theta))
        lik.kernel.ctypes(*pointers, x.size, 1, 0, 1, _pointer(got))
        np.testing.assert_allclose(got[:2], want[:2], rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("case", CASES, ids=lambda c: describe(c.likelihood))
@pytest.mark.parametrize("n", [1, 3, 8, 37])
def test_first_order_walks_along_the_data(case, n):
    """Data of every kind side by side: whole vectors and what is left of them."""
    lik, y = case.likelihood, np.resize(np.array(case.ys, dtype=float), n)
    x = np.random.default_rng(n).normal(0.0, 3.0, n)
    want = lik.derivatives(x, y)
    theta, got = lik.theta(y), np.empty((4, n))
    lik.kernel.ctypes(_pointer(x), _pointer(theta), n, n, 1, 1, _pointer(got))
    np.testing.assert_allclose(got[:2], want[:2], rtol=1e-12)


def _pointer(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.likelihood.log_concave], ids=lambda c: describe(c.likelihood)
)
def test_second_derivative_is_never_positive(case):
    x = np.concatenate([np.linspace(-700, 700, 2801), np.linspace(-9, 9, 1801)])
    for y in case.ys:
        assert (case.likelihood.derivatives(x, np.full(x.size, y))[2] <= 0.0).all()


def test_counts_do_not_overflow_below_700():
    x = np.array([700.0, 700.0, -700.0, -700.0])
    y = np.array([0.0, 1e6, 0.0, 1e6])
    for likelihood in (Poisson(), NegativeBinomial(2.0)):
        assert np.isfinite(likelihood.derivatives(x, y)).all()
    np.testing.assert_allclose(Poisson().log_prob([700.0], [0]), -np.exp(700.0))


def test_large_dispersion_approaches_poisson():
    x, y = np.linspace(-3, 9, 25), np.repeat([0.0, 3.0, 4000.0, 0.0, 20.0], 5)
    got = NegativeBinomial(dispersion=1e15).derivatives(x, y)
    np.testing.assert_allclose(got, Poisson().derivatives(x, y), rtol=2e-7, atol=1e-7)


def test_large_df_approaches_gaussian():
    x, y = np.linspace(-5, 5, 11), np.zeros(11)
    got = StudentT(df=1e14, scale=0.3).derivatives(x, y)
    np.testing.assert_allclose(got, Gaussian(0.3).derivatives(x, y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", [Poisson, NegativeBinomial])
def test_exposure_and_offset_shift_the_latent_value(make):
    x, y = np.array([0.3, -2.0, 5.0]), np.array([0.0, 4.0, 150.0])
    exposure, offset = np.array([2.0, 0.01, 1e4]), np.array([-1.0, 0.5, -7.0])
    got = make(exposure=exposure, offset=offset).derivatives(x, y)
    want = make().derivatives(x + offset + np.log(exposure), y)
    np.testing.assert_allclose(got, want, rtol=1e-11)


@pytest.mark.parametrize(
    ("make", "name", "values"),
    [
        (Gaussian, "noise_std", (0.1, 2.0)),
        (StudentT, "df", (1.0, 30.0)),
        (StudentT, "scale", (0.1, 2.0)),
        (NegativeBinomial, "dispersion", (0.1, 2.0)),
        (Gamma, "shape", (0.1, 2.0)),
    ],
)
def test_a_parameter_per_datum(make, name, values):
    x, y = np.array([0.3, 1.2]), np.array([1.0, 3.0])
    got = make(**{name: np.array(values)}).derivatives(x, y)
    for i, value in enumerate(values):
        want = make(**{name: value}).derivatives(x[[i]], y[[i]])[:, 0]
        np.testing.assert_array_equal(got[:, i], want)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.likelihood.free], ids=lambda c: describe(c.likelihood)
)
def test_parameters_of_many_values_at_once(case):
    likelihood, y = case.likelihood, np.array(case.ys)
    values = {
        name: likelihood.value_of(name) * np.array([1.0, 0.99, 0.995]) + 0.0101
        for name in likelihood.free
    }
    got, places = likelihood.thetas(y, values), likelihood.locations_at(y, values)
    for b in range(3):
        one = likelihood.changed({name: float(each[b]) for name, each in values.items()})
        np.testing.assert_allclose(got[:, b], one.theta(y), rtol=1e-14)
        np.testing.assert_allclose(np.broadcast_to(places, got.shape[1:])[b], one.location(y))


def test_outer_categories_are_logit():
    x = np.linspace(-700.0, 700.0, 281)
    ordinal = Ordinal((0.7, 2.0))
    for y, cut, label in ((0.0, 0.0, -1.0), (3.0, 2.7, 1.0)):
        got = ordinal.derivatives(x, np.full(x.size, y))
        want = Logit().derivatives(x - cut, np.full(x.size, label))
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300)


def test_a_category_far_from_the_latent_value():
    """σ(b) - σ(a) has no digits there, its logarithm has all."""
    x, gap = np.array([-600.0, 600.0]), 1e-9
    got = Ordinal(gap).derivatives(x, [1, 1])
    constant = np.log(-np.expm1(-gap))
    np.testing.assert_allclose(got[0], [constant - 600.0, constant - 600.0 + gap], rtol=1e-15)
    np.testing.assert_allclose(got[1], [1.0, -1.0], rtol=1e-15)


def test_fisher_is_the_expected_curvature():
    df, scale = 3.0, 0.7
    likelihood = StudentT(df, scale)
    t = np.linspace(-9.0, 9.0, 4001)  # to 4e3, in steps that grow
    y = np.sinh(t)
    _, _, l2, _ = rows = likelihood.derivatives(np.zeros(y.size), y)
    expected = np.trapezoid(-l2 * np.exp(rows[0]) * np.cosh(t), t)
    np.testing.assert_allclose(likelihood.fisher(np.zeros(2)), expected, rtol=1e-6)


@pytest.mark.parametrize("phi", [0.003, 2.0, 1e4])
def test_a_beta_density_is_level_at_its_location(phi):
    """In standard deviations; of 1e-12, Newton's method from elsewhere ends two units away."""
    own, y = Beta(phi=phi), np.array([1e-300, 1e-12, 0.3, 0.999, 1.0 - 1e-12])
    _, slope, curvature, _ = own.derivatives(own.location(y), y)
    assert np.abs(slope / np.sqrt(-curvature)).max() < 1e-6


@pytest.mark.parametrize("order", [1, 3])
def test_student_t_a_long_way_from_a_datum(order):
    """Where z² is beyond numbers: log p = C - (d + 1)(log|x - y| - log w), w = s √d."""
    df, x = np.array([0.0014, 3.0]), np.array([2.0, -5.0])
    scale = np.array([2.2e-298, 1e-200])
    own = StudentT(df=tuple(df), scale=tuple(scale))
    theta = own.theta(np.zeros(2))
    found = evaluate(own.kernel, theta, x, order)
    width = scale * np.sqrt(df)
    far = theta[3] - (df + 1.0) * (np.log(np.abs(x)) - np.log(width))
    slopes = np.array([-1.0 / x, 1.0 / x**2, -2.0 / x**3]) * (df + 1.0)
    truth = np.array([far, *slopes])[: order + 1]
    np.testing.assert_allclose(found[: order + 1], truth, rtol=1e-12)
