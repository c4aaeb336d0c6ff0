r"""Anderson acceleration of a fixed-point iteration w ← F(w), in compiled code.

With residuals f = F(w) - w and differences Δ of the last few iterates,

.. math:: \gamma = \operatorname{argmin} |f - \Delta f\,\gamma|,\qquad
          w \leftarrow F(w) - \Delta F\,\gamma

(Walker and Ni 2011). It has the same fixed points as the plain iteration and a memory of three.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

MEMORY = 3
ROWS = 2 * MEMORY + 2  # rows of history needed

UNDERWAY, ARRIVED, FAILED = range(3)


@jit
def accelerate(k, w, image, history):
    """Replace w by the accelerated iterate, given ``image`` = F(w); k counts calls from 0.

    Returns ``|F(w) - w|²`` of the iterate that came in.
    """
    n = w.size
    last_f, last_g = history[2 * MEMORY], history[2 * MEMORY + 1]
    size = 0.0
    slot = (k - 1) % MEMORY
    for i in range(n):
        f = image[i] - w[i]
        size += f * f
        if k > 0:
            history[slot, i] = f - last_f[i]
            history[MEMORY + slot, i] = image[i] - last_g[i]
        last_f[i], last_g[i] = f, image[i]
    columns = min(k, MEMORY)
    for i in range(n):
        w[i] = image[i]
    if columns == 0:
        return size
    gram, right = np.zeros((MEMORY, MEMORY)), np.zeros(MEMORY)
    for a in range(columns):
        for i in range(n):
            right[a] += history[a, i] * last_f[i]
        for b in range(a + 1):
            total = 0.0
            for i in range(n):
                total += history[a, i] * history[b, i]
            gram[a, b] = gram[b, a] = total
    _solve(gram, right, columns)
    for a in range(columns):
        for i in range(n):
            w[i] -= right[a] * history[MEMORY + a, i]
    return size


@jit
def iterate(k, w, image, history, known, tolerance):
    """:func:`accelerate`, and whether the iteration has ended, with ``image`` as the solution.

    With ``known`` (or else an empty array) it is enough to come within ``tolerance`` of it.
    Returns a status and ``|F(w) - w|²``.
    """
    recognised = 0.01  # |F(w) - w|² over |F(w)|² where a known solution may be recognised
    scale, distance = 0.0, 0.0
    for i in range(w.size):
        scale += image[i] * image[i]
    for i in range(known.size):
        distance += (image[i] - known[i]) ** 2
    size = accelerate(k, w, image, history)
    limit = tolerance * tolerance * scale
    if not np.isfinite(size):
        return FAILED, size
    near = size <= (recognised * scale if known.size > 0 else limit)
    return ARRIVED if near and distance <= limit else UNDERWAY, size


@jit
def _solve(A, b, n):
    """Solve the normal equations in place; directions without information get zero."""
    for a in range(n):
        floor = 1e-12 * A[a, a]
        for c in range(a):
            if A[c, c] > 0.0:
                ratio = A[a, c] / A[c, c]
                for e in range(c, n):
                    A[a, e] -= ratio * A[c, e]
                b[a] -= ratio * b[c]
        if not A[a, a] > floor:
            A[a, a] = 0.0
    for a in range(n - 1, -1, -1):
        if A[a, a] > 0.0:
            for e in range(a + 1, n):
                b[a] -= A[a, e] * b[e]
            b[a] /= A[a, a]
        else:
            b[a] = 0.0
