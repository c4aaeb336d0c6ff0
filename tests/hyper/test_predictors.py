"""Hyperparameters of models whose data see several predictors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import lognorm

import evidence as ev
from evidence.approximations.gp.gradient import log_evidence_gradient
from evidence.hyper.at_theta import ep_at

rng = np.random.default_rng(3)
X = np.linspace(0.0, 1.0, 8)
Y = np.sin(5 * X) + np.exp(-1.0 + X) * rng.normal(size=8)


def dense(likelihood="gaussian", y=Y):
    name = "sigma" if likelihood == "gaussian" else "zi"
    kernels = {"mu": "1.0 * RBF(0.4)", name: "1.0 * RBF(0.6)"}
    return ev.PredictorsModel(X, y, kernels, likelihood=likelihood)


@pytest.mark.parametrize("likelihood", ["gaussian", "zero_inflated_negative_binomial"])
def test_gradient(likelihood):
    """Against differences of EP fits, of kernels' parameters and of a likelihood's."""
    y = Y if likelihood == "gaussian" else np.array([0.0, 3.0, 1.0, 0.0, 0.0, 2.0, 5.0, 0.0])
    model = dense(likelihood, y)
    theta, h = model.hyperparameters.theta, 1e-3
    gradient = log_evidence_gradient(ep_at(model, theta))
    for i, step in enumerate(h * np.eye(theta.size)):
        up, down = (ep_at(model, theta + s * step).logz for s in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / (2 * h), abs=0.01)


@pytest.mark.slow
def test_integrated_over_one_of_a_dense_model():
    """Against a sum over the hyperparameter. |z| > 4 by chance: 1 in 10,000."""
    model = dense()
    held = list(model.hyperparameters.names[1:])
    name = model.hyperparameters.names[0]
    prior = {name: lognorm(0.7)}
    result = ev.log_evidence(
        model.with_priors(prior, fixed=held), random_seed=0, progressbar=False, n_islands=16
    )
    z, w = np.polynomial.hermite_e.hermegauss(7)
    each = [
        ev.log_evidence(
            model.at({model.hyperparameters.names[0]: v}), random_seed=1, progressbar=False
        )
        for v in np.exp(0.7 * z)
    ]
    truth = np.logaddexp.reduce([r.logz for r in each] + np.log(w / w.sum()))
    assert result.logz_se < 0.1
    assert abs(result.logz - truth) < 4 * np.hypot(result.logz_se, each[0].logz_se)
    best = ev.optimise(model, fixed=held, priors=prior, random_seed=0, progressbar=False)
    assert best.table.value["predictor[mu]__k1__constant_value"] > 0.0


def test_names_of_all_predictors():
    model = dense()
    assert model.at({"length_scale": 2.0}).hyperparameters.values[1::2].tolist() == [2.0, 2.0]
    with pytest.raises(ev.InputError, match="kernel \\(or K\\) must map"):
        ev.PredictorsModel(X, Y, ["RBF(1.0)", "RBF(1.0)"])
    with pytest.raises(ev.InputError, match="mean must map names of predictors"):
        ev.PredictorsModel(X, Y, {"mu": "RBF(1.0)", "sigma": "RBF(1.0)"}, mean={"tau": 1.0})
