"""Sparse Cholesky factors and selected inverses: against dense matrices of every shape."""

import pickle

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from covering import covering

from evidence.numerics import jit
from evidence.numerics.sparse import Analysis, Factor, analyse
from evidence.numerics.threads import single

METHODS = ["auto", "degree", "dissection", "given"]


def positive(pattern, rng):
    """A diagonally dominant matrix with entries where ``pattern`` has some."""
    lower = sp.tril(sp.coo_array(pattern), -1).tocoo()
    lower.data = rng.standard_normal(lower.nnz)
    A = lower + lower.T
    size = np.asarray(abs(A).sum(axis=0)).ravel()
    return (A + sp.diags_array(size + rng.uniform(0.5, 1.5, size.size))).tocsc()


def stencil(n, m):
    """A grid where a point knows those at most two steps away."""
    step = [sp.eye_array(k, k=1) + sp.eye_array(k, k=-1) for k in (n, m)]
    A = sp.kron(step[0], sp.eye_array(m)) + sp.kron(sp.eye_array(n), step[1])
    return A @ A + A


def bipartite(n, m, rng):
    B = sp.csr_array(rng.random((n, m)) < 0.3).astype(float)
    return sp.block_array([[None, B], [B.T, None]])


def arrow(n, at):
    A = sp.lil_array((n, n))
    A[at, :], A[:, at] = 1.0, 1.0
    return A


