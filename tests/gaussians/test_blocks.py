"""Sites of several values of a datum, against matrices of everything."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from evidence.gaussians.base import NotPositiveDefinite
from evidence.gaussians.blocks import BlockGaussian, BlockSites, combined, spread
from evidence.gaussians.dense import DensePrior
from evidence.models.likelihoods import Gaussian
from evidence.models.likelihoods.predicted import Predicted
from evidence.models.sparse import SparseModel

N, P = 4, 2


def sites(rng, indefinite, prior):
    root = rng.normal(size=(N, P, P))
    W = root @ root.swapaxes(1, 2)
    if indefinite:
        W -= 0.4 * np.eye(P)
    return BlockSites(rng.normal(size=N), rng.normal(size=(P, N)), W, prior.mean.reshape(P, N))


def whole(W):
    """W of all data as a matrix."""
    out = np.zeros((P, N, P, N))
    for n in range(N):
        out[:, n, :, n] = W[n]
    return out.reshape(P * N, P * N)


def dense_prior(rng):
    root = rng.normal(size=(P * N, P * N))
    K = root @ root.T / (P * N) + 0.3 * np.eye(P * N)
    return DensePrior(rng.normal(size=P * N), K, np.linalg.cholesky(K))


def sparse_prior(rng):
    """One with constraints, whose predictors' covariance is singular."""
    n = 3
    designs = [sp.csr_array(np.where(rng.random((N, n)) < 0.7, rng.normal(size=(N, n)), 0.0))]
    designs += [sp.csr_array(rng.normal(size=(N, n)))]
    Q = sp.csc_array(np.diag([1.0, 2.0, 1.5]) + 0.2)
    model = SparseModel(
        Q, np.zeros(N), A=designs, likelihood=Predicted(Gaussian(), ("noise_std",)),
        mean=rng.normal(size=n), offset=rng.normal(size=(P, N)), constraints=np.ones(n),
    )  # fmt: skip
    stacked = np.vstack([A.toarray() for A in designs])
    assert np.array_equal(model.prior.design.toarray(), stacked)
    return model.prior


@pytest.mark.parametrize("indefinite", [False, True])
def test_dense(indefinite):
    rng = np.random.default_rng(3)
    prior = dense_prior(rng)
    own = sites(rng, indefinite, prior)
    assert (np.linalg.eigvalsh(own.W).min() < 0.0) == indefinite
    q = BlockGaussian(prior, own)
    W, K, m, nu = whole(own.W), prior.covariance, prior.mean, own.nu.ravel()
    cov = np.linalg.inv(np.linalg.inv(K) + W)
    mean = m + cov @ nu
    np.testing.assert_allclose(q.mean, mean, atol=1e-10)
    np.testing.assert_allclose(q.covariance, cov, atol=1e-10)
    np.testing.assert_allclose(q.dual, np.linalg.solve(K, mean - m), atol=1e-9)
    np.testing.assert_allclose(q.variances, np.diag(cov), atol=1e-10)
    blocks = cov.reshape(P, N, P, N)[:, range(N), :, range(N)]
    np.testing.assert_allclose(q.blocks, blocks, atol=1e-10)
    inverse = np.linalg.inv(K)
    np.testing.assert_allclose(q.inner, inverse - inverse @ cov @ inverse, atol=1e-8)
    cross = rng.normal(size=(5, P * N))
    taken = np.einsum("bi,ij,bj->b", cross, q.inner, cross)
    np.testing.assert_allclose(q.turned.explained(combined(q.R, cross.T).T), taken, atol=1e-8)
    log_z = own.c.sum() - 0.5 * np.linalg.slogdet(np.eye(P * N) + K @ W)[1] + 0.5 * nu @ cov @ nu
    assert q.log_normaliser(own.c) == pytest.approx(log_z, abs=1e-9)


def test_sites_are_parabolas():
    rng = np.random.default_rng(5)
    own = sites(rng, True, dense_prior(rng))
    x, u = own.at + rng.normal(size=(3, P, N)), rng.normal(size=(P, N))
    up, down = own.log(x + 1e-4 * u), own.log(x - 1e-4 * u)
    np.testing.assert_allclose((up - down) / 2e-4, np.sum(own.slope(x) * u, axis=-2), atol=1e-9)
    np.testing.assert_allclose(own.log(own.at), own.c)
    first = slice(0, 2)
    np.testing.assert_array_equal(own.of(first).log(x[..., first]), own.log(x)[:, first])


