"""Hyperparameters of several classes, integrated out, against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import stats
from scipy.special import log_expit, logsumexp

import evidence as ev

X, LABELS = np.array([[0.0], [1.0]]), ["a", "b"]
PRIOR = stats.lognorm(0.7, scale=2.0)


@pytest.fixture(scope="module")
def model():
    kernel = "1.0 * RBF(1.0, length_scale_bounds='fixed')"
    return ev.SoftmaxModel(X, LABELS, kernel).with_priors({"constant_value": PRIOR})


def truth() -> float:
    """Two classes are told apart by a difference of fields, whose covariances add up."""
    z, w = hermegauss(40)
    z2 = np.stack(np.meshgrid(z, z)).reshape(2, -1)
    log_w = np.log(np.multiply.outer(w, w).ravel() / (2.0 * np.pi))
    root = np.linalg.cholesky([[1.0, np.exp(-0.5)], [np.exp(-0.5), 1.0]])
    nodes, mass = hermegauss(24)  # of the logs of both amplitudes
    amplitude = 2.0 * np.exp(0.7 * nodes)
    total = -np.inf
    for a, p in zip(amplitude, mass, strict=True):
        for b, q in zip(amplitude, mass, strict=True):
            x = np.sqrt(a + b) * root @ z2
            inner = logsumexp(log_w + log_expit(x[0]) + log_expit(-x[1]))
            total = np.logaddexp(total, inner + np.log(p * q / (2.0 * np.pi)))
    return float(total)


@pytest.mark.slow
def test_hyperparameters_of_classes_are_integrated_out(model):
    result = ev.log_evidence(model, target_se=0.03, random_seed=0, progressbar=False)
    assert result.method == "integrated"
    assert result.logz_se < 0.05
    assert abs(result.logz - truth()) < 4.0 * result.logz_se
    assert [name.partition("]")[0] for name in result.names] == ["class[a", "class[b"]
    assert "EP's" in result.summary()
    prediction = ev.predict(model, X, posterior=result, max_draws=8)
    assert prediction.probability.shape == (2, 2)
    np.testing.assert_allclose(prediction.probability.sum(axis=1), 1.0)


def test_priors_of_classes(model):
    assert model.at({"constant_value": 2.0}).priors is None
    assert model.with_priors(None).priors is None
    one = {"class[a]__k1__constant_value": PRIOR}
    with pytest.raises(ev.InputError, match=r"no prior for class\[b\]"):
        model.with_priors(one)
    held = model.with_priors(one, fixed=["class[b]__k1__constant_value"])
    assert held.priors.names == ("class[a]__k1__constant_value",)
    with pytest.raises(ev.InputError, match="priors"):
        ev.integrated_evidence(model.with_priors(None))
