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
from contextlib import suppress

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf, dpotri

from ...execution.clock import check_interrupt
from ...gaussians.base import Gaussian, NotPositiveDefinite, Prior, Sites
from ...gaussians.dense import DensePrior
from ...messages import Message
from ...models.latent import LatentModel
from ...numerics.arrays import Array
from ...numerics.special import LOG_SQRT_2PI
from ..reference import GaussianReference

_WORTH_A_WARNING = 1e-3  # nats
_FEW = 500  # data whose covariance is made where a structure loses digits: half a second
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
    started = time.perf_counter()
    y, s = model.theta[:2]
    variance, K = s * s, model.prior.covariance
    tau = 1.0 / variance
    sites = Sites(-0.5 * y * y * tau - np.log(s) - LOG_SQRT_2PI, y * tau, tau)
    if K is None:
        check_interrupt(model.prior.work)
        q = model.prior.with_sites(sites.nu, tau)
        logz, lost = _by_structure(q, y, s)
        return GaussianReference(
            name, model, sites, *q.latent, logz, n_sweeps=1, rounding=lost,
            seconds=time.perf_counter() - started, warnings=tuple(_doubts(lost)),
        ).keep(q)  # fmt: skip
    L, alpha, inverse, logz, lost = _by_matrix(K, y - model.mean, variance)
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


def log_evidence_of(model: LatentModel) -> float:
    """log Z of a model with normal noise, and no more than that."""
    y, s = model.theta[:2]
    if (K := model.prior.covariance) is not None:
        return log_evidence_by(K, y - model.mean, s * s)
    check_interrupt(model.prior.work)
    tau = 1.0 / (s * s)
    try:
        return _by_structure(model.prior.with_sites(y * tau, tau), y, s)[0]
    except NotPositiveDefinite:
        if y.size > _FEW:
            raise
        return _by_covariance(model.prior, y, s)[0]


def _by_structure(q: Gaussian, y: Array, s: Array) -> tuple[float, float]:
    """log Z and what is lost of it; by C where that loses less and data are few."""
    logs = np.array([q.half_logdet, np.log(s).sum()])
    logz = -0.5 * q.squares(y) - logs.sum() - y.size * LOG_SQRT_2PI
    lost = q.lost + _EPS * float(np.abs(logs).sum() + abs(logz))
    if not lost <= _WORTH_A_WARNING and y.size <= _FEW:
        with suppress(NotPositiveDefinite):
            other = _by_covariance(q.prior, y, s)
            return (logz, lost) if lost < other[1] else other
    return float(logz), lost


def _by_covariance(prior: Prior, y: Array, s: Array) -> tuple[float, float]:
    K = np.column_stack([prior.times(unit) for unit in np.eye(y.size)])
    return _by_matrix(0.5 * (K + K.T), y - prior.mean, s * s)[3:]


def log_evidence_by(K: Array, r: Array, variance: Array) -> float:
    """log Z of residuals r."""
    return _factorised(K, r, variance)[3]


def _factorised(K: Array, r: Array, variance: Array) -> tuple[Array, Array, Array, float]:
    """C and L, α, and log Z."""
    n = r.size
    check_interrupt(2.0 * n**3)
    C = np.array(K, order="F")
    C.flat[:: n + 1] += variance
    L, info = dpotrf(C, lower=1, clean=1)
    if info:
        raise NotPositiveDefinite("the covariance of the data is numerically singular")
    alpha = cho_solve((L, True), r, check_finite=False)
    logz = -0.5 * float(r @ alpha) - float(np.log(L.diagonal()).sum()) - n * LOG_SQRT_2PI
    return C, L, alpha, logz


def _by_matrix(K: Array, r: Array, variance: Array) -> tuple[Array, Array, Array, float, float]:
    """L, α, the diagonal of C⁻¹, log Z and what is lost of it."""
    C, L, alpha, logz = _factorised(K, r, variance)
    inverse = dpotri(L, lower=1)[0].diagonal()
    terms = float(np.abs(0.5 * r * alpha).sum() + np.abs(np.log(L.diagonal())).sum())
    size = float(C.diagonal().max() * (alpha @ alpha + inverse.sum()))
    return L, alpha, inverse, logz, 0.5 * _EPS * (size + terms / np.sqrt(r.size))


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
    L = _factorised(K, model.theta[0] - model.mean, s * s)[1]
    f = prior.chol @ rng.standard_normal((model.n, n))
    seen = (model.theta[0] - model.mean)[:, None] - f - s[:, None] * rng.standard_normal(f.shape)
    return (model.mean[:, None] + f + K @ cho_solve((L, True), seen, check_finite=False)).T
