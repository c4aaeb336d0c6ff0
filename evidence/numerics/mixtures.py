"""Logarithms of sums of many Gaussians, each with copies of other widths."""

from __future__ import annotations

import math

from .jit import jit

_FAR = 45.0  # nats below the largest term, where a term is nothing


@jit
def log_sums(squares, heights, precisions, out):
    """``out[m] = log Σ_kj exp(heights[k, j] - precisions[j] squares[m, k]/2)``, without terms far
    below the largest."""
    K, copies = heights.shape
    for m in range(squares.shape[0]):
        top = -math.inf
        for k in range(K):
            half = 0.5 * squares[m, k]
            for j in range(copies):
                top = max(top, heights[k, j] - precisions[j] * half)
        total = 0.0
        for k in range(K):
            half = 0.5 * squares[m, k]
            for j in range(copies):
                term = heights[k, j] - precisions[j] * half - top
                if term > -_FAR:
                    total += math.exp(term)
        out[m] = top + math.log(total)
