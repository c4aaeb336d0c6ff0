from __future__ import annotations

import numpy as np
import pytest
from covering import covering
from problems import LIKELIHOODS, small_model
from scipy.stats import norm

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.paths.coordinates import KINDS, coordinates

pytestmark = pytest.mark.interpreted

REFERENCES = {"ep": ev.fit_ep, "laplace": ev.fit_laplace, "prior": prior_reference}


def mass_matrix(reference, mass):
    """M from its definition."""
    model = reference.model
    if mass == "identity":
        return np.eye(model.n)
    if mass == "diagonal":
        return np.diag(1.0 / np.diag(reference.cov))
    if mass == "base":
        return np.linalg.inv(reference.cov)
    prior = np.linalg.inv(model.K)
    if mass == "prior":
        return prior
    if not model.likelihood.log_concave:
        return prior + np.diag(model.likelihood.fisher(model.y))
    z = np.linspace(-8.0, 8.0, 201)  # a sum, as the package has Gauss and Hermite's nodes
    x, weights = reference.mean + np.sqrt(reference.var) * z[:, None], norm.pdf(z) * (z[1] - z[0])
    curvature = [
        -weights @ model.likelihood.derivatives(x[:, n], np.full(len(x), model.y[n]))[2]
        for n in range(model.n)
    ]
    return prior + np.diag(curvature)


@pytest.mark.parametrize(
    ("likelihood", "reference", "mass"), covering(LIKELIHOODS, REFERENCES, KINDS)
)
def test_base_and_mass_are_diagonal(likelihood, reference, mass):
    base = REFERENCES[reference](small_model(likelihood, 4))
    c = coordinates(base, mass)
    M = mass_matrix(base, mass)
    exact = mass != "expected" or not base.model.likelihood.log_concave
    np.testing.assert_allclose(c.T.T @ M @ c.T, np.eye(4), atol=1e-9 if exact else 0.01)
    np.testing.assert_allclose(
        c.T.T @ np.linalg.inv(base.cov) @ c.T, np.diag(1.0 / c.gamma), rtol=1e-7, atol=1e-8
    )
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 4))
    np.testing.assert_allclose(c.to_latent(c.from_latent(x)), x, atol=1e-10)
    gradient = rng.standard_normal((5, 4))
    np.testing.assert_allclose(c.slope(gradient), gradient @ c.T)
    np.testing.assert_allclose(c.root**2, c.gamma)


def test_unknown_mass_names_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown coordinates 'dense'\. Known: identity"):
        coordinates(prior_reference(small_model("probit")), "dense")