@pytest.mark.parametrize("orthogonal", [True, False])
def test_turned_prior_is_the_prior(orthogonal):
    rng = np.random.default_rng(0)
    prior = dense_prior(rng)
    R = rng.normal(size=(N, P, P)) * [[[1.0], [1e-3]]]
    R = np.linalg.qr(R)[0] if orthogonal else R
    turned, x = prior.turned(R), rng.normal(size=(3, P * N))
    z, jacobian = combined(R, (x - prior.mean).T).T, np.log(np.abs(np.linalg.det(R))).sum()
    back = spread(np.linalg.inv(R).swapaxes(1, 2), z.T).T
    np.testing.assert_allclose(prior.mean + back, x)
    np.testing.assert_allclose(turned.log_density(z), prior.log_density(x) - jacobian)
    np.testing.assert_allclose(turned.covariance @ turned.solve(z[0]), z[0], rtol=1e-6)
    np.testing.assert_allclose(turned.explained(z), prior.explained(x - prior.mean))
    assert turned.logdet == pytest.approx(np.linalg.slogdet(turned.covariance)[1])


@pytest.mark.parametrize("sd", [1e-6, 1e-7, 1e-8, 1e-12])
def test_what_the_prior_knows_counts_as_it_does(sd):
    """Sites' curvature in such a value is lost in rounding, but not what they say of its mean."""
    rng = np.random.default_rng(4)
    wide = dense_prior(rng)
    own = sites(rng, False, wide)
    S = np.repeat([1.0, sd], N)
    prior = DensePrior(wide.mean, S[:, None] * wide.covariance * S, S[:, None] * wide.chol)
    q, W, m = BlockGaussian(prior, own), whole(own.W), prior.mean
    gain = prior.covariance @ np.linalg.inv(np.eye(P * N) + W @ prior.covariance)
    b = own.nu.ravel()
    log_z = own.c.sum() + 0.5 * b @ gain @ b
    log_z -= 0.5 * np.linalg.slogdet(np.eye(P * N) + prior.covariance @ W)[1]
    assert q.log_normaliser(own.c) == pytest.approx(log_z, abs=1e-9)
    np.testing.assert_allclose(q.mean, m + gain @ b, atol=1e-9)


@pytest.mark.parametrize("indefinite", [False, True])
def test_sparse_is_dense(indefinite):
    rng = np.random.default_rng(1)
    prior = sparse_prior(rng)
    own = sites(rng, indefinite, prior)
    q = BlockGaussian(prior, own)
    free = prior.with_sites(np.zeros(P * N), np.zeros(P * N))
    A = prior.design.toarray()
    K = A @ np.column_stack([free.solved.solve(unit) for unit in np.eye(3)]) @ A.T
    W, m = whole(own.W), prior.mean
    gain = K @ np.linalg.inv(np.eye(P * N) + W @ K)
    b = own.nu.ravel()
    mean = m + gain @ b
    np.testing.assert_allclose(q.mean, mean, atol=1e-9)
    np.testing.assert_allclose(q.variances, np.diag(gain), atol=1e-9)
    blocks = gain.reshape(P, N, P, N)[:, range(N), :, range(N)]
    np.testing.assert_allclose(q.blocks, blocks, atol=1e-9)
    log_z = own.c.sum() - 0.5 * np.linalg.slogdet(np.eye(P * N) + K @ W)[1] + 0.5 * b @ gain @ b
    assert q.log_normaliser(own.c) == pytest.approx(log_z, abs=1e-9)


@pytest.mark.parametrize("make", [dense_prior, sparse_prior])
def test_where_there_is_no_q(make):
    rng = np.random.default_rng(2)
    prior = make(rng)
    W = np.broadcast_to(-50.0 * np.eye(P), (N, P, P))
    with pytest.raises(NotPositiveDefinite):
        BlockGaussian(prior, BlockSites.none(prior, P)._replace(W=W))
