from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from evidence.models.gp import GPModel
from evidence.models.priors import Priors

MODEL = GPModel([[0.0], [1.0]], [0.3, -1.0], "4.0 * RBF(1.5)", likelihood="gaussian(noise_std=1)")
ALL = {
    "constant_value": stats.gamma(2.0, scale=1.5),
    "length_scale": "flat",
    "noise_std": stats.halfnorm(scale=2.0),
}


@pytest.fixture
def priors():
    return Priors.of(MODEL.hyperparameters, ALL)


def test_names_come_in_the_order_of_the_model(priors):
    shuffled = Priors.of(MODEL.hyperparameters, dict(reversed(ALL.items())))
    assert priors.names == shuffled.names == MODEL.hyperparameters.names
    fixed = ["constant_value", "length_scale"]
    held = Priors.of(MODEL.hyperparameters, {"noise_std": "flat"}, fixed=fixed)
    assert held.names == ("likelihood__noise_std",)
    assert held.free.tolist() == [2]


def test_the_density_of_the_log_integrates_to_one():
    for distribution in (*ALL.values(), stats.invgamma(3.0), stats.uniform(0.5, 2.0)):
        prior = Priors(("a",), np.array([0]), (distribution,))
        total, _ = integrate.quad(
            lambda t, prior=prior: np.exp(prior.log_density([t])),
            *(-60.0, 60.0),
            limit=500,
            points=[np.log(0.5), 0.0, np.log(2.5)],
        )
        assert total == pytest.approx(1.0, abs=1e-6)


def test_flat_is_a_wide_normal_on_the_log():
    prior = Priors(("a",), np.array([0]), ("flat",))
    np.testing.assert_allclose(prior.log_density([[3.0]]), stats.norm(0, 10).logpdf([3.0]))


def test_a_batch_is_its_rows(priors):
    theta = np.random.default_rng(0).standard_normal((4, 5, 3))
    batch = priors.log_density(theta)
    assert batch.shape == (4, 5)
    assert batch[1, 2] == pytest.approx(float(priors.log_density(theta[1, 2])))


def test_outside_the_support_the_density_is_zero():
    prior = Priors(("a",), np.array([0]), (stats.uniform(1.0, 2.0),))
    assert prior.log_density([0.0 - 1e-9]) == -np.inf
    assert np.isfinite(prior.log_density([0.5]))
    assert Priors(("a",), np.array([0]), (stats.gamma(2),)).log_density([800.0]) == -np.inf


def test_a_start_outside_the_support_is_named(priors):
    priors.check_start(MODEL.hyperparameters.theta)
    outside = Priors.of(
        MODEL.hyperparameters, {"length_scale": stats.uniform(2.0, 1.0)}, complete=False
    )
    with pytest.raises(ValueError, match="prior of k2__length_scale"):
        outside.check_start(MODEL.hyperparameters.theta)


def test_supports_are_those_of_the_logs():
    prior = Priors(("a", "b"), np.array([0, 1]), (stats.uniform(1.0, 2.0), "flat"))
    np.testing.assert_allclose(prior.support(), [[0.0, np.log(3.0)], [-np.inf, np.inf]])


def test_in_words(priors):
    words = {"k1__constant_value": "gamma(2, scale=1.5)", "k2__length_scale": "flat"}
    assert priors.describe() == {**words, "likelihood__noise_std": "halfnorm(scale=2)"}


def test_text_is_a_distribution(priors):
    text = {"constant_value": "gamma(2, scale=1.5)", "noise_std": "halfnorm(scale=2)"}
    read = Priors.of(MODEL.hyperparameters, {**ALL, **text})
    theta = np.array([0.3, -0.2, 0.1])
    assert read.log_density(theta) == priors.log_density(theta)
    assert read.describe() == priors.describe()


@pytest.mark.parametrize(
    ("mapping", "fixed", "said"),
    [
        ({"length_scale": "flat"}, (), "no prior for k1__constant_value, likelihood__noise_std"),
        ({"length_scale": "flat"}, (), "or hold it by its name in fixed="),
        ({**ALL, "lenght": "flat"}, (), "unknown hyperparameter 'lenght'"),
        ({**ALL, "k2__length_scale": "flat"}, (), "k2__length_scale has two priors"),
        (ALL, ["noise_std"], "likelihood__noise_std has a prior and is fixed"),
        ({**ALL, "noise_std": "wide"}, (), r"priors\['noise_std'\] is 'wide', which is no proper"),
        ({**ALL, "noise_std": "normal(0)"}, (), "did you mean 'norm'"),
        ({**ALL, "noise_std": 3.0}, (), "prior of likelihood__noise_std: got 3.0; pass a frozen"),
        ({**ALL, "noise_std": 3.0}, (), "hold it there: model.at"),
        ({**ALL, "noise_std": stats.norm(1, 0.1)}, (), r"its support is \(-inf, inf\)"),
        ({**ALL, "noise_std": stats.poisson(2)}, (), "pass a frozen continuous distribution"),
        ({**ALL, "noise_std": stats.gamma([1, 2])}, (), "must be numbers, not arrays"),
        ({}, MODEL.hyperparameters.names, "no hyperparameter is free"),
        ("flat", (), "priors must map names"),
        (ALL, "noise_std", "fixed must be a list of names"),
    ],
)
def test_bad_priors_are_refused_in_words(mapping, fixed, said):
    with pytest.raises(ValueError, match=said):
        Priors.of(MODEL.hyperparameters, mapping, fixed)


def test_a_model_without_hyperparameters():
    model = GPModel(K=np.eye(2), y=[1, -1])
    with pytest.raises(ValueError, match="the model has no free hyperparameters"):
        Priors.of(model.hyperparameters, {})


def test_wrong_shape_of_theta(priors):
    with pytest.raises(ValueError, match=r"theta must hold 3 logs \(.*\) along its last axis"):
        priors.log_density([0.0, 1.0])
