r"""The posterior under normal noise: EP and Laplace in closed form, without cancellation.

.. math:: \log Z = \log N(y; m, C) = -\tfrac12 r^T C^{-1} r - \tfrac12 \log|C|
          - \tfrac N2 \log 2\pi, \qquad C = K + \operatorname{diag}(s^2),\ r = y - m.

Site by site it is the same number, as a difference of terms of size :math:`y^2/s^2`, which
leave no digits where the noise is small. A prior that is no matrix has its own ways with sites,
and what rounding leaves of them is told.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf, dpotri

from ...execution.clock import check_interrupt
from ...gaussians.base import NotPositiveDefinite, Prior, Sites
from ...gaussians.dense import DensePrior
from ...messages import Message
from ...models.latent import LatentModel
from ...numerics.arrays import Array
from ...numerics.special import LOG_SQRT_2PI
from ..reference import GaussianReference

_WORTH_A_WARNING = 1e-3  # nats
_EPS = float(np.finfo(float).eps)


def has_closed_form(model: LatentModel) -> bool:
    """Whether :func:`fit_exact` is for this model."""
    return model.likelihood.name == "gaussian"


def rounding_error(prior: Prior, sites: Sites, mean: Array) -> float:
    r"""About how many nats of log Z are rounding: :math:`\tfrac12 |a^T (m + K a - \mu)|`.

    Sites ten orders of magnitude stronger than the prior leave few digits to their sum.
    """
    a = sites.nu - sites.tau * mean
    return 0.5 * abs(float(a @ (prior.mean + prior.times(a) - mean)))


def fit_exact(model: LatentModel, name: str) -> GaussianReference:
    r"""The posterior of a model with normal noise, under the ``name`` of what was asked for.

    ``rounding`` is the change of log Z when entries of C change in their last digit,
    :math:`\tfrac{\epsilon}{2} \max_n C_{nn} (\alpha^T\alpha + \operatorname{tr} C^{-1})`
    with :math:`\alpha = C^{-1} r`, and that of its terms.
    """
    started, n = time.perf_counter(), model.y.size
    y, s = model.theta[:2]
    variance, K = s * s, model.prior.covariance
    tau = 1.0 / variance
    sites = Sites(-0.5 * y * y * tau - np.log(s) - LOG_SQRT_2PI, y * tau, tau)
    if not isinstance(model.prior, DensePrior):
        check_interrupt(model.prior.work)
        q = model.prior.with_sites(sites.nu, tau)
        lost = rounding_error(q.prior, sites, q.mean)
        reference = GaussianReference(
            name, model, sites, *q.latent, q.log_normaliser(sites.c), n_sweeps=1,
            seconds=time.perf_counter() - started, rounding=lost, warnings=tuple(_doubts(lost)),
        )  # fmt: skip
        return reference.keep(q)
    check_interrupt(2.0 * n**3)
    assert K is not None
    C = np.array(K, order="F")
    C.flat[:: n + 1] += variance
    L, info = dpotrf(C, lower=1, clean=1)
    if info:
        raise NotPositiveDefinite("the covariance of the data is numerically singular")
    r = y - model.mean
    alpha = cho_solve((L, True), r, check_finite=False)
    inverse = dpotri(L, lower=1)[0].diagonal()
    terms = -0.5 * r * alpha, -np.log(L.diagonal())
    logz = float(np.sum(terms[0]) + np.sum(terms[1]) - n * LOG_SQRT_2PI)
    size = float(C.diagonal().max() * (alpha @ alpha + inverse.sum()))
    lost = 0.5 * _EPS * (size + float(np.sum(np.abs(terms))) / np.sqrt(n))
    # of two expressions for the posterior variance the one with less cancellation
    prior = K.diagonal()
    less = variance * (1.0 - variance * inverse)
    if np.any(variance > prior):
        half = np.linalg.solve(L, K)
        less = np.where(variance > prior, prior - np.sum(half * half, axis=0), less)
    mean = model.mean + K @ alpha
    return GaussianReference(
        name, model, sites, mean, np.maximum(less, _EPS * np.minimum(prior, variance)), logz,
        n_sweeps=1, seconds=time.perf_counter() - started, rounding=lost,
        warnings=tuple(_doubts(lost)),
    )  # fmt: skip


def _doubts(lost: float) -> Iterator[Message]:
    if lost > _WORTH_A_WARNING:
        text = (
            f"log Z is uncertain by about {lost:.2g} nats of rounding: the noise is so small "
            "beside the prior that differences cancel; allow more noise"
        )
        yield Message("ep-rounding", text)


def draw_exact(model: LatentModel, n: int, rng: np.random.Generator) -> Array:
    """Rows of draws from the posterior: from the prior, corrected by noisy data of their own."""
    prior = model.prior
    assert isinstance(prior, DensePrior)
    s, K = model.theta[1], prior.covariance
    check_interrupt(2.0 * model.n**3)
    C = np.array(K, order="F")
    C.flat[:: model.n + 1] += s * s
    L, _ = dpotrf(C, lower=1, clean=1)
    f = prior.chol @ rng.standard_normal((model.n, n))
    seen = (model.theta[0] - model.mean)[:, None] - f - s[:, None] * rng.standard_normal(f.shape)
    return (model.mean[:, None] + f + K @ cho_solve((L, True), seen, check_finite=False)).T
