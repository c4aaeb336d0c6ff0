"""Products of a few rows with a large matrix, at the speed of memory.

For a handful of rows a general matrix product spends its time copying the matrix. These loops
read it once, four of its rows at a time, and use what they have read for two rows of the other
factor: as many multiply-adds as the registers of common processors have room for.
"""

from __future__ import annotations

from .jit import reduction


@reduction
def times_rows(a, T, first, last, out):
    """``out[:, k] = a T[first + k]`` for rows first ≤ row < last of T; a is (M, N)."""
    n, rows = T.shape[1], a.shape[0]
    for j in range(first, last - 3, 4):
        t0, t1, t2, t3 = T[j], T[j + 1], T[j + 2], T[j + 3]
        k = j - first
        for m in range(0, rows, 2):
            other = min(m + 1, rows - 1)  # the last of an odd number twice: memory sets the pace
            x, y = a[m], a[other]
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            r0, r1, r2, r3 = 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                s0 += x[i] * t0[i]
                s1 += x[i] * t1[i]
                s2 += x[i] * t2[i]
                s3 += x[i] * t3[i]
                r0 += y[i] * t0[i]
                r1 += y[i] * t1[i]
                r2 += y[i] * t2[i]
                r3 += y[i] * t3[i]
            out[m, k], out[m, k + 1], out[m, k + 2], out[m, k + 3] = s0, s1, s2, s3
            out[other, k], out[other, k + 1], out[other, k + 2], out[other, k + 3] = r0, r1, r2, r3
    for j in range(last - (last - first) % 4, last):
        for m in range(rows):
            s0 = 0.0
            for i in range(n):
                s0 += a[m, i] * T[j, i]
            out[m, j - first] = s0


@reduction
def add_rows(g, T, first, last, out):
    """``out += g T[first:last]``; g is (M, last - first)."""
    n, rows = T.shape[1], g.shape[0]
    for j in range(first, last - 3, 4):
        t0, t1, t2, t3 = T[j], T[j + 1], T[j + 2], T[j + 3]
        k = j - first
        for m in range(0, rows - 1, 2):
            x, y = out[m], out[m + 1]
            g0, g1, g2, g3 = g[m, k], g[m, k + 1], g[m, k + 2], g[m, k + 3]
            h0, h1, h2, h3 = g[m + 1, k], g[m + 1, k + 1], g[m + 1, k + 2], g[m + 1, k + 3]
            for i in range(n):
                u0, u1, u2, u3 = t0[i], t1[i], t2[i], t3[i]
                x[i] += (g0 * u0 + g1 * u1) + (g2 * u2 + g3 * u3)
                y[i] += (h0 * u0 + h1 * u1) + (h2 * u2 + h3 * u3)
        if rows % 2:
            x, m = out[rows - 1], rows - 1
            g0, g1, g2, g3 = g[m, k], g[m, k + 1], g[m, k + 2], g[m, k + 3]
            for i in range(n):
                x[i] += (g0 * t0[i] + g1 * t1[i]) + (g2 * t2[i] + g3 * t3[i])
    for j in range(last - (last - first) % 4, last):
        for m in range(rows):
            for i in range(n):
                out[m, i] += g[m, j - first] * T[j, i]
