"""Hyperparameters: one vector of logs and the way back."""

import numpy as np
import pytest

from evidence import GPModel, likelihoods
from evidence.models.priors import Priors


def model(kernel="4.0 * RBF([1.0, 2.0]) + WhiteKernel(0.1)", likelihood="student_t(df=4)"):
    x = np.random.default_rng(0).normal(size=(8, 2))
    return GPModel(x, np.round(np.abs(x[:, 0])), kernel, likelihood=likelihood)


def test_names_and_round_trip():
    free = model().hyperparameters
    assert free.names == (
        "k1__k1__constant_value",
        "k1__k2__length_scale[0]",
        "k1__k2__length_scale[1]",
        "k2__noise_level",
        "likelihood__df",
        "likelihood__scale",
    )
    theta = free.theta + np.arange(6) / 10
    again = model().at(theta).hyperparameters
    np.testing.assert_allclose(again.theta, theta, rtol=1e-14)
    assert again.bounds.shape == (6, 2)


def test_at_is_the_model_built_from_nothing():
    before = model()
    after = before.at({"noise_level": 0.3, "length_scale[1]": 5.0, "scale": 0.2})
    fresh = model("4.0 * RBF([1.0, 5.0]) + WhiteKernel(0.3)", "student_t(df=4, scale=0.2)")
    np.testing.assert_allclose(after.K, fresh.K, rtol=1e-13)
    np.testing.assert_allclose(after.chol, fresh.chol, rtol=1e-10, atol=1e-12)
    for free in (after.hyperparameters, fresh.hyperparameters):
        np.testing.assert_allclose(free.theta, np.log([4.0, 1.0, 5.0, 0.3, 4.0, 0.2]), atol=1e-14)
    assert repr(after.hyperparameters.kernels[0]) == repr(fresh.kernel)
    assert after.hyperparameters.likelihood == fresh.likelihood
    np.testing.assert_allclose(after.theta, fresh.theta, rtol=1e-13)
    np.testing.assert_allclose(after.jitter, fresh.jitter, rtol=1e-12)
    assert before.hyperparameters.values[3] == pytest.approx(0.1)


def test_scales_of_one_kernel_have_one_name():
    before = model()
    np.testing.assert_allclose(before.at({"length_scale": 3.0}).kernel.k1.k2.length_scale, 3.0)
    given = {"length_scale": "gamma(2)", "constant_value": "expon()"}
    rest = ("noise_level", "likelihood__df", "likelihood__scale")
    priors = Priors.of(before.hyperparameters, given, rest)
    assert priors.names == before.hyperparameters.names[:3]
    assert Priors.of(before.hyperparameters, {"noise_level": "expon()"}, [*rest[1:], *given])
    with pytest.raises(ValueError, match=r"length_scale\[1\] has two priors"):
        Priors.of(before.hyperparameters, given | {"length_scale[1]": "gamma(2)"}, rest)
    with pytest.raises(ValueError, match="ambiguous: it may be k1__length_scale, k2__length"):
        model("RBF(1.0) + RBF(2.0)").at({"length_scale": 1.0})


def test_a_tuple_of_parameters_is_free_one_by_one():
    x = np.random.default_rng(0).normal(size=(8, 2))
    y = np.resize([0, 3, 1, 2], 8)
    before = GPModel(x, y, "RBF(1.0)", likelihood="ordinal(gaps=(1.0, 0.5))")
    free = before.hyperparameters
    assert free.names == ("length_scale", "likelihood__gap_1", "likelihood__gap_2")
    np.testing.assert_allclose(free.values, [1.0, 1.0, 0.5])
    after = before.at({"gap_2": 4.0})
    assert after.likelihood == likelihoods.Ordinal((1.0, after.hyperparameters.values[2]))
    np.testing.assert_allclose(after.hyperparameters.values, [1.0, 1.0, 4.0], rtol=1e-14)
    assert before.likelihood == likelihoods.Ordinal((1.0, 0.5))
    with pytest.raises(ValueError, match=r"gap.*unknown hyperparameter 'gap_3'|'gap_3'"):
        before.at({"gap_3": 1.0})


def test_fixed_and_known_parameters_are_not_free():
    fixed = model('ConstantKernel(2.0, "fixed") * RBF(1.0)', "poisson")
    assert fixed.hyperparameters.names == ("k2__length_scale",)
    per_datum = model(likelihood=likelihoods.StudentT(df=4.0, scale=np.ones(8)))
    assert per_datum.hyperparameters.names[-1] == "likelihood__df"
    given = GPModel(K=np.eye(2), y=[0.5, 1.0], likelihood="gaussian(noise_std=0.5)")
    assert given.hyperparameters.names == ("likelihood__noise_std",)
    assert given.at([0.0]).likelihood.noise_std == 1.0
    assert given.at([0.0]).K is given.K


@pytest.mark.parametrize(
    ("theta", "message"),
    [
        ({"noise_lvel": 1.0}, "did you mean 'k2__noise_level'"),
        ({"noise_level": -1.0}, "hyperparameter 'noise_level' must be a positive"),
        ([1.0], r"theta must be an array of shape \(6,\)"),
        ([np.nan] * 6, "NaN"),
    ],
)
def test_bad_input(theta, message):
    with pytest.raises(ValueError, match=message):
        model().at(theta)
