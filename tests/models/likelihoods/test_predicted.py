"""Families with predictors of their parameters."""

from __future__ import annotations

import numpy as np
import pytest

from evidence import InputError, likelihoods
from evidence.models.likelihoods.predicted import Predicted, parameter

CASES = {
    "gaussian": ("noise_std",),
    "student_t": ("scale", "df"),
    "zero_inflated_negative_binomial(exposure=(1.0, 2.0, 0.5))": ("zi", "shape"),
    "hurdle_poisson": ("hu",),
    "beta_binomial(n=9)": ("phi",),
    "weibull": ("shape",),
}


def made(spec):
    base = likelihoods.get(spec)
    return Predicted(base, CASES[spec]), base


@pytest.mark.parametrize("spec", CASES)
def test_it_is_the_family_at_those_parameters(spec):
    lik, base = made(spec)
    rng = np.random.default_rng(0)
    y, eta = np.array([1.0, 3.0, 0.0 if lik.counts else 0.4]), rng.normal(size=(4, 3, 3))
    eta = eta[:, : 1 + len(lik.names)]
    values = lik.log_probs(y, eta)
    for b, n in np.ndindex(4, 3):
        own = {name: float(lik.natural(name, eta[b, j, n])) for j, name in enumerate(lik.names, 1)}
        one = base.at([n]).changed(own)
        assert values[b, n] == pytest.approx(one.log_prob([eta[b, 0, n]], [y[n]])[0], abs=1e-12)
    for name in lik.names:
        assert lik.natural(name, lik.to_line(name, 0.3)) == pytest.approx(0.3)


def test_draws_have_parameters_of_their_own():
    """Of those that are not predicted; and what log p is at most."""
    base = likelihoods.get("zero_inflated_negative_binomial")
    lik, y = Predicted(base, ("zi",)), np.array([0.0, 3.0])
    eta, shape = np.random.default_rng(2).normal(size=(3, 2, 2)), np.array([0.5, 2.0, 9.0])
    found = lik.log_probs(y, eta, {"shape": shape})
    each = [lik.changed({"shape": s}).log_probs(y, eta[[b]])[0] for b, s in enumerate(shape)]
    np.testing.assert_allclose(found, each, atol=1e-12)
    assert lik.ceiling(y) == 0.0
    assert Predicted(likelihoods.get("gaussian"), ("noise_std",)).ceiling(y) == np.inf


@pytest.mark.parametrize("spec", CASES)
def test_derivatives(spec):
    lik, _ = made(spec)
    rng = np.random.default_rng(1)
    y, eta = np.array([1.0, 3.0, 0.0 if lik.counts else 0.4]), rng.normal(size=(1, 3, 3))
    eta = eta[:, : 1 + len(lik.names)]
    P, h = eta.shape[1], 1e-3
    value, slope = lik.slopes(y, eta)
    whole = lik.expand(y, eta[0])
    np.testing.assert_array_equal(value[0], whole.value)
    np.testing.assert_allclose(slope[0], whole.slope, atol=1e-9)
    for j in range(P):
        step = np.zeros((1, P, 1))
        step[:, j] = h
        ends = [lik.log_probs(y, eta + k * step)[0] for k in (-2, -1, 1, 2)]
        np.testing.assert_allclose(
            slope[0, j], (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h), atol=1e-6
        )
        slopes = [lik.slopes(y, eta + k * step)[1][0] for k in (-1, 1)]
        np.testing.assert_allclose(
            -whole.curvature[:, j].T, (slopes[1] - slopes[0]) / (2 * h), rtol=1e-4, atol=1e-4
        )


def test_simulated_data_have_the_predicted_moments():
    lik = Predicted(likelihoods.get("gaussian"), ("noise_std",))
    x = np.tile([0.0, 5.0, np.log(0.1), np.log(3.0)], (20_000, 1))
    y = lik.simulate(x, np.random.default_rng(0))
    assert y.shape == (20_000, 2)
    np.testing.assert_allclose(y.std(axis=0), [0.1, 3.0], rtol=0.03)
    mean, var = lik.conditional_moments(x[0])
    np.testing.assert_allclose([mean, var], [[0.0, 5.0], [0.01, 9.0]])


def test_words():
    gaussian = likelihoods.get("gaussian")
    assert parameter(gaussian, "sigma") == "noise_std" == parameter(gaussian, "noise_std")
    lik = Predicted(likelihoods.get("student_t(df=4)"), ("scale",))
    assert repr(lik) == "student_t(df=4, scale=predicted)"
    assert list(lik.free) == ["df"]
    assert lik.changed({"df": 7.0}).value_of("df") == 7.0
    with pytest.raises(InputError, match="gaussian has no parameter 'noise' to predict"):
        Predicted(gaussian, ("noise",))
    with pytest.raises(InputError, match="It has none"):
        Predicted(likelihoods.get("poisson"), ("offset",))
