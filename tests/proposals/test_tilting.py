"""Minimax tilting against quadrature, closed forms and SciPy's orthant probabilities."""

from __future__ import annotations

import csv
import functools
import time

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr

from evidence.proposals import tilting as orthant
from evidence.proposals.tilting import log_orthant
from evidence.statistics.weights import Weights


def equicorrelated(n, rho=0.5):
    return (1.0 - rho) * np.eye(n) + rho


def equicorrelated_truth(signs, mean, rho=0.5):
    """log ∫ N(u) Π Φ(y (m + √ρ u)/√(1-ρ)) du: the trapezoidal rule on a smooth integrand."""
    u = np.linspace(-60.0, 60.0, 40_001)[:, None]
    terms = log_ndtr(signs * (mean + np.sqrt(rho) * u) / np.sqrt(1.0 - rho)).sum(axis=1)
    terms += stats.norm.logpdf(u[:, 0])
    return np.log(trapezoid(np.exp(terms - terms.max()), u[:, 0])) + terms.max()


def wishart(rng, n):
    root = rng.standard_normal((n, n + 1))
    return root @ root.T


def smooth(rng, n, amplitude=4.0):
    x = rng.standard_normal((n, 2))
    return amplitude * np.exp(-0.5 * cdist(x, x, "sqeuclidean")) + np.eye(n)


def random_signs(rng, n):
    return rng.choice([-1.0, 1.0], size=n)


def proposals(cov, signs, mean):
    """The one in use, separation of variables, and the saddle points of two other orders."""
    flipped, lower = orthant.oriented(cov, signs, mean)
    best = orthant.minimax_proposal(flipped, lower)
    found = {"minimax": best, "mu = 0": best._replace(mu=np.zeros_like(best.mu))}
    for name, order in (
        ("natural", np.arange(len(lower))),
        ("reversed", np.arange(len(lower))[::-1]),
    ):
        scaled_cov, scaled, factor, scale = orthant._sequential(flipped, lower, order)
        _, hazard, bound = orthant._saddle_point(scaled_cov, scaled, scaled)
        found[name] = orthant.Proposal(scaled, factor, factor.T @ hazard, bound, order, scale)
    return found


# -- truths ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, pytest.param(6, marks=pytest.mark.slow)])
def test_scipy_agrees_in_few_dimensions(n):
    """15 comparisons in all, each at 4.5 standard errors: false alarm below 2e-4."""
    rng = np.random.default_rng(n)
    for _ in range(5):
        cov, signs, mean = wishart(rng, n), random_signs(rng, n), rng.standard_normal(n)
        truth = stats.multivariate_normal.cdf(
            signs * mean,
            cov=cov * np.outer(signs, signs),
            maxpts=50_000 * n,
            abseps=1e-7,
            releps=4e-5,
            rng=np.random.default_rng(0),
        )
        found = log_orthant(cov, signs, mean, n_draws=4000, random_seed=rng)
        assert found.converged, found.message
        assert abs(found.logp - np.log(truth)) < 4.5 * found.se + 2e-4


@pytest.mark.parametrize("mean", [0.0, 1.3, -2.0, -40.0])
def test_one_dimension_is_exact(mean):
    found = log_orthant([[2.5]], [-1], [mean])
    np.testing.assert_allclose(found.logp, log_ndtr(-mean / np.sqrt(2.5)), rtol=1e-12)
    assert (found.se, found.n_draws, found.converged) == (0.0, 0, True)


@pytest.mark.parametrize("rho", [-0.95, -0.3, 0.0, 0.6, 0.99])
def test_two_dimensions_are_sheppards_formula(rho):
    cov = np.array([[1.0, 2.0 * rho], [2.0 * rho, 4.0]])
    for signs in ([1, 1], [1, -1]):
        found = log_orthant(cov, signs, random_seed=1)
        truth = np.log(0.25 + np.prod(signs) * np.arcsin(rho) / (2.0 * np.pi))
        assert abs(found.logp - truth) < 4.5 * found.se + 1e-12


