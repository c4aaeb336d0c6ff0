"""Eigendecompositions of small matrices: against LAPACK, and where they are degenerate."""

import numpy as np
import pytest

import evidence as ev
from evidence import moves
from evidence.approximations.density.reference import DensityReference
from evidence.moves.riemannian.dense.metric import soft
from evidence.numerics.eigen import decompose
from evidence.paths.families import make_path


def decomposed(A, first=0, stride=1):
    Q, lam, bad = np.empty_like(A), np.empty(A.shape[:2]), np.zeros(len(A), dtype=np.bool_)
    decompose(A, Q, lam, bad, first, stride)
    return Q, lam, bad


def symmetric(kind, d, rng):
    A = rng.standard_normal((6, d, d))
    A = A + np.swapaxes(A, 1, 2)
    if kind == "diagonal":
        return A * np.eye(d)
    if kind == "low rank":
        return np.matmul(A[:, :, :1], np.swapaxes(A[:, :, :1], 1, 2))
    if kind == "multiple":
        Q, _ = np.linalg.qr(A)
        return np.matmul(Q * np.where(np.arange(d) < d // 2, 1e-9, -3.0), np.swapaxes(Q, 1, 2))
    if kind == "graded":
        scale = 10.0 ** np.linspace(-6.0, 6.0, d)
        return A * scale[:, None] * scale
    return 1e200 * A if kind == "large" else A


@pytest.mark.parametrize("d", [1, 2, 3, 11, 40])
@pytest.mark.parametrize(
    "kind", ["dense", "diagonal", "low rank", "multiple", "graded", "large", "zero"]
)
def test_against_lapack(kind, d):
    A = symmetric(kind, d, np.random.default_rng(d)) * (kind != "zero")
    A = 0.5 * (A + np.swapaxes(A, 1, 2))
    Q, lam, bad = decomposed(A)
    assert not bad.any()
    unit = 1e-14 * d * max(np.abs(A).max(), 1e-300)
    np.testing.assert_allclose(np.sort(lam), np.linalg.eigvalsh(A), rtol=0, atol=unit)
    back = np.matmul(Q * lam[:, None, :], np.swapaxes(Q, 1, 2))
    np.testing.assert_allclose(back, A, rtol=0, atol=unit)
    np.testing.assert_allclose(np.matmul(np.swapaxes(Q, 1, 2), Q), [np.eye(d)] * 6, atol=1e-13)


def test_bad_matrices_become_the_identity_and_shares_are_disjoint():
    A = symmetric("dense", 4, np.random.default_rng(0))
    whole = decomposed(A)
    A[2, 1, 3] = np.nan
    Q, lam, bad = decomposed(A)
    assert bad.tolist() == [False, False, True, False, False, False]
    assert (Q[2] == np.eye(4)).all()
    assert (lam[2] == 1.0).all()
    assert (Q[3] == whole[0][3]).all()
    half = decomposed(A, 1, 2)
    assert (half[1][1::2] == lam[1::2]).all()


def test_small_and_large_matrices_make_the_same_metric():
    A = symmetric("dense", 5, np.random.default_rng(1))
    p = np.random.default_rng(2).standard_normal((6, 5))
    own, lapack = soft(A, 0.7), soft(A, 0.7, largest=0)
    np.testing.assert_allclose(own.solve(p), lapack.solve(p), rtol=1e-12)
    assert (soft(A, 0.7, worth=0).Q == own.Q).all()


@pytest.mark.parametrize("name", ["rmhmc", "rmhmc-midpoint", "rmhmc-explicit"])
def test_functions_never_see_an_empty_batch(name):
    """One chain, and steps so long that it is always lost on the way."""
    sizes = []

    def seen(x):
        sizes.append(len(x))
        return x

    example = ev.examples.funnel(2)
    density = example.model.functions
    model = ev.DensityModel(
        lambda x: density.logdensity(seen(x)),
        3,
        value_and_grad=lambda x: density.value_and_grad(seen(x)),
        hessian=lambda x: density.hessian(seen(x)),
        third=lambda x, W: density.third(seen(x), W),
        vectorized=True,
    )
    path = make_path(DensityReference("given", model, np.zeros(3), np.eye(3), 0.0))
    rng, lost = np.random.default_rng(0), 0
    move = moves.get(name)
    for size in (0.8, 2.0, 8.0, 1e3):
        move.step_size = size
        state = move.init(path, example.draws(rng, 1))
        for _ in range(4):
            state, info = move.step(rng, path, 1.0, state)
            lost += info.failures
    assert lost > 4
    assert min(sizes) == 1
