"""Half-spaces: data that only say "not here", where EP's Gaussian has too light a tail.

All labels alike (or all counts zero) under a common latent value plus a little of each one's own:
log Z is an integral over the former of a product of integrals over the latter.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.integrate import quad
from scipy.special import log_ndtr, logsumexp

import evidence as ev
from evidence.methods import wider_reference
from evidence.proposals.guide import make_guide
from evidence.proposals.twist import twisted
from evidence.statistics.weights import Weights

NODES, MASS = np.polynomial.hermite_e.hermegauss(60)
MASS = np.log(MASS / MASS.sum())
LOG_LIKELIHOOD = {
    "probit": log_ndtr,
    "logit": lambda x: -np.logaddexp(0.0, -x),
    "poisson": lambda x: -np.exp(x),
    "negative_binomial": lambda x: -np.logaddexp(0.0, x),
}


def half_space(likelihood, n, common, own):
    """The model, and the truth by quadrature."""
    log_p = LOG_LIKELIHOOD[likelihood]
    y = np.ones(n) if likelihood in ("probit", "logit") else np.zeros(n)

    def integrand(t):
        each = logsumexp(log_p(np.sqrt(common) * t + np.sqrt(own) * NODES) + MASS)
        return np.exp(n * each - 0.5 * t * t) / np.sqrt(2.0 * np.pi)

    edges = (-12.0, -1.0, -0.1, 0.0, 0.1, 1.0, 12.0)
    z = sum(quad(integrand, a, b, limit=500)[0] for a, b in itertools.pairwise(edges))
    model = ev.GPModel(K=common + own * np.eye(n), y=y, likelihood=likelihood)
    return model, float(np.log(z))


CASES = [
    ("probit", 25, 1e5, 0.1),
    ("probit", 25, 1e4, 0.01),
    ("probit", 25, 1e2, 1e-4),
    ("logit", 60, 392.0, 4.0),
    ("poisson", 40, 400.0, 1.0),
    ("poisson", 20, 25.0, 0.1),
    ("negative_binomial", 40, 400.0, 1.0),
]


@pytest.mark.parametrize(
    ("y", "sd"), [([-2.92], 1e3), ([-4.4, -4.97, -3.25, -4.29, -3.68], 300.0)]
)
def test_a_vague_prior_of_a_location_is_no_reason_to_anneal(y, sd):
    """Draws in steps are none, and the prior's share was annealed to the end: 46 and 69 s."""
    model = ev.SparseModel(
        sp.csc_array([[sd**-2.0]]), y, A=np.ones((len(y), 1)),
        likelihood="student_t(df=3, scale=0.4)",
    )  # fmt: skip
    noise, (low, high) = stats.t(3, scale=0.4), (min(y) - 60.0, max(y) + 60.0)
    x = np.concatenate([np.linspace(-6 * sd, low, 20_001), np.linspace(low, high, 20_001)[1:-1],
                        np.linspace(high, 6 * sd, 20_001)])  # fmt: skip
    log_p = noise.logpdf(np.subtract.outer(x, y)).sum(axis=1) + stats.norm(0.0, sd).logpdf(x)
    truth = np.log(np.trapezoid(np.exp(log_p), x))
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert not result.warnings
    assert abs(result.logz - truth) < 4.0 * result.logz_se + 1e-9 < 0.05
    assert not any("no scout from the prior" in note for note in result.notes)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "smc"])
@pytest.mark.parametrize("case", CASES)
def test_error_bars_of_half_spaces(case, method):
    """RMS of 100 z-scores in [0.8, 1.25], where 1.07 ± .08 is due to 15 degrees of freedom."""
    model, truth = half_space(*case)
    results = [
        ev.log_evidence(model, method=method, random_seed=seed, progressbar=False)
        for seed in range(100)
    ]
    z = np.array([(r.logz - truth) / r.logz_se for r in results])
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25
    assert abs(z.mean()) < 0.35


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        ("probit", 8, 1e3, 1.0),
        CASES[2],
        ("poisson", 20, 25.0, 0.1),
    ],
)
def test_both_ways_meet_on_half_spaces(case):
    """Chains that start behind the wall never come to the posterior: log u = -41 to -3600."""
    model, truth = half_space(*case)
    results = [
        ev.log_evidence(model, method="ais", direction="both", random_seed=seed, progressbar=False)
        for seed in range(24)
    ]
    z = np.array([(r.logz - truth) / r.logz_se for r in results])
    assert np.sqrt(np.mean(z**2)) < 1.57  # 1.07 ± .17 is expected
    assert abs(z.mean()) < 0.7  # three standard errors and a bit
    assert sum(bool(r.warnings) for r in results) <= 7  # one in twelve