@pytest.mark.parametrize("shift", [0.0, 1.0, -3.0])
@pytest.mark.parametrize("rho", [0.1, 0.5, 0.95])
def test_thirty_equicorrelated_dimensions(rho, shift):
    """9 comparisons at 4.5 standard errors: false alarm below 1e-4."""
    rng = np.random.default_rng(7)
    signs, mean = random_signs(rng, 30), shift * rng.random(30)
    found = log_orthant(equicorrelated(30, rho), signs, mean, random_seed=rng)
    assert found.converged, found.message
    assert abs(found.logp - equicorrelated_truth(signs, mean, rho)) < 4.5 * found.se


@pytest.mark.parametrize("mean", [-30.0, -3000.0])
def test_far_tails(mean):
    """Every weight is a probability of order exp(-450 N): all digits must survive."""
    n = 10
    found = log_orthant(equicorrelated(n), np.ones(n), np.full(n, mean), random_seed=1)
    assert found.converged, found.message
    if mean == -30.0:
        truth = equicorrelated_truth(np.ones(n), mean)
        assert abs(found.logp - truth) < 4.5 * found.se + 1e-9 * abs(truth)
    leading = -0.5 * mean**2 * np.sum(np.linalg.inv(equicorrelated(n)))
    np.testing.assert_allclose(found.logp, leading, rtol=0.03 if mean == -30.0 else 1e-4)


def test_independent_signs_give_the_exact_product():
    rng = np.random.default_rng(2)
    var, signs, mean = rng.uniform(0.1, 9.0, 40), random_signs(rng, 40), rng.normal(size=40)
    found = log_orthant(np.diag(var), signs, mean, random_seed=rng)
    np.testing.assert_allclose(found.logp, log_ndtr(signs * mean / np.sqrt(var)).sum(), rtol=1e-12)
    assert found.se < 1e-8
    assert found.log_weight_sd < 1e-8
    assert found.converged


@pytest.mark.parametrize(
    "name", ["heart", "ripley", pytest.param("usps-hard", marks=pytest.mark.slow)]
)
def test_reference_values_of_the_research_data(research_data, name):
    """False alarm below 1e-4 for the three together."""
    with open(research_data.parent / "reference.csv", encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["name"] == name)
    with np.load(research_data / f"{row['data']}.npz") as data:
        x, y = data["X"].astype(float), data["y"].astype(float)
        log_scales = [
            float(data[key]) if row[key] == "stored" else float(row[key])
            for key in ("log_lengthscale", "log_amplitude")
        ]
    if row["standardise"] == "yes":
        x = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    length, variance = np.exp(log_scales[0]), np.exp(2.0 * log_scales[1])
    cov = variance * np.exp(-0.5 * cdist(x, x, "sqeuclidean") / length**2)
    cov += (1.0 + 1e-6 * variance) * np.eye(len(x))
    found = log_orthant(cov, np.where(y > 0, 1.0, -1.0), random_seed=3)
    assert found.converged, found.message
    error = found.logp - float(row["logz"])
    assert abs(error) < 4.2 * np.hypot(found.se, float(row["logz_se"]))


# -- the estimator -----------------------------------------------------------------------------


def test_estimates_are_unbiased_and_error_bars_calibrated():
    """100 seeds. RMS in [0.8, 1.25]: false alarm 0.3 %; the mean at 4 errors: 6e-5."""
    rng = np.random.default_rng(5)
    signs, mean, cov = random_signs(rng, 10), 0.5 * rng.standard_normal(10), equicorrelated(10)
    truth = equicorrelated_truth(signs, mean)
    runs = [log_orthant(cov, signs, mean, n_draws=1000, random_seed=seed) for seed in range(100)]
    errors = np.array([run.logp for run in runs]) - truth
    z = errors / [run.se for run in runs]
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25
    ratios = np.expm1(errors)
    assert abs(ratios.mean()) < 4.0 * ratios.std(ddof=1) / 10.0


def test_order_and_tilt_change_nothing_but_the_variance():
    """4 comparisons at 4.5 standard errors: false alarm below 1e-4."""
    rng = np.random.default_rng(6)
    signs, mean = random_signs(rng, 12), np.linspace(-2.0, 1.0, 12)
    truth = equicorrelated_truth(signs, mean, rho=0.8)
    sd = {}
    for name, proposal in proposals(equicorrelated(12, 0.8), signs, mean).items():
        weights = Weights()
        weights.add(orthant.draw(proposal, 20_000, rng)[1])
        sd[name] = weights.se
        assert abs(weights.log_mean - truth) < 4.5 * weights.se, name
    assert sd["minimax"] < 0.7 * min(sd["mu = 0"], sd["reversed"])


