"""Estimates of the evidence at one setting by draws of EP's Gaussian, a little wider."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import evidence as ev
from evidence.hyper.at_theta import draws_plainly, guided_estimate, wide_weights


def groups(likelihood, y, sd=1.0):
    A = sp.kron(sp.eye_array(4), np.ones((3, 1))).tocsr()
    return ev.SparseModel(sp.eye_array(4) / sd**2, y, likelihood=likelihood, A=A)


FEW = np.array([0, 1, 0, 2, 1, 3, 0, 0, 0, 1, 0, 4])


@pytest.mark.parametrize("likelihood", ["poisson", "probit"])
def test_their_mean_is_the_evidence(likelihood):
    y = FEW if likelihood == "poisson" else np.minimum(FEW, 1)
    q = ev.fit_ep(groups(likelihood, y))
    weights = wide_weights(q, 200_000, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    guided = [guided_estimate(q, 256, rng, np.inf).log_z for _ in range(64)]
    se = np.hypot(np.std(guided) / 8.0, np.sqrt(weights.relative_variance / weights.n))
    assert abs(q.logz + float(weights.log_mean) - np.mean(guided)) < 4.0 * se < 0.02


def test_they_are_taken_where_they_are_even():
    assert draws_plainly(ev.fit_ep(groups("poisson", FEW)))
    assert draws_plainly(ev.fit_ep(groups("probit", np.minimum(FEW, 1))))
    assert not draws_plainly(ev.fit_ep(groups("poisson", 0 * FEW, sd=30.0)))  # a wall
    assert not draws_plainly(ev.fit_ep(groups("student_t", FEW.astype(float))))
    dense = ev.GPModel(K=np.eye(3), y=[1, 2, 0], likelihood="poisson")
    assert not draws_plainly(ev.fit_ep(dense))
