"""Estimates of the evidence at one setting by draws about EP's Gaussian, with wider tails."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import evidence as ev
from evidence.hyper.at_theta import draws_plainly, guided_estimate, tailed_weights


def groups(likelihood, y, sd=1.0):
    A = sp.kron(sp.eye_array(4), np.ones((3, 1))).tocsr()
    return ev.SparseModel(sp.eye_array(4) / sd**2, y, likelihood=likelihood, A=A)


FEW = np.array([0, 1, 0, 2, 1, 3, 0, 0, 0, 1, 0, 4])


@pytest.mark.parametrize("likelihood", ["poisson", "probit"])
def test_their_mean_is_the_evidence(likelihood):
    y = FEW if likelihood == "poisson" else np.minimum(FEW, 1)
    q = ev.fit_ep(groups(likelihood, y))
    weights = tailed_weights(q, 200_000, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    guided = [guided_estimate(q, 256, rng, np.inf).log_z for _ in range(64)]
    se = np.hypot(np.std(guided) / 8.0, np.sqrt(weights.relative_variance / weights.n))
    assert abs(q.logz + float(weights.log_mean) - np.mean(guided)) < 4.0 * se < 0.02


def test_behind_a_wall_their_weights_have_a_light_tail():
    """Counts are zero: on one side the posterior has the prior's tail, far wider than EP's."""
    x = np.linspace(-300.0, 300.0, 600_001)
    with np.errstate(over="ignore"):
        one = np.exp(stats.norm.logpdf(x, 0.0, 30.0) - 3.0 * np.exp(x))
    q = ev.fit_ep(groups("poisson", 0 * FEW, sd=30.0))
    weights = tailed_weights(q, 65_536, np.random.default_rng(0))
    se = np.sqrt(weights.relative_variance / weights.n)
    exact = 4.0 * np.log(np.trapezoid(one, x))
    assert abs(q.logz + float(weights.log_mean) - exact) < 4.0 * se < 0.04
    assert weights.relative.max() < 3e-3 * weights.relative.sum()


def test_they_are_taken_where_they_are_even():
    assert draws_plainly(ev.fit_ep(groups("poisson", FEW)))
    assert draws_plainly(ev.fit_ep(groups("probit", np.minimum(FEW, 1))))
    assert draws_plainly(ev.fit_ep(groups("poisson", 0 * FEW, sd=30.0)))  # a wall
    assert not draws_plainly(ev.fit_ep(groups("student_t", FEW.astype(float))))
    dense = ev.GPModel(K=np.eye(3), y=[1, 2, 0], likelihood="poisson")
    assert not draws_plainly(ev.fit_ep(dense))
