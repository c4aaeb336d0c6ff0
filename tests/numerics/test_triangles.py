"""Factorisations and passes over triangles against NumPy."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from evidence.numerics import triangles
from evidence.numerics.threads import blas_for

SIZES = [1, 2, 63, 64, 65, 129, 200, 333]


def matrix(n):
    A = np.random.default_rng(n).standard_normal((n, n + 3))
    return A @ A.T + np.eye(n)


@pytest.mark.parametrize("n", SIZES)
def test_factor_inverse_and_its_square(n):
    A, junk = matrix(n), np.tril(np.full((n, n), 7.0), -1)
    a = np.triu(A) + junk
    assert triangles.factor(a) == 0
    L = np.linalg.cholesky(A)
    np.testing.assert_allclose(np.triu(a), L.T, rtol=1e-10, atol=1e-12)
    triangles.invert_factor(a)
    np.testing.assert_allclose(np.triu(a) @ L.T, np.eye(n), atol=1e-9)
    triangles.square_factor(a)
    np.testing.assert_allclose(np.triu(a), np.triu(np.linalg.inv(A)), rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(np.tril(a, -1), junk)  # never touched


@pytest.mark.parametrize("row", [0, 40, 99])
def test_the_row_where_there_is_no_factor(row):
    A = np.eye(100)
    A[row, row] = -1.0
    assert triangles.factor(A) == row + 1


@pytest.mark.parametrize("n", SIZES)
def test_passes(n):
    A = np.random.default_rng(n).standard_normal((n, n))
    upper, s = np.triu(A), np.random.default_rng(1).uniform(0.5, 2.0, n)

    out = np.zeros((n, n))
    triangles.copy_triangle(A, out)
    np.testing.assert_array_equal(out, upper)
    np.testing.assert_allclose(triangles.column_squares(out), np.sum(upper**2, axis=1))

    out = A.copy()
    triangles.mirror(out)
    np.testing.assert_array_equal(out, upper + np.triu(A, 1).T)

    out = A.copy()
    np.fill_diagonal(out, 0.0)
    triangles.mirror_squares(out)
    triangles.mirror_squares(out)  # again: the same
    np.testing.assert_array_equal(out, np.triu(A, 1) + np.triu(A, 1).T ** 2)

    symmetric, difference, largest = triangles.symmetrised(A)
    np.testing.assert_allclose(symmetric, 0.5 * (A + A.T))
    assert difference == abs(A - A.T).max()
    assert largest == abs(A).max()

    triangles.scaled_gram(symmetric, s, out)
    np.testing.assert_allclose(np.triu(out), np.triu(np.eye(n) + s * symmetric * s[:, None]))


def test_threads_do_not_wait_for_each_other():
    """SciPy's own functions hold the interpreter's lock: nothing else runs meanwhile."""
    A = 2500.0 * np.eye(2500) + 1.0
    with blas_for(2), ThreadPoolExecutor(1) as other:
        started, longest = time.perf_counter(), 0.0
        job = other.submit(lambda: triangles.factor(A.copy()))
        last = started
        while not job.done():
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        whole = time.perf_counter() - started
    assert longest < 0.5 * whole
