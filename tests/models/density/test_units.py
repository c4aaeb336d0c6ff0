"""Units of a density that nobody told where it is, nor how far it reaches."""

from __future__ import annotations

import numpy as np
import pytest

import evidence as ev
from evidence.approximations.density.modes import find_modes, negative_hessian, starts
from evidence.models.density.units import place, units

SD = np.array([1e-4, 0.03, 1.0, 50.0, 1e4])


def normal(x):
    return -0.5 * np.sum((x / SD) ** 2, axis=-1)


@pytest.mark.parametrize("far", [0.0, 1.0, 30.0])
def test_a_normal_density_has_its_deviations_for_units(far):
    np.testing.assert_allclose(units(normal, far * SD), SD, rtol=1e-3)


def test_units_beside_a_wall_and_of_what_is_flat():
    def walled(x):  # the second coordinate ends at 0.003, the third does nothing
        inside = x[..., 1] < 0.003
        return np.where(inside, -0.5 * (x[..., 0] / 7.0) ** 2, -np.inf)

    found = units(walled, np.zeros(3))
    assert found[0] == pytest.approx(7.0, rel=1e-3)
    assert 0.001 < found[1] < 0.01
    assert found[2] == 1.0


def test_what_overflows_leads_nowhere():
    """Of a survival likelihood whose shape overflowed, all starts lay where it was +inf."""

    def overflowing(x):
        y = x / 1e-4
        return np.where(y[:, 0] > 1e6, np.inf, -0.5 * np.sum((y - 3.0) ** 2, axis=1))

    top, unit = place(overflowing, np.zeros(2))
    assert np.isfinite(overflowing(top[None])).all()
    np.testing.assert_allclose(unit, 1e-4, rtol=0.01)


@pytest.mark.parametrize(
    ("vectorized", "gradient"),
    [
        (True, True),
        (False, False),
        pytest.param(True, False, marks=pytest.mark.slow),
        pytest.param(False, True, marks=pytest.mark.slow),
    ],
)
def test_modes_and_curvatures_whatever_the_units(vectorized, gradient):
    at = 2.0 * SD

    def log_p(x):
        z = (x - at) / SD
        return -np.sum(np.logaddexp(z, -z), axis=-1)

    def slope(x):
        return -np.tanh((x - at) / SD) / SD

    words = {"grad": slope} if gradient else {}
    model = ev.DensityModel(log_p, dim=5, vectorized=vectorized, **words)
    (mode,) = find_modes(model)
    np.testing.assert_allclose((mode.x - at) / SD, 0.0, atol=1e-3)
    H = negative_hessian(model, mode.x) * SD[:, None] * SD
    np.testing.assert_allclose(H, np.eye(5), atol=1e-2)


@pytest.mark.slow
def test_a_bare_density_with_a_wall_in_any_units():
    """Half a normal density: climbs in coordinates of their own sizes stop at the wall, 1e4
    deviations away from the mode. log Z = log √(2π)⁵ Π sd - log 2."""
    across = np.array([1.0, -2.0, 0.5, 1.0, -1.0])

    def log_p(x):
        return np.where((x / SD) @ across > 0.0, normal(x), -np.inf)

    model = ev.DensityModel(log_p, dim=5, vectorized=True)
    truth = 2.5 * np.log(2.0 * np.pi) + np.log(SD).sum() - np.log(2.0)
    result = ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    assert not result.warnings
    assert abs(result.logz - truth) < 4.0 * result.logz_se < 0.2


def hierarchy(scale):
    """Eight groups about a mean, in these units; tau > 0 by its bounds, no prior told."""
    y = np.array([-1.4, -2.5, -1.8, -1.2, 0.3, -2.9, -0.6, -1.5])

    def log_p(x):
        mean, tau, theta = x[:, :1] / scale, x[:, 1:2] / scale, x[:, 2:] / scale
        value = -0.02 * mean[:, 0] ** 2 - 0.125 * tau[:, 0] ** 2
        value += (-0.5 * ((theta - mean) / tau) ** 2 - np.log(tau)).sum(axis=1)
        return value - 0.5 * ((y - theta) ** 2).sum(axis=1) - 10.0 * np.log(scale)

    bounds = [(None, None), (0.0, None), *[(None, None)] * 8]
    return ev.DensityModel(log_p, dim=10, vectorized=True, bounds=bounds)


def test_a_density_far_from_ones_is_looked_for_where_it_is():
    plain, small = hierarchy(1.0), hierarchy(1e-5)
    np.testing.assert_array_equal(plain.origin, 0.0)  # where it is seen from, all is as it was
    points = starts(small, np.random.default_rng(0), 64)
    theta, tau = 1e5 * points[:, 2:], 1e5 * np.exp(points[:, 1])
    assert np.abs(theta).max() < 20.0
    assert 0.05 < np.median(tau) < 20.0
    assert small.log_prob(points).max() > -60.0  # at the origin it is -3e10


@pytest.mark.slow
def test_evidence_whatever_the_units():
    plain, small = (
        ev.log_evidence(hierarchy(s), random_seed=0, progressbar=False) for s in (1.0, 1e-5)
    )
    assert not small.warnings
    assert abs(small.logz - plain.logz) < 4.0 * np.hypot(small.logz_se, plain.logz_se)
