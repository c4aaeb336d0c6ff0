"""The search on the ellipse: whatever a path is like, the same angles are tried."""

from __future__ import annotations

import numpy as np
import pytest
from problems import small_model
from scipy.stats import kstest

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.moves import EllipticalSlice


class Opaque(ev.Path):
    """Tilts in one call for all rows, as paths of other models have them."""

    compiled = False


def _walk(path: ev.Path, steps: int, rows: int = 40):
    rng, move = np.random.default_rng(0), EllipticalSlice()
    state, evaluations = move.init_reference(rng, path, rows), 0
    for _ in range(steps):
        state, info = move.step(rng, path, np.linspace(0.0, 1.0, rows), state)
        evaluations += info.gradients
        assert info.failures == 0
    return state, evaluations


@pytest.mark.parametrize("likelihood", ["probit", "student_t(df=4, scale=0.5)"])
def test_row_by_row_or_together(likelihood):
    model = small_model(likelihood)
    reference = ev.fit_ep(model) if likelihood == "probit" else ev.fit_laplace(model)
    (one, first), (other, second) = (_walk(kind(reference), 20) for kind in (ev.Path, Opaque))
    assert first == second > 20 * 40
    np.testing.assert_allclose(one.x, other.x, rtol=1e-12)
    np.testing.assert_allclose(one.tilt, ev.Path(reference).tilt(one.x), rtol=1e-10, atol=1e-12)


def test_many_shrinks_are_exact():
    """A likelihood far from the prior, so that about four angles fail before one is taken.

    Kolmogorov-Smirnov, two observations and their product: a false alarm in 10⁵ runs.
    """
    K, noise = np.array([[1.0, 0.9], [0.9, 1.0]]), 0.05
    model = ev.GPModel(K=K, y=[1.5, 0.5], likelihood=f"gaussian(noise_std={noise**0.5})")
    path, rng, m = ev.Path(prior_reference(model)), np.random.default_rng(2), 100_000
    precision = np.linalg.inv(K) + np.eye(2) / noise
    cov = np.linalg.inv(precision)
    mean, root = cov @ model.y / noise, np.linalg.cholesky(cov)
    move = EllipticalSlice()
    state = move.init(path, mean + rng.standard_normal((m, 2)) @ root.T)
    for _ in range(3):
        state, info = move.step(rng, path, 1.0, state)
    assert info.gradients > 4 * m
    z = np.linalg.solve(root, (state.x - mean).T)
    pvalues = [kstest(z[0], "norm").pvalue, kstest(z[1], "norm").pvalue]
    pvalues.append(kstest((z[0] + z[1]) / np.sqrt(2.0), "norm").pvalue)
    assert min(pvalues) > 1e-5 / 3


@pytest.mark.parametrize("kind", [ev.Path, Opaque])
def test_a_row_without_a_way_stays_where_it_is(kind):
    """Nothing exceeds such a level: the bracket is used up, and that is counted."""
    path, move = kind(ev.fit_ep(small_model("probit"))), EllipticalSlice()
    rng = np.random.default_rng(1)
    state = move.init_reference(rng, path, 3)
    broken = state._replace(tilt=np.array([state.tilt[0], 1e9, state.tilt[2]]))
    new, info = move.step(rng, path, 0.5, broken)
    assert info.failures == 1
    np.testing.assert_array_equal(info.acceptance, [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(new.x[1], state.x[1])
    assert new.tilt[1] == 1e9
    assert np.all(new.x[[0, 2]] != state.x[[0, 2]])
