"""Copies between arrays in compiled code, as loops.

For ``out[:] = values`` Numba compiles how to say that their sizes differ, text and all, which
takes seconds in a fresh cache.
"""

from .jit import jit


@jit
def copy(values, out):
    """Of one row."""
    for i in range(values.size):
        out[i] = values[i]


@jit
def copy_matrix(values, out):
    """Of as many rows as there are."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, j] = values[i, j]
