"""Beta and beta-binomial where φ is large: factors overflow, and differences are rounding."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import evidence as ev
from evidence.models import likelihoods


@pytest.mark.parametrize("phi", [1e13, 1e20, 1e60, 1e200])
@pytest.mark.parametrize(("n", "y"), [(12, 0.0), (20, 3.0), (200, 30.0), (200, 200.0)])
def test_a_precise_beta_binomial_is_binomial(phi, n, y):
    x = np.array([-2.0, 0.3, 4.0])
    precise = likelihoods.BetaBinomial(n=n, phi=phi).derivatives(x, np.full(3, y))
    np.testing.assert_allclose(
        precise, likelihoods.Binomial(n=n).derivatives(x, np.full(3, y)), rtol=1e-7, atol=1e-8
    )


@pytest.mark.parametrize("phi", [1e14, 1e20, 1e60])
def test_a_precise_share_has_a_highest_density(phi):
    """Beyond that numbers are rounding: at φ = 1e20 they were 6,400 nats higher."""
    x = 0.3 + np.linspace(-1e-7, 1e-7, 201)
    y = np.full(x.size, expit(0.3))
    top = 0.5 * np.log(phi / (2.0 * np.pi * y[0] * (1.0 - y[0])))
    log_p = likelihoods.Beta(phi=phi).log_prob(x, y)
    assert log_p.max() < top + 1e-6
    assert log_p[100] == pytest.approx(top, abs=0.05)


def test_overdispersion_that_is_not_there():
    """Ten of twenty in fifty rows: no model's likelihood is above the saturated binomial one."""
    data = {"y": np.full(50, 10), "n": np.full(50, 20)}
    model = ev.from_formula("y | trials(n) ~ 1", data, likelihood="beta_binomial")
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    highest = 50.0 * likelihoods.Binomial(n=20).log_prob([0.0], [10.0])[0]
    assert result.logz < highest - 3.0
