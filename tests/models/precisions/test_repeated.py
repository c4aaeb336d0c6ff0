"""Copies of a prior, and independent values with sizes of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag

import evidence as ev
from evidence import precisions

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
PARTS = {
    "iid": precisions.iid(3, 0.7),
    "ar1": precisions.ar1(4, 0.6, 0.3),
    "rw2": precisions.rw2(6, 0.4),
    "bym2": precisions.bym2(RING, 0.6, 0.7),
    "effects": precisions.effects(2, ("1", "x"), (1.0, 0.5), 0.4),
}


@pytest.mark.parametrize("name", PARTS)
def test_copies_stand_one_after_the_other(name):
    part = PARTS[name]
    prior = precisions.copies(part, 3)
    assert prior.n == 3 * part.n
    Q = part.matrix().toarray()
    np.testing.assert_allclose(prior.matrix().toarray(), block_diag(Q, Q, Q))
    assert prior.hyperparameters == part.hyperparameters
    np.testing.assert_array_equal(prior.theta, part.theta)
    np.testing.assert_array_equal(prior.bounds, part.bounds)
    moved, own = (p.clone_with_theta(part.theta + 0.2) for p in (prior, part))
    Q = own.matrix().toarray()
    np.testing.assert_allclose(moved.matrix().toarray(), block_diag(Q, Q, Q))
    if part.constraints is None:
        assert prior.constraints is None
    else:
        C, r = part.constraints
        every, values = prior.constraints
        np.testing.assert_array_equal(every.toarray(), block_diag(*[C.toarray()] * 3))
        np.testing.assert_array_equal(values, np.tile(r, 3))
    np.testing.assert_allclose(prior.matrix() @ prior.null, 0.0, atol=1e-9)
    assert prior.null.shape[1] == 3 * part.null.shape[1]
    if part.design is not None:
        x = np.arange(float(prior.n))
        each = [part.design @ x[i * part.n : (i + 1) * part.n] for i in range(3)]
        np.testing.assert_array_equal(prior.design @ x, np.concatenate(each))


@pytest.mark.parametrize("name", PARTS)
def test_copies_are_independent(name):
    """EP's log Z of three series of the same data is three times that of one."""
    part = PARTS[name]
    seen = part.n if part.design is None else part.design.shape[0]
    y = np.random.default_rng(0).poisson(1.5, seen)
    one = ev.SparseModel(part, y, likelihood="poisson")
    three = ev.SparseModel(precisions.copies(part, 3), np.tile(y, 3), likelihood="poisson")
    assert ev.fit_ep(three).logz == pytest.approx(3.0 * ev.fit_ep(one).logz, abs=1e-5)


@pytest.mark.parametrize("count", [0, -1, 2.5, None])
def test_counts(count):
    with pytest.raises(ev.InputError, match="count"):
        precisions.copies(PARTS["iid"], count)


def test_independent_values():
    prior = precisions.independent([0.5, 2.0, 10.0])
    np.testing.assert_allclose(np.linalg.inv(prior.matrix().toarray()), np.diag([0.25, 4, 100]))
    assert prior.theta.size == 0
    assert prior.constraints is None


@pytest.mark.parametrize("sd", [[1.0, 0.0], [-1.0], [np.nan], [np.inf], "one", [[1.0]]])
def test_sizes(sd):
    with pytest.raises(ev.InputError, match="sd"):
        precisions.independent(sd)


def test_copies_of_what_is_no_prior():
    with pytest.raises(ev.InputError, match="part must be a prior"):
        precisions.copies(3, 2)
