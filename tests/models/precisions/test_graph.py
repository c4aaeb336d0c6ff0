"""Maps against dense pseudo-inverses: scales, islands, and the covariance of BYM2."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csr_array, diags_array, kronsum

from evidence import precisions

#: a pentagon with a tail, a triangle, a pair, and two sites alone, in mixed order
EDGES = [(0, 9), (9, 2), (2, 11), (11, 4), (4, 0), (4, 5), (6, 1), (1, 8), (8, 6), (3, 7)]
ISLANDS = [[0, 2, 4, 5, 9, 11], [1, 6, 8], [3, 7]]
ALONE = [10, 12]


def constrained_covariance(prior):
    """Of x given C x = 0, from an orthonormal basis of what C leaves free."""
    C, _ = prior.constraints
    u, s, _ = np.linalg.svd(C.toarray().T)
    free = u[:, len(s) :]
    return free @ np.linalg.inv(free.T @ prior.matrix() @ free) @ free.T


def test_every_island_has_its_scale_and_its_constraint():
    prior = precisions.icar(EDGES, n=13)
    Q = prior.matrix().toarray()
    K = np.linalg.pinv(Q, hermitian=True)
    np.testing.assert_allclose(K, constrained_covariance(prior), atol=1e-12)
    assert prior.constraints[0].shape == prior.null.T.shape == (3, 13)
    for island in ISLANDS:
        assert np.exp(np.log(np.diag(K)[island]).mean()) == pytest.approx(1.0, rel=1e-10)
        inside = np.ix_(island, island)
        plain = [(island.index(i), island.index(j)) for i, j in EDGES if i in island]
        alone = precisions.icar(plain).matrix().toarray()
        np.testing.assert_allclose(Q[inside], alone, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(Q[np.ix_(ALONE, ALONE)], np.eye(2))
    assert repr(prior) == "icar(13 sites in 5 parts, sigma=1)"


def test_all_ways_to_write_a_graph():
    want = precisions.icar(EDGES).matrix().toarray()
    W = np.zeros((12, 12))
    for i, j in EDGES:
        W[i, j] = W[j, i] = 1.0
    both = EDGES + [(j, i) for i, j in EDGES]
    for graph in (W, csr_array(W), coo_array(W), W.astype(int), both, np.array(EDGES)):
        np.testing.assert_allclose(precisions.icar(graph).matrix().toarray(), want, rtol=1e-12)


def test_weights_and_their_unit():
    W = np.array([[0, 1, 3.0, 0], [1, 0, 0, 2], [3, 0, 0, 0.5], [0, 2, 0.5, 0]])
    Q = precisions.icar(W).matrix().toarray()
    laplacian = np.diag(W.sum(0)) - W
    np.testing.assert_allclose(Q / Q[0, 0], laplacian / laplacian[0, 0], rtol=1e-12)
    np.testing.assert_allclose(precisions.icar(7.0 * W).matrix().toarray(), Q, rtol=1e-11)


def test_a_chain_is_a_random_walk():
    chain = [(i, i + 1) for i in range(2999)]
    got, want = precisions.icar(chain).matrix(), precisions.rw1(3000).matrix()
    assert abs(got - want).max() < 1e-7 * want.max()


def test_a_map_of_ten_thousand_sites():
    """The scale of a square lattice from its Laplacian's eigenvectors, cosines."""
    m = 100
    degrees = np.r_[1.0, np.full(m - 2, 2.0), 1.0]
    path = diags_array([-np.ones(m - 1), degrees, -np.ones(m - 1)], offsets=(-1, 0, 1))
    L = csc_array(kronsum(path, path))
    prior = precisions.icar(diags_array(L.diagonal()) - L)
    k = np.arange(m)
    basis = np.cos(np.pi * k * (k[:, None] + 0.5) / m) * np.where(
        k, np.sqrt(2 / m), np.sqrt(1 / m)
    )
    values = np.add.outer(2 - 2 * np.cos(np.pi * k / m), 2 - 2 * np.cos(np.pi * k / m))
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 1e-9)
    variances = basis**2 @ inverse @ (basis**2).T
    want = np.exp(np.log(variances).mean())
    assert prior.matrix()[0, 0] == pytest.approx(2.0 * want, rel=1e-10)


@pytest.mark.parametrize(("sigma", "phi"), [(1.0, 0.5), (0.4, 0.93)])
def test_bym2_has_the_covariance_it_is_named_for(sigma, phi):
    prior = precisions.bym2(EDGES, sigma, phi, n=13)
    field = np.linalg.pinv(precisions.icar(EDGES, n=13).matrix().toarray(), hermitian=True)
    K = constrained_covariance(prior)
    total = prior.design @ (prior.design @ K).T
    np.testing.assert_allclose(
        total, sigma**2 * ((1 - phi) * np.eye(13) + phi * field), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(K[13:, 13:], field, atol=1e-11)
    np.testing.assert_allclose(K[:13, 13:], sigma * np.sqrt(phi) * field, atol=1e-11)


def test_a_map_without_neighbours_has_no_constraints():
    prior = precisions.bym2(np.zeros((3, 3)), 2.0, 0.25)
    assert prior.constraints is None
    assert prior.null.shape == (6, 0)
    K = np.linalg.inv(prior.matrix().toarray())
    np.testing.assert_allclose(K[:3, :3], 4.0 * np.eye(3), atol=1e-12)
