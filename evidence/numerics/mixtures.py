"""Logarithms of sums of many Gaussians, each with copies of other widths."""

from __future__ import annotations

import math

import numpy as np

from .copies import copy
from .jit import jit, vector_loop
from .special import exp, log

_ROWS = 256  # points at a time: what is known of them stays in the cache


@jit
def log_sums(z, means, roots, heights, precisions, out):
    """``out[m] = log Σ_kj exp(heights[k, j] - precisions[j] squares_k(z[m])/2)``."""
    K, d = means.shape
    squares, rows = np.empty((K, _ROWS)), np.empty((d + 2, _ROWS))
    for first in range(0, len(z), _ROWS):
        n = min(_ROWS, len(z) - first)
        _squares(z[first : first + n], means, roots, rows, squares)
        _log_sums(squares, heights, precisions, rows[0, :n], out[first : first + n])


@jit
def squares(z, means, roots, out):
    """``out[k, m] = |R_k (z_m - μ_k)|²`` with upper triangles R_k."""
    rows, some = np.empty((means.shape[1] + 2, _ROWS)), np.empty((len(means), _ROWS))
    for first in range(0, len(z), _ROWS):
        n = min(_ROWS, len(z) - first)
        _squares(z[first : first + n], means, roots, rows, some)
        for k in range(len(means)):
            copy(some[k, :n], out[k, first:])


@vector_loop
def _squares(z, means, roots, rows, out):
    """Of so few points that they fit in the memory given."""
    n, d = z.shape
    at, away, total = rows[:d], rows[d], rows[d + 1]
    for m in range(n):
        for i in range(d):
            at[i, m] = z[m, i]
    for k in range(len(means)):
        for m in range(n):
            total[m] = 0.0
        for i in range(d):
            for m in range(n):
                away[m] = 0.0
            for j in range(i, d):
                factor, mean = roots[k, i, j], means[k, j]
                for m in range(n):
                    away[m] += factor * (at[j, m] - mean)
            for m in range(n):
                total[m] += away[m] * away[m]
        for m in range(n):
            out[k, m] = total[m]


@vector_loop
def _log_sums(squares, heights, precisions, total, out):
    """Of the first ``out.size`` columns: a slice of them, whose rows are not said to be without
    gaps, took three times as long."""
    nothing = -1e300
    for m in range(out.size):
        out[m], total[m] = nothing, 0.0
    for k in range(len(heights)):
        for j in range(precisions.size):
            height, half = heights[k, j], 0.5 * precisions[j]
            for m in range(out.size):
                term = height - half * squares[k, m]
                out[m] = term if term > out[m] else out[m]
    for k in range(len(heights)):
        for j in range(precisions.size):
            height, half = heights[k, j], 0.5 * precisions[j]
            for m in range(out.size):
                total[m] += exp(height - half * squares[k, m] - out[m])
    for m in range(out.size):
        some = log(total[m], total[m] - 1.0)
        out[m] = out[m] + some if total[m] > 0.0 else -math.inf
