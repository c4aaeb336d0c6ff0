"""Blocks: where things are, and what adds up."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import evidence as ev
from evidence import precisions

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
PARTS = {
    "fixed": precisions.iid(2, 10.0, sigma_bounds="fixed"),
    "area": precisions.bym2(RING, 0.6, 0.7),
    "year": precisions.rw2(5, 0.4),
}


def test_blocks_are_their_parts_side_by_side():
    prior = precisions.blocks(**PARTS)
    assert prior.n == 2 + 8 + 5
    Q = prior.matrix().toarray()
    C, r = prior.constraints
    np.testing.assert_array_equal(r, np.zeros(3))
    for name, where in prior.slices.items():
        part = PARTS[name]
        np.testing.assert_array_equal(Q[where, where], part.matrix().toarray())
        Q[where, where] = 0.0
    assert not Q.any()
    np.testing.assert_array_equal(C.toarray()[:1, 2:10], PARTS["area"].constraints[0].toarray())
    np.testing.assert_array_equal(C.toarray()[1:, 10:], PARTS["year"].constraints[0].toarray())
    assert C.nnz == PARTS["area"].constraints[0].nnz + PARTS["year"].constraints[0].nnz
    assert precisions.blocks(a=PARTS["fixed"]).constraints is None


def test_design_shows_what_data_see_of_each():
    prior = precisions.blocks(**PARTS)
    x = np.arange(float(prior.n))
    seen = prior.design @ x
    np.testing.assert_array_equal(seen, [*x[:2], *x[2:6], *x[10:]])
    assert precisions.blocks(a=PARTS["fixed"], b=PARTS["year"]).design is None


def test_predictor_adds_up():
    prior = precisions.blocks(**PARTS)
    rng = np.random.default_rng(0)
    X, area, year = rng.normal(size=(6, 2)), np.eye(4)[[0, 1, 1, 3, 2, 0]], rng.normal(size=(6, 5))
    A = prior.predictor(fixed=X, area=area, year=year)
    x = rng.normal(size=prior.n)
    want = X @ x[:2] + x[2:6][[0, 1, 1, 3, 2, 0]] + year @ x[10:]
    np.testing.assert_allclose(A @ x, want, rtol=1e-12)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.coo_array, sp.lil_array, sp.dok_array])
def test_predictor_takes_any_sparse_matrix(kind):
    prior = precisions.blocks(fixed=precisions.iid(2, 10.0), group=precisions.iid(3))
    X = np.array([[1.0, 0.0], [0.0, -2.0], [3.0, 4.0]])
    A = prior.predictor(fixed=kind(X), group=None)
    np.testing.assert_array_equal(A.toarray(), np.hstack([X, np.eye(3)]))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([0, 1, 2], "fixed must be an array of shape"),
        (sp.coo_array(np.ones(2)), "fixed must be a matrix, got shape"),
        (sp.csr_array(np.eye(3)), "fixed must have 2 columns"),
        (sp.csr_array(np.full((3, 2), np.nan)), "fixed contains NaN"),
        (sp.csr_array(np.ones((3, 2)) * 1j), "fixed must hold real numbers, got complex128"),
        ([["a", "b"]] * 3, "fixed must hold real numbers"),
        ("all", "fixed must hold real numbers, got 'all'"),
        (np.full((3, 2), np.inf), "fixed contains NaN or inf"),
    ],
)
def test_predictor_says_what_is_wrong_with_a_matrix(given, told):
    prior = precisions.blocks(fixed=precisions.iid(2, 10.0), group=precisions.iid(3))
    with pytest.raises(ev.InputError, match=told):
        prior.predictor(fixed=given, group=None)


def test_names_of_fixed_hyperparameters_are_no_sparse_matrix():
    model = ev.GPModel([[0.0], [1.0]], [1, -1], "1.0 * RBF(1.0)")
    with pytest.raises(ev.InputError, match="fixed must be a list of names"):
        ev.integrated_evidence(model, {}, fixed=sp.csr_array(np.eye(2)))


def test_blocks_of_blocks():
    prior = precisions.blocks(a=precisions.blocks(**PARTS), b=precisions.iid(1))
    names = [p.name for p in prior.hyperparameters if not p.fixed]
    assert names == ["a__area__sigma", "a__area__phi", "a__year__sigma", "b__sigma"]
    assert prior.slices == {"a": slice(0, 15), "b": slice(15, 16)}
