"""Compiled loops over batches of small matrices, for :mod:`.dense`."""

from __future__ import annotations

import numpy as np

from .._jit import jit, reduction
from .._lapack import factor_inverse, scratch
from .anderson import accelerate

FLAT = 20.0  # where φ(λ) = |λ| to rounding, in units of 1/α


@reduction
def soft_solve(Q, phi, p, out):
    """out = Q φ⁻¹ Qᵀ p."""
    n = p.shape[1]
    inner = np.empty(n)
    for m in range(p.shape[0]):
        for k in range(n):
            inner[k] = 0.0
        for i in range(n):
            for k in range(n):
                inner[k] += Q[m, i, k] * p[m, i]
        for k in range(n):
            inner[k] /= phi[m, k]
        for i in range(n):
            total = 0.0
            for k in range(n):
                total += Q[m, i, k] * inner[k]
            out[m, i] = total


@reduction
def plain_solve(inverse, p, out):
    """out = L⁻ᵀ L⁻¹ p."""
    n = p.shape[1]
    for m in range(p.shape[0]):
        for i in range(n):
            out[m, i] = 0.0
        for i in range(n):
            total = 0.0
            for k in range(i + 1):
                total += inverse[m, i, k] * p[m, k]
            for k in range(i + 1):
                out[m, k] += inverse[m, i, k] * total


@jit
def factorise(A, inverse, bad):
    """Lower triangles of L in place and of L⁻¹; rows that fail become the identity."""
    s = scratch()
    m, n = A.shape[0], A.shape[1]
    work, other = np.zeros((n, n)), np.zeros((n, n))
    for k in range(m):
        finite = True
        for i in range(n):
            for j in range(n):
                work[i, j] = A[k, i, j]
                other[i, j] = 0.0
                if not np.isfinite(A[k, i, j]):
                    finite = False
        info = 1
        if finite:
            info = factor_inverse(work, other, s)
        bad[k] = info != 0
        for i in range(n):
            for j in range(n):
                if bad[k]:
                    A[k, i, j] = 1.0 if i == j else 0.0
                    inverse[k, i, j] = A[k, i, j]
                elif j <= i:
                    A[k, i, j], inverse[k, i, j] = work[j, i], other[j, i]
                else:
                    A[k, i, j], inverse[k, i, j] = 0.0, 0.0


@jit
def newton(A, start, p, w, out):
    """out = w + (A + (A - A₀)/2)⁻¹ (p - A w), or without the difference where that fails."""
    n = w.shape[1]
    L, x = np.empty((n, n)), np.empty(n)
    for m in range(w.shape[0]):
        for i in range(n):
            x[i] = p[m, i]
            for j in range(n):
                x[i] -= A[m, i, j] * w[m, j]
        for share in (0.5, 0.0):
            positive = True
            for i in range(n):
                for j in range(i + 1):
                    total = (1.0 + share) * A[m, i, j] - share * start[m, i, j]
                    for k in range(j):
                        total -= L[i, k] * L[j, k]
                    if j < i:
                        L[i, j] = total / L[j, j]
                    else:
                        positive = positive and total > 0.0
                        L[i, i] = np.sqrt(total) if total > 0.0 else 1.0
            if positive:
                break
        for i in range(n):
            for k in range(i):
                x[i] -= L[i, k] * x[k]
            x[i] /= L[i, i]
        for i in range(n - 1, -1, -1):
            for k in range(i + 1, n):
                x[i] -= L[k, i] * x[k]
            x[i] /= L[i, i]
        for i in range(n):
            out[m, i] = w[m, i] + x[i] if positive else np.nan


@jit
def softabs(lam, alpha, phi, slope):
    for m in range(lam.shape[0]):
        for i in range(lam.shape[1]):
            x = lam[m, i]
            a = alpha * x
            if abs(a) < 0.02:  # series: sums of large terms would cancel
                s = a * a
                phi[m, i] = (1.0 + s * (1.0 / 3.0 - s * (1.0 / 45.0 - s * 2.0 / 945.0))) / alpha
                slope[m, i] = a * (2.0 / 3.0 - s * (4.0 / 45.0 - s * 4.0 / 315.0))
            elif abs(a) > FLAT:
                phi[m, i] = abs(x)
                slope[m, i] = 1.0 if x > 0.0 else -1.0
            else:
                coth, sinh = 1.0 / np.tanh(a), np.sinh(a)
                phi[m, i] = x * coth
                slope[m, i] = coth - a / (sinh * sinh)


@reduction
def _congruent(Q, B, T, out):
    """out = Q B Qᵀ for symmetric B."""
    n = Q.shape[0]
    for i in range(n):
        for k in range(n):
            T[i, k] = 0.0
        for k in range(n):
            for j in range(n):
                T[i, j] += Q[i, k] * B[k, j]
        for j in range(i + 1):
            total = 0.0
            for k in range(n):
                total += T[i, k] * Q[j, k]
            out[i, j] = out[j, i] = total


@reduction
def spectral(Q, x, out):
    """out = Q diag(x) Qᵀ."""
    n = Q.shape[1]
    row = np.empty(n)
    for m in range(Q.shape[0]):
        for i in range(n):
            for k in range(n):
                row[k] = Q[m, i, k] * x[m, k]
            for j in range(i + 1):
                total = 0.0
                for k in range(n):
                    total += row[k] * Q[m, j, k]
                out[m, i, j] = out[m, j, i] = total


@jit
def divided(Q, lam, phi, slope, w, out):
    """out = Q (J ∘ Qᵀ w wᵀ Q) Qᵀ, with J the divided differences of φ."""
    n = lam.shape[1]
    B, T, inner = np.empty((n, n)), np.empty((n, n)), np.empty(n)
    for m in range(lam.shape[0]):
        for k in range(n):
            inner[k] = 0.0
        for i in range(n):
            for k in range(n):
                inner[k] += Q[m, i, k] * w[m, i]
        for i in range(n):
            B[i, i] = slope[m, i] * inner[i] * inner[i]
            for j in range(i):
                gap = lam[m, i] - lam[m, j]
                if abs(gap) > 1e-5 * (phi[m, i] + phi[m, j]):  # else φ has no digits for it
                    ratio = (phi[m, i] - phi[m, j]) / gap
                else:
                    ratio = 0.5 * (slope[m, i] + slope[m, j])
                B[i, j] = B[j, i] = ratio * inner[i] * inner[j]
        _congruent(Q[m], B, T, out[m])


@jit
def advance(k, w, image, history, known, tolerance, done):
    """One accelerated iteration of every row; marks rows that have arrived (1) or failed (2)."""
    for m in range(w.shape[0]):
        scale, distance = 0.0, 0.0
        for i in range(w.shape[1]):
            scale += image[m, i] * image[m, i]
            if known.size > 0:
                distance += (image[m, i] - known[m, i]) ** 2
        size = accelerate(k, w[m], image[m], history[m])
        limit = tolerance * tolerance * scale
        arrived = size <= limit
        if known.size > 0:
            arrived = size <= 0.01 * scale and distance <= limit
        if not np.isfinite(size):
            done[m] = 2
        elif arrived:
            done[m] = 1
            for i in range(w.shape[1]):
                w[m, i] = image[m, i]
        else:
            done[m] = 0
