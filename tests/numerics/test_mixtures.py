"""Logarithms of sums of Gaussians and their copies."""

import numpy as np
from scipy.special import logsumexp

from evidence.numerics.mixtures import log_sums


def test_sums_with_terms_far_apart():
    rng = np.random.default_rng(0)
    squares = rng.chisquare(3, (50, 7)) * 10.0 ** rng.uniform(-3, 4, (50, 7))
    heights, precisions = rng.normal(0.0, 30.0, (7, 3)), np.array([1.0, 0.5, 1.0 / 6.0])
    out = np.empty(50)
    log_sums(squares, heights, precisions, out)
    terms = heights - 0.5 * precisions * squares[:, :, None]
    np.testing.assert_allclose(out, logsumexp(terms, axis=(1, 2)), rtol=1e-13)
