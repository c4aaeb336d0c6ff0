"""Random walks: their increments, their null vectors, their scale."""

from __future__ import annotations

import numpy as np
import pytest

from evidence import precisions

POSITIONS = [0.0, 0.1, 0.5, 2.0, 2.2, 7.0]


def variances(prior):
    return np.diag(np.linalg.pinv(prior.matrix().toarray(), hermitian=True))


@pytest.mark.parametrize(
    "prior",
    [precisions.rw1(2), precisions.rw1(40), precisions.rw1(POSITIONS), precisions.rw2(3),
     precisions.rw2(30)],
    ids=repr,
)  # fmt: skip
def test_geometric_mean_of_variances_is_one(prior):
    assert np.exp(np.log(variances(prior)).mean()) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("make", [precisions.rw1, precisions.rw2])
def test_sigma_scales_the_values(make):
    np.testing.assert_allclose(variances(make(9, sigma=0.3)), 0.09 * variances(make(9)), rtol=1e-9)


def test_increments_of_irregular_positions():
    R = precisions.rw1(POSITIONS).matrix().toarray()
    gaps = np.diff(POSITIONS)
    want = np.diff(np.eye(6), axis=0).T @ np.diag(1.0 / gaps) @ np.diff(np.eye(6), axis=0)
    ratio = R[0, 0] / want[0, 0]
    np.testing.assert_allclose(R, ratio * want, rtol=1e-12, atol=1e-12)
    regular = precisions.rw1(np.arange(0.0, 30.0, 3.0)).matrix().toarray()
    np.testing.assert_allclose(regular, precisions.rw1(10).matrix().toarray(), rtol=1e-12)


def test_null_vectors():
    i = np.arange(8.0)
    for prior, polynomials in (
        (precisions.rw1(8), [np.ones(8)]),
        (precisions.rw2(8), [np.ones(8), i]),
    ):
        Q = prior.matrix().toarray()
        for vector in polynomials:
            np.testing.assert_allclose(Q @ vector, 0.0, atol=1e-12 * np.abs(Q).max())
            inside = prior.null @ (prior.null.T @ vector)
            np.testing.assert_allclose(inside, vector, atol=1e-12)
        np.testing.assert_allclose(prior.null.T @ prior.null, np.eye(len(polynomials)), atol=1e-14)
        assert (Q @ i**2).any()


@pytest.mark.parametrize("make", [precisions.rw1, precisions.rw2])
def test_the_scale_of_long_walks_follows_its_power_law(make):
    """R(n) scales like n (rw1) and n³ (rw2): its first entries at 10⁴ and 10⁵ tell."""
    power = {precisions.rw1: 1, precisions.rw2: 3}[make]
    first = [make(n).matrix()[0, 0] / n**power for n in (10_000, 100_000)]
    assert first[0] == pytest.approx(first[1], rel=3e-4)