def test_tightest_first_lowers_the_bound():
    rng = np.random.default_rng(17)
    cov, signs = smooth(rng, 60, 100.0), random_signs(rng, 60)
    found = proposals(cov, signs, np.zeros(60))
    assert found["minimax"].bound < min(found["natural"].bound, found["reversed"].bound) - 1.0


def test_input_order_does_not_matter():
    rng = np.random.default_rng(8)
    cov, signs, mean = smooth(rng, 25), random_signs(rng, 25), rng.standard_normal(25)
    shuffle = rng.permutation(25)
    one = log_orthant(cov, signs, mean, random_seed=1)
    two = log_orthant(cov[np.ix_(shuffle, shuffle)], signs[shuffle], mean[shuffle], random_seed=2)
    assert abs(one.logp - two.logp) < 4.5 * np.hypot(one.se, two.se)


def test_proposal_is_a_saddle_point_that_bounds_everything():
    r"""∇ψ = 0 by central differences, ψ written out anew; weights and p lie below exp ψ."""
    rng = np.random.default_rng(9)
    signs, mean, n = random_signs(rng, 12), rng.standard_normal(12), 12
    for proposal in proposals(equicorrelated(n), signs, mean).values():
        lower, factor, mu, bound, *_ = proposal
        if not mu.any():
            continue

        def psi(x, mu, lower=lower, factor=factor):
            return np.sum(log_ndtr(mu + factor @ x - lower) + 0.5 * mu**2 - mu * x)

        scaled_cov = (np.eye(n) + factor) @ (np.eye(n) + factor).T
        _, hazard, _ = orthant._saddle_point(scaled_cov, lower, lower)
        x = hazard + mu
        np.testing.assert_allclose(psi(x, mu), bound, atol=1e-4)
        for step in 1e-5 * np.eye(n)[:-1]:
            assert abs(psi(x + step, mu) - psi(x - step, mu)) < 2e-5 * 2e-2
            assert abs(psi(x, mu + step) - psi(x, mu - step)) < 2e-5 * 2e-2
        assert orthant.draw(proposal, 5000, rng)[1].max() < bound + 1e-4
        assert equicorrelated_truth(signs, mean) < bound


def test_draws_lie_in_the_region_and_weights_are_what_they_claim():
    rng = np.random.default_rng(10)
    cov, signs, mean = smooth(rng, 70), random_signs(rng, 70), 2.0 * rng.standard_normal(70)
    for proposal in proposals(cov, signs, mean).values():
        lower, factor, mu, *_ = proposal
        z, log_weight = orthant.draw(proposal, 200, rng)
        shift = factor @ z
        assert np.all(z + shift > lower[:, None] - 1e-10)
        tilt = mu[:, None] * (0.5 * mu[:, None] - z)
        psi = np.sum(log_ndtr(mu[:, None] + shift - lower[:, None]) + tilt, axis=0)
        np.testing.assert_allclose(log_weight, psi, rtol=1e-10, atol=1e-9)


def test_truncated_normal_draws():
    """Kolmogorov-Smirnov at 1e-4 for each of 9 bounds: false alarm 1e-3."""
    bounds = np.array([-40.0, -3.0, 0.0, 0.39, 0.41, 2.0, 6.0, 40.0, 1e4])
    proposal = orthant.Proposal(
        bounds, np.zeros((9, 9)), np.zeros(9), 0.0, np.arange(9), np.ones(9)
    )
    z, _ = orthant.draw(proposal, 5000, np.random.default_rng(11))
    for bound, draws in zip(bounds, z, strict=True):
        log_survival = log_ndtr(-draws) - log_ndtr(-bound)
        assert stats.kstest(np.exp(log_survival), "uniform").pvalue > 1e-4


# -- what the caller sees ----------------------------------------------------------------------


