r"""Expectation propagation where a datum sees a few predictors.

With q_n(η) the marginal of q, a site t_n with its constant left out is matched to

.. math:: \hat p_n(\eta) \propto q_n(\eta)\, p(y_n|\eta) / t_n(\eta),\qquad
          c_n = \log E_{q_n}[p(y_n|\eta) / t_n(\eta)],

by Gauss and Hermite's nodes in every one of the P directions, which follow q. They are few: EP is
where draws start from, and what they are weighted with is the likelihood itself.
"""

from __future__ import annotations

import time
from functools import cache
from itertools import product

import numpy as np

from ...execution.clock import check_interrupt
from ...gaussians.base import NotPositiveDefinite
from ...gaussians.blocks import BlockGaussian, BlockSites
from ...messages import Message
from ...numerics.arrays import Array
from .laplace import fit_block_laplace
from .reference import BlockReference, OfSeveral, without_sharp

DIGITS = 1e-4  # standard deviations by which moments may be off
MOST = 3  # predictors: nodes are a power of their number


@cache
def nodes(P: int, count: int) -> tuple[Array, Array]:
    """Nodes (M, P) of N(0, I) and logs of their weights."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    w = w / w.sum()
    nodes = np.array(list(product(z, repeat=P)))
    return nodes, np.log(np.array(list(product(w, repeat=P)))).sum(axis=1)


def fit_block_ep(
    model: OfSeveral, laplace: BlockReference | None = None, *, start: BlockSites | None = None,
    max_sweeps: int = 40, tol: float = DIGITS, first_damping: float = 0.95,
    least_damping: float = 0.05,
) -> BlockReference:  # fmt: skip
    """Fit EP from Laplace's sites, or from those of a fit nearby.

    Sweeps end when no mean is off by more than ``tol`` standard deviations, no covariance by more
    than that.

    ``first_damping``: fraction of a site's update that is taken at first; ``least_damping``: and
    at least.
    """
    started = time.perf_counter()
    q = _begun(model, start) if start is not None else None
    if q is None:
        q = (laplace or fit_block_laplace(model)).gaussian
    damping, last, converged, sweeps = first_damping, np.inf, False, 0
    while sweeps < max_sweeps:
        check_interrupt(model.prior.work)
        sweeps += 1
        target, mismatch = match(model, q)
        if mismatch < tol:
            converged = True
            break
        if mismatch > last:
            damping = max(0.7 * damping, least_damping)
        last = mismatch
        nearer = _towards(q, target, damping)
        if nearer is None:
            break
        q = nearer
    if mismatch == np.inf:  # moments were no numbers
        q = model.prior.with_blocks(without_sharp(model.prior, q.sites))
    q.sites = q.sites._replace(c=(target if converged else match(model, q)[0]).c)
    warnings: tuple[Message, ...] = ()
    if not converged:
        text = (
            f"EP did not converge in {sweeps} sweeps (moments off by {mismatch:.2g}, wanted "
            f"{tol:.2g}): EP's own log Z is not to be trusted; draws that only start from EP have "
            "weights that make up for it, and an error bar of their own"
        )
        warnings = (Message("ep-not-converged", text),)
    more = {"converged": converged, "n_sweeps": sweeps, "warnings": warnings}
    return BlockReference.of("ep", model, q, seconds=time.perf_counter() - started, **more)


def _begun(model: OfSeveral, start: BlockSites) -> BlockGaussian | None:
    try:
        return model.prior.with_blocks(start)
    except NotPositiveDefinite:
        return None


def _towards(
    q: BlockGaussian, to: BlockSites, damping: float, *, halvings: int = 12
) -> BlockGaussian | None:
    """Nearer to sites, as far as there is a q; None where there is no way.

    ``halvings``: of a step that leaves no positive precision.
    """
    for _ in range(halvings):
        c, nu, W = (a + damping * (b - a) for a, b in zip(q.sites[:3], to[:3], strict=True))
        try:
            out = q.prior.with_blocks(BlockSites(c, nu, W, to.at))
        except NotPositiveDefinite:
            damping *= 0.5
            continue
        if np.linalg.eigvalsh(out.blocks).min() > 0.0:
            return out
        damping *= 0.5
    return None


def match(
    model: OfSeveral, q: BlockGaussian, *, narrowest: float = 1e-8
) -> tuple[BlockSites, float]:
    """Sites that match the moments of their tilted distributions, and how far q is from that,
    infinitely where there are no moments.

    ``narrowest``: of a tilted variance relative to the marginal's.
    """
    per_direction = {2: 5, 3: 4}  # nodes in every direction, by predictors
    lik, sites, blocks = model.likelihood, q.sites, q.blocks
    N, P = blocks.shape[:2]
    z, log_w = nodes(P, per_direction[P])
    root = np.linalg.cholesky(blocks)
    eta = q.mean.reshape(P, N) + np.einsum("npq,mq->mpn", root, z)
    with np.errstate(invalid="ignore"):
        log_r = lik.log_probs(model.observed, eta) - sites._replace(c=np.zeros(N)).log(eta)
    log_r = np.where(np.isnan(log_r), -np.inf, log_r) + log_w[:, None]
    top = log_r.max(axis=0)
    r = np.exp(log_r - top)
    total = r.sum(axis=0)
    r /= total
    mean = r.T @ z
    second = (r.T @ (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)).reshape(N, P, P)
    cov = second - mean[:, :, None] * mean[:, None, :]
    ok = np.isfinite(top) & (np.linalg.eigvalsh(np.nan_to_num(cov)).min(axis=1) > narrowest)
    eye = np.eye(P)
    mean, cov = np.where(ok[:, None], mean, 0.0), np.where(ok[:, None, None], cov, eye)
    inverse = np.linalg.inv(cov)
    back = np.linalg.inv(root)  # in whose coordinates the marginal is N(0, I)
    dW = np.einsum("nap,nab,nbq->npq", back, inverse - eye, back)
    dnu = np.einsum("nap,na->pn", back, np.einsum("nab,nb->na", inverse, mean))
    dnu += np.einsum("npq,qn->pn", dW, q.mean.reshape(P, N) - sites.at)
    c = np.where(ok, top + np.log(total), sites.c)
    mismatch = float(max(np.abs(mean).max(initial=0.0), np.abs(cov - eye).max(initial=0.0)))
    mismatch = mismatch if ok.all() else np.inf
    W = sites.W + 0.5 * (dW + dW.swapaxes(1, 2))
    return BlockSites(c, sites.nu + dnu, W, sites.at), mismatch


def block_gradient(reference: BlockReference, *, width: float = 1e-3) -> Array:
    """Of EP's log Z in ``model.hyperparameters.theta``: as sites stay where they are, only what
    depends on these explicitly counts. By differences.

    ``width``: logs between values of a difference.
    """
    model, q = reference.model, reference.gaussian
    free, zero = model.hyperparameters, np.zeros(model.y.size)

    def of_prior(theta: Array) -> float:
        return model.at(theta).prior.with_blocks(q.sites).log_normaliser(zero)

    def of_likelihood(theta: Array) -> float:
        return float(match(model.at(theta), q)[0].c.sum())

    out = np.empty(len(free))
    for i, step in enumerate(width * np.eye(len(free))):
        part = of_prior if i < free.n_kernel else of_likelihood
        out[i] = (part(free.theta + step) - part(free.theta - step)) / (2.0 * width)
    return out