@pytest.mark.slow
def test_few_particles_behind_a_wall_are_not_slow_mixing():
    """One of 128 may stay a hundred nats too low: it weighs nothing, and says nothing of moves."""
    model, _ = half_space("probit", 8, 1e3, 1.0)
    results = [
        ev.log_evidence(model, method="smc", target_se=0.2, random_seed=seed, progressbar=False)
        for seed in range(30)
    ]
    warned = sum("slow-mixing" in [w.code for w in r.warnings] for r in results)
    assert warned <= 6  # about 3; from the tilts' correlation it would be 9


@pytest.mark.parametrize("case", [CASES[2], pytest.param(CASES[4], marks=pytest.mark.slow)])
def test_guided_draws_of_a_half_space_agree_with_the_truth(case):
    """Ten seeds: |mean error| within 0.01, which resampling by what was learnt exceeds tenfold."""
    model, truth = half_space(*case)
    results = [
        ev.log_evidence(model, method="guided", random_seed=seed, progressbar=False)
        for seed in range(10)
    ]
    assert abs(np.mean([r.logz for r in results]) - truth) < 0.01
    assert max(r.logz_se for r in results) < 0.02


def test_a_guide_learns_how_wide_the_tail_is():
    """Weights of EP's guide have no variance here, those of the learnt one a light tail."""
    guide = make_guide(ev.fit_ep(half_space(*CASES[0])[0]))
    shapes = []
    for seed in range(5):  # one shape has a standard deviation of 0.1
        rng = np.random.default_rng(seed)
        learnt = twisted(guide, *guide.draw(2048, rng))
        assert learnt.twist.heavy
        weights = Weights(learnt.draw(20_000, rng)[1])
        assert weights.relative_variance < 0.02
        shapes.append(weights.shape)
    assert np.mean(shapes) < 0.4


def test_annealing_starts_wider_where_the_posterior_has_the_prior_s_tail():
    """EP's variance is an eighth of what the tail needs; a reference that was asked for stays."""
    model, truth = half_space(*CASES[0])
    result = ev.log_evidence(model, method="smc", random_seed=0, progressbar=False)
    assert result.settings["reference"] == "wide ep"
    assert abs(result.logz - truth) < 4.5 * result.logz_se
    asked = ev.log_evidence(model, method="smc", reference="ep", random_seed=0, progressbar=False)
    assert asked.settings["reference"] == "ep"


def test_a_widened_reference_is_normalised():
    """Z from its draws is that from EP's, in three dimensions, where both can."""
    model, truth = half_space("probit", 3, 4.0, 1.0)
    ep = ev.fit_ep(model)
    gamma, U = ep.eigh
    wide = wider_reference.widened(ep, U[:, -1:] / np.sqrt(gamma[-1]), np.array([3.0]))
    assert (wide.sites.tau < ep.sites.tau).all()
    assert wide.var.min() > ep.var.min()
    x = np.random.default_rng(0).multivariate_normal(wide.mean, wide.cov, size=100_000)
    weights = Weights(ev.Path(wide).tilt(x))
    assert abs(wide.logz + weights.log_mean - truth) < 4.5 * weights.se
    assert weights.se < 0.01


def location(y, df):
    """One value measured with Student-t noise."""
    K = 25.0 + 1e-3 * np.eye(len(y))
    return ev.GPModel(K=K, y=y, likelihood=f"student_t(df={df}, scale=0.3)")


def test_without_log_concavity_annealing_starts_wider():
    y = np.linspace(-0.5, 0.5, 20)
    y[::4] = 4.0
    model = location(y, 3)
    smc = ev.log_evidence(model, method="smc", random_seed=0, progressbar=False)
    auto = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert "draws from the wide ep reference" in auto.notes[0]
    assert abs(auto.logz - smc.logz) < 4.5 * np.hypot(auto.logz_se, smc.logz_se)


def test_an_eased_reference_has_weights_of_a_lighter_tail():
    """Nearly twice the variance in the one direction of which data speak, the same mean and Z."""
    model = location([0.0, 0.1, -0.1, 0.2, 6.0], 2)
    ep, along = ev.fit_ep(model), np.ones(5)
    wide = wider_reference.eased(ep)
    assert wide.mean == pytest.approx(ep.mean)
    assert 1.5 < (along @ wide.cov @ along) / (along @ ep.cov @ along) < 2.0
    rng, seen = np.random.default_rng(0), []
    for q in (ep, wide):
        x = rng.multivariate_normal(q.mean, q.cov, size=100_000)
        seen.append(Weights(ev.Path(q).tilt(x)))
    tight, loose = seen
    assert abs(ep.logz + tight.log_mean - wide.logz - loose.log_mean) < 0.01
    assert loose.shape < 0.3 < 0.4 < tight.shape
