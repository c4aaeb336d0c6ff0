"""Draws that look ahead along a tree: hardly any variance, and the same log Z."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln, log_ndtr
from scipy.stats import t as student
from sparse_problems import chain, filtered_log_z

import evidence as ev
from evidence.proposals.steps import make_step_guide
from evidence.statistics.diagnostics import log_mean

LOG_LIKELIHOODS = {
    "poisson": lambda y, x: y * x - np.exp(x) - gammaln(y + 1.0),
    "probit": lambda y, x: log_ndtr(y * x),
    "student_t(df=4, scale=0.3)": lambda y, x: student.logpdf(y - x, 4.0, scale=0.3),
}


def data_of(name, x, rng):
    if name == "probit":
        return np.where(x + rng.normal(size=x.size) > 0.0, 1.0, -1.0)
    return rng.poisson(np.exp(x)) if name == "poisson" else x + 0.3 * rng.standard_t(4, x.size)


@pytest.mark.parametrize("name", LOG_LIKELIHOODS)
def test_chain_with_gaps(name):
    """Every third value has no datum: weights within a hundredth, and the filter's log Z."""
    n, rng, log_likelihood = 60, np.random.default_rng(0), LOG_LIKELIHOODS[name]
    seen = np.arange(n) % 3 > 0
    x = np.linalg.solve(np.linalg.cholesky(chain(n, 0.9, 0.3).toarray()).T, rng.normal(size=n))
    y = data_of(name, x[seen], rng)
    A = sp.csr_array(2.0 * np.eye(n)[seen])
    model = ev.SparseModel(chain(n, 0.9, 0.3) * 4.0, y, likelihood=name, A=A)  # A u is the chain
    every = np.full(n, np.nan)
    every[seen] = y
    truth = filtered_log_z(
        lambda one, x: np.zeros_like(x) if np.isnan(one) else log_likelihood(one, x),
        every, 0.9, 0.3,
    )  # fmt: skip
    guide = make_step_guide(ev.fit_ep(model))
    _, log_weight = guide.draw(256, np.random.default_rng(1))
    assert log_weight.std() < 1e-2
    estimate = log_mean(log_weight)
    assert abs(guide.log_z0 + estimate.value - truth) < 5.0 * estimate.se + 2e-6
    blind = replace(guide, plan=guide.plan._replace(messages=np.empty((n, 0))))
    _, without = blind.draw(256, np.random.default_rng(1))
    assert without.std() > 10.0 * log_weight.std()


def test_tree():
    """Parents drawn at random, several data for some, none for others: with and without."""
    n, rng = 80, np.random.default_rng(2)
    parents = np.array([rng.integers(0, k) for k in range(1, n)])
    B = sp.eye_array(n) - sp.csc_array(
        (np.full(n - 1, 0.9), (np.arange(1, n), parents)), shape=(n, n)
    )
    at = rng.integers(0, n, n)
    A = sp.csr_array((rng.choice([-1.0, 1.0], n), (np.arange(n), at)), shape=(n, n))
    y = np.where(rng.random(n) < 0.7, 1, -1)
    model = ev.SparseModel(sp.csc_array(B.T @ B), y, likelihood="logit", A=A)
    guide = make_step_guide(ev.fit_ep(model))
    assert guide.plan.messages.size
    blind = replace(guide, plan=guide.plan._replace(messages=np.empty((n, 0))))
    one, two = (g.draw(2**14, np.random.default_rng(3))[1] for g in (guide, blind))
    assert one.std() < 0.1 * two.std()
    first, second = log_mean(one), log_mean(two)
    assert abs(first.value - second.value) < 4.5 * np.hypot(first.se, second.se)


def test_means_far_apart():
    """Where times nearly meet, means are everywhere in units of what is left to a step: powers of
    nodes must not overflow. Every seed says the same."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 60.0, 200))
    t[50:55] = t[50]
    model = ev.GPModel(
        t[:, None], rng.poisson(2.0, 200), "0.7*Matern(2.0, nu=0.5)", likelihood="poisson",
        structure="markov", jitter=0.0,
    )  # fmt: skip
    guide = make_step_guide(ev.fit_ep(model))
    logs = [log_mean(guide.draw(256, np.random.default_rng(s))[1]).value for s in range(12)]
    assert np.std(logs) < 1e-3