def matrix(shape):
    rng = np.random.default_rng(len(shape))
    patterns = {
        "one": lambda: sp.csc_array((1, 1)),
        "diagonal": lambda: sp.csc_array((9, 9)),
        "tridiagonal": lambda: sp.eye_array(60, k=1),
        "cycle": lambda: sp.eye_array(40, k=-1) + sp.eye_array(40, k=-39),
        "banded": lambda: sum(sp.eye_array(50, k=-k) for k in range(1, 6)),
        "arrow": lambda: arrow(50, 49),
        "arrow turned": lambda: arrow(50, 0),
        "tree": lambda: sp.coo_array((np.ones(62), (np.arange(1, 63), np.arange(62) // 2))),
        "grid": lambda: stencil(13, 12),
        "long grid": lambda: stencil(60, 3),
        "disconnected": lambda: sp.block_diag([stencil(5, 6), sp.eye_array(7, k=-1), [[0]]]),
        "bipartite": lambda: bipartite(25, 14, rng),
        "random": lambda: sp.random_array((80, 80), density=0.03, rng=rng),
        "sparser": lambda: sp.random_array((120, 120), density=0.012, rng=rng),
        "dense": lambda: np.ones((45, 45)),
    }
    pattern = sp.coo_array(patterns[shape]())
    n = max(pattern.shape)
    pattern.resize((n, n))
    return positive(pattern + pattern.T, rng)


SHAPES = [
    "one", "diagonal", "tridiagonal", "cycle", "banded", "arrow", "arrow turned", "tree", "grid",
    "long grid", "disconnected", "bipartite", "random", "sparser", "dense",
]  # fmt: skip


def factor_of(analysis, P):
    return Factor.of(analysis, analysis.assemble(P))


def entries(analysis, factor):
    """Rows and columns, as originally numbered, of all entries of L."""
    indptr, indices, _ = factor.columns()
    columns = np.repeat(np.arange(analysis.n), np.diff(indptr))
    return analysis.order[indices], analysis.order[columns]


@pytest.mark.parametrize(
    ("shape", "method", "with_last", "small"),
    covering(SHAPES, METHODS, [False, True], [0, Factor.small]),
)
def test_everything_against_dense(shape, method, with_last, small, monkeypatch):
    monkeypatch.setattr(Factor, "small", small)
    P = matrix(shape)
    n, dense = P.shape[0], P.toarray()
    rng = np.random.default_rng(1)
    last = rng.permutation(n)[: min(3, n)] if with_last else []
    analysis = analyse(P, last, method)
    order = analysis.order
    assert sorted(order) == list(range(n))
    assert sorted(order[n - len(last) :]) == sorted(last)
    factor = factor_of(analysis, P)

    indptr, indices, data = factor.columns()
    assert indptr[-1] == indices.size == data.size == analysis.nnz
    for j in range(n):
        rows = indices[indptr[j] : indptr[j + 1]]
        assert rows[0] == j
        assert (np.diff(rows) > 0).all()
    L = sp.csc_array((data, indices, indptr), shape=(n, n)).toarray()
    np.testing.assert_allclose(L @ L.T, dense[np.ix_(order, order)], atol=1e-12 * dense.max())
    assert analysis.flops == (np.diff(indptr).astype(float) ** 2).sum()

    inverse = np.linalg.inv(dense)
    rows, cols = entries(analysis, factor)
    selected = factor.selected()
    for i, j in ((rows, cols), (cols, rows)):
        at = analysis.locate(i, j)
        np.testing.assert_allclose(selected[at], inverse[i, j], rtol=1e-10, atol=1e-13)
    assert np.unique(at).size == at.size
    assert analysis.memory >= 16 * at.size
    coo = P.tocoo()
    analysis.locate(coo.row, coo.col)

    np.testing.assert_allclose(factor.half_logdet, np.linalg.slogdet(dense)[1] / 2, rtol=1e-12)
    several = rng.standard_normal((n, 5))
    for b in (several[:, 0], several[:, :1], several, np.asfortranarray(several), several[:, :0]):
        before = b.copy()
        np.testing.assert_allclose(factor.solve(b), np.linalg.solve(dense, b), rtol=1e-9)
        np.testing.assert_allclose(L @ factor.half_solve(b), b[order], atol=1e-12)
        x = factor.half_solve_transposed(b)
        np.testing.assert_allclose(L.T @ x[order], b, atol=1e-12)
        np.testing.assert_allclose(factor.half_product(b), L.T @ b[order], atol=1e-12)
        assert x.shape == factor.half_product(b).shape == b.shape
        assert (b == before).all()
    size = analysis.panels.offsets[-1]
    again, given = factor.square(), analysis.assemble(P)
    np.testing.assert_allclose(again[:size], given[:size], atol=1e-12 * dense.max())


def test_one_analysis_serves_other_values_and_smaller_patterns():
    P = matrix("grid")
    analysis = analyse(P)
    first = factor_of(analysis, P)
    other = P.copy()
    other.data = np.where(other.data > 1.0, other.data * 2.0, other.data)
    diagonal = sp.diags_array(P.diagonal()).tocsr()
    for matrix_ in (other, diagonal, sp.csr_array(other)):
        dense = matrix_.toarray()
        factor = factor_of(analysis, matrix_)
        variances = factor.selected()[
            analysis.locate(np.arange(P.shape[0]), np.arange(P.shape[0]))
        ]
        np.testing.assert_allclose(variances, np.diag(np.linalg.inv(dense)), rtol=1e-11)
    assert first.half_logdet == factor_of(analysis, P).half_logdet
    with pytest.raises(KeyError):
        factor_of(analyse(diagonal), P)


def test_any_storage_of_the_same_matrix():
    P = matrix("random")
    rng = np.random.default_rng(5)
    coo = P.tocoo()
    kept = rng.permutation(np.repeat(np.arange(coo.nnz), 2))  # every entry in two parts
    row, col = coo.row[kept], coo.col[kept]
    by_column = np.argsort(col, kind="stable")
    indptr = np.searchsorted(col[by_column], np.arange(P.shape[0] + 1))
    data = 0.5 * coo.data[kept][by_column]
    twice = sp.csc_array((data, row[by_column], indptr), shape=P.shape)
    assert not twice.has_canonical_format
    expected = factor_of(analyse(P), P).half_logdet
    for one in (P, twice, P.tocsr(), P.tocoo().tocsr()):
        for other in (P, twice, P.tocsr()):
            assert factor_of(analyse(one), other).half_logdet == pytest.approx(expected, rel=1e-13)
    with pytest.raises(ValueError, match="symmetric"):
        analyse(sp.tril(P))
    with pytest.raises(ValueError, match="indices"):
        factor_of(analyse(P), matrix("grid"))


def test_the_number_of_cores_does_not_matter():
    P = positive(stencil(130, 110), np.random.default_rng(6))
    analysis = analyse(P, [17])
    assert all(half.size > 30 for half in analysis.halves[:2])
    factor = factor_of(analysis, P)
    with single():
        alone = factor_of(analysis, P)
        np.testing.assert_array_equal(alone.selected(), factor.selected())
    assert alone.half_logdet == factor.half_logdet
    b = np.random.default_rng(7).standard_normal((P.shape[0], 3))
    np.testing.assert_allclose(P @ factor.solve(b), b, atol=1e-11)
    some = [0, 17, 1234]
    unit = np.zeros((P.shape[0], 3))
    unit[some, range(3)] = 1.0
    variances = factor.selected()[analysis.locate(some, some)]
    np.testing.assert_allclose(variances, np.diag(factor.solve(unit)[some]), rtol=1e-11)


def test_entries_outside_the_pattern():
    analysis = analyse(matrix("tridiagonal"))
    assert analysis.locate(3, 4).shape == ()
    with pytest.raises(KeyError, match=r"\(7, 50\)"):
        analysis.locate([1, 7, 2], [2, 50, 3])


@pytest.mark.parametrize("shape", ["one", "tridiagonal", "grid", "bipartite", "dense"])
@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan])
def test_not_positive_definite(shape, value):
    P = matrix(shape)
    P[P.shape[0] // 2, P.shape[0] // 2] = value
    with pytest.raises(np.linalg.LinAlgError):
        factor_of(analyse(P), P)


def test_pickled():
    P = matrix("grid")
    analysis = analyse(P, [4, 2])
    copy: Analysis = pickle.loads(pickle.dumps(analysis))
    factor = factor_of(analysis, P)
    assert (factor_of(copy, P).selected() == factor.selected()).all()
    assert (pickle.loads(pickle.dumps(factor)).selected() == factor.selected()).all()


def test_a_few_dense_rows_among_many_small_groups():
    rng = np.random.default_rng(3)
    groups, fixed = 3000, 4
    Z = sp.csr_array((np.ones(2 * groups), (np.arange(2 * groups), np.arange(2 * groups) // 2)))
    A = sp.hstack([sp.csr_array(rng.standard_normal((2 * groups, fixed))), Z]).tocsr()
    P = (A.T @ A + sp.eye_array(groups + fixed)).tocsc()
    free = analyse(P)
    assert free.nnz < 1.5 * sp.tril(P).nnz
    assert set(range(fixed)) <= set(free.order[-200:])
    held = analyse(P, np.arange(fixed))
    b = rng.standard_normal(groups + fixed)
    np.testing.assert_allclose(P @ factor_of(held, P).solve(b), b, atol=1e-9)
    assert factor_of(free, P).half_logdet == pytest.approx(
        factor_of(held, P).half_logdet, rel=1e-12
    )


def test_many_that_come_last_do_not_become_dense():
    """A chain of which every node has leaves: the chain comes last and stays a chain."""
    n, leaves = 150, 5
    chain = sp.coo_array((np.ones(n - 1), (np.arange(n - 1), np.arange(1, n))), shape=(n, n))
    links = sp.kron(sp.eye_array(n), np.ones((1, leaves)))
    P = positive(
        sp.block_array([[chain + chain.T, links], [links.T, None]]), np.random.default_rng(8)
    )
    analysis = analyse(P, np.arange(n))
    assert set(analysis.order[-n:]) == set(range(n))
    assert analysis.nnz < 1.3 * sp.tril(P).nnz
    some = np.arange(0, P.shape[0], 7)
    variances = factor_of(analysis, P).selected()[analysis.locate(some, some)]
    np.testing.assert_allclose(variances, np.diag(np.linalg.inv(P.toarray()))[some], rtol=1e-10)


def test_methods_agree_and_a_grid_fills_little():
    P = positive(stencil(40, 40), np.random.default_rng(4))
    found = {method: analyse(P, method=method) for method in METHODS}
    logdets = [factor_of(analysis, P).half_logdet for analysis in found.values()]
    np.testing.assert_allclose(logdets, logdets[0], rtol=1e-12)
    diagonal = np.arange(P.shape[0])
    variances = [factor_of(a, P).selected()[a.locate(diagonal, diagonal)] for a in found.values()]
    np.testing.assert_allclose(variances, [variances[0]] * len(METHODS), rtol=1e-10)
    assert found["auto"].flops < 0.6 * found["given"].flops
    assert found["auto"].flops <= 1.01 * min(found["degree"].flops, found["dissection"].flops)


@pytest.mark.parametrize("shape", SHAPES)
def test_against_cholmod(shape):
    cholmod = pytest.importorskip("sksparse.cholmod")
    P = matrix(shape).tocsc()
    theirs, ours = cholmod.cholesky(P), factor_of(analyse(P), P)
    b = np.random.default_rng(2).standard_normal((P.shape[0], 2))
    assert ours.half_logdet == pytest.approx(theirs.logdet() / 2, rel=1e-12)
    np.testing.assert_allclose(ours.solve(b), theirs(b), rtol=1e-9, atol=1e-13)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="all of it is interpreted")
@pytest.mark.parametrize("shape", ["tree", "grid", "disconnected", "arrow turned", "dense"])
def test_a_small_pattern_is_analysed_by_the_interpreter_as_by_compiled_code(shape, monkeypatch):
    A = matrix(shape)

    def found():
        analysis = analyse(A)
        factor = Factor.of(analysis, analysis.assemble(A))
        return [*analysis.panels, analysis.order, analysis.inverse, *factor.columns()]

    monkeypatch.setattr(jit._Light, "__call__", lambda self, *args: self.plain(*args))
    interpreted = found()
    monkeypatch.undo()
    monkeypatch.setattr(jit._Light, "little", -1)
    for one, other in zip(interpreted, found(), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
