"""Likelihoods made from a user's function."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from numba import njit
from scipy.special import ndtr

from evidence import likelihoods
from evidence.models.likelihoods import Probit, StudentT, from_function


def probit_by_hand(x, y):
    z = y * x
    p = 0.5 * math.erfc(-z / math.sqrt(2.0))
    r = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) / p
    return math.log(p), y * r, -r * (z + r), y * r * ((z + r) * (z + 2.0 * r) - 1.0)


def student_by_hand(x, y, df, scale):
    c = math.lgamma(0.5 * df + 0.5) - math.lgamma(0.5 * df) - 0.5 * math.log(math.pi * df)
    e, w, a = x - y, df * scale**2, df + 1.0
    s = w + e * e
    return (
        c - math.log(scale) - 0.5 * a * math.log1p(e * e / w),
        -a * e / s,
        -a * (w - e * e) / s**2,
        2.0 * a * e * (3.0 * w - e * e) / s**3,
    )


def labels(y):
    if not np.isin(y, (-1, 1)).all():
        raise ValueError("y: wants -1 and 1")
    return y


def student(**arguments):
    return from_function(
        student_by_hand, name="student", params={"df": 4.0, "scale": 0.5}, **arguments
    )


def test_clone_of_probit():
    clone = from_function(
        probit_by_hand,
        name="clone",
        check=labels,
        simulate=lambda x, rng: np.where(rng.random(x.shape) < ndtr(x), 1.0, -1.0),
        conditional_moments=lambda x: (2 * ndtr(x) - 1, 4 * ndtr(x) * ndtr(-x)),
        log_concave=True,
    )
    x, y = np.linspace(-3, 6, 30), np.tile([1.0, -1.0], 15)
    np.testing.assert_allclose(
        clone.derivatives(x, y), Probit().derivatives(x, y), rtol=1e-9, atol=1e-12
    )
    v = np.geomspace(1e-3, 10.0, 30)
    want = Probit().tilted_cumulants(y, x, v, 6)
    np.testing.assert_allclose(clone.tilted_cumulants(y, x, v, 6), want, rtol=1e-7, atol=1e-9)
    drawn = [lik.simulate(x, np.random.default_rng(0)) for lik in (clone, Probit())]
    np.testing.assert_array_equal(*drawn)
    got, want = (lik.predictive(x, 0.1) for lik in (clone, Probit()))
    np.testing.assert_allclose(got.mean, want.mean, rtol=1e-8, atol=1e-12)
    with pytest.raises(ValueError, match="y: wants -1 and 1"):
        clone.check([0.0, 1.0])
    assert clone.log_concave
    assert likelihoods.get(clone) is clone
    assert likelihoods.describe(clone) == "clone()"


def test_parameters_per_datum():
    df = np.array([1.0, 4.0, 30.0])
    clone = from_function(
        student_by_hand,
        params={"df": df, "scale": 0.5},
        fisher=lambda y, df, scale: (df + 1) / ((df + 3) * scale**2),
    )
    true = StudentT(df, 0.5)
    x, y = np.array([0.0, 1.0, -2.0]), np.array([0.2, -9.0, 3.0])
    np.testing.assert_allclose(clone.derivatives(x, y), true.derivatives(x, y), rtol=1e-12)
    np.testing.assert_allclose(clone.tilted(y, x, df), true.tilted(y, x, df), rtol=1e-9)
    np.testing.assert_allclose(clone.fisher(y), true.fisher(y))
    assert repr(clone) == "custom(df=<3 values>, scale=0.5)"
    with pytest.raises(ValueError, match="df has 3 values but there are 2 data"):
        clone.log_prob([0.0, 0.0], [0.0, 0.0])


def test_compiled_functions_and_pickles():
    compiled = from_function(njit(probit_by_hand), check=labels, example_y=[1])
    assert compiled.log_prob([0.0], [1])[0] == pytest.approx(-math.log(2.0))
    plain = student()
    again = pickle.loads(pickle.dumps(plain))
    assert again == plain
    np.testing.assert_array_equal(again.log_prob([0.1], [2.0]), plain.log_prob([0.1], [2.0]))


def test_location_defaults():
    y = np.array([3.0, -1.0])
    np.testing.assert_array_equal(student().location(y), y)
    np.testing.assert_array_equal(student(check=lambda y: y).location(y), [0.0, 0.0])
    moved = student(location=lambda y, df, scale: y + scale)
    np.testing.assert_array_equal(moved.location(y), y + 0.5)


def test_what_was_not_given_is_asked_for():
    clone = student(check_derivatives=False)
    for call, argument in [
        (lambda: clone.simulate(np.zeros(2), np.random.default_rng(0)), "simulate"),
        (lambda: clone.predictive([0.0], [1.0]), "conditional_moments"),
        (lambda: clone.fisher(np.zeros(2)), "fisher"),
    ]:
        with pytest.raises(NotImplementedError, match=f"pass {argument}=… to from_function"):
            call()


def _gaussian_with(i, error):
    """A unit Gaussian whose i-th entry is off by ``error``."""

    def function(x, y):
        z = y - x
        off = (0.0 if i != 1 else error, 0.0 if i != 2 else error, 0.0 if i != 3 else error)
        return -0.5 * z * z, z + off[0], -1.0 + off[1], 0.0 + off[2]

    return function


@pytest.mark.parametrize(
    ("i", "message"),
    [
        (1, r"the first derivative is wrong at x = .*finite differences of log p give"),
        (2, r"the second derivative is wrong at .*differences of the first derivative give -1$"),
        (3, r"the third derivative is wrong at .* y = .*: it returns 0\.001, "),
    ],
)
def test_wrong_derivatives_are_named(i, message):
    with pytest.raises(ValueError, match=message):
        from_function(_gaussian_with(i, 1e-3))


def _not_numbers(x, y):
    return "no", x, y, 0.0


def _three_values(x, y):
    return x, 1.0, 0.0


def _nowhere(x, y):
    return math.nan, 0.0, 0.0, 0.0


REFUSED = [
    ({"function": probit_by_hand, "name": "probit"}, "name: 'probit' is the name of"),
    ({"function": 3}, "function must be a function, got 3"),
    ({"function": _not_numbers}, r"function: Numba cannot compile f\(x, y\)"),
    ({"function": _three_values}, r"function: Numba cannot compile f\(x, y\)"),
    ({"function": _nowhere}, "function: not finite between x = -3.3 and 0.9 at y = -1"),
    ({"function": student_by_hand, "params": {"df": math.nan}}, "df must be a finite number"),
    (
        {"function": student_by_hand, "params": {"df": 4, "scale": 1}, "log_concave": True},
        "log_concave=True, but the second derivative is .* > 0 at y = ",
    ),
    (
        {"function": probit_by_hand, "check": lambda y: labels(y - 50.0)},
        "example_y: none of -1, 0, 1, 2.* passes check.*as example_y=",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        from_function(**arguments)
