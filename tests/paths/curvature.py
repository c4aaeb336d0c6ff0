r"""The metric :math:`G = K^{-1} + \mathrm{diag}(d)` of Riemannian moves at one point, by the book.

:math:`d = (1-\beta)\tau - \beta\ell''` is the negative Hessian of log p_β for log-concave
likelihoods. Others use their expected curvature and max(τ, 0), which keeps G positive definite;
it is then constant in x. G⁻¹ is the covariance of the prior times sites of precision d.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import evidence as ev


class Metric(NamedTuple):
    d: np.ndarray
    d_prime: np.ndarray  # of each d_n in its own x_n
    inverse: np.ndarray  # G⁻¹
    logdet: float

    @property
    def half_trace(self):
        """½ tr(G⁻¹ ∂G/∂x_n) = ½ d'_n (G⁻¹)_nn."""
        return 0.5 * self.d_prime * np.diag(self.inverse)


def metric(path: ev.Path, x: np.ndarray, beta: float) -> Metric:
    model, tau = path.model, path.reference.sites.tau
    likelihood = model.likelihood
    if likelihood.log_concave:
        _, _, second, third = likelihood.derivatives(np.asarray(x, dtype=float), model.y)
        d, d_prime = (1.0 - beta) * tau - beta * second, -beta * third
    else:
        d = (1.0 - beta) * np.maximum(tau, 0.0) + beta * likelihood.fisher(model.y)
        d_prime = np.zeros_like(d)
    q = model.prior.with_sites(np.zeros_like(d), np.maximum(d, 0.0))
    return Metric(d, d_prime, q.covariance, 2.0 * q.half_logdet - model.prior.logdet)
