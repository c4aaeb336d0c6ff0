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


@pytest.mark.parametrize("together", [1, 20, 2**14])
def test_rows_are_the_same_however_many_are_evaluated_together(together):
    path = make_path(ev.fit_laplace(twins("poisson", "design")[0]))
    x = path.mean + 0.3 * np.random.default_rng(0).standard_normal((5, path.n))
    model, (c, nu, tau) = path.model, path.reference.sites
    eta = model.prior.predictors(x)
    log_p = np.array([model.likelihood.log_prob(row, model.y) for row in eta])
    sites = c + nu * eta - 0.5 * tau * eta**2
    np.testing.assert_allclose(path._tilt(x, together)[0], (log_p - sites).sum(axis=1), rtol=1e-9)
    np.testing.assert_array_equal(path._tilt(x, together)[1], path._tilt(x, 1)[1])
    assert path._tilt(x[:0], together)[0].shape == (0,)
