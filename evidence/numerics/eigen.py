r"""Eigenvalues and eigenvectors of many small symmetric matrices, in compiled code.

.. math:: A = Q_1 T Q_1^T,\qquad T = Q_2 \Lambda Q_2^T

Reflections make A tridiagonal, then implicit QL sweeps make T diagonal (Golub and Van Loan 2013,
ch. 8). For a dozen dimensions this takes a third of LAPACK's time, most of which are calls. All
is done on rows of Qᵀ, which are contiguous.
"""

from __future__ import annotations

import math

import numpy as np

from .jit import jit, vector_loop

LARGEST = 64  # beyond this size LAPACK is as fast


@vector_loop
def _tridiagonal(a, d, e, v, q, Qt):
    """Diagonal d and off-diagonal e of T; Qt = Q₁ᵀ. Overwrites a, keeping reflections in it."""
    n = d.size
    for k in range(n - 2):
        tail = 0.0
        for i in range(k + 2, n):
            tail += a[k, i] * a[k, i]
        v[k] = 0.0
        d[k] = a[k, k]
        if tail == 0.0:
            e[k] = a[k, k + 1]
            continue
        norm = np.sqrt(tail + a[k, k + 1] * a[k, k + 1])
        e[k] = -norm if a[k, k + 1] > 0.0 else norm
        a[k, k + 1] -= e[k]
        beta = 2.0 / (tail + a[k, k + 1] * a[k, k + 1])
        v[k] = beta
        for i in range(k + 1, n):
            q[i] = 0.0
        for i in range(k + 1, n):
            scale = a[k, i]
            for j in range(k + 1, n):
                q[j] += scale * a[i, j]
        half = 0.0
        for i in range(k + 1, n):
            q[i] *= beta
            half += q[i] * a[k, i]
        half *= 0.5 * beta
        for i in range(k + 1, n):
            q[i] -= half * a[k, i]
        for i in range(k + 1, n):
            left, right = a[k, i], q[i]
            for j in range(k + 1, n):
                a[i, j] -= left * q[j] + right * a[k, j]
    if n > 1:
        d[n - 2], e[n - 2] = a[n - 2, n - 2], a[n - 2, n - 1]
    d[n - 1], e[n - 1] = a[n - 1, n - 1], 0.0
    for i in range(n):
        for j in range(n):
            Qt[i, j] = 1.0 if i == j else 0.0
    for k in range(n - 3, -1, -1):
        if v[k] > 0.0:
            for i in range(k + 1, n):
                along = 0.0
                for j in range(k + 1, n):
                    along += Qt[i, j] * a[k, j]
                along *= v[k]
                for j in range(k + 1, n):
                    Qt[i, j] -= along * a[k, j]


@vector_loop
def _diagonal(d, e, Qt):
    """Diagonalise T, turning rows of Qt along; whether that succeeded."""
    sweeps = 60
    eps = 2.0**-53
    n = d.size
    for first in range(n):
        for sweep in range(sweeps + 1):
            last = first
            while last < n - 1:
                if abs(e[last]) <= eps * (abs(d[last]) + abs(d[last + 1])) + 1e-30:
                    break
                last += 1
            if last == first:
                break
            if sweep == sweeps:
                return False
            ratio = (d[first + 1] - d[first]) / (2.0 * e[first])
            root = np.sqrt(ratio * ratio + 1.0)
            shift = d[first] - e[first] / (ratio + (root if ratio >= 0.0 else -root))
            c, s, moved, g = 1.0, 1.0, 0.0, d[last] - shift
            i = last - 1
            while i >= first:
                f, b = s * e[i], c * e[i]
                r = np.sqrt(f * f + g * g)
                e[i + 1] = r
                if r == 0.0:
                    break
                s, c = f / r, g / r
                g = d[i + 1] - moved
                r = (d[i] - g) * s + 2.0 * c * b
                moved = s * r
                d[i + 1] = g + moved
                g = c * r - b
                for j in range(n):
                    upper, lower = Qt[i, j], Qt[i + 1, j]
                    Qt[i + 1, j] = s * upper + c * lower
                    Qt[i, j] = c * upper - s * lower
                i -= 1
            if i >= first:  # a zero turned up: T has split there
                d[i + 1] -= moved
            else:
                d[first] -= moved
                e[first] = g
            e[last] = 0.0
    return True


@jit
def decompose(A, Q, lam, bad, first, stride):
    """Fill Q and λ of matrices first, first + stride, …; those not finite become I, and bad.

    Eigenvalues are in no particular order.
    """
    m, n = lam.shape
    a, Qt = np.empty((n, n)), np.empty((n, n))
    e, v, q = np.empty(n), np.empty(n), np.empty(n)
    for k in range(first, m, stride):
        size, finite = 0.0, True
        for i in range(n):
            for j in range(n):
                size = max(size, abs(A[k, i, j]))
                finite = finite and np.isfinite(A[k, i, j])
        scale = 1.0
        if finite and size > 1e-290:  # a power of two: nothing is rounded
            scale = math.ldexp(1.0, -math.frexp(size)[1])
        bad[k] = not finite
        if finite:
            for i in range(n):
                for j in range(n):
                    a[i, j] = scale * A[k, i, j]
            _tridiagonal(a, lam[k], e, v, q, Qt)
            bad[k] = not _diagonal(lam[k], e, Qt)
        for i in range(n):
            lam[k, i] = 1.0 if bad[k] else lam[k, i] / scale
            for j in range(n):
                Q[k, i, j] = Qt[j, i]
                if bad[k]:
                    Q[k, i, j] = 1.0 if i == j else 0.0
