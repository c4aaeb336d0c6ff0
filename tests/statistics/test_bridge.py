"""The optimal bridge: its equation, and its error with correlated draws."""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

from evidence.statistics.bridge import bridge, disagreement, effective

pytestmark = pytest.mark.interpreted


def test_same_density_up_to_a_factor():
    made = bridge(np.full((2, 50), 3.25), np.full(80, 3.25), 100.0)
    assert made.logz == pytest.approx(3.25, abs=1e-9)
    assert made.se == pytest.approx(0.0, abs=1e-9)
    assert made.overlap == pytest.approx(1.0)


def test_meng_and_wongs_equation_and_a_shift():
    rng = np.random.default_rng(0)
    u, v = rng.normal(1.0, 1.0, (4, 200)), rng.normal(0.0, 1.0, 500)
    v[:50] = -np.inf
    made = bridge(u, v, 300.0)
    s1, s2 = made.share, 1.0 - made.share
    e, f = np.exp(v - made.logz), np.exp(u - made.logz)
    assert np.mean(e / (s1 * e + s2)) == pytest.approx(np.mean(1.0 / (s1 * f + s2)), rel=1e-8)
    assert made.at_draws.mean() == pytest.approx(1.0)
    assert made.at_proposal.mean() == pytest.approx(1.0)
    assert bridge(u + 700.0, v + 700.0, 300.0).logz == pytest.approx(made.logz + 700.0, abs=1e-7)


def test_far_apart():
    """Where no draw is near a proposal, log Z is between what both sides say."""
    made = bridge(np.full((1, 20), 50.0) + np.arange(20.0), -50.0 - np.arange(20.0), 20.0)
    assert -70.0 < made.logz < 70.0
    assert made.overlap < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_error_bar(rho):
    """z of 150 replications has RMS 1 within 4 standard errors of it, 4 · 0.058."""
    sd = 1.4
    z = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        steps = rng.standard_normal((4, 300))
        steps[:, 1:] *= np.sqrt(1 - rho**2)
        x, y = lfilter([1.0], [1.0, -rho], steps, axis=1), sd * rng.standard_normal(1200)
        u, v = (norm.logpdf(s) - norm.logpdf(s, 0.0, sd) for s in (x, y))
        made = bridge(u, v, 1200.0)
        z.append(made.logz / made.se)
    assert 0.77 < np.sqrt(np.mean(np.square(z))) < 1.23


def test_every_draw_four_times_is_worth_no_more():
    """The estimate is the same, and so is its error bar, within a tenth."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((4, 1000)), 1.5 * rng.standard_normal(4000)
    u, v = (norm.logpdf(s) - norm.logpdf(s, 0.0, 1.5) for s in (x, y))
    once, often = bridge(u, v, 4000.0), bridge(np.repeat(u, 4, axis=1), v, 4000.0)
    assert often.logz == pytest.approx(once.logz, abs=0.1 * once.se)
    assert often.variance_draws == pytest.approx(once.variance_draws, rel=0.2)


def test_disagreement():
    rng = np.random.default_rng(0)
    y = 1.5 * rng.standard_normal(4000)
    found = []
    for shift in (0.0, 0.5):
        x = shift + rng.standard_normal((4, 1000))
        u, v = (norm.logpdf(s) - norm.logpdf(s, 0.0, 1.5) for s in (x, y))
        found.append(float(disagreement(bridge(u, v, 4000.0), x[..., None], y[:, None])[0]))
    assert abs(found[0]) < 4.0
    assert found[1] > 10.0


def test_effective_of_constants():
    assert effective(np.ones((2, 30))) == 60.0
