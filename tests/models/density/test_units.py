"""Units of a density that nobody told where it is, nor how far it reaches."""

from __future__ import annotations

import numpy as np
import pytest

import evidence as ev
from evidence.approximations.density.modes import find_modes, negative_hessian
from evidence.models.density.units import units

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
