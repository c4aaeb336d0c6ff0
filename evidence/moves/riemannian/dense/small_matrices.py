"""Compiled loops over batches of small matrices, for :mod:`.metric` and :mod:`.field`."""

from __future__ import annotations

import numpy as np

from ....numerics.anderson import ARRIVED, ROWS, UNDERWAY, iterate
from ....numerics.jit import jit, reduction
from ....numerics.lapack import factor_inverse, scratch

FLAT = 20.0  # where φ(λ) = |λ| to rounding, in units of 1/α


@jit
def _turn(Q, v, out):
    """out = Qᵀ v."""
    for k in range(v.size):
        out[k] = 0.0
    for i in range(v.size):
        for k in range(v.size):
            out[k] += Q[i, k] * v[i]


@reduction
def _soft_solve_row(Q, phi, p, inner, out):
    n = p.size
    _turn(Q, p, inner)
    for k in range(n):
        inner[k] /= phi[k]
    for i in range(n):
        total = 0.0
        for k in range(n):
            total += Q[i, k] * inner[k]
        out[i] = total


@jit
def soft_solve(Q, phi, p, out):
    """out = Q φ⁻¹ Qᵀ p."""
    inner = np.empty(p.shape[1])
    for m in range(p.shape[0]):
        _soft_solve_row(Q[m], phi[m], p[m], inner, out[m])


@reduction
def _plain_solve_row(inverse, p, out):
    n = p.size
    for i in range(n):
        out[i] = 0.0
    for i in range(n):
        total = 0.0
        for k in range(i + 1):
            total += inverse[i, k] * p[k]
        for k in range(i + 1):
            out[k] += inverse[i, k] * total


@jit
def plain_solve(inverse, p, out):
    """out = L⁻ᵀ L⁻¹ p."""
    for m in range(p.shape[0]):
        _plain_solve_row(inverse[m], p[m], out[m])


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
def _divided_row(Q, lam, phi, slope, w, B, T, inner, out):
    n = lam.size
    _turn(Q, w, inner)
    for i in range(n):
        B[i, i] = slope[i] * inner[i] * inner[i]
        for j in range(i):
            gap = lam[i] - lam[j]
            if abs(gap) > 1e-5 * (phi[i] + phi[j]):  # else φ has no digits for it
                ratio = (phi[i] - phi[j]) / gap
            else:
                ratio = 0.5 * (slope[i] + slope[j])
            B[i, j] = B[j, i] = ratio * inner[i] * inner[j]
    _congruent(Q, B, T, out)


@jit
def divided(Q, lam, phi, slope, w, out):
    """out = Q (J ∘ Qᵀ w wᵀ Q) Qᵀ, with J the divided differences of φ."""
    n = lam.shape[1]
    B, T, inner = np.empty((n, n)), np.empty((n, n)), np.empty(n)
    for m in range(lam.shape[0]):
        _divided_row(Q[m], lam[m], phi[m], slope[m], w[m], B, T, inner, out[m])


# -- where all of ∂A is known: T[m, i, j, k] = ∂ₖA_ij -------------------------------------------


@reduction
def _contract_row(T, W, out):
    n = out.size
    for k in range(n):
        out[k] = 0.0
    for i in range(n):
        for j in range(i + 1):
            weight = W[i, j] if i == j else W[i, j] + W[j, i]
            for k in range(n):
                out[k] += weight * T[i, j, k]


@jit
def contract(T, W, out):
    """out = ∇⟨W, A⟩."""
    for m in range(T.shape[0]):
        _contract_row(T[m], W[m], out[m])


@jit
def extrapolate(A, T, half, p, v, w):
    """w with A(w)w = p nearly, where A(w) = A + half ∂A(v + w), from w = v."""
    m, n = v.shape
    there, out = np.empty((1, n, n)), np.empty((1, n))
    for i in range(m):
        w[i] = v[i]
        for _ in range(2):
            for j in range(n):
                for k in range(j + 1):
                    total = 0.0
                    for a in range(n):
                        total += T[i, j, k, a] * (v[i, a] + w[i, a])
                    there[0, j, k] = there[0, k, j] = A[i, j, k] + half[i, 0] * total
            newton(there, A[i : i + 1], p[i : i + 1], w[i : i + 1], out)
            if not np.isfinite(out[0]).all():
                w[i] = v[i]
                break
            w[i] = out[0]


@jit
def _outer(w, out):
    for i in range(w.size):
        for j in range(w.size):
            out[i, j] = w[i] * w[j]


@jit
def momentum_fixed_points(
    soft, flat, factor, lam, phi, slope, T, base, e, known, tolerance, most, w, arrived
):
    """Solve w = G⁻¹(base + e ∇wᵀGw) row by row; ``factor`` is L⁻¹, or Q of a SoftAbs metric.

    ``flat`` is 1/α times :data:`FLAT`: eigenvalues above have φ(λ) = λ.
    """
    n = w.shape[1]
    V, B, C = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    inner, push, image = np.empty(n), np.empty(n), np.empty(n)
    history, nothing = np.zeros((ROWS, n)), np.zeros(0)
    for m in range(w.shape[0]):
        target = known[m] if known.size > 0 else nothing
        tensor = soft and not lam[m].min() > flat
        for k in range(-1, most):
            for i in range(n):
                push[i] = base[m, i]
            if k >= 0:
                if tensor:
                    _divided_row(factor[m], lam[m], phi[m], slope[m], w[m], B, C, inner, V)
                else:
                    _outer(w[m], V)
                _contract_row(T[m], V, inner)
                for i in range(n):
                    push[i] += e[m, 0] * inner[i]
            if soft:
                _soft_solve_row(factor[m], phi[m], push, inner, image)
            else:
                _plain_solve_row(factor[m], push, image)
            if k < 0:
                w[m] = image
                continue
            status, _ = iterate(k, w[m], image, history, target, tolerance)
            if status != UNDERWAY:
                arrived[m] = status == ARRIVED
                w[m] = image
                break


@jit
def advance(k, w, image, history, known, tolerance, status):
    """One accelerated iteration of every row; returns how many rows are still under way."""
    left = 0
    for m in range(w.shape[0]):
        status[m], _ = iterate(k, w[m], image[m], history[m], known[m], tolerance)
        if status[m] == ARRIVED:
            w[m] = image[m]
        left += status[m] == UNDERWAY
    return left
