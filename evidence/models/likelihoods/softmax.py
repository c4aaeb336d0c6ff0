r"""Softmax log-likelihood of a batch, minus a quadratic, in vector loops.

A row holds C classes of N latent values, class by class. With ``p_kn = exp(x_kn) / Σ_j exp(x_jn)``

.. math:: h(x) = \sum_n \Big(x_{y_n n} - \log\sum_k e^{x_{kn}}\Big)
          - \Big(c + b^T x - \tfrac12 \sum_n \big[\sum_k \pi_{kn} x_{kn}^2
          - s\,\bar x_n^2\big]\Big),\qquad \bar x_n = \tfrac1s \sum_k \pi_{kn} x_{kn}

with :math:`s = \sum_k \pi_{kn}`, and ``∂h/∂x_kn = [k = y_n] - p_kn - b_kn + π_kn (x_kn - x̄_n)``.
Blocks of data are walked class by class, so every inner loop runs along contiguous memory; the
largest of the C values is taken out of the exponentials.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numerics.arrays import Array
from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp, log

_BLOCK = 128


class SoftmaxSites(NamedTuple):
    r"""A quadratic stand-in for the log likelihood, :math:`c + b^T x - \frac12 x^T W x`.

    W couples the C values of one datum: :math:`\mathrm{diag}(\pi_n) - \pi_n\pi_n^T / s`, where
    the C values π of a datum sum to s.
    """

    c: float
    b: Array
    """(C, N)"""
    pi: Array
    """(C, N)"""
    s: float = 1.0

    def curvature(self, x: Array) -> Array:
        """W x for columns of x, (C·N, …)."""
        shaped = self.pi.shape + (1,) * (x.ndim - 1)
        pi, field = self.pi.reshape(shaped), x.reshape(*self.pi.shape, *x.shape[1:])
        return (pi * (field - np.sum(pi * field, axis=0) / self.s)).reshape(x.shape)


# Few arrays per loop: only then does the compiler prove that they do not overlap.


@vector_loop
def _peak(v, peak):
    for i in range(v.size):
        peak[i] = v[i] if v[i] > peak[i] else peak[i]


@vector_loop
def _grow(v, peak, e):
    for i in range(v.size):
        e[i] = exp(v[i] - peak[i])


@vector_loop
def _add(e, norm):
    for i in range(e.size):
        norm[i] += e[i]


@vector_loop
def _add_sites(v, b, pi, mean, h):
    for i in range(v.size):
        weighted = pi[i] * v[i]
        mean[i] += weighted
        h[i] -= (b[i] - 0.5 * weighted) * v[i]


@vector_loop
def _finish(peak, norm, mean, share, h):
    for i in range(h.size):
        total, sum_ = norm[i], mean[i]
        mean[i] = share[0] * sum_
        h[i] -= peak[i] + log(total, total - 1.0) + 0.5 * share[0] * sum_ * sum_
        norm[i] = 1.0 / total


@vector_loop
def _slope(e, norm, b, gradient):
    for i in range(e.size):
        gradient[i] = -b[i] - e[i] * norm[i]


@vector_loop
def _add_pull(v, pi, mean, gradient):
    for i in range(v.size):
        gradient[i] += pi[i] * (v[i] - mean[i])


@jit
def _values(codes, b, pi, share, x, first, size, e, work):
    """Fill ``e = exp(x - peak)`` (C, size) and rows of ``work``: h of every datum, 1/Σe, x̄."""
    n_classes, n = b.shape
    h, norm, mean, peak = work[0, :size], work[1, :size], work[2, :size], work[3, :size]
    for i in range(size):
        h[i], norm[i], mean[i], peak[i] = 0.0, 0.0, 0.0, x[first + i]
    for k in range(1, n_classes):
        _peak(x[k * n + first : k * n + first + size], peak)
    for k in range(n_classes):
        v = x[k * n + first : k * n + first + size]
        _grow(v, peak, e[k, :size])
        _add(e[k, :size], norm)
        _add_sites(v, b[k, first : first + size], pi[k, first : first + size], mean, h)
    _finish(peak, norm, mean, share, h)
    for i in range(size):
        h[i] += x[codes[first + i] * n + first + i]


@jit
def _gradient(codes, b, pi, x, first, size, e, work, gradient):
    """∂h/∂x from what ``_values`` left behind."""
    n_classes, n = b.shape
    norm, mean = work[1, :size], work[2, :size]
    for k in range(n_classes):
        at = k * n + first
        out = gradient[at : at + size]
        _slope(e[k, :size], norm, b[k, first : first + size], out)
        _add_pull(x[at : at + size], pi[k, first : first + size], mean, out)
    for i in range(size):
        gradient[codes[first + i] * n + first + i] += 1.0


@jit
def tilt(codes, c, b, pi, s, x, total, gradient=None):
    """``total = h(x)`` for rows of x (M, C·N), and their gradient, where there is a place for it;
    codes (N,), b and pi (C, N)."""
    n_classes, n = b.shape
    e, work = np.empty((n_classes, _BLOCK)), np.empty((4, _BLOCK))
    share = np.full(1, 1.0 / s)
    for m in range(x.shape[0]):
        h = -c
        for first in range(0, n, _BLOCK):
            size = min(_BLOCK, n - first)
            _values(codes, b, pi, share, x[m], first, size, e, work)
            if gradient is not None:
                _gradient(codes, b, pi, x[m], first, size, e, work, gradient[m])
            for i in range(size):
                h += work[0, i]
        total[m] = h if not np.isnan(h) else -np.inf
