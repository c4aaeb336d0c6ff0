r"""Sequential EP sweeps in blocks: exact one-site-at-a-time updates at the speed of GEMM.

Updating site i changes Σ by a rank-one term. Inside a block of sites only the block's own
rows are kept current (small rank-one updates); the rest of Σ and μ catches up once per block:

.. math:: \Sigma \leftarrow \Sigma - W (I + \Delta T\,\Sigma_{BB})^{-1} \Delta T\, W^T,
          \quad W = \Sigma_{:,B},\ \Delta T = \mathrm{diag}(\Delta\tau_B),

so a sweep costs 2N³ flops in matrix products instead of N³ in memory-bound updates. All of them
are SciPy's: threads of NumPy's own BLAS, waiting for more, would hold the others up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dgesv

from ...execution.clock import check_interrupt
from ...models.latent import LatentModel
from ...models.likelihoods.quadrature import tilted_moments
from ...numerics.arrays import Array

_BLOCK = 64


def _visit_block(
    tilted: Callable[[int, float, float], Array], cov: Array, mu: Array, nu: Array, tau: Array
) -> float:
    """Update the sites of one block in turn; return their largest mismatch before the visit."""
    worst = 0.0
    for i in range(mu.size):
        var = cov[i, i]
        precision = 1.0 / var - tau[i]
        if not precision > 1e-12 / var:
            continue
        v = 1.0 / precision
        m = v * (mu[i] / var - nu[i])
        _, mean, variance = tilted(i, m, v)
        if not (np.isfinite(mean) and variance > 0.0):
            continue
        worst = max(worst, abs(mean - mu[i]) / np.sqrt(var), abs(variance / var - 1.0))
        d_tau = 1.0 / variance - 1.0 / v - tau[i]
        d_nu = mean / variance - m / v - nu[i]
        gain = 1.0 + d_tau * var
        if gain <= 1e-10:
            continue
        tau[i] += d_tau
        nu[i] += d_nu
        column = cov[:, i].copy()
        mu += (d_nu - d_tau * mu[i]) / gain * column
        cov -= d_tau / gain * column[:, None] * column
    return worst


def sequential_start(model: LatentModel, max_sweeps: int, near: float) -> tuple[Array, Array, int]:
    """Sweep from the prior until no visit moves a site by more than ``near``; (ν, τ, sweeps)."""
    n = model.n
    nu, tau = np.zeros(n), np.zeros(n)
    mu = model.mean.copy()
    cov = np.array(model.prior.covariance, order="F")
    likelihood, y = model.likelihood, model.y
    hints, strip = likelihood.locations(y), np.broadcast_to(likelihood.strip(y), n)

    def tilted(start: int, i: int, m: float, v: float) -> Array:
        one = slice(start + i, start + i + 1)
        return tilted_moments(
            likelihood.kernel, model.theta[:, one], np.array([m]), np.array([v]), hints[:, one], 2,
            log_concave=likelihood.log_concave, unimodal=likelihood.unimodal, strip=strip[one],
        )[:, 0]  # fmt: skip

    for sweep in range(1, max_sweeps + 1):
        worst = 0.0
        for start in range(0, n, _BLOCK):
            check_interrupt(2.0 * _BLOCK * n * n)
            block = slice(start, min(start + _BLOCK, n))
            old_nu, old_tau = nu[block].copy(), tau[block].copy()
            W = cov[:, block].copy(order="F")
            inside = np.ascontiguousarray(W[block])
            local_mu, local_cov = mu[block].copy(), inside.copy()
            own = (local_cov, local_mu, nu[block], tau[block])
            worst = max(worst, _visit_block(partial(tilted, start), *own))
            d_tau, d_nu = tau[block] - old_tau, nu[block] - old_nu
            gain = np.eye(d_tau.size) + d_tau[:, None] * inside
            right = np.column_stack([np.diag(d_tau), d_nu - d_tau * mu[block]])
            change = dgemm(1.0, W, dgesv(gain, right)[2])
            mu += change[:, -1]
            cov = dgemm(-1.0, change[:, :-1], W, beta=1.0, c=cov, trans_b=1, overwrite_c=1)
        if worst < near:
            return nu, tau, sweep
    return nu, tau, max_sweeps
