"""Models are values: what is done with them leaves nothing on them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import evidence as ev
from evidence.approximations.density.fitted import fit_density
from evidence.approximations.density.modes import find_modes, fit_density_laplace
from evidence.paths.families import fit_reference

X = np.linspace(0.0, 2.0, 5)
MODELS = {
    "gp": lambda: ev.GPModel(X, [1, -1, 1, 1, -1], "2.0 * RBF(1.0)"),
    "classes": lambda: ev.SoftmaxModel(X, list("abcab"), "2.0 * RBF(1.0)"),
    "density": lambda: ev.DensityModel(bowl, 2, grad=slope, vectorized=True),
}


def bowl(x):
    return -0.5 * (x * x).sum(axis=1)


def slope(x):
    return -x


@pytest.mark.usefixtures("small_searches")
@pytest.mark.parametrize("kind", MODELS)
def test_runs_leave_models_as_they_were(kind):
    model = MODELS[kind]()
    lazy = ("both", "prior")
    before = {name: pickle.dumps(value) for name, value in vars(model).items() if name not in lazy}
    words = {"random_seed": 0, "progressbar": False}
    ev.log_evidence(model, method="smc", n_particles=16, n_islands=2, **words)
    ev.sample(model, draws=4, tune=4, chains=2, **words)
    if kind != "density":
        ev.predict(model, X[:2])
        model.at({"length_scale": 3.0})
    model.bare()
    model.identity()
    after = {name: pickle.dumps(value) for name, value in vars(model).items() if name not in lazy}
    assert after == before


class Counted:
    def __init__(self):
        self.points = 0

    def __call__(self, x):
        self.points += len(x)
        return bowl(x)


@pytest.mark.slow
def test_modes_are_looked_for_once():
    """What Laplace's method finds goes on to the fit by hand, and the answer is the same."""
    searching, alone, handed = Counted(), Counted(), Counted()
    find_modes(ev.DensityModel(searching, 2, vectorized=True))
    plain = fit_density(ev.DensityModel(alone, 2, vectorized=True))
    model = ev.DensityModel(handed, 2, vectorized=True)
    fits = {"laplace": fit_density_laplace(model)}
    fit = fit_reference(model, "fitted", fits)
    assert handed.points == alone.points
    assert alone.points > searching.points > 100
    np.testing.assert_array_equal(fit.mean, plain.mean)
    assert fit.logz == plain.logz
    assert fit.modes is fits["laplace"].modes
