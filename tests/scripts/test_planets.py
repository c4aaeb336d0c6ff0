"""The planets' model: its coordinates leave priors as they are, and the offset is integrated."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import simpson

from scripts.published.planets import Velocities, problem


@pytest.fixture
def velocities(tmp_path: Path) -> Velocities:
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(5.0, 300.0, 20))
    np.savetxt(tmp_path / "rvs_0001.txt", np.column_stack([t, rng.normal(size=20), 1.0 + 0.0 * t]))
    bounds = "P,1,  39.8,   44.6\nP,2,  11.4,   12.8\n"
    (tmp_path / "prior_bounds_0001.txt").write_text(bounds)
    return Velocities(tmp_path, 1, 2)


def test_priors_are_those_of_the_challenge(velocities: Velocities) -> None:
    u = np.random.default_rng(1).random((3000, 11))
    theta = np.array([velocities.transform(row) for row in u])
    assert stats.kstest(np.log1p(theta[:, 0]), stats.uniform(0, np.log(100)).cdf).pvalue > 1e-3
    for first, (low, high) in ((1, (39.8, 44.6)), (6, (11.4, 12.8))):
        P, K, m0, e, w = theta[:, first : first + 5].T
        whole = stats.rayleigh(scale=0.2).cdf(1.0)
        uniform = np.array(
            [
                np.log(P / low) / np.log(high / low),
                np.log1p(K) / np.log(1000.0),
                m0 / (2.0 * np.pi),
                stats.rayleigh(scale=0.2).cdf(e) / whole,
                w / (2.0 * np.pi),
            ]
        )
        for one in uniform:
            assert stats.kstest(one, stats.uniform.cdf).pvalue > 1e-3
        z = stats.norm.ppf(uniform.clip(1e-12, 1.0 - 1e-12))
        assert np.abs(np.corrcoef(z) - np.eye(5)).max() < 0.08
        turns = np.exp(2j * np.pi * uniform[[2, 4]])  # of m0 and w, which could go together
        for sign in (turns[0] * turns[1], turns[0] / turns[1]):
            assert abs(sign.mean()) < 0.08


def test_the_offset_is_integrated_out(velocities: Velocities) -> None:
    model = velocities.model()
    theta = velocities.transform(np.full(11, 0.4))
    normal = stats.multivariate_normal(np.zeros(20), velocities.noise(theta))
    C = np.linspace(-60.0, 60.0, 4001)
    rest = velocities.v - velocities.orbits(theta)
    log_p = normal.logpdf(rest - C[:, None])
    exact = np.log(simpson(np.exp(log_p - log_p.max()), x=C) / 2000.0) + log_p.max()
    assert model.calls["logdensity"](theta[None])[0] == pytest.approx(exact, abs=1e-6)
    assert model.names[-1] == "C"


def test_the_other_route_has_the_same_likelihood(velocities: Velocities, tmp_path: Path) -> None:
    other, model = problem(tmp_path, 1, 2), velocities.model()
    u = np.random.default_rng(2).random((20, 11))
    u[:, 1::5] *= 0.5
    theta = np.array([velocities.transform(row) for row in u])
    points = np.stack([p.quantile(x) for p, x in zip(other.prior, u.T, strict=True)], axis=-1)
    expected = model.calls["logdensity"](theta)
    assert np.ptp(expected) > 100.0
    np.testing.assert_allclose(other.log_likelihood(np, points), expected, rtol=1e-7)
