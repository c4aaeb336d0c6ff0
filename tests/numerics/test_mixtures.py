"""Logarithms of sums of Gaussians and their copies."""

import numpy as np
import pytest
from scipy.special import logsumexp

from evidence.numerics.mixtures import log_sums, squares


@pytest.mark.interpreted
def test_sums_with_terms_far_apart():
    rng = np.random.default_rng(0)
    K, d, n = 7, 3, 300  # points in two pieces
    means, z = rng.normal(0.0, 3.0, (K, d)), rng.normal(0.0, 1.0, (n, d))
    roots = np.triu(rng.normal(0.0, 1.0, (K, d, d))) * 10.0 ** rng.uniform(-2, 2, (K, 1, 1))
    heights, precisions = rng.normal(0.0, 30.0, (K, 3)), np.array([1.0, 0.5, 1.0 / 6.0])
    exact = np.sum(np.einsum("kij,kmj->kmi", roots, z - means[:, None]) ** 2, axis=2)
    found, out = np.empty((K, n)), np.empty(n)
    squares(z, means, roots, found)
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    log_sums(z, means, roots, heights, precisions, out)
    terms = heights - 0.5 * precisions * exact.T[:, :, None]
    np.testing.assert_allclose(out, logsumexp(terms, axis=(1, 2)), rtol=1e-12)


@pytest.mark.interpreted
def test_points_infinitely_far_have_no_density():
    out = np.empty(2)
    z = np.array([[np.inf], [0.0]])
    with np.errstate(invalid="ignore"):
        log_sums(z, np.zeros((1, 1)), np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(1), out)
    assert out.tolist() == [-np.inf, 0.0]
