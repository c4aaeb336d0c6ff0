"""Funnels whose children have two modes, at distances that shrink with their scale; log Z = 0."""

from __future__ import annotations

import numpy as np
import pytest

import evidence as ev
from evidence.approximations.density import fit, staged
from evidence.approximations.density.fitted import fit_density
from evidence.approximations.density.policy import EFFORTS

_LOG_2PI = np.log(2.0 * np.pi)


def funnel(dim, share, at, children=1):
    """v ~ N(0, 9), others N(0, e^v); the first children with a share of N(at e^(v/2), e^v)."""

    def log_p(x):
        v, z = x[:, 0], x[:, 1:] * np.exp(-0.5 * x[:, :1])
        two = np.logaddexp(
            np.log1p(-share) - 0.5 * z[:, :children] ** 2,
            np.log(share) - 0.5 * (z[:, :children] - at) ** 2 if share else np.float64(-np.inf),
        )
        value = two.sum(axis=1) - 0.5 * (z[:, children:] ** 2).sum(axis=1)
        return value - v**2 / 18.0 - np.log(3.0) - 0.5 * ((dim - 1) * v + dim * _LOG_2PI)

    return ev.DensityModel(log_p, dim=dim, vectorized=True)


@pytest.mark.parametrize(
    ("dim", "share", "at", "children"),
    [
        *[
            pytest.param(8, *rest, marks=pytest.mark.slow)
            for rest in [(0.3, 12.0, 1), (0.1, 8.0, 1), (0.3, 10.0, 2)]
        ],
        pytest.param(3, 0.3, -12.0, 1, marks=pytest.mark.slow),
        pytest.param(2, 0.4, -7.0, 1, marks=pytest.mark.slow),  # as below
    ],
)
def test_both_modes_count(dim, share, at, children):
    """One alone is log(1 - share) too low, at ± .0003; -0.1 at least."""
    model = funnel(dim, share, at, children)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert abs(result.logz) < 4.0 * result.logz_se
    assert result.logz_se < 0.06


@pytest.mark.slow
def test_what_lies_far_beyond_gaussians_at_modes_counts():
    """The second mode's wide end, at 100 of Laplace's sd, holds 2.5 % of Z."""
    model = funnel(2, 0.4, -7.0, 1)
    results = [ev.log_evidence(model, random_seed=s, progressbar=False) for s in range(8)]
    logz, se = np.array([(r.logz, r.logz_se) for r in results]).T
    assert np.sqrt(np.mean((logz / se) ** 2)) < 1.6
    assert abs(logz @ se**-2) < 4.0 * np.sqrt(np.sum(se**-2))
    assert np.sum(se**-2) ** -0.5 < 0.005


def test_one_mode_is_left_as_it_is():
    model = funnel(2, 0.0, 0.0)
    reference = fit_density(model, policy=EFFORTS["frugal"])
    assert reference.scales is not None
    assert not reference.several
    assert fit._over_all_modes(reference, np.random.default_rng(0)) is reference


def test_particles_that_two_stages_cannot_see_are_counted():
    rng, dim = np.random.default_rng(0), 6
    model = funnel(dim, 0.02, 12.0)
    v = 3.0 * rng.standard_normal((256, 1))
    z = rng.standard_normal((256, dim - 1))
    z[[5, 60], 0] += 12.0
    found = staged.fit_staged(model, np.hstack([v, np.exp(0.5 * v) * z]))
    assert found.inner.parents.tolist() == [0]
    assert found.unseen == 2 / 256
    x, log_w = found.weighted(rng, 100)
    np.testing.assert_allclose(found.log_weight(x), log_w, atol=1e-6)


@pytest.mark.parametrize("case", [5, pytest.param(7, marks=pytest.mark.slow)])
def test_two_modes_far_apart(case):
    """Of a density without a prior, 50 standard deviations apart in eight dimensions."""
    rng, d = np.random.default_rng(case), 8
    away = rng.normal(size=d)
    away *= 50.0 / np.linalg.norm(away)

    def log_p(x):
        each = [np.sum((x - c) ** 2, axis=1) for c in (0.0, away)]
        return np.logaddexp(*[-0.5 * (e + d * _LOG_2PI) for e in each]) - np.log(2.0)

    model = ev.DensityModel(log_p, dim=d, vectorized=True)
    result = ev.log_evidence(model, random_seed=case, progressbar=False)
    assert abs(result.logz) < 4.5 * result.logz_se < 0.1
