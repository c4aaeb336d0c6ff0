"""The tempered path of a sparse order, by differences."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_problems import twins

import evidence as ev
from evidence.models.density.checking import central
from evidence.paths.families import make_path


@pytest.mark.parametrize("structure", ["design", "ring"])
def test_gradient_of_the_tilt(structure):
    """A move with a wrong one stays exact, and accepts less: nobody else would notice."""
    path = make_path(ev.fit_laplace(twins("poisson", structure)[0]))
    x = path.mean + 0.3 * np.random.default_rng(0).standard_normal((3, path.n))
    tilt, gradient = path.tilt_and_gradient(x.copy())
    np.testing.assert_allclose(tilt, path.tilt(x), rtol=1e-12)
    np.testing.assert_allclose(gradient, central(path.tilt, x), rtol=1e-5, atol=1e-5)
