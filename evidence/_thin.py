"""Products of a few rows with a large matrix, at the speed of memory.

For a handful of rows a general matrix product spends its time copying the matrix. These loops
read it once, four of its rows at a time.
"""

from __future__ import annotations

from ._jit import reduction


@reduction
def times_rows(a, T, first, last, out):
    """``out[:, k] = a T[first + k]`` for rows first ≤ row < last of T; a is (M, N)."""
    n = T.shape[1]
    for j in range(first, last - 3, 4):
        t0, t1, t2, t3 = T[j], T[j + 1], T[j + 2], T[j + 3]
        for m in range(a.shape[0]):
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                s0 += a[m, i] * t0[i]
                s1 += a[m, i] * t1[i]
                s2 += a[m, i] * t2[i]
                s3 += a[m, i] * t3[i]
            k = j - first
            out[m, k], out[m, k + 1], out[m, k + 2], out[m, k + 3] = s0, s1, s2, s3
    for j in range(last - (last - first) % 4, last):
        for m in range(a.shape[0]):
            s0 = 0.0
            for i in range(n):
                s0 += a[m, i] * T[j, i]
            out[m, j - first] = s0


@reduction
def add_rows(g, T, first, last, out):
    """``out += g T[first:last]``; g is (M, last - first)."""
    n = T.shape[1]
    for j in range(first, last - 3, 4):
        t0, t1, t2, t3 = T[j], T[j + 1], T[j + 2], T[j + 3]
        k = j - first
        for m in range(g.shape[0]):
            g0, g1, g2, g3 = g[m, k], g[m, k + 1], g[m, k + 2], g[m, k + 3]
            for i in range(n):
                out[m, i] += (g0 * t0[i] + g1 * t1[i]) + (g2 * t2[i] + g3 * t3[i])
    for j in range(last - (last - first) % 4, last):
        for m in range(g.shape[0]):
            for i in range(n):
                out[m, i] += g[m, j - first] * T[j, i]