def test_same_seed_same_answer():
    rng = np.random.default_rng(13)
    cov, signs = smooth(rng, 40), random_signs(rng, 40)
    first = log_orthant(cov, signs, random_seed=np.random.default_rng(1), n_draws=2500)
    again = log_orthant(cov, signs, random_seed=np.random.default_rng(1), n_draws=2500)
    other = log_orthant(cov, signs, random_seed=np.random.default_rng(2), n_draws=2500)
    assert (first.logp, first.se, first.n_draws) == (again.logp, again.se, 2500)
    assert first.logp != other.logp


def test_target_se_is_met_or_missing_it_is_said():
    rng = np.random.default_rng(14)
    cov, signs, seen = smooth(rng, 20), random_signs(rng, 20), []
    met = log_orthant(
        cov,
        signs,
        n_draws=500,
        target_se=0.005,
        random_seed=1,
        progress=lambda *args: seen.append(args),
    )
    assert met.converged, met.message
    assert met.se <= 0.005
    assert met.n_draws > 500
    assert seen[-1] == (met.n_draws, met.logp, met.se)
    assert [n for n, _, _ in seen] == sorted({n for n, _, _ in seen})
    missed = log_orthant(cov, signs, n_draws=100, target_se=1e-5, random_seed=1)
    assert missed.n_draws == 10_000
    assert not missed.converged
    assert "before target_se" in missed.message


def test_time_limit_stops_and_says_so():
    found = log_orthant(
        equicorrelated(5),
        np.ones(5),
        n_draws=10**6,
        max_seconds=0.05,
        random_seed=1,
        progress=lambda *_: time.sleep(0.02),
    )
    assert 1000 <= found.n_draws < 10**6
    assert not found.converged
    assert "before 1000000 draws" in found.message
    assert found.se > 0.0


def test_heavy_tails_are_reported():
    """Random labels under a nearly noiseless smooth prior: no tilt can follow them."""
    rng = np.random.default_rng(1)
    found = log_orthant(smooth(rng, 80, 1e8), random_signs(rng, 80), n_draws=1000, random_seed=0)
    assert not found.converged
    assert "too uneven" in found.message
    assert np.isfinite(found.logp)


def test_newton_failure_falls_back_and_says_so(monkeypatch):
    one = functools.partial(orthant._saddle_point, max_newton=1)
    monkeypatch.setattr(orthant, "_saddle_point", one)
    n = 6
    found = log_orthant(equicorrelated(n, 0.9), np.ones(n), np.full(n, -2.0), random_seed=1)
    assert not found.converged
    assert "Newton" in found.message
    assert abs(found.logp - equicorrelated_truth(np.ones(n), -2.0, 0.9)) < 4.5 * found.se


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cov": np.ones((2, 3))}, "cov must be an array"),
        ({"cov": np.empty((0, 0))}, "cov must be an array"),
        ({"cov": [[1.0, 0.5], [0.4, 1.0]]}, "cov is not symmetric"),
        ({"cov": [[1.0, np.nan], [np.nan, 1.0]]}, "cov contains NaN"),
        ({"cov": [[1.0, 2.0], [2.0, 1.0]]}, "cov must be positive definite"),
        ({"cov": [[1.0, 0.0], [0.0, 0.0]]}, "cov must be positive definite"),
        ({"signs": [1, 0]}, "signs must be"),
        ({"signs": [1, 1, 1]}, "signs must be"),
        ({"mean": [0.0]}, "mean must be"),
        ({"mean": [0.0, np.inf]}, "mean contains"),
        ({"n_draws": 10}, "n_draws must be"),
        ({"target_se": 0.0}, "target_se must be"),
        ({"max_seconds": -1.0}, "max_seconds must be"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"cov": np.eye(2), "signs": [1, -1]} | change
    with pytest.raises(ValueError, match=message):
        log_orthant(**arguments)


def test_inputs_are_left_alone():
    rng = np.random.default_rng(16)
    cov, signs, mean = smooth(rng, 6), random_signs(rng, 6), rng.standard_normal(6)
    copies = cov.copy(), signs.copy(), mean.copy()
    log_orthant(cov, signs, mean, n_draws=100, random_seed=rng)
    for before, after in zip(copies, (cov, signs, mean), strict=True):
        np.testing.assert_array_equal(before, after)
