r"""A Gaussian for data of many predictors: slopes and curvatures averaged over it.

The q of least Kullback-Leibler divergence from it to the posterior has sites

.. math:: W_n = -E_q[\nabla\nabla^T \log p(y_n|\eta)],\qquad
          \nu_n = E_q[\nabla \log p(y_n|\eta)] + W_n E_q[\eta_n],

which are iterated, from Laplace's, by quasi-random nodes. Curvatures that Laplace's method has as
diag(π) - ππᵀ stay of that form, with π the mean of what it is at nodes, scaled so that traces
agree: it is where draws start from, and what these are weighted with is the likelihood itself.

Reference: M. Opper and C. Archambeau, Neural Computation 21 (2009) 786.
"""

from __future__ import annotations

import time

import numpy as np

from ...execution.clock import check_interrupt
from ...gaussians.base import NotPositiveDefinite
from ...gaussians.blocks import BlockGaussian, BlockSites
from ...models.likelihoods.predicted import Several
from ...models.predictors import PredictorsModel
from ...models.sparse import SparseModel
from ...numerics.arrays import Array
from .laplace import fit_block_laplace
from .reference import BlockReference


def fit_averaged(
    model: PredictorsModel | SparseModel, laplace: BlockReference | None = None,
    max_sweeps: int = 30, *, nodes: int = 64, near: float = 0.01,
) -> BlockReference:  # fmt: skip
    """Fit it; where numbers fail on the way, what there is by then.

    ``nodes``: so many, and as many mirrored, leave means off by hundredths of standard deviations;
    ``near``: standard deviations by which means may still move.
    """
    started = time.perf_counter()
    likelihood = model.likelihood
    assert isinstance(likelihood, Several)
    fit = laplace or fit_block_laplace(model)
    q, sweeps, moved = fit.gaussian, 0, np.inf
    z = normal_nodes(fit.sites.nu.shape[0], nodes)[0]
    z = np.vstack([z, -z])
    while sweeps < max_sweeps and moved > near:
        check_interrupt(model.prior.work)
        sweeps += 1
        try:
            nearer = model.prior.with_blocks(_averaged(likelihood, model.observed, q, z))
        except NotPositiveDefinite:
            break
        moved = float(np.max(np.abs(nearer.mean - q.mean) / np.sqrt(q.variances)))
        q = nearer
    return BlockReference.of(
        "averaged", model, q, converged=fit.converged, n_sweeps=fit.n_sweeps + sweeps,
        warnings=fit.warnings, seconds=time.perf_counter() - started,
    )  # fmt: skip


def _averaged(lik: Several, y: Array, q: BlockGaussian, z: Array) -> BlockSites:
    N, P = q.blocks.shape[:2]
    eta = q.mean.reshape(P, N) + np.einsum("npq,mq->mpn", np.linalg.cholesky(q.blocks), z)
    each = [lik.expand(y, own) for own in eta]
    slope = np.mean([at.slope for at in each], axis=0)
    W, pi = np.mean([at.curvature for at in each], axis=0), None
    if shares := [at.pi for at in each if at.pi is not None]:
        pi = np.mean(shares, axis=0)
        trace = np.sum(pi * (1.0 - pi), axis=0)
        pi *= np.einsum("npp->n", W) / np.maximum(trace, np.finfo(float).tiny)
        share = pi / np.maximum(pi.sum(axis=0), np.finfo(float).tiny)  # where none is, W is zero
        W = pi.T[:, :, None] * (np.eye(P) - share.T[:, None, :])
    sites = BlockSites(np.zeros(N), slope, W, q.sites.at, pi)
    sites = sites._replace(nu=2.0 * slope - sites.slope(q.mean.reshape(P, N)))
    rest = [at.value - sites.log(own) for at, own in zip(each, eta, strict=True)]
    return sites._replace(c=np.mean(rest, axis=0))


def normal_nodes(C: int, least: int, components: int = 1) -> Array:
    """Quasi-random normals for each of S components, ``least`` or more in all: (S, R, C).

    >>> normal_nodes(3, 1024).shape, normal_nodes(3, 1024, 300).shape, normal_nodes(3, 8, 9).shape
    ((1, 1024, 3), (300, 4, 3), (9, 1, 3))
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    each = -(-least // components)
    u = qmc.Sobol(C, seed=0).random_base2((each * components - 1).bit_length())
    z = ndtri(np.clip(u, 1e-12, 1.0 - 1e-12))
    return z[: each * components].reshape(components, each, C)
