"""``check=True`` finds each derivative that is wrong, and names it."""

from __future__ import annotations

import numpy as np
import pytest
from models.density.cases import CASES, banana, limited

import evidence as ev
from evidence.models.density.checking import central


def scaled(function):
    """One coordinate of the answer is 1 % off."""

    def wrong(*args):
        out = np.array(function(*args))
        out[:, 0] *= 1.01
        return out

    return wrong


def test_right_ones_pass():
    for build in CASES.values():
        build(check=True)


@pytest.mark.parametrize("build", [banana, limited])
@pytest.mark.parametrize("name", ["grad", "hessian", "third", "along", "tensor"])
def test_each_is_named(name, build):
    model = build().model
    given = model.functions._asdict()
    words = given | {name: scaled(given[name])}
    bounds = [(0.0, None), (None, 2.0), (0.0, 1.0)] if model.n == 3 else None
    with pytest.raises(ValueError, match=rf"^{name} is wrong: at \[.*finite differences"):
        ev.DensityModel(dim=model.n, bounds=bounds, vectorized=True, check=True, **words)


@pytest.mark.parametrize("part", [0, 1])
def test_value_and_grad_is_named(part):
    given = banana().model.functions._asdict()

    def both(x):
        pair = [given["logdensity"](x), given["grad"](x)]
        pair[part] = pair[part] + 0.01 * (1.0 + np.abs(pair[part]))
        return tuple(pair)

    words = given | {"grad": None, "value_and_grad": both}
    with pytest.raises(ValueError, match=r"^value_and_grad is wrong"):
        ev.DensityModel(dim=2, vectorized=True, check=True, **words)


def test_an_asymmetric_hessian_is_named():
    given = banana().model.functions._asdict()

    def lopsided(x):
        H = given["hessian"](x)
        H[:, 0, 1] += 0.1
        H[:, 1, 0] -= 0.1
        return H

    words = given | {"hessian": lopsided}
    with pytest.raises(ValueError, match=r"^hessian is wrong: .*its own symmetry"):
        ev.DensityModel(dim=2, vectorized=True, check=True, **words)


@pytest.mark.parametrize("name", ["hessian", "third"])
def test_without_a_gradient(name):
    """The Hessian is then compared with differences of the value."""
    given = banana().model.functions._asdict()
    words = given | {"grad": None, name: scaled(given[name])}
    if name == "hessian":  # keep it symmetric
        words["hessian"] = lambda x: 1.05 * given["hessian"](x)
    with pytest.raises(ValueError, match=f"^{name} is wrong"):
        ev.DensityModel(dim=2, vectorized=True, check=True, **words)
    ev.DensityModel(dim=2, vectorized=True, check=True, **given | {"grad": None})


@pytest.mark.parametrize("name", ["third", "along", "tensor"])
def test_without_a_hessian_third_derivatives_are_said_to_need_one(name):
    given = banana().model.functions._asdict()
    words = {"logdensity": given["logdensity"], "grad": given["grad"], name: given[name]}
    with pytest.raises(ValueError, match=f"{name}= needs hessian="):
        ev.DensityModel(dim=2, vectorized=True, **words)


def matrix(x):
    G = np.zeros((len(x), 2, 2))
    G[:, 0, 0], G[:, 1, 1], G[:, 0, 1] = 2.0 + x[:, 0] ** 2, 3.0, np.sin(x[:, 1])
    G[:, 1, 0] = G[:, 0, 1]
    return G


def slope(x, W):
    return np.column_stack(
        [2.0 * x[:, 0] * W[:, 0, 0], np.cos(x[:, 1]) * (W[:, 0, 1] + W[:, 1, 0])]
    )


def along(x, w):
    return slope(x, w[:, :, None] * w[:, None, :])


def test_a_metric_that_is_right():
    banana(metric=ev.Fisher(matrix, slope, along), check=True)


@pytest.mark.parametrize("name", ["slope", "along"])
def test_parts_of_a_metric_are_named(name):
    parts = {"matrix": matrix, "slope": slope, "along": along}
    metric = ev.Fisher(**parts | {name: scaled(parts[name])})
    with pytest.raises(ValueError, match=rf"^Fisher\.{name} is wrong"):
        banana(metric=metric, check=True)


def test_an_asymmetric_metric_is_named():
    def lopsided(x):
        G = matrix(x)
        G[:, 0, 1] += 0.1
        return G

    with pytest.raises(ValueError, match=r"^Fisher\.matrix is wrong: .*symmetry"):
        banana(metric=ev.Fisher(lopsided, slope), check=True)


def test_a_matrix_that_does_not_go_with_its_slope_is_named():
    with pytest.raises(ValueError, match=r"^Fisher\.slope is wrong"):
        banana(metric=ev.Fisher(lambda x: matrix(x) ** 2, slope), check=True)


def test_what_is_not_finite_is_named():
    given = banana().model.functions._asdict()
    words = given | {"grad": lambda x: np.full_like(x, np.nan)}
    with pytest.raises(ValueError, match=r"^grad is not finite at \[.*: \[nan nan\]"):
        ev.DensityModel(dim=2, vectorized=True, check=True, **words)


def test_points_of_ones_own():
    """Wrong only far out: found where one looks."""
    given = banana().model.functions._asdict()

    def grad(x):
        return given["grad"](x) + (x[:, :1] > 5.0)

    model = ev.DensityModel(dim=2, vectorized=True, **given | {"grad": grad})
    model.check_derivatives()
    with pytest.raises(ValueError, match=r"grad is wrong: at \[6\. 1\.\]"):
        model.check_derivatives([6.0, 1.0])
    model.check_derivatives([[6.0, 1.0]], tolerance=10.0)


def test_differences_are_of_fourth_order():
    x = np.array([[0.3, -1.2], [1e3, 0.0]])
    found = central(lambda t: np.exp(0.001 * t[:, 0]) * np.sin(t[:, 1]), x)
    e = np.exp(0.001 * x[:, 0])
    wanted = np.column_stack([0.001 * e * np.sin(x[:, 1]), e * np.cos(x[:, 1])])
    np.testing.assert_allclose(found, wanted, atol=1e-10)
